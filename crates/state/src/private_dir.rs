//! Folders that only their user can read: opened by handles, locked, and removed.

use std::ffi::{CStr, CString};
use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RawDir, Stat, fchmod, flock, fstat, mkdirat,
    openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::record::SkillState;
use super::tree::open_dir;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::metier_dirs::{resolve_existing, unsafe_reason};
use metier_core::host::{DirCleaner, FileId};

/// How long one sleeps at a time that waits for a lock.
const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// The open folder of a store, and its path without links.
pub(super) struct OpenStore {
    pub(super) dir: OwnedFd,
    pub(super) path: PathBuf,
}

/// Opens the folder of a store, which is created if `creates`; `None` where there is none. `denied` if somebody else could have
/// written to it.
pub(super) fn open_store(store: &Path, creates: bool) -> Result<Option<OpenStore>> {
    let failed = |source| SkillError::io(format_args!("failed to open {}", store.display()), source);
    let refused = |reason: &str| {
        let sentence = format!("the state of skills in {} is not used: {reason}", store.display());
        Err(SkillError::new(ErrorKind::Denied, sentence).with_help(
            "use a folder of your own that is outside of any project, and set METIER_DATA_DIR to its path",
        ))
    };
    let path = resolve_existing(store);
    if let Some(reason) = unsafe_reason(&path) {
        return refused(&reason);
    }
    match store.symlink_metadata() {
        Ok(found) if !found.is_dir() => return refused("it is not a folder but a link or a file"),
        Ok(_) => {}
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Err(_) if !creates => return Ok(None),
        Err(_) => DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?,
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(error.into()))?;
    let dir = open_dir(CWD, &name).map_err(|error| failed(error.into()))?;
    let about = fstat(&dir).map_err(|error| failed(error.into()))?;
    if about.st_uid != geteuid().as_raw() {
        return refused("it belongs to somebody else");
    }
    fchmod(&dir, Mode::RWXU).map_err(|error| failed(error.into()))?;
    Ok(Some(OpenStore { dir, path }))
}

/// The folder of a state, created if it is missing, and its lock of that name, which is held. `check` fails when the run must not
/// wait any longer for another one.
pub(super) fn lock_folder(
    root: &OpenStore,
    state: &SkillState,
    lock_name: &CStr,
    check: &dyn Fn() -> Result<()>,
) -> Result<(OwnedFd, File)> {
    let failed = |source| SkillError::io("failed to open the state of the skill", source);
    loop {
        let (project, dir, lock) = match open_folder(root, state, lock_name) {
            // Whoever removed the state removed an empty folder above it as well.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                check()?;
                continue;
            }
            opened => opened.map_err(failed)?,
        };
        while !try_lock(&lock).map_err(failed)? {
            check().map_err(|error| {
                error.with_help("another run of the skill works on its state; wait for it")
            })?;
            std::thread::sleep(LOCK_INTERVAL);
        }
        // Whoever held the lock may have removed the folder.
        let name = CString::new(&*state.skill_name).map_err(|error| failed(error.into()))?;
        if is_at(&dir, &project, &name) {
            return Ok((dir, lock));
        }
    }
}

/// The folder of the project, that of the state in it, and the lock there.
fn open_folder(
    root: &OpenStore,
    state: &SkillState,
    lock_name: &CStr,
) -> io::Result<(OwnedFd, OwnedFd, File)> {
    let project = private_subfolder(&root.dir, &state.project_name)?;
    let dir = private_subfolder(&project, &state.skill_name)?;
    let lock = open_lock(&dir, lock_name)?;
    Ok((project, dir, lock))
}

/// A folder of that name which only its user can read, created if it is missing.
pub(super) fn private_subfolder(above: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    match mkdirat(above, name.as_c_str(), Mode::RWXU) {
        Err(error) if error != Errno::EXIST => return Err(error.into()),
        _ => {}
    }
    let dir = open_dir(above, &name)?;
    fchmod(&dir, Mode::RWXU)?;
    Ok(dir)
}

/// The file of that name that is locked, created if it is missing.
pub(super) fn open_lock(dir: &OwnedFd, name: &CStr) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(openat(dir, name, flags, Mode::RUSR | Mode::WUSR)?))
}

pub(super) fn try_lock(lock: &File) -> io::Result<bool> {
    match flock(lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn stat(dir: &OwnedFd, name: &CStr) -> Option<Stat> {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()
}

/// When what has this name was last changed, in seconds.
pub(super) fn modified(dir: &OwnedFd, name: &CStr) -> Option<u64> {
    stat(dir, name).and_then(|found| u64::try_from(found.st_mtime).ok())
}

/// The folder of this name, which is not a link; `None` if there is none.
pub(super) fn open_existing(above: &OwnedFd, name: &CStr) -> io::Result<Option<OwnedFd>> {
    match open_dir(above, name) {
        Err(Errno::NOENT) => Ok(None),
        dir => Ok(Some(dir?)),
    }
}

pub(super) fn exists(dir: &OwnedFd, name: &CStr) -> bool {
    stat(dir, name).is_some()
}

/// Whether this open folder is the one of that name.
pub(super) fn is_at(dir: &OwnedFd, above: &OwnedFd, name: &CStr) -> bool {
    let found = stat(above, name).map(|found| FileId::from_stat(&found));
    fstat(dir).is_ok_and(|opened| found == Some(FileId::from_stat(&opened)))
}

/// Removes what has this name, with everything in it; a link is removed and not followed.
pub(super) fn remove(above: &OwnedFd, name: &CStr) -> rustix::io::Result<()> {
    let Some(found) = stat(above, name) else { return Ok(()) };
    if !FileType::from_raw_mode(found.st_mode).is_dir() {
        return unlinkat(above, name, AtFlags::empty());
    }
    DirCleaner::open_at(above, name)?.remove_entries(usize::MAX)?;
    unlinkat(above, name, AtFlags::REMOVEDIR)
}

/// What is in a folder, each with its stat, in the order of the names. What disappears meanwhile is left out.
pub(super) fn entries(dir: &OwnedFd) -> io::Result<Vec<(CString, Stat)>> {
    const BUFFER_BYTES: usize = 8 << 10;
    let mut found = Vec::new();
    let Some(opened) = open_existing(dir, c".")? else { return Ok(found) };
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let mut entries = RawDir::new(&opened, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let name = match entry {
            // The folder itself was removed.
            Err(Errno::NOENT) => break,
            entry => entry?.file_name().to_owned(),
        };
        if name.as_c_str() != c"."
            && name.as_c_str() != c".."
            && let Some(stat) = stat(dir, &name)
        {
            found.push((name, stat));
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

/// The names of the folders in a folder.
pub(super) fn folder_names(dir: &OwnedFd) -> io::Result<Vec<CString>> {
    let is_dir = |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_dir();
    Ok(entries(dir)?.into_iter().filter(|(_, stat)| is_dir(stat)).map(|(name, _)| name).collect())
}

/// Writes a file whole, first under the other name, and waits for the disk as `sync` does: whoever reads it finds the old content or
/// the new.
pub(super) fn replace_file(
    dir: &OwnedFd,
    (name, new): (&CStr, &CStr),
    content: &[u8],
    sync: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<()> {
    remove(dir, new)?;
    let write = || {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(dir, new, flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(content)?;
        sync(&file)
    };
    let written = write().and_then(|()| Ok(renameat(dir, new, dir, name)?));
    if written.is_err() {
        remove(dir, new).ok();
    }
    written
}
