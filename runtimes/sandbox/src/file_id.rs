//! The identity of a file, independent of its name.

use serde::{Deserialize, Serialize};

/// The numbers of a device and of an inode on it. No two files that exist at the same time have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId {
    /// The device, as in `st_dev`.
    pub dev: u64,
    /// The inode, as in `st_ino`.
    pub ino: u64,
}

impl FileId {
    /// That of a file that was looked at.
    #[cfg(unix)]
    #[allow(
        clippy::unnecessary_cast,
        clippy::cast_sign_loss,
        reason = "the fields have other types on other systems"
    )]
    pub fn from_stat(stat: &rustix::fs::Stat) -> Self {
        Self { dev: stat.st_dev as u64, ino: stat.st_ino as u64 }
    }
}
