//! The folder of the store: opened by handle, checked for its owner, and locked.

use std::fs::{DirBuilder, File, TryLockError};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, fchmod, fstat, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::DirCleaner;
use metier_core::host::metier_dirs::{resolve_existing, unsafe_reason};

const LOCK: &str = "changes.lock";
/// How long somebody waits for another process.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);
const LOCK_INTERVAL: Duration = Duration::from_millis(2);

/// Opens the folder of the store; `None` where there is none and `creates` is false. `denied` if somebody else could have written to it.
pub(crate) fn open(folder: &Path, creates: bool) -> Result<Option<OwnedFd>> {
    let failed = |source| SkillError::io(format_args!("failed to open {}", folder.display()), source);
    let refused = |reason: &str| {
        let sentence = format!("the change sets in {} are not used: {reason}", folder.display());
        Err(SkillError::new(ErrorKind::Denied, sentence).with_help(
            "use a folder of your own that is outside of any project, and set METIER_DATA_DIR to its path",
        ))
    };
    let path = resolve_existing(folder);
    if let Some(reason) = unsafe_reason(&path) {
        return refused(&reason);
    }
    match folder.symlink_metadata() {
        Ok(found) if !found.is_dir() => return refused("it is not a folder but a link or a file"),
        Ok(_) => {}
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Err(_) if !creates => return Ok(None),
        Err(_) => DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(failed)?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = openat(CWD, &path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    let about = fstat(&dir).map_err(|error| failed(error.into()))?;
    if about.st_uid != geteuid().as_raw() {
        return refused("it belongs to somebody else");
    }
    fchmod(&dir, Mode::RWXU).map_err(|error| failed(error.into()))?;
    Ok(Some(dir))
}

/// Opens a folder in the store.
pub(crate) fn subfolder(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(dir, name, flags, Mode::empty())?)
}

/// Creates a folder in the store, which only its user can read.
pub(crate) fn create_subfolder(dir: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    mkdirat(dir, name, Mode::RWXU)?;
    subfolder(dir, name)
}

/// Removes a folder with all in it, if it is there.
pub(crate) fn remove_folder(dir: impl std::os::fd::AsFd + Copy, name: &str) -> io::Result<()> {
    match DirCleaner::open_at(dir, name) {
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(error.into()),
        Ok(mut cleaner) => cleaner.remove_entries(usize::MAX)?,
    };
    Ok(rustix::fs::unlinkat(dir, name, rustix::fs::AtFlags::REMOVEDIR)?)
}

/// Locks the store until the file is dropped; waits for whoever has locked it.
pub(crate) fn lock(dir: &OwnedFd) -> Result<File> {
    let began = Instant::now();
    loop {
        if let Some(lock) = try_lock(dir)? {
            return Ok(lock);
        }
        if began.elapsed() > LOCK_TIMEOUT {
            let sentence = "failed to lock the change sets: another process has held them for 30 seconds";
            return Err(SkillError::new(ErrorKind::Unavailable, sentence)
                .with_help("wait until it has applied its changes, or end it"));
        }
        std::thread::sleep(LOCK_INTERVAL);
    }
}

/// The same without waiting; `None` if somebody has locked it.
pub(crate) fn try_lock(dir: &OwnedFd) -> Result<Option<File>> {
    let failed = |source| SkillError::io("failed to lock the change sets", source);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = openat(dir, LOCK, flags, Mode::RUSR | Mode::WUSR).map_err(|error| failed(error.into()))?;
    let lock = File::from(lock);
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Creates the folder in a project where files are staged.
pub(crate) fn create_staging(project: std::os::fd::BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    mkdirat(project, name, Mode::RWXU)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(project, name, flags, Mode::empty())?)
}
