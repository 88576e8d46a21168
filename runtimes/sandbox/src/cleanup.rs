//! The folders of a run, removed by the fork server if the host is killed.

use std::fs;
use std::path::Path;

use rustix::fs::lstat;

use crate::FileId;

/// Removes a folder of a run, unless it is gone or another one is at its path. Called in the fork server once no process of the run is
/// left.
pub type RemoveFolder = fn(&Path, FileId);

/// Removes the folder and what is in it by [`fs::remove_dir_all`], which leaves what a script has shut by its mode.
pub fn remove_folder(path: &Path, id: FileId) {
    if lstat(path).is_ok_and(|found| FileId::from_stat(&found) == id) {
        fs::remove_dir_all(path).ok();
    }
}
