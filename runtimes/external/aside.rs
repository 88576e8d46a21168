//! Moving something of a project's aside, whatever the modes of the folders on the way, and without touching anything else.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, chmod, fstat, openat, renameat, renameat_with};
use rustix::io::{Errno, Result};

use super::super::sandbox::flags::BY_NAME;

/// Gives what is in a folder of the project, under this name, another name beside it that means nothing to anybody.
pub(super) fn set_aside(project: &Path, folder: &Path, name: &OsStr) -> io::Result<PathBuf> {
    let inner = folder.strip_prefix(project).map_err(|_| io::ErrorKind::InvalidInput)?;
    // All of them stay lifted until it is done.
    let mut way = vec![Lifted::of(CWD, project.as_os_str())?];
    for part in inner {
        let above = way.last().ok_or(io::ErrorKind::InvalidInput)?;
        way.push(Lifted::of(&above.folder, part)?);
    }
    let last = &way.last().ok_or(io::ErrorKind::InvalidInput)?.folder;
    loop {
        let aside = aside(name);
        match renamed(last, name, &aside) {
            Err(Errno::EXIST) => {}
            moved => return moved.map(|()| folder.join(aside)).map_err(io::Error::from),
        }
    }
}

fn renamed(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<()> {
    match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // File systems without this flag. Nobody knows the name beforehand, so that nothing has it.
        Err(Errno::INVAL | Errno::NOSYS) => renameat(folder, from, folder, to),
        renamed => renamed,
    }
}

/// A name that nobody can have taken beforehand.
fn aside(name: &OsStr) -> OsString {
    /// Bytes of a name that leave room for the rest.
    const KEPT: usize = 200;
    let bytes = name.as_bytes();
    let mut aside = OsStr::from_bytes(bytes.get(..KEPT).unwrap_or(bytes)).to_owned();
    aside.push(format!(".aside-{:016x}", RandomState::new().build_hasher().finish()));
    aside
}

/// A folder that its owner may change for now. What its mode was is its mode again in the end.
struct Lifted {
    folder: OwnedFd,
    shut: Option<Mode>,
}

impl Lifted {
    /// No link is followed.
    fn of(above: impl AsFd, name: &OsStr) -> Result<Self> {
        let flags = BY_NAME | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(above, name, flags, Mode::empty())?;
        let mode = Mode::from_raw_mode(fstat(&folder)?.st_mode);
        let mut lifted = Self { folder, shut: None };
        // Where that is refused, others may have let us all the same.
        if !mode.contains(Mode::RWXU) && lifted.change(mode | Mode::RWXU).is_ok() {
            lifted.shut = Some(mode);
        }
        Ok(lifted)
    }

    fn change(&self, mode: Mode) -> Result<()> {
        chmod(format!("/proc/self/fd/{}", self.folder.as_raw_fd()), mode)
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        if let Some(mode) = self.shut {
            self.change(mode).ok();
        }
    }
}
