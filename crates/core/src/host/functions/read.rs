//! Reading one file of the project: all of it, its beginning, its end.

use serde_json::Value;

use super::encoding::{ENCODING, content};
use crate::error::Result;
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::{Args, SkillContext};

pub(super) const READ_FILE: HostFunction = HostFunction {
    name: "read_file",
    aliases: &["vfs_read_file", "vfs_read"],
    params: &[
        PATH,
        Param {
            name: "options",
            value_type: ValueType::Record(ENCODING),
            required: false,
            doc: "how to read it",
        },
    ],
    returns: ValueType::Text,
    access: AccessRule::Read(0),
    doc: "Answers with the content of a file of up to 16 MiB. It must be UTF-8 text, unless it is asked for as base64.",
    example: FunctionExample {
        files: &[("notes.txt", "one\ntwo\n")],
        fixtures: "",
        grants: &[],
        args: r#"["notes.txt"]"#,
        answer: r#""one\ntwo\n""#,
    },
    body: read_file,
};

pub(super) const HEAD: HostFunction = HostFunction {
    name: "head",
    aliases: &["vfs_head"],
    params: &[PATH, LINES],
    returns: ValueType::Text,
    access: AccessRule::Read(0),
    doc: "Answers with the first lines of a text file of any size, joined by newlines; none at the end.",
    example: FunctionExample {
        files: &[("notes.txt", "one\ntwo\nthree\n")],
        fixtures: "",
        grants: &[],
        args: r#"["notes.txt", 2]"#,
        answer: r#""one\ntwo""#,
    },
    body: head,
};

pub(super) const TAIL: HostFunction = HostFunction {
    name: "tail",
    aliases: &["vfs_tail"],
    params: &[PATH, LINES],
    returns: ValueType::Text,
    access: AccessRule::Read(0),
    doc: "Answers with the last lines of a text file of any size, joined by newlines; none at the end.",
    example: FunctionExample {
        files: &[("notes.txt", "one\ntwo\nthree\n")],
        fixtures: "",
        grants: &[],
        args: r#"["notes.txt", 2]"#,
        answer: r#""two\nthree""#,
    },
    body: tail,
};

const PATH: Param = Param { name: "path", value_type: ValueType::Path, required: true, doc: "the file" };
const LINES: Param = Param {
    name: "lines",
    value_type: ValueType::Count,
    required: false,
    doc: "how many lines; 10 by default",
};
const DEFAULT_LINES: u64 = 10;

fn read_file(ctx: &SkillContext, args: &Args) -> Result<Value> {
    content(ctx.project_view()?, args.text(0), &args.options(1)?)
}

fn head(ctx: &SkillContext, args: &Args) -> Result<Value> {
    Ok(ctx.project_view()?.head(args.text(0), args.count(1).unwrap_or(DEFAULT_LINES))?.into())
}

fn tail(ctx: &SkillContext, args: &Args) -> Result<Value> {
    Ok(ctx.project_view()?.tail(args.text(0), args.count(1).unwrap_or(DEFAULT_LINES))?.into())
}
