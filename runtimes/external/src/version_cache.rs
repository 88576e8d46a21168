//! The versions that programs reported, as long as their files stay the same.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use semver::Version;

use crate::version::ProgramVersion;
use metier_core::host::{FileId, file_id};

/// Maximum number of programs that one engine starts for it.
const MAX_PROGRAMS: usize = 512;

/// The most time that one engine spends on programs that do not tell their version: a project can name any number of them.
const MAX_LOST_TIME: Duration = Duration::from_secs(12);

/// The versions that programs reported to one engine.
#[derive(Default)]
pub(crate) struct VersionCache(Mutex<CachedVersions>);

#[derive(Default)]
struct CachedVersions {
    versions: HashMap<Query, Option<Version>>,
    lost_time: Duration,
}

/// A program as it is on disk, and how it is asked.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Query {
    pub(super) program: PathBuf,
    file: FileId,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    pub(super) arguments: Vec<String>,
}

impl Query {
    pub(super) fn new(program: PathBuf, arguments: &[String]) -> Option<Self> {
        let metadata = std::fs::metadata(&program).ok()?;
        Some(Self {
            file: file_id(&metadata),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            arguments: arguments.to_vec(),
            program,
        })
    }
}

impl VersionCache {
    /// The version of this program, which `ask` starts if it is not known.
    pub(super) fn version(
        &self,
        query: Query,
        ask: impl FnOnce(&Query) -> Option<Version>,
    ) -> ProgramVersion {
        let cached = self.lock();
        let version = match cached.versions.get(&query) {
            Some(version) => version.clone(),
            None if cached.versions.len() >= MAX_PROGRAMS || cached.lost_time >= MAX_LOST_TIME => None,
            None => {
                drop(cached);
                let started = Instant::now();
                let version = ask(&query);
                let mut cached = self.lock();
                if version.is_none() {
                    cached.lost_time += started.elapsed();
                }
                cached.versions.insert(query, version.clone());
                version
            }
        };
        version.map_or(ProgramVersion::Unreadable, ProgramVersion::Is)
    }

    fn lock(&self) -> MutexGuard<'_, CachedVersions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_asked_once_and_lost_time_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let query = |name: &str| {
            let program = folder.path().join(name);
            if !program.exists() {
                std::fs::write(&program, name).unwrap();
            }
            Query::new(program, &[]).unwrap()
        };
        let cache = VersionCache::default();
        let never = |_: &Query| -> Option<Version> { panic!("it is not asked again") };
        let first = cache.version(query("a"), |_| Some(Version::new(1, 2, 3)));
        assert_eq!(first, ProgramVersion::Is(Version::new(1, 2, 3)));
        assert_eq!(cache.version(query("a"), never), first);
        std::fs::write(folder.path().join("a"), "replaced by another").unwrap();
        assert_eq!(
            cache.version(query("a"), |_| Some(Version::new(2, 0, 0))),
            ProgramVersion::Is(Version::new(2, 0, 0))
        );
        assert_eq!(cache.version(query("b"), |_| None), ProgramVersion::Unreadable);
        assert_eq!(cache.version(query("b"), never), ProgramVersion::Unreadable);
        cache.lock().lost_time = MAX_LOST_TIME;
        assert_eq!(cache.version(query("c"), never), ProgramVersion::Unreadable);
        assert_eq!(cache.version(query("b"), never), ProgramVersion::Unreadable);
    }
}
