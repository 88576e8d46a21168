//! The hint for a script whose database `SQLite` could not open or change: it does not say which one.

use crate::error_line::error_line;
use crate::hints::file_change::may_change_own_folder;
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::script_text::ScriptText;
use crate::hints::words::contains_word;
use metier_core::host::SkillContext;
use metier_core::policy::Access;

/// What `SQLite` says, in lower case.
const REFUSED_TEXTS: [&str; 2] = ["unable to open database file", "attempt to write a readonly database"];

/// Why a refused change can be the reason.
const REASON: &str = "SQLite writes beside its database, also to read one with a write-ahead log";

/// The hint for a script that failed with this output.
pub(crate) fn database_hint(ctx: &SkillContext, script: &ScriptText<'_>, text: &str) -> Option<Help> {
    let line = error_line(text)?.to_ascii_lowercase();
    if !REFUSED_TEXTS.iter().any(|words| contains_word(&line, words)) {
        return None;
    }
    let own_folder = permission_hint(ctx, &Access::own_folder()).filter(|_| may_change_own_folder(ctx));
    // No path is granted by a name that nobody knows, unless the whole project is.
    let project = permission_hint(ctx, &Access::write("FOLDER"));
    let (own_folder, project) = match (own_folder, project) {
        (own_folder, Some(project)) => (own_folder.filter(|_| script.finds_itself()), project),
        (Some((help, hint)), None) => {
            let text = format!(
                "{REASON}, and the sandbox lets this script only read the folder of its skill; if its database is there, {help}"
            );
            return Some((text, hint));
        }
        (None, None) => return None,
    };
    let (help, hint) = project;
    let folder =
        "a database there takes write:FOLDER, with the folder that holds it, or, for the whole project,";
    let Some((own_help, _)) = own_folder else {
        let text =
            format!("{REASON}, and the sandbox lets this script only read the project; {folder} {help}");
        return Some((text, hint));
    };
    let text = format!(
        "{REASON}, and the sandbox lets this script only read the project and the folder of its skill; if its database is in the \
         folder of the skill, {own_help}; if it is in the project, {folder} {help}"
    );
    Some((text, None))
}
