//! Trees of files that an untrusted script left: measured, tidied, copied. No symbolic link is followed.

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, chmod, fchmod, futimens, mkdirat,
    openat, readlinkat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

use metier_core::host::{OPEN_BY_NAME, open_unlocked};

/// Files and folders in a tree.
const MAX_ENTRIES: u64 = 100_000;
/// Folders inside one another. A walk holds each open.
const MAX_DEPTH: usize = 64;

/// How large a tree is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TreeSize {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// What of a tree is more than may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// More than these bytes.
    Bytes(u64),
    Entries,
    Depth,
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(max) => write!(f, "more than {max} bytes"),
            Self::Entries => write!(f, "more than {MAX_ENTRIES} files and folders"),
            Self::Depth => write!(f, "more than {MAX_DEPTH} folders inside one another"),
        }
    }
}

/// Why a tree was not walked to its end.
#[derive(Debug)]
pub enum TreeError {
    /// It is too large, or has too many files.
    Excess(Excess),
    /// The operating system refused.
    Io(io::Error),
}

impl From<Errno> for TreeError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

impl From<io::Error> for TreeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

type Result<T> = std::result::Result<T, TreeError>;

/// Opens the folder of this name, which is not a link.
pub(super) fn open_dir(above: impl AsFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(above, name, flags, Mode::empty())
}

/// The size of a tree as far as it can be read, while somebody may still change it.
pub(super) fn measure(tree: &OwnedFd, max_bytes: u64) -> Result<TreeSize> {
    let mut walk = Walk::new(max_bytes);
    walk.measure(tree, 0)?;
    Ok(walk.size)
}

/// Makes a tree that nobody changes any more one that can be kept: every folder can be opened and every file be read by its owner,
/// nothing is a pipe, a socket, a device, or a program that runs with the rights of its owner, and no file has another name, which
/// may lie elsewhere. Returns the names of what was removed, at most a few.
pub(super) fn tidy(tree: &OwnedFd, max_bytes: u64) -> Result<Vec<String>> {
    let mut walk = Walk::new(max_bytes);
    walk.tidy(tree, 0)?;
    Ok(walk.names)
}

/// Copies a tree that was tidied into an empty folder.
pub(super) fn copy(from: &OwnedFd, to: &OwnedFd, check: &dyn Fn() -> io::Result<()>) -> Result<()> {
    Walk::new(u64::MAX).copy(from, to, 0, check)
}

/// The files of a tree by their paths, with their sizes.
pub(super) fn files(tree: &OwnedFd) -> Result<Vec<(String, u64)>> {
    let (mut walk, mut found) = (Walk::new(u64::MAX), Vec::new());
    walk.list(tree, "", 0, &mut |path, stat| {
        found.push((path.to_owned(), u64::try_from(stat.st_size).unwrap_or_default()));
        true
    })?;
    Ok(found)
}

/// The first files that a script left in a folder, by their paths below it, with their sizes: those that count by their path, mode and
/// size.
pub fn files_left_in(
    folder: &Path,
    max_count: usize,
    counts: &dyn Fn(&str, u32, u64) -> bool,
) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let Some(tree) =
        CString::new(folder.as_os_str().as_bytes()).ok().and_then(|path| open_dir(CWD, &path).ok())
    else {
        return found;
    };
    // A tree that is too large has shown enough of itself.
    let _ = Walk::new(u64::MAX).list(&tree, "", 0, &mut |path, stat| {
        let bytes =
            if file_type(stat).is_dir() { 0 } else { u64::try_from(stat.st_size).unwrap_or_default() };
        #[allow(clippy::useless_conversion, reason = "the field has another type elsewhere")]
        if counts(path, u32::from(stat.st_mode), bytes) {
            found.push((path.to_owned(), bytes));
        }
        found.len() < max_count
    });
    found
}

/// One walk through a tree, with what is left of its bounds.
struct Walk {
    size: TreeSize,
    max_bytes: u64,
    names: Vec<String>,
}

impl Walk {
    fn new(max_bytes: u64) -> Self {
        Self { size: TreeSize::default(), max_bytes, names: Vec::new() }
    }

    /// What is in a folder; entries that disappear meanwhile are left out.
    fn entries(&mut self, dir: &OwnedFd, depth: usize) -> Result<Vec<(CString, Stat)>> {
        if depth > MAX_DEPTH {
            return Err(TreeError::Excess(Excess::Depth));
        }
        let mut entries = Vec::new();
        for entry in Dir::read_from(dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            self.size.entries += 1;
            if self.size.entries > MAX_ENTRIES {
                return Err(TreeError::Excess(Excess::Entries));
            }
            match statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    self.size.bytes = self.size.bytes.saturating_add(file_bytes(&stat));
                    entries.push((name.to_owned(), stat));
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            if self.size.bytes > self.max_bytes {
                return Err(TreeError::Excess(Excess::Bytes(self.max_bytes)));
            }
        }
        Ok(entries)
    }

    fn measure(&mut self, dir: &OwnedFd, depth: usize) -> Result<()> {
        for (name, stat) in self.entries(dir, depth)? {
            // What cannot be opened now is measured when the run is over.
            if file_type(&stat).is_dir()
                && let Ok(inner) = open_dir(dir, &name)
            {
                self.measure(&inner, depth + 1)?;
            }
        }
        Ok(())
    }

