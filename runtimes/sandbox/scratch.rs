//! A run's own folder, and its end: whatever a script left in it, the host neither stumbles over it nor leaves it.

use std::ffi::{CStr, CString};
use std::fs::Permissions;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat, chmod, fstat, lstat, openat, renameat_with,
    unlinkat,
};
use rustix::io::{Errno, Result};
use rustix::path::Arg;
use tempfile::TempDir;

use super::flags::BY_NAME;
use super::sweeper::Sweeper;

/// A folder for home and temporary files, the user's alone. Removed when dropped, once nobody is left who could change it; what
/// takes long is left to the sweeper.
///
/// No two runs have the same one, however clean it was left: times, flags, attributes and the size of a folder would tell the next
/// script of the last, and whoever was handed it could still come in.
pub(crate) struct Scratch {
    folder: PathBuf,
    sweeper: Arc<Sweeper>,
}

/// Files and folders that are removed at once.
const AT_ONCE: usize = 2048;

impl Scratch {
    pub(crate) fn new(sweeper: &Arc<Sweeper>) -> io::Result<Self> {
        let folder = own_folder()?.keep();
        Ok(Self { folder, sweeper: Arc::clone(sweeper) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Most scripts leave nothing in it.
        if std::fs::remove_dir(&self.folder).is_ok() {
            return;
        }
        let Ok(mut clearing) = Clearing::of(&self.folder) else { return };
        if matches!(clearing.finish(AT_ONCE), Ok(false)) {
            let folder = self.folder.clone();
            self.sweeper.take(move || remove(&folder, |_| true));
        } else {
            std::fs::remove_dir(&self.folder).ok();
        }
    }
}

/// A new temporary folder that nobody but the user gets into, whatever the user's own files are open to.
pub(crate) fn own_folder() -> io::Result<TempDir> {
    let own = Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("metier-").permissions(own).tempdir()
}

/// A folder of another process's: its path, and what says that it is still the same.
#[derive(PartialEq, Eq)]
pub(crate) struct Leftover(PathBuf, (u64, u64));

impl Leftover {
    /// What is at this path now, where that is a folder.
    pub(crate) fn at(path: PathBuf) -> Option<Self> {
        let found = lstat(&path).ok().filter(|found| FileType::from_raw_mode(found.st_mode).is_dir())?;
        Some(Self(path, identity(&found)))
    }

    /// Whether it is still there.
    pub(crate) fn is_there(&self) -> bool {
        lstat(&self.0).is_ok_and(|found| identity(&found) == self.1)
    }

    /// Removes it, unless it is gone or another one by now.
    pub(crate) fn remove(&self) {
        if self.is_there() {
            remove(&self.0, |found| identity(found) == self.1);
        }
    }
}

fn remove(folder: &Path, is_it: impl Fn(&Stat) -> bool) {
    let Ok(mut clearing) = Clearing::of(folder) else { return };
    if fstat(&clearing.top).is_ok_and(|found| is_it(&found)) {
        clearing.finish(usize::MAX).ok();
        std::fs::remove_dir(folder).ok();
    }
}

fn identity(found: &Stat) -> (u64, u64) {
    #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "they are of other types elsewhere")]
    (found.st_dev as u64, found.st_ino as u64)
}

/// Empties a folder of a stranger's.
///
/// A script can nest folders until no path names them and no stack holds a walk through them, so that each one found is lifted
/// to the top before it is entered. It can shut them, so that each one is opened first. No link is followed, should somebody
/// still be there to make one.
struct Clearing {
    top: OwnedFd,
    /// Names of folders at the top.
    waiting: Vec<CString>,
    lifted: u64,
}

impl Clearing {
    fn of(folder: &Path) -> Result<Self> {
        Ok(Self { top: entered(CWD, folder)?, waiting: Vec::new(), lifted: 0 })
    }

    /// Whether it is empty, once so many entries have been looked at.
    fn finish(&mut self, mut most: usize) -> Result<bool> {
        let Some(folders) = folders_after_removing_files(&self.top, &mut most)? else { return Ok(false) };
        self.waiting = folders;
        while let Some(name) = self.waiting.pop() {
            let folder = entered(&self.top, name.as_c_str())?;
            let Some(folders) = folders_after_removing_files(&folder, &mut most)? else { return Ok(false) };
            for inner in folders {
                self.lift(&folder, &inner)?;
            }
            unlinkat(&self.top, name, AtFlags::REMOVEDIR)?;
        }
        Ok(true)
    }

    /// Moves a folder to the top, under a name that is free.
    fn lift(&mut self, folder: &OwnedFd, name: &CStr) -> Result<()> {
        // Only who may write to a folder may move it.
        entered(folder, name)?;
        loop {
            let place = CString::new(format!("lifted-{}", self.lifted)).unwrap_or_default();
            self.lifted += 1;
            match renameat_with(folder, name, &self.top, &place, RenameFlags::NOREPLACE) {
                Err(Errno::EXIST) => {}
                moved => {
                    self.waiting.push(place);
                    return moved;
                }
            }
        }
    }
}

/// Opens a folder, which was shut perhaps, and no link to one.
fn entered(above: impl AsFd, name: impl Arg + Copy) -> Result<OwnedFd> {
    let plain = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = openat(&above, name, BY_NAME | plain, Mode::empty())?;
    chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)?;
    openat(&handle, c".", OFlags::RDONLY | plain, Mode::empty())
}

/// Removes everything but folders, and names those; nothing where there is more than may be looked at.
fn folders_after_removing_files(folder: &OwnedFd, most: &mut usize) -> Result<Option<Vec<CString>>> {
    let mut folders = Vec::new();
    for entry in Dir::read_from(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Some(left) = most.checked_sub(1) else { return Ok(None) };
        *most = left;
        match unlinkat(folder, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => folders.push(name.to_owned()),
            removed => removed?,
        }
    }
    Ok(Some(folders))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn nothing_is_left_of_it_and_nothing_else_is_touched() {
        let beside = tempfile::tempdir().unwrap();
        fs::write(beside.path().join("kept"), "kept").unwrap();
        let scratch = Scratch::new(&Arc::default()).unwrap();
        let path = scratch.path().to_owned();
        fs::create_dir_all(path.join("a/b/c")).unwrap();
        fs::create_dir_all(path.join("lifted-0/lifted-1")).unwrap();
        fs::write(path.join("lifted-2"), "").unwrap();
        fs::write(path.join("a/b/c/file"), "").unwrap();
        std::os::unix::fs::symlink(beside.path(), path.join("a/link")).unwrap();
        fs::set_permissions(path.join("a/b"), Permissions::from_mode(0o0)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o0)).unwrap();
        drop(scratch);
        assert!(!path.exists());
        assert_eq!(fs::read(beside.path().join("kept")).unwrap(), b"kept");
    }

