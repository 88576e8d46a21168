//! The temp dir of one run, and its removal whatever the script left in it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Stat, fstat};

use crate::cleanup_threads::CleanupThreads;
use metier_core::host::temp_dirs;
use metier_core::host::temp_dirs::{PrivateTempDir, ProcessTempDir};
use metier_core::host::visibility_lock::VisibilityLock;
use metier_core::host::{DirCleaner, FileId};

/// A folder for home and temporary files that only the user may access. Removed when dropped, once no process is left that could
/// change it; a long removal is left to the cleanup threads.
///
/// No two runs share one, however clean it was left: times, flags, attributes and the size of a folder would tell the next script
/// about the last, and a process that was passed a descriptor of it could still enter it.
pub(crate) struct RunTempDir {
    folder: PathBuf,
    /// Dropped after the folder itself.
    process_dir: Arc<ProcessTempDir>,
    cleanup: Arc<CleanupThreads>,
    /// Locks the other folders that the script sees.
    _visible_dirs: VisibilityLock,
}

/// Maximum number of files and folders that are removed synchronously from each of its folders.
const MAX_SYNC_REMOVALS: usize = 2048;

impl RunTempDir {
    /// Creates one outside of these folders, which the script sees; no host puts anything of its own there while this exists.
    pub(crate) fn new(cleanup: &Arc<CleanupThreads>, avoided: &[&Path]) -> io::Result<Self> {
        let (folder, process_dir) = PrivateTempDir::outside(avoided)?.into_parts();
        let temp_dir = Self {
            folder,
            process_dir,
            cleanup: Arc::clone(cleanup),
            _visible_dirs: VisibilityLock::acquire(avoided),
        };
        for folder in [temp_dir.home(), temp_dir.temporary_files()] {
            DirBuilder::new().mode(0o700).create(folder)?;
        }
        Ok(temp_dir)
    }

    /// The folder in it for the home of a script that keeps none.
    pub(crate) fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// The folder in it for temporary files, which a script expects to be thrown away.
    pub(crate) fn temporary_files(&self) -> PathBuf {
        self.folder.join("tmp")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }

    /// Removes the home, if it is empty. Returns whether it was, for which nothing has to be listed.
    pub(crate) fn remove_unused_home(&self) -> bool {
        std::fs::remove_dir(self.home()).is_ok()
    }
}

impl Drop for RunTempDir {
    fn drop(&mut self) {
        // Most scripts leave nothing in them, and nothing beside them.
        for folder in [self.home(), self.temporary_files(), self.folder.clone()] {
            if !std::fs::remove_dir(&folder).is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                continue;
            }
            let Ok(mut cleaner) = DirCleaner::open(&folder) else { continue };
            if matches!(cleaner.remove_entries(MAX_SYNC_REMOVALS), Ok(false)) {
                let (folder, process_dir) = (self.folder.clone(), Arc::clone(&self.process_dir));
                self.cleanup.take(move || {
                    remove(&folder, |_| true);
                    drop(Arc::clone(&process_dir));
                });
                return;
            }
            std::fs::remove_dir(&folder).ok();
        }
    }
}

/// Removes the folder of a run whose host was killed, in the fork server, and everything else that the host left.
pub fn remove_of_killed_host(folder: &Path, id: FileId) {
    remove(folder, |found| FileId::from_stat(found) == id);
    folder.ancestors().skip(1).take(2).for_each(temp_dirs::clean_up_after_host);
}

fn remove(folder: &Path, is_it: impl Fn(&Stat) -> bool) {
    let Ok(mut cleaner) = DirCleaner::open(folder) else { return };
    if fstat(&cleaner.top).is_ok_and(|found| is_it(&found)) {
        cleaner.remove_entries(usize::MAX).ok();
        std::fs::remove_dir(folder).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn nothing_is_left_of_it_and_nothing_else_is_touched() {
        let beside = tempfile::tempdir().unwrap();
        fs::write(beside.path().join("kept"), "kept").unwrap();
        let temp_dir = RunTempDir::new(&Arc::default(), &[]).unwrap();
        let path = temp_dir.path().to_owned();
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        fs::create_dir_all(path.join("lifted-0/lifted-1")).unwrap();
        let deep: PathBuf = std::iter::repeat_n("deep", 40).collect();
        fs::create_dir_all(path.join(&deep)).unwrap();
        fs::write(path.join(&deep).join("file"), "").unwrap();
        fs::set_permissions(path.join(&deep), Permissions::from_mode(0o500)).unwrap();
        fs::write(path.join("lifted-2"), "").unwrap();
        fs::write(path.join("a/b/c/file"), "").unwrap();
        std::os::unix::fs::symlink(beside.path(), path.join("a/link")).unwrap();
        fs::set_permissions(path.join("a/b"), Permissions::from_mode(0o0)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o0)).unwrap();
        drop(temp_dir);
        assert!(!path.exists());
        assert_eq!(fs::read(beside.path().join("kept")).unwrap(), b"kept");
    }

    #[test]
    fn an_empty_one_goes_whatever_became_of_its_mode_and_no_run_gets_it_again() {
        let cleanup = Arc::default();
        let paths = [0o700, 0o0, 0o777].map(|mode| {
            let temp_dir = RunTempDir::new(&cleanup, &[]).unwrap();
            assert_eq!(fs::metadata(temp_dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
            fs::set_permissions(temp_dir.path(), Permissions::from_mode(mode)).unwrap();
            let path = temp_dir.path().to_owned();
            drop(temp_dir);
            path
        });
        assert!(paths.iter().all(|path| !path.exists()));
        assert!(paths[0] != paths[1] && paths[1] != paths[2]);
    }

    #[test]
    fn what_takes_long_is_gone_with_the_cleanup_threads() {
        let cleanup = Arc::new(CleanupThreads::default());
        let run_temp_dirs: Vec<RunTempDir> =
            (0..4).map(|_| RunTempDir::new(&cleanup, &[]).unwrap()).collect();
        let paths: Vec<PathBuf> = run_temp_dirs.iter().map(|temp_dir| temp_dir.path().to_owned()).collect();
        for path in &paths {
            for number in 0..MAX_SYNC_REMOVALS {
                fs::create_dir_all(path.join(format!("{number}/inner"))).unwrap();
            }
            fs::set_permissions(path.join("7"), Permissions::from_mode(0o0)).unwrap();
        }
        drop(run_temp_dirs);
        drop(cleanup);
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
