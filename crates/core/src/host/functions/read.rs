//! Reading one file of the project or of the skill, and its content as a script takes and gives it: text, or base64 for bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use crate::error::Result;
use crate::host::files::{FilesView, path_below};
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::{Args, RunContext, SkillContext};
use crate::policy::{Access, RunPermissions};

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

pub(super) const ASSET: HostFunction = HostFunction {
    name: "asset",
    aliases: &["vfs_asset"],
    params: &[
        Param {
            name: "path",
            value_type: ValueType::Text,
            required: true,
            doc: "the file, relative to the skill's folder",
        },
        Param {
            name: "options",
            value_type: ValueType::Record(ENCODING),
            required: false,
            doc: "how to read it",
        },
    ],
    returns: ValueType::Text,
    access: AccessRule::Unrestricted,
    doc: "Answers with the content of a file in the skill's own folder, as read_file does for the project. \
          Secrets and version control there take the same permissions.",
    example: FunctionExample {
        files: &[("template.md", "# Title\n")],
        fixtures: "",
        grants: &[],
        args: r#"["template.md"]"#,
        answer: r##""# Title\n""##,
    },
    body: asset,
};

const SKILL_FOLDER_LABEL: &str = "the skill's folder";

fn asset(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let files = ctx.skill_files()?;
    let path = path_below(args.text(0), Some(files.root()), SKILL_FOLDER_LABEL)?;
    // The folder may be a checkout, or the project itself.
    ctx.permissions().require(&Access::read(path.as_str()), format_args!("failed to read {path}"))?;
    let view = FilesView::with_permissions(files, ctx.permissions())
        .with_label(SKILL_FOLDER_LABEL)
        .with_limits(ctx.operation_limits());
    content(view, &path, &args.options(1)?)
}

/// The options of functions that take or give a file's content.
pub(super) const ENCODING: &[Param] = &[Param {
    name: "encoding",
    value_type: ValueType::Text,
    required: false,
    doc: "`utf-8`, the default, or `base64` for bytes (standard alphabet, padded)",
}];

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ContentOptions {
    pub(super) encoding: Encoding,
}

#[derive(Clone, Copy, Default, Deserialize)]
pub(super) enum Encoding {
    #[default]
    #[serde(rename = "utf-8", alias = "utf8")]
    Text,
    #[serde(rename = "base64")]
    Base64,
}

/// The content of a file as the options want it.
pub(super) fn content(files: FilesView<'_>, path: &str, options: &ContentOptions) -> Result<Value> {
    let text = match options.encoding {
        Encoding::Text => files.text(path)?,
        Encoding::Base64 => files.read_encoded(path, |bytes| STANDARD.encode(bytes))?,
    };
    Ok(text.into())
}
