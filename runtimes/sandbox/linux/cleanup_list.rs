//! Directories that the fork server removes if its host is killed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::runtimes::sandbox::CleanupDir;

/// Above this number the list is pruned. A run that is over has usually removed its own.
const PRUNE_ABOVE: usize = 256;

/// Directories, each once.
#[derive(Default)]
pub(super) struct CleanupList(VecDeque<CleanupDir>);

impl CleanupList {
    pub(super) fn add(&mut self, paths: Vec<OsString>) {
        for path in paths {
            let leftover = CleanupDir::at(PathBuf::from(path));
            self.0.extend(leftover.filter(|leftover| !self.0.contains(leftover)));
        }
        if self.0.len() > PRUNE_ABOVE {
            self.0.retain(CleanupDir::is_unchanged);
        }
    }

    /// Removes those that are still there.
    pub(super) fn remove_all(&self) {
        self.0.iter().for_each(CleanupDir::remove_if);
    }
}
