//! One step of applying a change: something is put at a path, replaced or removed, by one system call that a kill cannot divide.
//!
//! What is put into a project is prepared in a staging folder on the same file system, and what it replaces lands there, so that each
//! operation can be reverted, also by another process after a kill: [`Operation::revert`] finds out whether it took place.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, Stat, chmod, mkdirat, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::beneath::open_parent;
use super::model::{Conflict, FileState, decode, is_git};
use super::snapshot::{MODE_BITS, identity, is_unchanged, special_noun, stat, state_of};
use metier_core::host::OPEN_BY_NAME;

/// A folder that was removed, while it is made again.
const RESTORED_FOLDER: &str = "restored";

/// Something that is done at one path of a project. Names without a path are those of the staging folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    /// Moves what is staged to a path where nothing is.
    Place { path: String, staged: String, is_folder: bool, placed: StagedFile },
    /// Moves a file or a link into the staging folder.
    Remove { path: String, removed: String },
    /// Puts what is staged in the place of a file or a link, which lands in the staging folder.
    Replace { path: String, staged: String, removed: String, placed: StagedFile },
    /// Removes an empty folder with these permissions, which include those of its owner.
    RemoveFolder { path: String, mode: u32 },
    /// Changes the permissions of a folder.
    SetMode { path: String, from: u32, to: u32 },
}

/// By what a staged file is recognized, wherever it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StagedFile {
    ino: u64,
    mtime: i64,
}

/// Why an operation did not take place.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The project has something else there; the rest can be applied.
    Conflict(Box<Conflict>),
    /// Nothing else would succeed either, such as on a full disk.
    Fatal { path: String, error: io::Error },
}

/// Where operations take place.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) project: BorrowedFd<'a>,
    pub(crate) staging: BorrowedFd<'a>,
}

/// What the project must have at the path of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) state: Option<&'a FileState>,
    /// When that was read, in nanoseconds since 1970.
    pub(crate) read_at: i64,
}

impl Failure {
    fn conflict(path: &str, reason: &str, found: Option<FileState>) -> Self {
        let (path, reason) = (path.to_owned(), reason.to_owned());
        Self::Conflict(Box::new(Conflict { path, reason, expected: None, found }))
    }
}

impl StagedFile {
    pub(crate) fn new(stat: &Stat) -> Self {
        let found = identity(stat);
        Self { ino: found.ino, mtime: found.mtime }
    }

    fn is(self, stat: &Stat) -> bool {
        self == Self::new(stat)
    }

    /// Whether it is that file, perhaps with another content.
    fn is_same_file(self, stat: &Stat) -> bool {
        self.ino == identity(stat).ino
    }
}

impl Operation {
    /// The path in the project.
    pub(crate) fn path(&self) -> &str {
        match self {
            Self::Place { path, .. }
            | Self::Remove { path, .. }
            | Self::Replace { path, .. }
            | Self::RemoveFolder { path, .. }
            | Self::SetMode { path, .. } => path,
        }
    }

