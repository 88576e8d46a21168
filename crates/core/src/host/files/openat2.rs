//! The open backend for Linux: `openat2` opens a path without following symbolic links, in one system call.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::path::Path;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::open::{NameCounter, NamedEntry, OpenBackend};
use super::read_dir::for_each_entry;

/// Needs `openat2`: Linux 5.6 or newer, and no filter that blocks it.
pub(super) const OPENAT2: OpenBackend = OpenBackend { open_file, open_dir, read_dir, exists };

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

fn read_dir(root: &Dir, path: &Path, count: &mut NameCounter<'_>) -> io::Result<Vec<NamedEntry>> {
    let mut dir = rustix::fs::Dir::new(open(root, path, OFlags::RDONLY | OFlags::DIRECTORY)?)?;
    let mut found = Vec::new();
    for_each_entry(&mut dir, &mut |name, kind| {
        count(name.len())?;
        found.push((name.to_owned(), kind));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
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
