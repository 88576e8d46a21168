//! Recognises whether the files that define a skill were edited since they were read: its `SKILL.md` and its contract.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use super::origin::SkillAddress;
#[cfg(unix)]
use crate::host::FileId;
use crate::host::Files;

/// A file that was read so soon after its last change may change again without a change of its times, because file systems
/// count time in steps of up to 10 ms.
const TIME_STEP: Duration = Duration::from_millis(50);
/// The same where the file system counts whole seconds.
const COARSE_TIME_STEP: Duration = Duration::from_secs(2);

/// The key of the hashes, random in each process: nobody can look for two contents with one hash.
static HASH_KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// The folder, the `SKILL.md` and the contract of a skill as they were read.
#[derive(Debug)]
pub(super) struct Fingerprint {
    stats: DefinitionStats,
    contract: Option<&'static str>,
    content_hash: u64,
    /// Whether an edit since then must have changed the times.
    is_settled: AtomicBool,
}

/// The identity of the folder and of the files, where they exist.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DefinitionStats {
    pub(super) folder: Option<FileStat>,
    pub(super) file: Option<FileStat>,
    pub(super) contract: Option<FileStat>,
}

impl Fingerprint {
    /// The fingerprint of files that were read after they had these stats; `began` is the time before both, since 1970.
    pub(super) fn new(
        began: Duration,
        stats: DefinitionStats,
        contract: Option<&'static str>,
        sources: &[&[u8]],
    ) -> Self {
        let is_settled = AtomicBool::new(stats.are_settled(began));
        Self { stats, contract, content_hash: HASH_KEY.hash_one(sources), is_settled }
    }

    /// The fingerprint of a folder that holds no `SKILL.md` that is read: only its stats are compared.
    pub(super) fn without_definition(address: &SkillAddress) -> Self {
        let fingerprint = Self::new(now(), DefinitionStats::read(address, None), None, &[]);
        fingerprint.is_settled.store(true, Ordering::Relaxed);
        fingerprint
    }

    /// Whether the files have the same stats as when they were read: those in this open folder, or those at their paths.
    pub(super) fn has_same_stats(&self, address: &SkillAddress, opened: Option<&Files>) -> bool {
        let now = match opened {
            Some(folder) => DefinitionStats::read_in(folder, address, self.contract),
            None => DefinitionStats::read(address, self.contract),
        };
        // A file that could not be read (a link that leads out, say) is told by its folder, where it would be replaced.
        let is_same = |was: &Option<FileStat>, is: &Option<FileStat>| was.is_none() || was == is;
        now.folder == self.stats.folder
            && is_same(&self.stats.file, &now.file)
            && is_same(&self.stats.contract, &now.contract)
    }

    /// Whether the same stats prove that the files are the same.
    pub(super) fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Relaxed)
    }

    /// Whether the files that were read now are the same. If their stats prove it from now on, this is remembered.
    pub(super) fn confirm(&self, now: &Self) -> bool {
        let is_same = (now.content_hash, &now.stats) == (self.content_hash, &self.stats);
        if is_same {
            self.is_settled.store(now.is_settled(), Ordering::Relaxed);
        }
        is_same
    }
}

impl DefinitionStats {
    fn read(address: &SkillAddress, contract: Option<&str>) -> Self {
        let folder = address.folder.disk_path();
        Self {
            folder: folder.and_then(FileStat::at_path),
            file: FileStat::at_path(&address.path()),
            contract: contract.and_then(|name| FileStat::at_path(&folder?.join(name))),
        }
    }

    /// The same of the files in an open folder, which takes no search for its path.
    #[cfg(unix)]
    fn read_in(folder: &Files, address: &SkillAddress, contract: Option<&str>) -> Self {
        let stat = |name| folder.stat_entry(name).ok().map(|stat| FileStat::new(&stat));
        Self {
            folder: stat(None),
            file: stat(Some(address.file_name)),
            contract: contract.and_then(|name| stat(Some(name))),
        }
    }

    #[cfg(not(unix))]
    fn read_in(_: &Files, address: &SkillAddress, contract: Option<&str>) -> Self {
        Self::read(address, contract)
    }

    fn are_settled(&self, began: Duration) -> bool {
        [&self.folder, &self.file, &self.contract].into_iter().flatten().all(|stat| stat.is_settled(began))
    }
}

/// The time since 1970.
pub(super) fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// What the system changes about a file whenever somebody changes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileStat {
    size: u64,
    /// The device and number of the file, where the system has them.
    identity: (u64, u64),
    /// The last change of the content and of the file's entry, since 1970.
    changed: [Duration; 2],
}

impl FileStat {
    #[cfg(unix)]
    pub(super) fn new(stat: &rustix::fs::Stat) -> Self {
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
    fn new(metadata: &std::fs::Metadata) -> Self {
        let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        let modified = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { size: metadata.len(), identity: (0, 0), changed: [modified; 2] }
    }

    #[cfg(unix)]
    fn at_path(path: &Path) -> Option<Self> {
        rustix::fs::stat(path).ok().map(|stat| Self::new(&stat))
    }

    #[cfg(not(unix))]
    fn at_path(path: &Path) -> Option<Self> {
        std::fs::metadata(path).ok().map(|metadata| Self::new(&metadata))
    }

    /// The stat of an open file or folder.
    #[cfg(unix)]
    pub(super) fn of_open(file: impl std::os::fd::AsFd) -> io::Result<Self> {
        Ok(Self::new(&rustix::fs::fstat(file)?))
    }

    #[cfg(not(unix))]
    pub(super) fn of_open(file: &std::fs::File) -> io::Result<Self> {
        file.metadata().map(|metadata| Self::new(&metadata))
    }

    /// Whether a change after this time changes the times of the file. On Unix the system alone sets the second of them; the first
    /// can be any, also one in the future.
    fn is_settled(&self, began: Duration) -> bool {
        let changed = self.changed[1];
        let step = if changed.subsec_nanos() == 0 { COARSE_TIME_STEP } else { TIME_STEP };
        began.checked_sub(changed).is_some_and(|age| age > step)
    }
}
