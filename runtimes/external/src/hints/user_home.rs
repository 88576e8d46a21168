//! What a script can be granted of the user's home, and hints about what it names there: the script has a home of its own.

use std::path::Path;

use crate::audience::is_for_person;
use crate::hints::script_text::ScriptText;
use crate::home_files::HomeFile;
use crate::observation::PathCheck;
use crate::permission_hint::{Help, permission_hint, watch_advice};
use crate::shown_path::{is_typable, shown_path};
use metier_core::host::SkillContext;
use metier_core::policy::{Access, RunPermissions};
use metier_sandbox::AccessKind;

/// Folders of a home that hold those of many programs.
const SHARED_FOLDERS: [&str; 4] = [".cache", ".config", ".local", ".local/share"];

/// The hint for a script that names something which only the user has in the home folder: which of it the script looked for, a watched run
/// shows.
pub(crate) fn unseen_home_hint(check: PathCheck<'_>, script: &ScriptText<'_>) -> Option<String> {
    let watch =
        watch_advice(check.ctx, "shows what it looks for there").filter(|_| script.may_name_home())?;
    let is_unseen = |name: &str| {
        let path = check.absolute(&format!("~/{name}"));
        check.refusal(&path, AccessKind::Read).is_some()
    };
    let name = program_folders()
        .into_iter()
        .find(|name| script.any_line(|line| !is_printed(line) && has_name(line, name)) && is_unseen(name))?;
    Some(format!(
        "~/{name} is in your home folder, and the script, which names it, has a home of its own; {watch}"
    ))
}

/// The files and folders of programs in the home of the user: those whose names begin with a dot, and what shared folders hold.
fn program_folders() -> Vec<String> {
    /// How many of one folder are looked at.
    const MAX_ENTRIES: usize = 128;
    let home = std::env::home_dir().unwrap_or_default();
    let names = |folder: &str| {
        let entries = std::fs::read_dir(home.join(folder)).into_iter().flatten().flatten().take(MAX_ENTRIES);
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    let top = names("").into_iter().filter(|name| name.starts_with('.'));
    let inner = SHARED_FOLDERS
        .iter()
        .flat_map(|folder| names(folder).into_iter().map(move |name| format!("{folder}/{name}")));
    top.chain(inner).filter(|name| is_typable(name) && !SHARED_FOLDERS.contains(&name.as_str())).collect()
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
    let is_after_word = |c: char| goes_on(c) || c == ')' || c == ']';
    let mut found = line.match_indices(name).map(|(at, _)| (&line[..at], &line[at + name.len()..]));
    found.any(|(before, after)| !before.ends_with(is_after_word) && !after.starts_with(goes_on))
}

/// The hint for a script that could not replace a granted file of the user's home, on which a file is mounted.
pub(crate) fn mounted_file_hint(check: PathCheck<'_>, written: &str) -> Option<Help> {
    let all = check.ctx.permissions().home_paths();
    let path = all.iter().find(|path| Path::new(path).file_name() == Path::new(written).file_name())?;
    let (help, hint) = folder_of_file(check.ctx, path)?;
    let shown = shown_path(&format!("~/{path}"));
    Some((format!("no new file can replace {shown}; for that the script needs the folder: {help}"), hint))
}

/// The warning for a script that replaced a granted file of the home by a new one, which is not there after the run.
pub(crate) fn replaced_home_warning(ctx: &SkillContext, path: &str) -> String {
    let help = folder_of_file(ctx, path).filter(|_| is_for_person(ctx));
    let way_out = help.map(|(help, _)| format!("; for that it needs the folder: {help}")).unwrap_or_default();
    format!(
        "the script replaced {} by a new file, and the old one stays in your home folder{way_out}",
        shown_path(&format!("~/{path}"))
    )
}

/// The grant to change the folder of this file of the home.
fn folder_of_file(ctx: &SkillContext, path: &str) -> Option<Help> {
    let (folder, _) =
        path.rsplit_once('/').filter(|(folder, _)| HomeFile::is_advisable(ctx, folder, true))?;
    permission_hint(ctx, &Access::home_write(folder))
}

/// The grant that lets a script read a folder of the user's home, if it is one and there is such a grant.
pub(crate) fn folder_grant(ctx: &SkillContext, folder: &Path) -> Option<Help> {
    let home = std::env::home_dir()?.canonicalize().ok()?;
    let folder = folder.canonicalize().ok()?;
    let path =
        folder.strip_prefix(&home).ok()?.to_str().filter(|path| HomeFile::is_advisable(ctx, path, false))?;
    permission_hint(ctx, &Access::home(path))
}
