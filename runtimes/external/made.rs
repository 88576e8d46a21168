//! What a script made where a guarded path would be, had there been one when it began.
//!
//! Nothing can be put over what is not there. So a history or a folder of skills that appears while a script runs that may
//! not make one is set aside afterwards where the project has its own, at the top, and told of wherever else it lies: others
//! work in a project too, and what they make is not for a run to move.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, openat, renameat_with};
use rustix::io::Errno;

use super::super::sandbox::Guarded;
use super::guarded::{guarded, is_git};
use super::run::warn;
use crate::host::SkillContext;
use crate::policy::Need;

/// What was there when the run began.
pub(super) struct Before<'a> {
    ctx: &'a SkillContext,
    project: &'a Path,
    /// Places at the top where nothing was.
    free: Vec<String>,
    /// Guarded paths that were there, where all of them are known.
    known: Option<BTreeSet<OsString>>,
    /// Below these the script may write, from the project. What appears elsewhere is not its doing.
    writable: Vec<String>,
}

impl<'a> Before<'a> {
    /// Nothing where the script may not write; `found` is what is guarded, where that was looked for already.
    pub(super) fn of(ctx: &'a SkillContext, project: &'a Path, found: Option<&Guarded>) -> Option<Self> {
        let permissions = ctx.permissions();
        let writable = permissions.writable();
        if writable.is_empty() {
            return None;
        }
        let known = |found: &Guarded| (!found.more).then(|| found.kept.iter().cloned().collect());
        let known = found.map_or_else(|| known(&guarded(ctx, project)), known);
        let top = [".git"].into_iter().chain(permissions.protection().skill_folders());
        let is_free = |path: &&str| {
            let may_be_made =
                is_below(&writable, Path::new(path)) && !permissions.allows(&Need::write(*path));
            may_be_made && !is_there(&project.join(path))
        };
        let free = top.filter(is_free).map(str::to_owned).collect();
        Some(Self { ctx, project, free, known, writable })
    }

    /// Sets aside what has come since, or tells of it, in the log of the run.
    pub(super) fn settle(self, script: &str) {
        let made: Vec<&String> = self.free.iter().filter(|path| is_there(&self.project.join(path))).collect();
        for path in &made {
            let sentence = format!("{script} made {path}, which takes the permission write:{path}");
            warn(
                self.ctx,
                match set_aside(self.project, Path::new(path)) {
                    Ok(aside) => format!("{sentence}; it was moved to {aside}"),
                    Err(error) => {
                        format!("{sentence}; it could not be moved aside ({error}), so look at it first")
                    }
                },
            );
        }
        let Some(known) = self.known else { return };
        let now = guarded(self.ctx, self.project);
        for path in now.kept.iter().filter(|path| !known.contains(*path)).map(Path::new) {
            let is_history = path.file_name().and_then(OsStr::to_str).is_some_and(is_git);
            let path = path.strip_prefix(self.project).unwrap_or(path);
            if !is_history || !is_below(&self.writable, path) {
                continue;
            }
            let path = path.to_string_lossy();
            let sentence = format!("{path} came while {script} ran, which may not have made it");
            warn(self.ctx, format!("{}; look at it before you let git", sentence.escape_debug()));
        }
    }
}

/// Whether a path lies in one of these folders; the empty one is the project.
fn is_below(folders: &[String], path: &Path) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Gives what is at that path of the project a name beside it that means nothing to anybody.
fn set_aside(project: &Path, path: &Path) -> io::Result<String> {
    const TRIES: u32 = 100;
    let plain = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut folder = openat(CWD, project, plain, Mode::empty())?;
    for part in path.parent().into_iter().flat_map(Path::components) {
        folder = openat(&folder, part.as_os_str(), plain, Mode::empty())?;
    }
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    for number in 1..=TRIES {
        let mut aside = name.to_owned();
        aside.push(if number == 1 { ".aside".to_owned() } else { format!(".aside-{number}") });
        match renameat_with(&folder, name, &folder, &aside, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            moved => {
                let place: PathBuf = path.with_file_name(&aside);
                return moved.map(|()| place.to_string_lossy().into_owned()).map_err(io::Error::from);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
