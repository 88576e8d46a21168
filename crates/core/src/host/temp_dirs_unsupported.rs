//! Temporary directories on systems where no script is started: the system's own.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A new temporary directory, removed when dropped.
pub(crate) struct PrivateTempDir(TempDir);

impl PrivateTempDir {
    pub(crate) fn outside(_: &[&Path]) -> io::Result<Self> {
        tempfile::Builder::new().prefix("metier-").tempdir().map(Self)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Nothing needs to be kept on these systems.
pub(crate) struct TempDirLease(());

impl TempDirLease {
    pub(crate) fn acquire() -> Self {
        Self(())
    }
}

pub(crate) fn existing_metier_dirs_in(_: &Path) -> Vec<PathBuf> {
    Vec::new()
}

pub(super) fn temp_file_name() -> String {
    use std::hash::{BuildHasher, Hasher};
    format!(".{:016x}.draft", std::collections::hash_map::RandomState::new().build_hasher().finish())
}

pub(super) fn record_temp_file_dir<T>(_: T) {}

pub(super) fn lock_temp_file<T>(_: T) {}
