//! Directories that the fork server removes if its host is killed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, lstat};

use crate::FileId;
use crate::cleanup::RemoveFolder;

/// Above this number the list is pruned. A run that is over has usually removed its own.
const PRUNE_ABOVE: usize = 256;

/// Directories, each once.
pub(super) struct CleanupList {
    folders: VecDeque<(PathBuf, FileId)>,
    remove: RemoveFolder,
}

impl CleanupList {
    pub(super) fn new(remove: RemoveFolder) -> Self {
        Self { folders: VecDeque::new(), remove }
    }

    pub(super) fn add(&mut self, paths: Vec<OsString>) {
        for path in paths {
            let found = folder_at(Path::new(&path)).map(|id| (PathBuf::from(path), id));
            self.folders.extend(found.filter(|found| !self.folders.contains(found)));
        }
        if self.folders.len() > PRUNE_ABOVE {
            self.folders.retain(|(path, id)| folder_at(path) == Some(*id));
        }
    }

    /// Removes those that are still there.
    pub(super) fn remove_all(&self) {
        for (path, id) in &self.folders {
            (self.remove)(path, *id);
        }
    }
}

/// The folder at this path now, if it is one.
fn folder_at(path: &Path) -> Option<FileId> {
    let found = lstat(path).ok().filter(|found| FileType::from_raw_mode(found.st_mode).is_dir())?;
    Some(FileId::from_stat(&found))
}