    fn tidy(&mut self, dir: &OwnedFd, depth: usize) -> Result<()> {
        const OWNER_ALL: u32 = 0o700;
        const OWNER_READ: u32 = 0o400;
        const ORDINARY: u32 = 0o777;
        for (name, stat) in self.entries(dir, depth)? {
            let mode = Mode::from_raw_mode(stat.st_mode).bits();
            match file_type(&stat) {
                FileType::Directory => {
                    let is_open = mode & OWNER_ALL == OWNER_ALL && mode & !ORDINARY == 0;
                    let inner =
                        if is_open { open_dir(dir, &name)? } else { open_unlocked(dir, name.as_c_str())? };
                    self.tidy(&inner, depth + 1)?;
                }
                // Its other name may be a file of the project: its mode stays, and what it holds is copied.
                FileType::RegularFile if stat.st_nlink > 1 => {
                    if replace_by_copy(dir, &name, &stat).is_err() {
                        self.remove(dir, &name)?;
                    }
                }
                FileType::RegularFile if mode & !ORDINARY != 0 || mode & OWNER_READ == 0 => {
                    let flags = OPEN_BY_NAME | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                    let file = openat(dir, name.as_c_str(), flags, Mode::empty())?;
                    let mode = Mode::from_raw_mode(mode & ORDINARY | OWNER_READ);
                    chmod(format!("/proc/self/fd/{}", file.as_raw_fd()), mode)?;
                }
                FileType::RegularFile | FileType::Symlink => {}
                _ => self.remove(dir, &name)?,
            }
        }
        Ok(())
    }

    /// Removes what cannot be kept, and notes its name.
    fn remove(&mut self, dir: &OwnedFd, name: &CStr) -> Result<()> {
        /// The maximum number of names that are returned.
        const MAX_NAMES: usize = 3;
        unlinkat(dir, name, AtFlags::empty())?;
        if self.names.len() < MAX_NAMES {
            self.names.push(name.to_string_lossy().into_owned());
        }
        Ok(())
    }

    fn copy(
        &mut self,
        from: &OwnedFd,
        to: &OwnedFd,
        depth: usize,
        check: &dyn Fn() -> io::Result<()>,
    ) -> Result<()> {
        for (name, stat) in self.entries(from, depth)? {
            check()?;
            let name = name.as_c_str();
            match file_type(&stat) {
                FileType::Directory => {
                    mkdirat(to, name, Mode::RWXU)?;
                    let inner = open_dir(to, name)?;
                    self.copy(&open_dir(from, name)?, &inner, depth + 1, check)?;
                    fchmod(&inner, Mode::from_raw_mode(stat.st_mode))?;
                }
                FileType::RegularFile => copy_file((from, name), (to, name), &stat)?,
                FileType::Symlink => symlinkat(readlinkat(from, name, Vec::new())?, to, name)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Passes on each file with its path until `found` returns false; returns whether it never did.
    fn list(
        &mut self,
        dir: &OwnedFd,
        above: &str,
        depth: usize,
        found: &mut dyn FnMut(&str, &Stat) -> bool,
    ) -> Result<bool> {
        let mut entries = self.entries(dir, depth)?;
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, stat) in entries {
            let path = format!("{above}{}", OsStr::from_bytes(name.to_bytes()).to_string_lossy());
            let goes_on = if file_type(&stat).is_dir() {
                match open_dir(dir, &name) {
                    Ok(inner) => self.list(&inner, &format!("{path}/"), depth + 1, found)?,
                    Err(_) => found(&path, &stat),
                }
            } else {
                found(&path, &stat)
            };
            if !goes_on {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Puts a copy of a file in its place, which has no other name.
fn replace_by_copy(dir: &OwnedFd, name: &CStr, stat: &Stat) -> Result<()> {
    const DRAFT: &CStr = c".metier-copy";
    match unlinkat(dir, DRAFT, AtFlags::empty()) {
        Err(error) if error != Errno::NOENT => return Err(error.into()),
        _ => {}
    }
    copy_file((dir, name), (dir, DRAFT), stat)?;
    Ok(renameat(dir, DRAFT, dir, name)?)
}

/// Copies a file as it is now, even if it grew since it was measured, to a name that is free: at most the bytes of then.
fn copy_file(from: (&OwnedFd, &CStr), to: (&OwnedFd, &CStr), stat: &Stat) -> Result<()> {
    const OWNER_READ: u32 = 0o400;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut source = File::from(openat(from.0, from.1, flags, Mode::empty())?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut copy = File::from(openat(to.0, to.1, flags, Mode::RUSR | Mode::WUSR)?);
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    if source.metadata()?.len() != size || !shares_blocks(&copy, &source) {
        io::copy(&mut (&mut source).take(size), &mut copy)?;
    }
    fchmod(&copy, Mode::from_raw_mode(stat.st_mode & 0o777 | OWNER_READ))?;
    let about = rustix::fs::fstat(&source)?;
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    #[allow(clippy::useless_conversion, clippy::cast_possible_wrap, reason = "other types elsewhere")]
    let times = Timestamps {
        last_access: time(about.st_atime, about.st_atime_nsec as _),
        last_modification: time(about.st_mtime, about.st_mtime_nsec as _),
    };
    Ok(futimens(&copy, &times)?)
}

/// Makes the copy share the blocks of the source, on file systems that can.
#[cfg(target_os = "linux")]
fn shares_blocks(copy: &File, source: &File) -> bool {
    rustix::fs::ioctl_ficlone(copy, source).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn shares_blocks(_copy: &File, _source: &File) -> bool {
    false
}

fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// What a file takes: its length, or its blocks where they are more.
#[allow(clippy::cast_sign_loss, clippy::unnecessary_cast, reason = "the fields have other types elsewhere")]
fn file_bytes(stat: &Stat) -> u64 {
    if file_type(stat).is_dir() { 0 } else { (stat.st_size as u64).max(stat.st_blocks as u64 * 512) }
}
