//! Temporary folders that lie apart on the disk.
//!
//! ext4 does not use an inode again soon after its file was removed, and searches past all of those for each new file: where hundreds of
//! folders are created and removed beside each other, that takes a third of the processor time. The subfolders of a folder with the
//! attribute `T` (chattr(1)) lie apart from each other.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use tempfile::TempDir;

/// A folder of its own, removed with what is in it.
pub struct SpreadDir(Option<TempDir>);

impl SpreadDir {
    pub fn new() -> Self {
        let parent = parent();
        loop {
            match fs::create_dir(&parent) {
                Ok(()) => spread_subfolders(&parent),
                Err(error) => assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}"),
            }
            match tempfile::Builder::new().prefix("x").tempdir_in(&parent) {
                // The last folder in it was removed meanwhile.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                folder => return Self(Some(folder.unwrap())),
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.0.as_ref().unwrap().path()
    }
}

impl Drop for SpreadDir {
    fn drop(&mut self) {
        self.0.take();
        // Only when it is empty.
        fs::remove_dir(parent()).ok();
    }
}

fn parent() -> PathBuf {
    std::env::temp_dir().join(format!("sandbox-{}", std::process::id()))
}

/// Other file systems have no such attribute, and no need of it.
fn spread_subfolders(parent: &Path) {
    let Ok(folder) = File::open(parent) else { return };
    if let Ok(flags) = ioctl_getflags(&folder) {
        ioctl_setflags(&folder, flags | IFlags::TOPDIR).ok();
    }
}
