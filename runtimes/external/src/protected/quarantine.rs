//! Quarantines a file or folder of a project: gives it another name, whatever the modes of the folders above it.

use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, chmod, fstat, openat, renameat, renameat_with};
use rustix::io::{Errno, Result};

use metier_core::host::{HostPaths, OPEN_BY_NAME};
use metier_core::policy::QUARANTINE_SUFFIX;

/// Renames the entry `name` of a folder in the project to a name beside it that no program looks for. Returns the new path.
pub(crate) fn quarantine(
    project: &Path,
    paths: &HostPaths,
    folder: &Path,
    name: &OsStr,
) -> io::Result<PathBuf> {
    let inner = folder.strip_prefix(project).map_err(|_| io::ErrorKind::InvalidInput)?;
    // All folders on the way stay writable until the entry is renamed.
    let mut folders = vec![WritableDir::open(CWD, paths.at(project).as_os_str())?];
    for part in inner {
        let above = folders.last().ok_or(io::ErrorKind::InvalidInput)?;
        folders.push(WritableDir::open(&above.folder, part)?);
    }
    let last = &folders.last().ok_or(io::ErrorKind::InvalidInput)?.folder;
    Ok(folder.join(quarantine_in(last, name)?))
}

/// Renames the entry `name` of an open folder likewise, whatever the mode of the folder. Returns the new name.
pub(crate) fn quarantine_in(folder: &OwnedFd, name: &OsStr) -> io::Result<OsString> {
    let mut is_first = true;
    loop {
        let new_name = quarantine_name(name);
        match rename_no_replace(folder, name, &new_name) {
            Err(Errno::EXIST) => {}
            Err(Errno::ACCESS) if is_first => make_accessible(folder)?,
            renamed => return renamed.map(|()| new_name).map_err(io::Error::from),
        }
        is_first = false;
    }
}

/// Lets the owner of an open folder read and change it.
pub(crate) fn make_accessible(folder: &OwnedFd) -> Result<()> {
    let mode = Mode::from_raw_mode(fstat(folder)?.st_mode) | Mode::RWXU;
    chmod(format!("/proc/self/fd/{}", folder.as_raw_fd()), mode)
}

/// The names in a folder, whatever its mode.
pub(crate) fn entry_names(folder: &Path) -> io::Result<Vec<OsString>> {
    let names = |path: &Path| -> io::Result<Vec<OsString>> {
        std::fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    };
    match names(folder) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let opened = WritableDir::open(CWD, folder.as_os_str())?;
            names(Path::new(&format!("/proc/self/fd/{}", opened.folder.as_raw_fd())))
        }
        found => found,
    }
}

fn rename_no_replace(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> Result<()> {
    match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // The file system does not support the flag. The new name is random, so nothing has it.
        Err(Errno::INVAL | Errno::NOSYS) => renameat(folder, from, folder, to),
        renamed => renamed,
    }
}

/// A random name, which nobody can have taken before.
fn quarantine_name(name: &OsStr) -> OsString {
    /// Bytes of the old name that leave enough of the 255 bytes of a name for the suffix.
    const MAX_STEM_BYTES: usize = 200;
    let bytes = name.as_bytes();
    let mut new_name = OsStr::from_bytes(bytes.get(..MAX_STEM_BYTES).unwrap_or(bytes)).to_owned();
    new_name.push(format!("{QUARANTINE_SUFFIX}{:016x}", RandomState::new().build_hasher().finish()));
    new_name
}

/// A folder that its owner may change. Dropping this restores its mode.
struct WritableDir {
    folder: OwnedFd,
    original_mode: Option<Mode>,
}

impl WritableDir {
    /// Follows no symlink.
    fn open(above: impl AsFd, name: &OsStr) -> Result<Self> {
        let flags = OPEN_BY_NAME | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = openat(above, name, flags, Mode::empty())?;
        let mode = Mode::from_raw_mode(fstat(&folder)?.st_mode);
        let mut dir = Self { folder, original_mode: None };
        // If the folder belongs to another user, the mode cannot be changed, and others may be allowed to write.
        if !mode.contains(Mode::RWXU) && dir.set_mode(mode | Mode::RWXU).is_ok() {
            dir.original_mode = Some(mode);
        }
        Ok(dir)
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
