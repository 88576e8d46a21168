//! The folder of the audit log: opened by handle, the user's alone, with a lock for its writers.

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};

use crate::store_folder::{foreign_reason, make_private, private_dir_builder, unsafe_reason};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::canonical_folder::canonical_folder;

/// The file that is written.
pub(super) const CURRENT_FILE: &str = "audit.jsonl";
const LOCK_FILE: &str = "audit.lock";

/// How long a writer waits for another one.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_INTERVAL: Duration = Duration::from_micros(100);

/// The open folder.
pub(super) struct LogFolder {
    dir: Dir,
}

impl LogFolder {
    /// Opens the folder; `None` where there is none. `denied` if somebody else could have written to it.
    pub(super) fn open(path: &Path) -> Result<Option<Self>> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", path.display()), source);
        match path.symlink_metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
            Ok(found) if !found.is_dir() => {
                return Err(unusable(path, "it is not a folder but a link or a file"));
            }
            Ok(_) => {}
        }
        let real = canonical_folder(path).map_err(failed)?;
        if let Some(reason) = unsafe_reason(&real) {
            return Err(unusable(path, &reason));
        }
        // No link in the last name, even one that was put there since.
        let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else {
            return Err(unusable(path, "it is the root of a file system"));
        };
        let parent = Dir::open_ambient_dir(parent, ambient_authority()).map_err(failed)?;
        Ok(Some(Self { dir: parent.open_dir_nofollow(name).map_err(failed)? }))
    }

    /// Opens the folder, which only its user can read; it and the folders above are created.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to create {}", path.display()), source);
        if let Some(reason) = unsafe_reason(&metier_core::host::metier_dirs::resolve_existing(path)) {
            return Err(unusable(path, &reason));
        }
        private_dir_builder().create(path).map_err(failed)?;
        let folder = Self::open(path)?.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        // It may have been there, open to the eyes of others.
        make_private(&folder.dir).map_err(failed)?;
        Ok(folder)
    }

    /// The file by which writers exclude each other.
    pub(super) fn lock_file(&self) -> Result<File> {
        self.open_private(LOCK_FILE)
            .map_err(|source| SkillError::io("failed to open the lock of the audit log", source))
    }

    /// Opens a file of the log for reading and writing, and creates it if it is missing. `denied` if it is not the user's alone.
    pub(super) fn open_for_writing(&self, name: &str) -> Result<File> {
        let failed = |source| SkillError::io(format_args!("failed to open {name} of the audit log"), source);
        let file = self.open_private(name).map_err(failed)?;
        check_owner(&file, name)?;
        Ok(file)
    }

    fn open_private(&self, name: &str) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).nonblock(true).follow(FollowSymlinks::No);
        #[cfg(unix)]
        cap_std::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(self.dir.open_with(name, &options)?.into_std())
    }

    /// Opens a file of the log for reading.
    pub(super) fn open_for_reading(&self, name: &str) -> Result<File> {
        let failed = |source| SkillError::io(format_args!("failed to open {name} of the audit log"), source);
        let mut options = OpenOptions::new();
        options.read(true).nonblock(true).follow(FollowSymlinks::No);
        let file = self.dir.open_with(name, &options).map_err(failed)?.into_std();
        check_owner(&file, name)?;
        Ok(file)
    }

    /// The names of the files that were closed, the oldest first, each with its number.
    pub(super) fn closed_files(&self) -> io::Result<Vec<(u32, String)>> {
        let mut found = Vec::new();
        for entry in self.dir.entries()? {
            let name = entry?.file_name();
            let Some(name) = name.to_str() else { continue };
            found.extend(file_number(name).map(|number| (number, name.to_owned())));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Whether there is a file of that name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.dir.symlink_metadata(name).is_ok()
    }

    /// Gives the current file another name.
    pub(super) fn close_as(&self, name: &str) -> io::Result<()> {
        self.dir.rename(CURRENT_FILE, &self.dir, name)
    }
}

/// The name of the closed file with this number.
pub(super) fn closed_name(number: u32) -> String {
    format!("audit-{number:06}.jsonl")
}

fn file_number(name: &str) -> Option<u32> {
    let number: u32 = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?.parse().ok()?;
    (closed_name(number) == name).then_some(number)
}

/// The lock of the log, held until this is dropped.
pub(super) struct HeldLock(Arc<File>);

impl HeldLock {
    /// Waits for the lock; `unavailable` if another process does not give it back.
    pub(super) fn acquire(lock: &Arc<File>) -> Result<Self> {
        let began = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self(lock.clone())),
                Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_TIMEOUT => {
                    std::thread::sleep(LOCK_INTERVAL);
                }
                Err(TryLockError::WouldBlock) => {
                    let sentence = "failed to lock the audit log: another process has held it for 10 seconds";
                    return Err(
                        SkillError::new(ErrorKind::Unavailable, sentence).with_help("end that process")
                    );
                }
                Err(TryLockError::Error(error)) => {
                    return Err(SkillError::io("failed to lock the audit log", error));
                }
            }
        }
    }
}

impl Drop for HeldLock {
    /// A process that was started meanwhile may still have the file open, so it is not enough to close it.
    fn drop(&mut self) {
        self.0.unlock().ok();
    }
}

/// Fails for what is no file, is somebody else's, or can be read or written by others.
fn check_owner(file: &File, name: &str) -> Result<()> {
    let about = file
        .metadata()
        .map_err(|source| SkillError::io(format_args!("failed to read {name} of the audit log"), source))?;
    let reason = if about.is_file() { foreign_reason(&about) } else { Some("it is not a regular file") };
    let Some(reason) = reason else { return Ok(()) };
    Err(SkillError::new(ErrorKind::Denied, format!("{name} of the audit log is not used: {reason}"))
        .with_help("look at it, and move it away"))
}

fn unusable(path: &Path, reason: &str) -> SkillError {
    let sentence = format!("the audit log {} is not used: {reason}", path.display());
    SkillError::new(ErrorKind::Denied, sentence).with_help(
        "use a folder of your own that is outside of any project, and set METIER_DATA_DIR to its path",
    )
}