    #[test]
    fn an_empty_one_goes_whatever_became_of_its_mode_and_no_run_gets_it_again() {
        let sweeper = Arc::default();
        let paths = [0o700, 0o0, 0o777].map(|mode| {
            let scratch = Scratch::new(&sweeper).unwrap();
            assert_eq!(fs::metadata(scratch.path()).unwrap().permissions().mode() & 0o777, 0o700);
            fs::set_permissions(scratch.path(), Permissions::from_mode(mode)).unwrap();
            let path = scratch.path().to_owned();
            drop(scratch);
            path
        });
        assert!(paths.iter().all(|path| !path.exists()));
        assert!(paths[0] != paths[1] && paths[1] != paths[2]);
    }

    #[test]
    fn what_takes_long_is_gone_with_the_sweeper() {
        let sweeper = Arc::new(Sweeper::default());
        let scratches: Vec<Scratch> = (0..4).map(|_| Scratch::new(&sweeper).unwrap()).collect();
        let paths: Vec<PathBuf> = scratches.iter().map(|scratch| scratch.path().to_owned()).collect();
        for path in &paths {
            for number in 0..AT_ONCE {
                fs::create_dir_all(path.join(format!("{number}/inner"))).unwrap();
            }
            fs::set_permissions(path.join("7"), Permissions::from_mode(0o0)).unwrap();
        }
        drop(scratches);
        drop(sweeper);
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
