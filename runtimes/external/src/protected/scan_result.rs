//! What a look for protected paths finds in a project.

use std::ffi::OsString;
use std::path::PathBuf;

use metier_sandbox::ProtectedPaths;

/// What is protected in a project, for the sandbox, and what more the host has to know of it.
pub(crate) struct ScanResult {
    pub(crate) paths: ProtectedPaths,
    pub(crate) notes: ScanNotes,
}

/// What only the host uses of a scan.
#[derive(Default)]
pub(crate) struct ScanNotes {
    /// Files that builds and tests execute, with their version at the scan.
    pub(crate) build_files: Vec<(OsString, Version)>,
    /// What a configuration makes git read or run and that does not exist, relative to the project: a mount cannot cover it.
    pub(crate) absent_git_targets: Vec<String>,
    /// Listed paths with another name that is protected, and leads there: a grant that names it opens the path as well. The names are
    /// relative to the project.
    pub(crate) aliases: Vec<(PathBuf, String)>,
    /// Listed paths that are hard links of protected files, and the first names of these.
    pub(crate) second_names: Vec<(PathBuf, String)>,
}

/// Device, inode, size, and the time of the last change by a clock that no script can set.
pub(crate) type Version = (u64, u64, u64, i64, i64);
