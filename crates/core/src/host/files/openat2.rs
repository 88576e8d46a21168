//! The open backend for Linux: `openat2` opens a path without following symbolic links, in one system call.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, ResolveFlags};
use rustix::io::Errno;

use super::entry::entry_kind;
use super::open::{ListedDir, NameCounter, OpenBackend};

/// Bytes of names that the system returns at a time: enough for most folders.
const LISTING_BYTES: usize = 32 << 10;

/// Needs `openat2`: Linux 5.6 or newer, and no filter that blocks it.
pub(super) const OPENAT2: OpenBackend = OpenBackend { open_file, open_dir, list_dir, exists };

/// Whether `openat2` works here; old container runtimes return `EPERM`, old kernels `ENOSYS`.
pub(super) fn is_supported(root: &Dir) -> bool {
    open_dir(root, Path::new("")).is_ok()
}

fn open_file(root: &Dir, path: &Path) -> io::Result<File> {
    Ok(open(root, path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?.into())
}

fn open_dir(root: &Dir, path: &Path) -> io::Result<Dir> {
    let opened = open(root, path, OFlags::PATH | OFlags::DIRECTORY)?;
    Ok(Dir::from_std_file(opened.into()))
}

fn list_dir(root: &Dir, path: &Path, count: &mut NameCounter<'_>) -> io::Result<ListedDir> {
    let dir = Dir::from_std_file(open(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?.into());
    let (mut buffer, mut found) = (Vec::with_capacity(LISTING_BYTES), Vec::new());
    let mut listing = RawDir::new(&dir, buffer.spare_capacity_mut());
    while let Some(entry) = listing.next() {
        let entry = entry?;
        if let Some(kind) = entry_kind(&dir, entry.file_name(), entry.file_type())? {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            count(name.len())?;
            found.push((name.to_owned(), kind));
        }
    }
    Ok((dir, found))
}

fn exists(root: &Dir, path: &Path) -> bool {
    rustix::fs::statat(root, path, AtFlags::SYMLINK_NOFOLLOW).is_ok()
}

fn open(root: &Dir, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    loop {
        match rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::INTR) => {}
            opened => return Ok(opened?),
        }
    }
}
