//! Whether a sandbox that was set up earlier is still the one that a run would have: by the files at its paths.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use metier_core::host::{FileId, file_id};
use metier_sandbox::ProtectedPaths;

/// The protected paths of a sandbox and those that it may write, and which file is at each. A mount protects the file that was at the
/// path when the sandbox was set up, not one that replaces it, and a sandbox opens what was there.
#[derive(Clone, Default, PartialEq)]
pub(crate) struct Fingerprint {
    read_only: BTreeMap<OsString, InodeStamp>,
    hidden: BTreeMap<OsString, InodeStamp>,
    writable: BTreeMap<OsString, InodeStamp>,
    is_incomplete: bool,
}

/// Device and inode number, which a later file may have again, and the creation time if it is known.
type InodeStamp = Option<(FileId, Option<SystemTime>)>;

impl Fingerprint {
    pub(crate) fn new(protected: &ProtectedPaths, writable: &[PathBuf]) -> Self {
        let stamp = |path: &OsString| (path.clone(), inode_stamp(Path::new(path)));
        let all = |paths: &[OsString]| paths.iter().map(stamp).collect();
        Self {
            writable: writable.iter().map(|path| (path.clone().into(), inode_stamp(path))).collect(),
            read_only: all(&protected.read_only),
            hidden: all(&protected.hidden),
            is_incomplete: protected.incomplete_reason.is_some(),
        }
    }
}

fn inode_stamp(path: &Path) -> InodeStamp {
    let found = path.symlink_metadata().ok()?;
    Some((file_id(&found), found.created().ok()))
}
