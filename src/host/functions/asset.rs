//! The skill's own files.

use serde_json::Value;

use super::read::{ENCODING, content};
use crate::error::Result;
use crate::host::files::beneath;
use crate::host::table::{Access, Example, HostFunction, Kind, Param};
use crate::host::{Args, SkillContext};

pub(super) const ASSET: HostFunction = HostFunction {
    name: "asset",
    aliases: &[],
    params: &[
        Param {
            name: "path",
            kind: Kind::Text,
            required: true,
            doc: "the file, relative to the skill's folder",
        },
        Param { name: "options", kind: Kind::Record(ENCODING), required: false, doc: "how to read it" },
    ],
    returns: Kind::Text,
    access: Access::Free,
    doc: "Answers with the content of a file in the skill's own folder, as read_file does for the project.",
    example: Example {
        files: &[("template.md", "# Title\n")],
        allow: &[],
        args: r#"["template.md"]"#,
        answer: r##""# Title\n""##,
    },
    body: asset,
};

fn asset(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let files = ctx.skill_files()?;
    let path = beneath(args.text(0), Some(files.root()), "the skill's folder")?;
    content(files.unguarded(), &path, &args.options(1)?)
}
