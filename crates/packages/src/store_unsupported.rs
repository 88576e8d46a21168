//! The store of prepared packages on systems without one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::added_packages::AddedPackages;
use super::requirements::{Ecosystem, Requirements};
use super::stored::{InstalledInterpreter, StoredPackages};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::policy::SkillDigest;

/// The folder with the packages that were prepared for scripts; none on this system.
#[derive(Clone, Debug)]
pub struct PackageStore {
    folder: PathBuf,
}

#[derive(Clone, Debug)]
pub struct PackageRequest {
    pub store: PackageStore,
    pub requirements: Arc<Requirements>,
}

#[derive(Clone, Debug)]
pub struct PreparedFiles;

pub struct Preparation;

impl PackageStore {
    /// The store of this user; `unavailable` on this system.
    pub fn user() -> Result<Self> {
        Err(unavailable())
    }

    /// The store in this folder.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What is in it: nothing.
    pub fn list(&self) -> Result<Vec<StoredPackages>> {
        Ok(Vec::new())
    }

    /// Removes nothing.
    pub fn prune(&self) -> Result<Vec<StoredPackages>> {
        Ok(Vec::new())
    }

    /// Removes nothing.
    pub fn clear(&self) -> Result<Vec<StoredPackages>> {
        Ok(Vec::new())
    }
}

/// Whether anything was ever prepared in the store.
pub fn has_requests(_store: &PackageStore) -> bool {
    false
}

/// Nothing is added here.
pub fn added_packages(_store: &PackageStore, _files: SkillDigest) -> Result<AddedPackages> {
    Ok(AddedPackages::default())
}

/// Adds nothing; `unavailable`.
pub fn set_added_packages(_store: &PackageStore, _files: SkillDigest, _added: &AddedPackages) -> Result<()> {
    Err(unavailable())
}

/// Begins nothing; `unavailable`.
pub fn begin_preparation(_store: &PackageStore) -> Result<Preparation> {
    Err(unavailable())
}

impl PackageRequest {
    pub(crate) fn prepared_for(&self, _program: &Path) -> Result<Option<PreparedFiles>> {
        Ok(None)
    }

    pub(crate) fn stored_for(&self, _program: &Path) -> Option<StoredPackages> {
        None
    }

    pub(crate) fn content_digests(&self) -> Vec<String> {
        Vec::new()
    }
}

impl Preparation {
    pub(crate) fn project(&self) -> PathBuf {
        PathBuf::new()
    }

    pub(crate) fn destination(
        &self,
        _ecosystem: Ecosystem,
        _lock: &str,
        _interpreter: &InstalledInterpreter,
    ) -> PathBuf {
        PathBuf::new()
    }

    pub(crate) fn publish(
        self,
        _request: &PackageRequest,
        _interpreter: &InstalledInterpreter,
        _lock: (String, Vec<String>),
        _folder: &str,
    ) -> Result<StoredPackages> {
        Err(unavailable())
    }
}

fn unavailable() -> SkillError {
    SkillError::new(ErrorKind::Unavailable, "packages are not prepared on this system")
}
