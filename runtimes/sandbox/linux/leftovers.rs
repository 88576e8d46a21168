//! What a host has made for its scripts and would have removed: remembered in case that it is killed.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;

use super::super::sandbox::Leftover;

/// How many are remembered. A run that is over has usually lost its own.
const REMEMBERED: usize = 256;

/// Folders, each once.
#[derive(Default)]
pub(super) struct Leftovers(VecDeque<Leftover>);

impl Leftovers {
    pub(super) fn remember(&mut self, paths: Vec<OsString>) {
        for path in paths {
            let leftover = Leftover::at(PathBuf::from(path));
            self.0.extend(leftover.filter(|leftover| !self.0.contains(leftover)));
        }
        if self.0.len() > REMEMBERED {
            self.0.retain(Leftover::is_there);
        }
    }

    /// Removes those that are still there.
    pub(super) fn remove(&self) {
        self.0.iter().for_each(Leftover::remove);
    }
}
