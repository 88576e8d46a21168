//! What a script may not leave in a folder of the user's home that it may change: files that programs of the user run or obey as soon as
//! they are there. Such a folder is granted only if it holds none; what a run makes of them is quarantined.
//!
//! A mount cannot cover what does not exist, and in a folder without any there is nothing to cover.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{SkillContext, git};
use crate::policy::is_protected_in_home;
use crate::runtimes::external::protected::quarantine::quarantine;

/// How many files and folders are looked at in one granted folder.
const MAX_ENTRIES: usize = 1 << 16;

/// An entry of a folder that programs run or obey.
pub(super) struct ProtectedEntry {
    folder: PathBuf,
    name: OsString,
}

impl ProtectedEntry {
    /// Its path below the home folder of the user.
    pub(super) fn path_below(&self, home: &Path) -> String {
        let path = self.folder.join(&self.name);
        path.strip_prefix(home).unwrap_or(&path).to_string_lossy().into_owned()
    }
}

/// The folders of the user's home that a run may change.
pub(crate) struct HomeGuard {
    home: PathBuf,
    folders: Vec<PathBuf>,
}

impl HomeGuard {
    /// `None` if it may change none.
    pub(super) fn new(folders: Vec<PathBuf>) -> Option<Self> {
        let home = std::env::home_dir()?.canonicalize().ok()?;
        (!folders.is_empty()).then_some(Self { home, folders })
    }

    /// Quarantines what the script made, once nothing of its process tree is left. The outcome becomes an error where that cannot be
    /// done, or where it is not known what the script made.
    pub(crate) fn enforce_on<T>(self, ctx: &SkillContext, script: &str, outcome: Result<T>) -> Result<T> {
        let mut failure = None;
        for folder in &self.folders {
            let shown = |path: &Path| {
                let below = path.strip_prefix(&self.home).unwrap_or(path);
                format!("~/{}", below.to_string_lossy().escape_debug())
            };
            let found = match find_protected(folder) {
                Ok(found) => found,
                Err(reason) => {
                    let sentence = format!("what {script} made in {} is not known: {reason}", shown(folder));
                    failure = Some(sentence);
                    continue;
                }
            };
            for ProtectedEntry { folder: above, name } in found {
                let made = format!("{script} made {}, which no grant covers", shown(&above.join(&name)));
                match quarantine(folder, &above, &name) {
                    Ok(moved) => ctx.warn(format!("{made}; it was moved to {}", shown(&moved))),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => failure = Some(format!("{made}; it could not be quarantined ({error})")),
                }
            }
        }
        let help = "look at it before you open that folder in an editor, a shell or an agent";
        match failure {
            Some(sentence) => outcome.and(Err(SkillError::new(ErrorKind::Denied, sentence).with_help(help))),
            None => outcome,
        }
    }
}

/// What programs run or obey in this file or folder; the error is why that is not known.
pub(super) fn find_protected(top: &Path) -> std::result::Result<Vec<ProtectedEntry>, String> {
    let (mut found, mut count) = (Vec::new(), 0);
    let mut queue = vec![top.to_owned()];
    while let Some(folder) = queue.pop() {
        let unread = |error: io::Error| format!("a folder in it cannot be read: {error}");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            // It is a file, or has just been removed.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotADirectory | io::ErrorKind::NotFound) => {
                continue;
            }
            Err(error) => return Err(unread(error)),
        };
        let above = folder.strip_prefix(top).unwrap_or(&folder).to_string_lossy();
        let above = if above.is_empty() { String::new() } else { format!("{above}/") };
        let mut parts = [false; git::REPOSITORY_ENTRIES.len()];
        for entry in entries {
            let entry = entry.map_err(unread)?;
            count += 1;
            if count > MAX_ENTRIES {
                return Err(format!("it holds more than {MAX_ENTRIES} files and folders"));
            }
            let name = entry.file_name();
            if let Some(part) = git::REPOSITORY_ENTRIES.iter().position(|part| name == *part) {
                parts[part] = true;
            }
            if is_protected_in_home(&above, &name.to_string_lossy()) {
                found.push(ProtectedEntry { folder: folder.clone(), name });
            } else if entry.file_type().map_err(unread)?.is_dir() {
                queue.push(entry.path());
            }
        }
        let has = |name: &str| {
            git::REPOSITORY_ENTRIES.iter().zip(parts).any(|(part, is_there)| is_there && *part == name)
        };
        if git::is_repository(has) {
            found.push(ProtectedEntry { folder, name: OsStr::new(git::REPOSITORY_ENTRIES[0]).to_owned() });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_run_is_found_at_any_depth_and_behind_no_link() {
        let stage = tempfile::tempdir().unwrap();
        let top = stage.path().join("top");
        for path in ["top/data", "top/deep/.git", "top/bare/objects", "top/bare/refs", "away/.git"] {
            fs::create_dir_all(stage.path().join(path)).unwrap();
        }
        for path in ["top/data/a.json", "top/deep/.envrc", "top/bare/HEAD", "top/data/Claude.md"] {
            fs::write(stage.path().join(path), "").unwrap();
        }
        std::os::unix::fs::symlink("../away", top.join("link")).unwrap();
        let mut found: Vec<String> =
            find_protected(&top).unwrap().iter().map(|found| found.path_below(&top)).collect();
        found.sort_unstable();
        assert_eq!(found, ["bare/HEAD", "data/Claude.md", "deep/.envrc", "deep/.git"]);
        assert!(find_protected(&top.join("data/a.json")).unwrap().is_empty(), "a file holds nothing");
        assert!(find_protected(&top.join("none")).unwrap().is_empty());
    }
}
