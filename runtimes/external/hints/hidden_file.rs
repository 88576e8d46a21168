//! The warning about files that the sandbox hid from a script which names them, and which ended well: it may have found nothing where
//! there is something.

use std::path::{Path, PathBuf};

use crate::host::SkillContext;
use crate::policy::Access;
use crate::runtimes::external::hints::audience::is_for_person;
use crate::runtimes::external::hints::permission_hint::permission_hint;
use crate::runtimes::external::hints::script_text::ScriptText;
use crate::runtimes::external::hints::shown_path::is_typable;

/// Only for the person who runs the script.
pub(crate) fn hidden_file_warning(
    ctx: &SkillContext,
    hidden: &[PathBuf],
    script: &ScriptText<'_>,
) -> Option<String> {
    /// How many are named.
    const MAX_NAMED: usize = 3;
    let project = ctx.project().ok().filter(|_| is_for_person(ctx))?.root();
    let named = hidden.iter().filter_map(|path| path.strip_prefix(project).ok()?.to_str());
    let named = named.filter(|path| is_typable(path) && names(script, Path::new(path)));
    let named: Vec<&str> = named.take(MAX_NAMED).collect();
    let (help, _) = permission_hint(ctx, &Access::read(*named.first()?))?;
    Some(format!(
        "the script names {}, which the sandbox hides from it; if it is to read that, {help}",
        named.join(" and ")
    ))
}

/// Whether a line of the script that is no comment has the name of this file as a word: `.env` is none in `process.env`.
fn names(script: &ScriptText<'_>, path: &Path) -> bool {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return false };
    script.lines().any(|line| has_name(line, name))
}

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
