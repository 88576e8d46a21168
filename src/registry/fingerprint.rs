//! Recognises whether the files that define a skill were edited since they were read: its `SKILL.md` and its contract.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::origin::SkillAddress;
use crate::registry::skill_folder::SkillFolder;
use metier_core::host::Files;
use metier_core::host::file_stat::{FileStat, now};

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
        // A script that is a skill by itself is read from a copy.
        let is_folder = matches!(address.folder, SkillFolder::Disk(_));
        let now = match opened.filter(|_| is_folder) {
            Some(folder) => DefinitionStats::read_in(folder, address, self.contract),
            None => DefinitionStats::read(address, self.contract),
        };
        // A contract that could not be read (a link that leads out, say) is told by its folder, where it would be replaced.
        let is_same_contract = self.stats.contract.is_none() || self.stats.contract == now.contract;
        now.folder == self.stats.folder && now.file == self.stats.file && is_same_contract
    }

    /// The hash of what was read, by a key of this process.
    pub(super) fn content_hash(&self) -> u64 {
        self.content_hash
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
        let SkillFolder::Disk(folder) = &address.folder else {
            return Self { folder: None, file: FileStat::at_path(&address.path()), contract: None };
        };
        Self {
            folder: FileStat::at_path(folder),
            file: FileStat::at_path(&address.path()),
            contract: contract.and_then(|name| FileStat::at_path(&folder.join(name))),
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
