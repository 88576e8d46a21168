//! Changing the project's files. Every function here takes `write`.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::read::{ContentOptions, ENCODING, Encoding};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::memory::HostMemoryReservation;
use crate::host::{Args, RunContext, SkillContext};

pub(super) const WRITE: HostFunction = HostFunction {
    name: "write",
    aliases: &["vfs_write"],
    params: &[FILE, CONTENT, CONTENT_OPTIONS],
    returns: ValueType::Null,
    access: AccessRule::Write(0),
    doc: "Writes a file whole: readers see the old content or the new. Makes the folders it needs and keeps the mode of a \
          file it replaces.",
    example: FunctionExample {
        files: &[],
        fixtures: "",
        grants: &["write"],
        args: r#"["out/a.txt", "hello\n"]"#,
        answer: "null",
    },
    body: write,
};

pub(super) const APPEND: HostFunction = HostFunction {
    name: "append",
    aliases: &["vfs_append"],
    params: &[FILE, CONTENT, CONTENT_OPTIONS],
    returns: ValueType::Null,
    access: AccessRule::Write(0),
    doc: "Adds to the end of a file. Makes the file, and the folders it needs, where they are missing.",
    example: FunctionExample {
        files: &[("a.log", "one\n")],
        fixtures: "",
        grants: &["write"],
        args: r#"["a.log", "two\n"]"#,
        answer: "null",
    },
    body: append,
};

pub(super) const MKDIR: HostFunction = HostFunction {
    name: "mkdir",
    aliases: &["vfs_mkdir"],
    params: &[Param { name: "path", value_type: ValueType::Path, required: true, doc: "the folder" }],
    returns: ValueType::Null,
    access: AccessRule::Write(0),
    doc: "Makes a folder with its parents; one that is there already is fine.",
    example: FunctionExample {
        files: &[],
        fixtures: "",
        grants: &["write"],
        args: r#"["out/deep"]"#,
        answer: "null",
    },
    body: mkdir,
};

pub(super) const EDIT: HostFunction = HostFunction {
    name: "edit",
    aliases: &["vfs_edit"],
    params: &[
        FILE,
        Param {
            name: "old",
            value_type: ValueType::Text,
            required: true,
            doc: "the exact text to replace; must occur once",
        },
        Param { name: "new", value_type: ValueType::Text, required: true, doc: "the text to put there" },
        Param {
            name: "options",
            value_type: ValueType::Record(EDIT_OPTIONS),
            required: false,
            doc: "how to replace",
        },
    ],
    returns: ValueType::Count,
    access: AccessRule::Write(0),
    doc: "Replaces exact text in a text file and answers with how many places changed. Text that does not occur, or occurs \
          more often than once without `all`, is an error and changes nothing.",
    example: FunctionExample {
        files: &[("a.txt", "red and blue")],
        fixtures: "",
        grants: &["write"],
        args: r#"["a.txt", "red", "green"]"#,
        answer: "1",
    },
    body: edit,
};

pub(super) const REMOVE: HostFunction = HostFunction {
    name: "remove",
    aliases: &["vfs_remove"],
    params: &[
        Param { name: "path", value_type: ValueType::Path, required: true, doc: "the file, link or folder" },
        Param {
            name: "options",
            value_type: ValueType::Record(REMOVE_OPTIONS),
            required: false,
            doc: "what may go",
        },
    ],
    returns: ValueType::Null,
    access: AccessRule::Write(0),
    doc: "Removes a file, an empty folder, or a link itself. With `recursive` a folder goes with everything below it, unless \
          something below is protected. The project's root cannot be removed.",
    example: FunctionExample {
        files: &[("out/a.txt", "a"), ("out/deep/b.txt", "b")],
        fixtures: "",
        grants: &["write:out"],
        args: r#"["out", {"recursive": true}]"#,
        answer: "null",
    },
    body: remove,
};

const FILE: Param = Param { name: "path", value_type: ValueType::Path, required: true, doc: "the file" };
const CONTENT: Param =
    Param { name: "content", value_type: ValueType::Text, required: true, doc: "what to put there" };
const CONTENT_OPTIONS: Param = Param {
    name: "options",
    value_type: ValueType::Record(ENCODING),
    required: false,
    doc: "how the content is given",
};
const EDIT_OPTIONS: &[Param] = &[Param {
    name: "all",
    value_type: ValueType::Boolean,
    required: false,
    doc: "replace every occurrence; one by default",
}];
const REMOVE_OPTIONS: &[Param] = &[Param {
    name: "recursive",
    value_type: ValueType::Boolean,
    required: false,
    doc: "remove a folder with everything below it; false by default",
}];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EditOptions {
    all: bool,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct RemoveOptions {
    recursive: bool,
}

fn write(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let (_reservation, content) = decode_content(ctx, args)?;
    ctx.project_view()?.write(args.text(0), &content)?;
    Ok(Value::Null)
}

fn append(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let (_reservation, content) = decode_content(ctx, args)?;
    ctx.project_view()?.append(args.text(0), &content)?;
    Ok(Value::Null)
}

fn mkdir(ctx: &SkillContext, args: &Args) -> Result<Value> {
    ctx.project_view()?.create_dir(args.text(0))?;
    Ok(Value::Null)
}

fn edit(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let files = ctx.project_view()?;
    let (path, old, new) = (args.text(0), args.text(1), args.text(2));
    let EditOptions { all } = args.options(3)?;
    let places =
        if all { files.edit_all(path, old, new)? } else { files.edit(path, old, new).map(|()| 1)? };
    Ok(places.into())
}

fn remove(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let files = ctx.project_view()?;
    let RemoveOptions { recursive } = args.options(1)?;
    if recursive {
        files.remove_all(args.text(0), ctx.cancel())?;
    } else {
        files.remove(args.text(0))?;
    }
    Ok(Value::Null)
}

/// The bytes that `content` (the second argument) stands for.
fn decode_content<'a>(ctx: &SkillContext, args: &'a Args) -> Result<(HostMemoryReservation, Cow<'a, [u8]>)> {
    let ContentOptions { encoding } = args.options(2)?;
    let (mut reservation, text) = (ctx.host_memory().empty_reservation(), args.text(1));
    let content = match encoding {
        Encoding::Text => Cow::Borrowed(text.as_bytes()),
        Encoding::Base64 => {
            reservation.add(text.len() as u64 / 4 * 3 + 3)?;
            Cow::Owned(STANDARD.decode(text).map_err(|error| {
                SkillError::new(ErrorKind::InvalidArgument, format!("content is not base64: {error}"))
            })?)
        }
    };
    Ok((reservation, content))
}
