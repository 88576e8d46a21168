//! An open folder of the disk, or of what a run with a delta sees.

use std::ffi::OsStr;
use std::io;

use cap_std::fs::{Dir, Metadata};

use super::delta::MergedFolder;

/// An open folder: one of the disk, or one of which a run sees what it has changed.
pub(super) enum Folder {
    Disk(Dir),
    Merged(MergedFolder),
}

impl Folder {
    /// The open folder that has this name.
    pub(super) fn dir_of(&self, name: &OsStr) -> io::Result<&Dir> {
        match self {
            Self::Disk(dir) => Ok(dir),
            Self::Merged(folder) => folder.layer(name),
        }
    }

    /// What is at a name; a link is not followed.
    pub(super) fn symlink_metadata(&self, name: &OsStr) -> io::Result<Metadata> {
        match self {
            Self::Disk(dir) => dir.symlink_metadata(name),
            Self::Merged(folder) => folder.symlink_metadata(name),
        }
    }
}