    /// Does it, if the project has there what is expected.
    pub(crate) fn execute(&self, place: Place<'_>, expected: Expected<'_>) -> Result<(), Failure> {
        let failed = |error: io::Error| failure(self.path(), error);
        let target = Target::open(place.project, self.path()).map_err(failed)?;
        let (dir, name) = (&target.dir, target.name.as_os_str());
        let staging = place.staging;
        match self {
            Self::Place { staged, .. } => match move_to_free(staging, staged.as_ref(), dir, name) {
                Err(Errno::EXIST) => Err(target.conflict(self.path(), "something is there already")),
                moved => moved.map_err(|error| failed(error.into())),
            },
            Self::Remove { removed, .. } => {
                let before = target.check(self.path(), expected)?;
                discard(staging, removed.as_ref()).map_err(failed)?;
                move_to_free(dir, name, staging, removed.as_ref()).map_err(|error| failed(error.into()))?;
                if is_at(staging, removed, &before).map_err(failed)? {
                    return Ok(());
                }
                // Somebody replaced it after the comparison.
                move_to_free(staging, removed.as_ref(), dir, name).map_err(|error| failed(error.into()))?;
                Err(target.conflict(self.path(), "it was changed meanwhile"))
            }
            Self::Replace { staged, removed, .. } => {
                let before = target.check(self.path(), expected)?;
                discard(staging, removed.as_ref()).map_err(failed)?;
                let own = stat(staging, staged.as_ref()).map_err(failed)?;
                exchange(staging, staged, dir, name).map_err(|error| failed(error.into()))?;
                if !is_at(staging, staged, &before).map_err(failed)? {
                    exchange(staging, staged, dir, name).map_err(|error| failed(error.into()))?;
                    let back = stat(staging, staged.as_ref()).map_err(failed)?;
                    let is_own = |(own, back): (Stat, Stat)| identity(&own).is_same_file(&identity(&back));
                    if !own.zip(back).is_some_and(is_own) {
                        // Somebody has saved over what was staged, between the two: theirs came last, and belongs at the path. The set has
                        // then lost this content, which its digest shows.
                        exchange(staging, staged, dir, name).map_err(|error| failed(error.into()))?;
                    }
                    return Err(target.conflict(self.path(), "it was changed meanwhile"));
                }
                renameat(staging, staged, staging, removed).map_err(|error| failed(error.into()))
            }
            Self::RemoveFolder { .. } => {
                target.check(self.path(), expected)?;
                match unlinkat(dir, name, AtFlags::REMOVEDIR) {
                    Err(Errno::NOTEMPTY | Errno::EXIST) => {
                        Err(target.conflict(self.path(), "the folder holds something else"))
                    }
                    removed => removed.map_err(|error| failed(error.into())),
                }
            }
            Self::SetMode { to, .. } => {
                target.check(self.path(), expected)?;
                set_folder_mode(dir, name, *to).map_err(failed)
            }
        }
    }

    /// Takes it back, if it took place; returns why it cannot be, for a person to read. Whatever somebody else has put at the path
    /// stays there.
    pub(crate) fn revert(&self, place: Place<'_>) -> io::Result<Option<String>> {
        let target = match Target::open(place.project, self.path()) {
            Ok(target) => target,
            Err(error) if is_no_folder(&error) => return Ok(Some("its folder is gone".to_owned())),
            Err(error) => return Err(error),
        };
        let (dir, name) = (&target.dir, target.name.as_os_str());
        let staging = place.staging;
        let there = stat(dir, name)?;
        let changed = || Ok(Some("it was changed meanwhile".to_owned()));
        match self {
            Self::Place { staged, is_folder, placed, .. } => {
                if stat(staging, staged.as_ref())?.is_some() {
                    return Ok(None);
                }
                match there {
                    Some(there) if *is_folder && placed.is_same_file(&there) => {
                        match unlinkat(dir, name, AtFlags::REMOVEDIR) {
                            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                                Ok(Some("the folder holds something else".to_owned()))
                            }
                            removed => Ok(removed.map(|()| None)?),
                        }
                    }
                    Some(there) if placed.is(&there) => {
                        move_to_free(dir, name, staging, staged.as_ref())?;
                        Ok(None)
                    }
                    None if *is_folder => Ok(None),
                    _ => changed(),
                }
            }
            Self::Remove { removed, .. } => match (stat(staging, removed.as_ref())?, there) {
                (None, _) => Ok(None),
                (Some(_), Some(_)) => changed(),
                (Some(_), None) => {
                    move_to_free(staging, removed.as_ref(), dir, name)?;
                    Ok(None)
                }
            },
            Self::Replace { staged, removed, placed, .. } => {
                complete_exchange(staging, staged, dir, name)?;
                complete_exchange(staging, removed, dir, name)?;
                revert_replacement(&target, staging, (staged, removed), *placed)
            }
            Self::RemoveFolder { mode, .. } => {
                if there.is_none() {
                    discard(staging, RESTORED_FOLDER.as_ref())?;
                    mkdirat(staging, RESTORED_FOLDER, Mode::RWXU)?;
                    set_folder_mode(staging, RESTORED_FOLDER.as_ref(), *mode)?;
                    move_to_free(staging, RESTORED_FOLDER.as_ref(), dir, name)?;
                }
                Ok(None)
            }
            Self::SetMode { from, to, .. } => {
                if there.is_some_and(|there| {
                    rustix::fs::FileType::from_raw_mode(there.st_mode).is_dir() && mode(&there) == *to
                }) {
                    set_folder_mode(dir, name, *from)?;
                }
                Ok(None)
            }
        }
    }
}

