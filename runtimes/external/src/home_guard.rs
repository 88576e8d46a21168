//! What a script may not leave in a folder of the user's home that it may change: files that programs of the user run or obey as soon as
//! they are there. Such a folder is granted only if it holds none; what a run makes of them is quarantined.
//!
//! A mount cannot cover what does not exist, and in a folder without any there is nothing to cover. The folder is held open from before
//! the run, and everything in it is reached from there: a script may exchange the folders of a path, or put links there.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use crate::protected::quarantine::{make_accessible, quarantine_in};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{FileId, OPEN_BY_NAME, RunMessages, SkillContext, git, open_without_links};
use metier_core::policy::is_protected_in_home;

/// How many files and folders a granted folder may hold.
const MAX_ENTRIES: usize = 1 << 18;

/// How many folders may be inside one another. Each is held open.
const MAX_DEPTH: usize = 48;

/// How many quarantined things are named.
const MAX_NAMED: usize = 16;

/// A folder of the user's home that a run may change.
pub(super) struct HomeFolder {
    path: PathBuf,
    opened: OwnedFd,
}

impl HomeFolder {
    /// Opens it; `None` for a file. The error is why that is not possible.
    pub(super) fn open(path: &Path) -> std::result::Result<Option<Self>, String> {
        match open_without_links(path) {
            Ok(Some(opened)) => Ok(Some(Self { path: path.to_owned(), opened: opened.into() })),
            Ok(None) => Err("this kernel, or a filter of system calls, lacks openat2".into()),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(None),
            Err(error) => Err(format!("it cannot be opened: {error}")),
        }
    }

    pub(super) fn file_id(&self) -> io::Result<FileId> {
        Ok(FileId::from_stat(&fstat(&self.opened)?))
    }

    /// The path of something in it that programs run or obey; the error is why that is not known.
    pub(super) fn first_protected(&self) -> std::result::Result<Option<PathBuf>, String> {
        let mut first = None;
        let walk = Walk::new(MAX_ENTRIES, |_: &OwnedFd, folder: &Path, name: &OsStr| {
            first.get_or_insert_with(|| self.path.join(folder).join(name));
        });
        let reason = walk.run(self);
        first.map_or_else(|| reason.map_or(Ok(None), Err), |first| Ok(Some(first)))
    }
}

/// The folders of the user's home that a run may change, as they were opened before it; most runs have none.
#[derive(Default)]
pub(crate) struct HomeGuard {
    folders: Vec<HomeFolder>,
}

impl HomeGuard {
    pub(super) fn new(folders: Vec<HomeFolder>) -> Self {
        Self { folders }
    }

    /// Quarantines what the script made, once nothing of its process tree is left. The outcome becomes an error where that cannot be
    /// done, or where it is not known what the script made; the log says so in any case.
    pub(crate) fn enforce_on<T>(self, ctx: &SkillContext, script: &str, outcome: Result<T>) -> Result<T> {
        if self.folders.is_empty() {
            return outcome;
        }
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok()).unwrap_or_default();
        let shown = |path: &Path| {
            let below = path.strip_prefix(&home).unwrap_or(path);
            format!("~/{}", below.to_string_lossy().escape_debug())
        };
        let (mut failures, mut count) = (Vec::new(), 0);
        for home_folder in &self.folders {
            let walk = Walk::new(MAX_ENTRIES, |opened: &OwnedFd, folder: &Path, name: &OsStr| {
                let folder = home_folder.path.join(folder);
                let came = shown(&folder.join(name));
                let made = format!("{came} appeared while {script} ran, made by it or by another program");
                match quarantine_in(opened, name) {
                    Ok(new_name) => {
                        count += 1;
                        if count <= MAX_NAMED {
                            ctx.warn(format!("{made}; it was renamed to {}", shown(&folder.join(new_name))));
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => failures.push(format!("{made}; it could not be quarantined ({error})")),
                }
            });
            let reason = walk.changing_modes().run(home_folder);
            failures.extend(reason.map(|reason| {
                format!("what {script} left in {} is not known: {reason}", shown(&home_folder.path))
            }));
        }
        if count > MAX_NAMED {
            ctx.warn(format!(
                "{} more things that appeared meanwhile were renamed likewise",
                count - MAX_NAMED
            ));
        }
        failures.truncate(MAX_NAMED);
        for failure in &failures {
            ctx.warn(failure.as_str());
        }
        let help = "look at it before you open that folder in an editor, a shell or an agent";
        match failures.into_iter().next() {
            Some(failure) => outcome.and(Err(SkillError::new(ErrorKind::Denied, failure).with_help(help))),
            None => outcome,
        }
    }
}

/// Looks through a folder, inner folders first, and calls `on_found` with each entry that programs run or obey: the open folder in which
/// it lies, the path of that, and its name. What is in such an entry is looked at as well, since it keeps its content when it is renamed.
struct Walk<F> {
    on_found: F,
    max_entries: usize,
    entry_count: usize,
    /// Whether folders that cannot be read get a mode in which they can.
    changes_modes: bool,
    /// Why not everything was looked at.
    reason: Option<String>,
}

impl<F: FnMut(&OwnedFd, &Path, &OsStr)> Walk<F> {
    fn new(max_entries: usize, on_found: F) -> Self {
        Self { on_found, max_entries, entry_count: 0, changes_modes: false, reason: None }
    }

    fn changing_modes(mut self) -> Self {
        self.changes_modes = true;
        self
    }

