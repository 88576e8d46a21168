//! Moves something in a project to quarantine, whatever the modes of the folders above it, and without touching anything else.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, chmod, fstat, openat, renameat, renameat_with};
use rustix::io::{Errno, Result};

use crate::runtimes::sandbox::compat::OPEN_BY_NAME;

/// Gives what is in a folder of the project, under this name, another name beside it that means nothing to anybody.
pub(in crate::runtimes::external) fn quarantine(
    project: &Path,
    folder: &Path,
    name: &OsStr,
) -> io::Result<PathBuf> {
    let inner = folder.strip_prefix(project).map_err(|_| io::ErrorKind::InvalidInput)?;
    // All of them stay lifted until it is done.
    let mut way = vec![WritableDir::open(CWD, project.as_os_str())?];
    for part in inner {
        let above = way.last().ok_or(io::ErrorKind::InvalidInput)?;
        way.push(WritableDir::open(&above.folder, part)?);
    }
    let last = &way.last().ok_or(io::ErrorKind::InvalidInput)?.folder;
    loop {
        let aside = quarantine_name(name);
        match rename_no_replace(last, name, &aside) {
            Err(Errno::EXIST) => {}
            moved => return moved.map(|()| folder.join(aside)).map_err(io::Error::from),
        }
    }
}

fn rename_no_replace(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<()> {
    match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // File systems without this flag. Nobody knows the name beforehand, so that nothing has it.
        Err(Errno::INVAL | Errno::NOSYS) => renameat(folder, from, folder, to),
        renamed => renamed,
    }
}

/// A name that nobody can have taken beforehand.
fn quarantine_name(name: &OsStr) -> OsString {
    /// Bytes of a name that leave room for the rest.
    const MAX_STEM_BYTES: usize = 200;
    let bytes = name.as_bytes();
    let mut aside = OsStr::from_bytes(bytes.get(..MAX_STEM_BYTES).unwrap_or(bytes)).to_owned();
    aside.push(format!(".aside-{:016x}", RandomState::new().build_hasher().finish()));
    aside
}

/// A folder that its owner may change for now. What its mode was is its mode again in the end.
struct WritableDir {
    folder: OwnedFd,
    original_mode: Option<Mode>,
}

impl WritableDir {
    /// No link is followed.
    fn open(above: impl AsFd, name: &OsStr) -> Result<Self> {
        let flags = OPEN_BY_NAME | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(above, name, flags, Mode::empty())?;
        let mode = Mode::from_raw_mode(fstat(&folder)?.st_mode);
        let mut lifted = Self { folder, original_mode: None };
        // Where that is refused, others may have let us all the same.
        if !mode.contains(Mode::RWXU) && lifted.set_mode(mode | Mode::RWXU).is_ok() {
            lifted.original_mode = Some(mode);
        }
        Ok(lifted)
    }

    fn set_mode(&self, mode: Mode) -> Result<()> {
        chmod(format!("/proc/self/fd/{}", self.folder.as_raw_fd()), mode)
    }
}

impl Drop for WritableDir {
    fn drop(&mut self) {
        if let Some(mode) = self.original_mode {
            self.set_mode(mode).ok();
        }
    }
}
