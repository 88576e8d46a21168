//! Host function that reads the skill's own files.

use serde_json::Value;

use super::encoding::{ENCODING, content};
use crate::error::Result;
use crate::host::files::path_below;
use crate::host::function::{AccessRule, FunctionExample, HostFunction, Param, ValueType};
use crate::host::{Args, SkillContext};
use crate::policy::Access;

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
    let view = files
        .with_permissions(ctx.permissions())
        .with_label(SKILL_FOLDER_LABEL)
        .with_limits(ctx.operation_limits());
    content(view, &path, &args.options(1)?)
}
