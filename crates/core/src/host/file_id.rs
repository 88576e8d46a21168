//! The identity of a file, independent of its name.

use std::path::Path;
use std::time::SystemTime;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;
use metier_sandbox::FileId;

/// That of a file of which something is known.
pub fn file_id(metadata: &impl MetadataExt) -> FileId {
    FileId { dev: metadata.dev(), ino: metadata.ino() }
}

/// What tells a folder from another one that was or will be at its path: its number and its time of birth, where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no process is kept there"))]
pub struct FolderId {
    file: FileId,
    born: Option<SystemTime>,
}

#[cfg_attr(not(unix), allow(dead_code, reason = "no process is kept there"))]
impl FolderId {
    /// The folder of that path, which must exist.
    pub fn new(folder: &Path) -> std::io::Result<Self> {
        let about = std::fs::symlink_metadata(folder)?;
        let born = about.created().ok();
        Ok(Self { file: file_id(&Metadata::from_just_metadata(about)), born })
    }
}
