//! What a script names in its text, and what its sandbox did not let it see: hidden files of the project, and the user's home.

use std::path::{Path, PathBuf};

use crate::audience::is_for_person;
use crate::hints::permission_hint::watch_advice;
use crate::hints::permission_hint::{Help, permission_hint};
use crate::hints::script_text::ScriptText;
use crate::hints::shown_path::is_typable;
use crate::hints::user_home::{Homes, folder_grant};
use crate::hints::words::contains_any;
use metier_core::host::SkillContext;
use metier_core::policy::Access;

/// What says, in lower case, that something is not there.
const ABSENCE_WORDS: &str = "can't find|cannot find|could not find|does not exist|doesn't exist|empty|enoent|missing|no |no_|no such file|not |\
    unable to find";

/// Folders of a home that hold those of many programs.
const SHARED_FOLDERS: [&str; 4] = [".cache", ".config", ".local", ".local/share"];

/// Whether a line in lower case says that something is not there.
pub(crate) fn says_absence(small: &str) -> bool {
    contains_any(small, ABSENCE_WORDS)
}

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
    let inside = hidden.iter().take(MAX_HIDDEN).filter_map(|path| path.strip_prefix(project).ok()?.to_str());
    let path = inside.filter(|path| is_typable(path)).find(|path| {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_listed = || said.lines().any(|line| line.trim().trim_start_matches("./") == *path);
        let is_missed = complaints.iter().any(|line| has_name(line, name)) || is_listed();
        is_missed && script.lines().any(|line| has_name(line, name))
    })?;
    let (help, hint) = permission_hint(ctx, &Access::read(path))?;
    Some((format!("the sandbox hides {path} from the script; if it is to read that, {help}"), hint))
}

/// The warning for a script that was passed a path of the user's home: `~/data`.
pub(crate) fn passed_home_warning(ctx: &SkillContext, home: &Path, args: &[String]) -> Option<String> {
    let mut passed = args.iter().filter_map(|argument| argument.strip_prefix("~/")).peekable();
    passed.peek()?;
    let homes = Homes::new(ctx, home)?;
    let path =
        passed.map(|path| path.trim_end_matches('/')).find(|path| homes.is_of_user(Path::new(path)))?;
    let (help, _) = folder_grant(ctx, &homes.user.join(path))?;
    Some(format!(
        "~/{path} is in your home folder, and the script has a home of its own; if it is to read that, {help}"
    ))
}

/// The hint for a script that names something which only the user has in the home folder: which of it the script looked for, a watched run
/// shows.
pub(crate) fn unseen_home_hint(ctx: &SkillContext, home: &Path, script: &ScriptText<'_>) -> Option<String> {
    let watch = watch_advice(ctx, "shows what it looks for there").filter(|_| script.may_name_home())?;
    let homes = Homes::new(ctx, home)?;
    let mut names = homes.program_folders().into_iter();
    let name = names.find(|name| {
        script.any_line(|line| !is_printed(line) && has_name(line, name)) && homes.is_of_user(Path::new(name))
    })?;
    Some(format!(
        "~/{name} is in your home folder, and the script, which names it, has a home of its own; {watch}"
    ))
}

impl Homes<'_> {
    /// The files and folders of programs in the home of the user: those whose names begin with a dot, and what shared folders hold.
    fn program_folders(&self) -> Vec<String> {
        /// How many of one folder are looked at.
        const MAX_ENTRIES: usize = 128;
        let names = |folder: &str| {
            let entries =
                std::fs::read_dir(self.user.join(folder)).into_iter().flatten().flatten().take(MAX_ENTRIES);
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let top = names("").into_iter().filter(|name| name.starts_with('.'));
        let inner = SHARED_FOLDERS
            .iter()
            .flat_map(|folder| names(folder).into_iter().map(move |name| format!("{folder}/{name}")));
        top.chain(inner).filter(|name| is_typable(name) && !SHARED_FOLDERS.contains(&name.as_str())).collect()
    }
}

/// Whether a line prints text for people.
fn is_printed(line: &str) -> bool {
    ["echo ", "printf ", "print(", "console.", "sys.exit(", "raise "]
        .iter()
        .any(|word| line.trim_start().starts_with(word))
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
