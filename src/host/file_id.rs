//! The identity of a file, independent of its name.

use cap_fs_ext::MetadataExt;
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
