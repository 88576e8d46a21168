//! The identity of a file, independent of its name.

use std::path::Path;
use std::time::SystemTime;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;
use serde::{Deserialize, Serialize};

/// The numbers of a device and of an inode on it. No two files that exist at the same time have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct FileId {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
}

impl FileId {
    pub(crate) fn from_metadata(metadata: &impl MetadataExt) -> Self {
        Self { dev: metadata.dev(), ino: metadata.ino() }
    }

    #[cfg(unix)]
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        reason = "the fields have other types on other systems"
    )]
    pub(crate) fn from_stat(stat: &rustix::fs::Stat) -> Self {
        Self { dev: stat.st_dev as u64, ino: stat.st_ino as u64 }
    }
}

/// What tells a folder from another one that was or will be at its path: its number and its time of birth, where there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(unix), allow(dead_code, reason = "no process is kept there"))]
pub(crate) struct FolderId {
    file: FileId,
    born: Option<SystemTime>,
}

#[cfg_attr(not(unix), allow(dead_code, reason = "no process is kept there"))]
impl FolderId {
    pub(crate) fn new(folder: &Path) -> std::io::Result<Self> {
        let about = std::fs::symlink_metadata(folder)?;
        let born = about.created().ok();
        Ok(Self { file: FileId::from_metadata(&Metadata::from_just_metadata(about)), born })
    }
}
