//! The hint for a script that looked for a file in the project which lies beside the script.

use std::path::Path;

use crate::error_line::error_line;
use crate::hints::denied_file::missing_file;
use crate::hints::file_change::normalize_lexically;
use crate::hints::permission_hint::Help;
use crate::hints::shown_path::{is_path, shown_path};
use metier_core::host::SkillContext;

/// The hint for a file that is missing in the project, where scripts run, and lies in the folder of the skill.
pub(crate) fn skill_file_hint(ctx: &SkillContext, project: &Path, text: &str) -> Option<Help> {
    let written = missing_file(error_line(text)?).filter(|written| is_path(written))?;
    let path = normalize_lexically(&project.join(written));
    let inside = path.strip_prefix(project).ok().filter(|inside| !inside.as_os_str().is_empty())?;
    let (files, inside) = (ctx.skill_files().ok()?, inside.to_str()?);
    // A name alone, such as package.json, is more likely that of the project. What lies behind a link is not looked at.
    let is_beside_script = inside.contains('/') && files.file_id(Path::new(inside)).is_ok();
    let is_in_project = ctx.project().is_ok_and(|files| files.file_id(Path::new(inside)).is_ok());
    if is_in_project || files.root() == project || !is_beside_script {
        return None;
    }
    let shown = shown_path(written);
    let text = format!(
        "scripts run in the project, which has no {shown}; it is in the folder of the skill, whose path the script finds in \
         METIER_SKILL_DIR"
    );
    Some((text, None))
}
