//! What the system changes about a file whenever somebody changes it.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

#[cfg(unix)]
use crate::host::FileId;

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
    pub(crate) fn at_path(path: &Path) -> Option<Self> {
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