/// Reverts a replacement from whichever state a kill left it in.
fn revert_replacement(
    target: &Target,
    staging: BorrowedFd<'_>,
    (staged, removed): (&str, &str),
    placed: StagedFile,
) -> io::Result<Option<String>> {
    let (dir, name) = (&target.dir, target.name.as_os_str());
    // The old file lies under the one name or the other; the new one never lies under that of the old one, unless it was being taken
    // back.
    let old = match stat(staging, removed.as_ref())? {
        Some(found) if placed.is_same_file(&found) => {
            renameat(staging, removed, staging, staged)?;
            return Ok(None);
        }
        Some(_) => removed,
        None => match stat(staging, staged.as_ref())? {
            Some(found) if !placed.is_same_file(&found) => staged,
            _ => return Ok(None),
        },
    };
    match stat(dir, name)? {
        None => {
            move_to_free(staging, old.as_ref(), dir, name)?;
            Ok(None)
        }
        Some(there) if placed.is(&there) => {
            exchange(staging, old, dir, name)?;
            if old == removed {
                renameat(staging, removed, staging, staged)?;
            }
            Ok(None)
        }
        Some(_) => {
            if old == staged {
                renameat(staging, staged, staging, removed)?;
            }
            Ok(Some("it was changed meanwhile".to_owned()))
        }
    }
}

/// The open folder of a path, and the last name of the path.
struct Target {
    dir: OwnedFd,
    name: std::ffi::OsString,
}

impl Target {
    fn open(project: BorrowedFd<'_>, path: &str) -> io::Result<Self> {
        let path = decode(path).map_err(io::Error::other)?;
        if is_git(&path) {
            return Err(io::Error::other("a repository is never changed"));
        }
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        Ok(Self { dir: open_parent(project, &path)?, name })
    }

    /// The stat of what is there, if it is as expected.
    fn check(&self, path: &str, expected: Expected<'_>) -> Result<Stat, Failure> {
        use std::os::fd::AsFd;
        let failed = |error: io::Error| failure(path, error);
        let conflict = |reason: &str, found| Failure::conflict(path, reason, found);
        let Some(state) = expected.state else {
            return Err(self.conflict(path, "nothing was expected there"));
        };
        let Some(about) = stat(&self.dir, &self.name).map_err(failed)? else {
            return Err(conflict("it is not there any more", None));
        };
        if is_unchanged(state, &about, expected.read_at) {
            return Ok(about);
        }
        if let Some(noun) = special_noun(&about) {
            return Err(conflict(&format!("{noun} is there"), None));
        }
        let found = state_of(self.dir.as_fd(), &self.name, &about).map_err(failed)?;
        match found {
            Some(found) if found.is_same_content(state) => Ok(about),
            found => Err(conflict("it was changed", found)),
        }
    }

    /// A conflict with what is there now.
    fn conflict(&self, path: &str, reason: &str) -> Failure {
        use std::os::fd::AsFd;
        let found = super::snapshot::state_at(self.dir.as_fd(), &self.name);
        Failure::conflict(path, reason, found.ok().flatten())
    }
}

