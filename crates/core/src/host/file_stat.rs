//! A file of the disk: opened only if it cannot block, its identity, and what the system knows about it.

use std::fs::File;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;

use metier_sandbox::FileId;

/// A file that was read so soon after its last change may change again without a change of its times, because file systems
/// count time in steps of up to 10 ms.
const TIME_STEP: Duration = Duration::from_millis(50);
/// The same where the file system counts whole seconds.
const COARSE_TIME_STEP: Duration = Duration::from_secs(2);

/// The time since 1970.
pub fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// What the system changes about a file whenever somebody changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStat {
    size: u64,
    /// The device and number of the file, where the system has them.
    identity: (u64, u64),
    /// The last change of the content and of the file's entry, since 1970.
    changed: [Duration; 2],
}

impl FileStat {
    /// What the kernel reported.
    #[cfg(unix)]
    pub fn new(stat: &rustix::fs::Stat) -> Self {
        let time = |seconds: i64, nanoseconds: Option<u32>| {
            Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds.unwrap_or(0))
        };
        let FileId { dev, ino } = FileId::from_stat(stat);
        Self {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            identity: (dev, ino),
            changed: [
                time(stat.st_mtime, u32::try_from(stat.st_mtime_nsec).ok()),
                time(stat.st_ctime, u32::try_from(stat.st_ctime_nsec).ok()),
            ],
        }
    }

    #[cfg(not(unix))]
    pub(crate) fn new(metadata: &std::fs::Metadata) -> Self {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let modified = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { size: metadata.len(), identity: (0, 0), changed: [modified; 2] }
    }

    /// Of the file of that path, symbolic links not followed; `None` if there is none.
    #[cfg(unix)]
    pub fn at_path(path: &Path) -> Option<Self> {
        rustix::fs::stat(path).ok().map(|stat| Self::new(&stat))
    }

    #[cfg(not(unix))]
    fn at_path(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::new(&metadata))
    }

    /// The stat of an open file or folder.
    #[cfg(unix)]
    pub fn of_open(file: impl std::os::fd::AsFd) -> io::Result<Self> {
        Ok(Self::new(&rustix::fs::fstat(file)?))
    }

    #[cfg(not(unix))]
    pub(crate) fn of_open(file: &std::fs::File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::new(&metadata))
    }

    /// Whether a change after this time changes the times of the file. On Unix the system alone sets the second of them; the first
    /// can be any, also one in the future.
    pub fn is_settled(&self, began: Duration) -> bool {
        let changed = self.changed[1];
        let step = if changed.subsec_nanos() == 0 { COARSE_TIME_STEP } else { TIME_STEP };
        began.checked_sub(changed).is_some_and(|age| age > step)
    }
}

/// That of a file of which something is known.
pub fn file_id(metadata: &impl MetadataExt) -> FileId {
    FileId { dev: metadata.dev(), ino: metadata.ino() }
}

/// What tells a folder from another one that was or will be at its path: its number and its time of birth, where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no process is kept there"))]
pub struct FolderId {
    file: FileId,
    born: Option<SystemTime>,
}

#[cfg_attr(not(unix), allow(dead_code, reason = "no process is kept there"))]
impl FolderId {
    /// The folder of that path, which must exist.
    pub fn new(folder: &Path) -> std::io::Result<Self> {
        let about = std::fs::symlink_metadata(folder)?;
        let born = about.created().ok();
        Ok(Self { file: file_id(&Metadata::from_just_metadata(about)), born })
    }
}

/// Opens a regular file; links are followed.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(
        &mut options,
        rustix::fs::OFlags::NONBLOCK.bits().cast_signed() | rustix::fs::OFlags::NOCTTY.bits().cast_signed(),
    );
    let file = options.open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Ok(file)
}
