//! Packages as they were prepared, and the interpreter that they were prepared for.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use metier_core::policy::Timestamp;

/// Packages in the store that were prepared together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoredPackages {
    /// `python` or `npm`.
    pub ecosystem: String,
    /// The packages with their versions, as they are locked.
    pub packages: Vec<String>,
    /// The program that they were prepared for, and its version.
    pub interpreter: String,
    /// The platform.
    pub platform: String,
    /// The SHA-256 of all their files, in hexadecimal digits.
    pub digest: String,
    /// Bytes of their files.
    pub bytes: u64,
    /// Files.
    pub files: u64,
    /// When they were prepared.
    pub prepared: Timestamp,
    /// Their folder in the store.
    #[serde(skip)]
    #[cfg_attr(not(unix), allow(dead_code, reason = "only a store has folders"))]
    pub(super) key: String,
}

/// An interpreter for which packages are prepared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstalledInterpreter {
    /// The program as it is found on `PATH`.
    pub program: PathBuf,
    /// The program that it leads to, which knows its own path.
    pub executable: PathBuf,
    /// Its name and version, such as `cpython 3.11.7`.
    pub version: String,
    /// The platform, such as `linux-x86_64`.
    pub platform: String,
}