    /// Returns why not everything was looked at.
    fn run(mut self, folder: &HomeFolder) -> Option<String> {
        let name = folder.path.file_name().unwrap_or_default();
        // If that fails, so does opening it.
        self.open_up(&folder.opened).ok();
        self.visit(&folder.opened, OsStr::new("."), name, Path::new(""), 0);
        self.reason
    }

    fn fail(&mut self, reason: String) {
        self.reason.get_or_insert(reason);
    }

    fn visit(&mut self, above: &OwnedFd, entry: &OsStr, name: &OsStr, path: &Path, depth: usize) {
        let unread = |error| format!("{} cannot be read: {error}", shown_below(path));
        let opened = match self.open_folder(above, entry) {
            Ok(opened) => opened,
            Err(Errno::NOENT) => return,
            Err(error) => return self.fail(unread(error)),
        };
        let entries = match self.open_up(&opened).and_then(|()| self.entries(&opened)) {
            Ok(entries) => entries,
            Err(error) => return self.fail(unread(error)),
        };
        for (inner, kind) in &entries {
            if !kind.is_dir() {
                continue;
            }
            if depth == MAX_DEPTH {
                self.fail(format!(
                    "more than {MAX_DEPTH} folders are inside one another, in {}",
                    shown_below(path.iter().next().map_or(path, Path::new))
                ));
            } else {
                self.visit(&opened, inner, inner, &path.join(inner), depth + 1);
            }
        }
        let has = |part: &str| entries.iter().any(|(entry, _)| entry == part);
        if git::is_repository(has) {
            (self.on_found)(&opened, path, OsStr::new(git::REPOSITORY_ENTRIES[0]));
        }
        let folder = name.to_string_lossy();
        for (inner, _) in &entries {
            if is_protected_in_home(&folder, &inner.to_string_lossy()) {
                (self.on_found)(&opened, path, inner);
            }
        }
    }

    /// Lets the owner look into an open folder.
    fn open_up(&self, folder: &OwnedFd) -> rustix::io::Result<()> {
        let mode = Mode::from_raw_mode(fstat(folder)?.st_mode);
        let is_open = mode.contains(Mode::RUSR | Mode::XUSR);
        if self.changes_modes && !is_open { make_accessible(folder) } else { Ok(()) }
    }

    fn open_folder(&self, above: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(above, name, OFlags::RDONLY | flags, Mode::empty()) {
            Err(Errno::ACCESS) if self.changes_modes => {
                let by_name = openat(above, name, OPEN_BY_NAME | flags, Mode::empty())?;
                make_accessible(&by_name)?;
                openat(above, name, OFlags::RDONLY | flags, Mode::empty())
            }
            opened => opened,
        }
    }

    fn entries(&mut self, folder: &OwnedFd) -> rustix::io::Result<Vec<(OsString, FileType)>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            self.entry_count += 1;
            if self.entry_count > self.max_entries {
                self.fail(format!("it holds more than {} files and folders", self.max_entries));
                break;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => {
                    let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(found.st_mode)
                }
                known => known,
            };
            entries.push((name.to_owned(), kind));
        }
        Ok(entries)
    }
}

/// A path in a granted folder, for a sentence.
fn shown_below(path: &Path) -> String {
    let shown = path.to_string_lossy().escape_debug().to_string();
    if shown.is_empty() { "it".into() } else { shown }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn found_in(top: &Path, max_entries: usize) -> (Vec<String>, Option<String>) {
        let mut found = Vec::new();
        let folder = HomeFolder::open(top).unwrap().unwrap();
        let walk = Walk::new(max_entries, |_: &OwnedFd, folder: &Path, name: &OsStr| {
            found.push(folder.join(name).display().to_string());
        });
        let reason = walk.run(&folder);
        found.sort_unstable();
        (found, reason)
    }

    #[test]
    fn what_programs_run_is_found_at_any_depth_and_behind_no_link() {
        let stage = tempfile::tempdir().unwrap();
        let stage = fs::canonicalize(stage.path()).unwrap();
        let top = stage.join(".top");
        for path in [".top/data", ".top/deep/.git/refs", ".top/bare/objects", ".top/bare/refs", "away/.git"] {
            fs::create_dir_all(stage.join(path)).unwrap();
        }
        for path in ["data/a.json", "deep/.envrc", "bare/HEAD", "data/Claude.md", "deep/.git/.envrc"] {
            fs::write(top.join(path), "").unwrap();
        }
        fs::create_dir_all(top.join("skills/x")).unwrap();
        fs::create_dir_all(top.join("data/skills/x")).unwrap();
        symlink("../away", top.join("link")).unwrap();
        let all = ["bare/HEAD", "data/Claude.md", "deep/.envrc", "deep/.git", "deep/.git/.envrc", "skills"];
        assert_eq!(found_in(&top, 1000), (all.map(str::to_owned).to_vec(), None));
        assert!(found_in(&top, 5).1.unwrap().contains("more than 5"));
        assert!(HomeFolder::open(&top.join("data/a.json")).unwrap().is_none(), "a file holds nothing");
        assert!(HomeFolder::open(&top.join("link")).is_err(), "a link leads elsewhere");
    }

    #[test]
    fn folders_that_are_nested_too_deep_are_reported() {
        let stage = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(stage.path()).unwrap();
        fs::create_dir_all(top.join("a/".repeat(MAX_DEPTH))).unwrap();
        assert_eq!(found_in(&top, 1000), (Vec::new(), None));
        fs::create_dir_all(top.join("a/".repeat(MAX_DEPTH + 1))).unwrap();
        assert!(found_in(&top, 1000).1.unwrap().contains("inside one another"));
    }
}
