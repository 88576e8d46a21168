//! Temporary folders where no script is started: the system's own.

use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A new folder, gone when dropped.
pub(crate) struct TempFolder(TempDir);

impl TempFolder {
    pub(crate) fn away_from(_: &[&Path]) -> io::Result<Self> {
        tempfile::Builder::new().prefix("metier-").tempdir().map(Self)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Nothing is kept here.
pub(crate) struct TempPlaces(());

impl TempPlaces {
    pub(crate) fn hold() -> Self {
        Self(())
    }
}

pub(crate) fn own_places_in(_: &Path) -> Vec<PathBuf> {
    Vec::new()
}

pub(super) fn draft_name() -> String {
    use std::hash::{BuildHasher, Hasher};
    format!(".{:016x}.draft", std::collections::hash_map::RandomState::new().build_hasher().finish())
}

pub(super) fn note_draft<T>(_: T) {}

pub(super) fn hold_draft<T>(_: T) {}
