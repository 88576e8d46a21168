//! Which program runs as the fork server, and how that removes the folders of a run whose host was killed.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::lstat;

use crate::FileId;

/// Which program runs as the fork server, which starts programs in sandboxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForkServerSource {
    /// This very program, where its `main` begins with [`fork_server_main`](crate::fork_server_main); otherwise a copy of this process.
    #[default]
    CurrentProgram,
    /// A copy of this process, which is there sooner. Its `main` begins with [`fork_server_main`](crate::fork_server_main), for the rest of what
    /// a helper program does.
    Copy,
    /// The `metier` program at this path, or another whose `main` begins in that way.
    Program(PathBuf),
}

/// Removes a folder of a run, unless it is gone or another one is at its path. Called in the fork server once no process of the run is
/// left.
pub type RemoveFolder = fn(&Path, FileId);

/// Removes the folder and what is in it by [`fs::remove_dir_all`], which leaves what a script has shut by its mode.
pub fn remove_folder(path: &Path, id: FileId) {
    if lstat(path).is_ok_and(|found| FileId::from_stat(&found) == id) {
        fs::remove_dir_all(path).ok();
    }
}
