//! The skill's own files.

use serde_json::Value;

use super::read::{ENCODING, content};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::args::LONGEST_PATH;
use crate::host::files::beneath;
use crate::host::table::{Access, Example, HostFunction, Kind, Param};
use crate::host::{Args, SkillContext};
use crate::policy::Need;

pub(super) const ASSET: HostFunction = HostFunction {
    name: "asset",
    aliases: &["vfs_asset"],
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
    doc: "Answers with the content of a file in the skill's own folder, as read_file does for the project. \
          Secrets and version control there take the same permissions.",
    example: Example {
        files: &[("template.md", "# Title\n")],
        given: "",
        allow: &[],
        args: r#"["template.md"]"#,
        answer: r##""# Title\n""##,
    },
    body: asset,
};

const PLACE: &str = "the skill's folder";

fn asset(ctx: &SkillContext, args: &Args) -> Result<Value> {
    let files = ctx.skill_files()?;
    if args.text(0).len() > LONGEST_PATH {
        let sentence = format!("asset: path has more than {LONGEST_PATH} bytes");
        return Err(SkillError::new(ErrorKind::InvalidArgument, sentence));
    }
    let path = beneath(args.text(0), Some(files.root()), PLACE)?;
    // The folder may be a checkout, or the project itself.
    ctx.permissions().require(&Need::read(path.as_str()), format_args!("failed to read {path}"))?;
    let view = files.seen_by(ctx.permissions()).called(PLACE).within(ctx.bounds());
    content(view, &path, &args.options(1)?)
}
