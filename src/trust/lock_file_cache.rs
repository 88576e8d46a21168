//! The lock files of an engine's projects as they were read last, so that a look at many skills reads each once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::trust::lock_file::{LockFile, PATH};
use metier_core::error::Result;
use metier_core::host::file_stat::{FileStat, now};

/// The lock files by their projects.
#[derive(Default)]
pub(crate) struct LockFileCache(Mutex<HashMap<PathBuf, CachedLockFile>>);

struct CachedLockFile {
    /// The stat of the file before it was read, and the time before both, since 1970.
    stat: FileStat,
    began: Duration,
    lock: Arc<LockFile>,
}

impl LockFileCache {
    /// The lock file of a project that must have one, as it is now: `untrusted` where there is none.
    pub(crate) fn require_in(&self, project: &Path) -> Result<Arc<LockFile>> {
        // Whoever else asks meanwhile waits for the answer instead of reading the file as well.
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (began, stat) = (now(), FileStat::at_path(&project.join(PATH)));
        let is_current = |cached: &&CachedLockFile| {
            stat.as_ref() == Some(&cached.stat) && cached.stat.is_settled(cached.began)
        };
        if let Some(known) = cached.get(project).filter(is_current) {
            return Ok(known.lock.clone());
        }
        let lock = Arc::new(LockFile::require_in(project)?);
        if let Some(stat) = stat {
            cached.insert(project.to_owned(), CachedLockFile { stat, began, lock: lock.clone() });
        }
        Ok(lock)
    }
}
