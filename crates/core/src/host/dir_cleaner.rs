//! Removes a directory tree that an untrusted script could change freely, whatever its depth or modes.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, chmod, fstat, openat, renameat, renameat_with,
    unlinkat,
};
use rustix::io::{Errno, Result};
use rustix::path::Arg;

/// Opens a folder by its name alone, whatever its mode is. On other systems this needs the permission to read it.
#[cfg(target_os = "linux")]
pub const OPEN_BY_NAME: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub const OPEN_BY_NAME: OFlags = OFlags::RDONLY;

/// Nested folders that are open at a time.
const MAX_OPEN: usize = 8;

/// Empties a folder that an untrusted script could write to.
///
/// A script can nest folders until no path names them and no stack holds a walk through them, so what is nested deeper than a few
/// folders is moved to the top before it is entered. A script can remove the permissions of folders, so each one gets mode 0700
/// first. No symbolic link is followed, in case another process still creates one.
pub struct DirCleaner {
    /// The folder that is emptied.
    pub top: OwnedFd,
    moved: MovedFolders,
}

/// Folders that were moved to the top.
#[derive(Default)]
struct MovedFolders {
    /// Names of those that are still to be emptied.
    pending: Vec<CString>,
    count: u64,
}

impl DirCleaner {
    /// Opens the folder of that path.
    pub fn open(folder: &Path) -> Result<Self> {
        Self::open_at(CWD, folder)
    }

    /// Opens the folder of that name in another one.
    pub fn open_at(above: impl AsFd, name: impl Arg + Copy) -> Result<Self> {
        Ok(Self { top: open_unlocked(above, name)?, moved: MovedFolders::default() })
    }

    /// Removes entries, at most this many; returns whether the folder is empty afterwards.
    pub fn remove_entries(&mut self, mut most: usize) -> Result<bool> {
        let Self { top, moved } = self;
        // What an earlier call left is found again from the top.
        moved.pending.clear();
        if !moved.empty(top, Dir::read_from(&*top)?, 0, &mut most)? {
            return Ok(false);
        }
        while let Some(name) = moved.pending.pop() {
            let folder = Dir::new(open_unlocked(&*top, name.as_c_str())?)?;
            if !moved.empty(top, folder, 1, &mut most)? {
                return Ok(false);
            }
            unlinkat(&*top, name, AtFlags::REMOVEDIR)?;
        }
        Ok(true)
    }
}

impl MovedFolders {
    /// Empties a folder that lies below so many open ones; what is nested too deep is at the top afterwards.
    fn empty(&mut self, top: &OwnedFd, mut folder: Dir, depth: usize, most: &mut usize) -> Result<bool> {
        let Some(filled) = remove_files_and_list_folders(&mut folder, most)? else { return Ok(false) };
        let folder = folder.fd()?;
        for name in filled {
            if depth == MAX_OPEN {
                self.move_to_top(top, folder, &name)?;
                continue;
            }
            let inner = Dir::new(open_unlocked(folder, name.as_c_str())?)?;
            if !self.empty(top, inner, depth + 1, most)? {
                return Ok(false);
            }
            unlinkat(folder, name, AtFlags::REMOVEDIR)?;
        }
        Ok(true)
    }

    /// Moves a folder to the top, under an unused name.
    fn move_to_top(&mut self, top: &OwnedFd, folder: BorrowedFd<'_>, name: &CStr) -> Result<()> {
        // Only a process that may write to a folder may move it.
        open_unlocked(folder, name)?;
        loop {
            let place = CString::new(format!("lifted-{}", self.count)).unwrap_or_default();
            self.count += 1;
            let moved = match renameat_with(folder, name, top, &place, RenameFlags::NOREPLACE) {
                // NFS and 9p know only the plain call, by which a folder replaces nothing but an empty one.
                Err(Errno::INVAL | Errno::NOSYS) => renameat(folder, name, top, &place),
                moved => moved,
            };
            match moved {
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                moved => {
                    self.pending.push(place);
                    return moved;
                }
            }
        }
    }
}

/// Opens a folder whose mode may forbid it; a symbolic link is not followed.
pub fn open_unlocked(above: impl AsFd, name: impl Arg + Copy) -> Result<OwnedFd> {
    let plain = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(folder) = openat(&above, name, OFlags::RDONLY | plain, Mode::empty())
        && fstat(&folder).is_ok_and(|found| Mode::from_raw_mode(found.st_mode).contains(Mode::RWXU))
    {
        return Ok(folder);
    }
    let handle = openat(&above, name, OPEN_BY_NAME | plain, Mode::empty())?;
    chmod(format!("/proc/self/fd/{}", handle.as_raw_fd()), Mode::RWXU)?;
    openat(&handle, c".", OFlags::RDONLY | plain, Mode::empty())
}

/// Removes everything except folders that are not empty, and returns their names; `None` if there are more entries than may be
/// visited.
fn remove_files_and_list_folders(folder: &mut Dir, most: &mut usize) -> Result<Option<Vec<CString>>> {
    let mut folders = Vec::new();
    while let Some(entry) = folder.read() {
        let entry = entry?;
        let folder = folder.fd()?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Some(left) = most.checked_sub(1) else { return Ok(None) };
        *most = left;
        if entry.file_type() != FileType::Directory {
            match unlinkat(folder, name, AtFlags::empty()) {
                Err(Errno::ISDIR | Errno::PERM) => {}
                removed => {
                    removed?;
                    continue;
                }
            }
        }
        match unlinkat(folder, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => folders.push(name.to_owned()),
            removed => removed?,
        }
    }
    Ok(Some(folders))
}
