//! The hint about a file that the sandbox hid from a script, which found nothing where there is something.

use std::path::PathBuf;

use crate::audience::is_for_person;
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::script_text::ScriptText;
use crate::hints::shown_path::is_typable;
use crate::hints::user_home::says_absence;
use metier_core::host::SkillContext;
use metier_core::policy::Access;

/// The hint for a script that names a hidden file and says that it is not there, or lists its path. Only for the person who runs the
/// script.
pub(crate) fn hidden_file_hint(
    ctx: &SkillContext,
    hidden: &[PathBuf],
    script: &ScriptText<'_>,
    said: &str,
) -> Option<Help> {
    /// How many are looked for.
    const MAX_HIDDEN: usize = 256;
    let project = ctx.project().ok().filter(|_| is_for_person(ctx))?.root();
    let complaints: Vec<&str> = said.lines().filter(|line| says_absence(&line.to_lowercase())).collect();
    let path =
        hidden.iter().take(MAX_HIDDEN).filter_map(|path| path.strip_prefix(project).ok()?.to_str()).find(
            |path| {
                let name = path.rsplit('/').next().unwrap_or_default();
                let is_listed = || said.lines().any(|line| line.trim().trim_start_matches("./") == *path);
                let is_missed = complaints.iter().any(|line| has_name(line, name)) || is_listed();
                is_missed && is_typable(path) && script.lines().any(|line| has_name(line, name))
            },
        )?;
    let (help, hint) = permission_hint(ctx, &Access::read(path))?;
    Some((format!("the sandbox hides {path} from the script; if it is to read that, {help}"), hint))
}

/// Whether a line has the name of a file as a word: `.env` is none in `process.env`.
fn has_name(line: &str, name: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "_-.".contains(c);
    // `process.env` and `config().env` are no files.
    let is_after_word = |c: char| goes_on(c) || c == ')' || c == ']';
    let mut found = line.match_indices(name).map(|(at, _)| (&line[..at], &line[at + name.len()..]));
    found.any(|(before, after)| !before.ends_with(is_after_word) && !after.starts_with(goes_on))
}

#[cfg(test)]
mod tests {
    use super::has_name;

    #[test]
    fn a_file_is_named_by_its_whole_name() {
        for line in ["cat .env", "open('.env')", "glob(\"**/.env\")", "[.env]", "'config/.env',"] {
            assert!(has_name(line, ".env"), "{line}");
        }
        for line in ["process.env.KEY", "import.meta.env", "x().env", ".env.example", ".environment", "a.env"]
        {
            assert!(!has_name(line, ".env"), "{line}");
        }
    }
}