/// Whether the staged file is the one that had this stat in the project. Its change time is another one since it was moved.
fn is_at(staging: BorrowedFd<'_>, name: &str, before: &Stat) -> io::Result<bool> {
    let Some(found) = stat(staging, name.as_ref())? else { return Ok(false) };
    let (found_id, before_id) = (identity(&found), identity(before));
    Ok(found_id.is_same_file(&before_id)
        && found_id.mtime == before_id.mtime
        && found.st_size == before.st_size
        && found.st_mode == before.st_mode)
}

fn failure(path: &str, error: io::Error) -> Failure {
    let reason = match error.raw_os_error().map(Errno::from_raw_os_error) {
        _ if is_no_folder(&error) => "its folder is not there any more",
        Some(Errno::ACCESS | Errno::PERM) => "the project does not permit it",
        Some(Errno::ROFS) => "it is on a file system that is read-only",
        Some(Errno::XDEV) => "it is on another file system than the project",
        Some(Errno::BUSY | Errno::TXTBSY) => "it is in use",
        Some(Errno::NAMETOOLONG) => "its path is too long",
        _ => return Failure::Fatal { path: path.to_owned(), error },
    };
    Failure::conflict(path, reason, None)
}

/// Whether something on the way to a path is no folder, or is missing.
fn is_no_folder(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

/// Moves something to a name that nothing has; `EXIST` otherwise.
fn move_to_free(
    from: impl std::os::fd::AsFd,
    name: &OsStr,
    to: impl std::os::fd::AsFd,
    new_name: &OsStr,
) -> rustix::io::Result<()> {
    match renameat_with(&from, name, &to, new_name, RenameFlags::NOREPLACE) {
        // Some file systems, such as those over a network, know only the plain call.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            match rustix::fs::statat(&to, new_name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => renameat(&from, name, &to, new_name),
                Err(error) => Err(error),
            }
        }
        moved => moved,
    }
}

/// Exchanges a staged file and one in the project.
fn exchange(staging: BorrowedFd<'_>, staged: &str, dir: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    match renameat_with(staging, staged, dir, name, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            exchange_by_renames(staging, staged, dir, name)
        }
        exchanged => exchanged,
    }
}

/// The same where no single call does it: for a moment nothing is at the path.
fn exchange_by_renames(
    staging: BorrowedFd<'_>,
    staged: &str,
    dir: &OwnedFd,
    name: &OsStr,
) -> rustix::io::Result<()> {
    let between = between_name(staged);
    renameat(dir, name, staging, &between)?;
    if let Err(error) = renameat(staging, staged, dir, name) {
        renameat(staging, &between, dir, name)?;
        return Err(error);
    }
    renameat(staging, &between, staging, staged)
}

/// Takes an exchange back, or completes it, that a kill divided.
fn complete_exchange(staging: BorrowedFd<'_>, staged: &str, dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let between = between_name(staged);
    if stat(staging, between.as_ref())?.is_none() {
        return Ok(());
    }
    if stat(staging, staged.as_ref())?.is_none() {
        renameat(staging, &between, staging, staged)?;
    } else if stat(dir, name)?.is_none() {
        renameat(staging, &between, dir, name)?;
    }
    Ok(())
}

fn between_name(staged: &str) -> String {
    format!("{staged}.between")
}

/// Removes what an earlier attempt left under a name of the staging folder.
pub(crate) fn discard(staging: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    match unlinkat(staging, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => Ok(unlinkat(staging, name, AtFlags::REMOVEDIR)?),
        Err(error) => Err(error.into()),
    }
}

/// Sets the permissions of a folder, which need not be readable; a link is not followed.
pub(crate) fn set_folder_mode(dir: impl std::os::fd::AsFd, name: &OsStr, mode: u32) -> io::Result<()> {
    let flags = OPEN_BY_NAME | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = openat(dir, Path::new(name), flags, Mode::empty())?;
    let mode = Mode::from_raw_mode((mode & MODE_BITS) as _);
    Ok(chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode)?)
}

#[allow(clippy::useless_conversion, reason = "another type elsewhere")]
fn mode(stat: &Stat) -> u32 {
    u32::from(stat.st_mode) & MODE_BITS
}
