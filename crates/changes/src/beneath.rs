//! Folders below an open one, opened without following any symbolic link.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
#[cfg(target_os = "linux")]
use rustix::fs::{ResolveFlags, openat2};
use rustix::io::{Errno, Result};

/// For folders that are listed or synchronized; it needs the permission to read them.
const LISTED: OFlags = OFlags::RDONLY;

/// Opens the folder at this path below `root`, to list it. An empty path is `root` itself.
pub(crate) fn open_dir(root: impl AsFd, path: &Path) -> Result<OwnedFd> {
    open(root.as_fd(), path, LISTED)
}

/// Opens the folder in which the last name of this path lies.
pub(crate) fn open_parent(root: impl AsFd, path: &Path) -> Result<OwnedFd> {
    let parent = path.parent().unwrap_or(Path::new(""));
    open(root.as_fd(), parent, metier_core::host::OPEN_BY_NAME)
}

fn open(root: BorrowedFd<'_>, path: &Path, access: OFlags) -> Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = access | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // Another process renames something: the kernel asks for another try.
        for _ in 0..8 {
            match openat2(root, path, flags, Mode::empty(), resolve) {
                Err(Errno::INTR | Errno::AGAIN) => {}
                // Old container runtimes return `EPERM`, old kernels `ENOSYS`.
                Err(Errno::NOSYS | Errno::PERM) => break,
                opened => return opened,
            }
        }
    }
    open_each(root, path, flags)
}

/// The same by one system call for each name.
fn open_each(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let names = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | metier_core::host::OPEN_BY_NAME;
    let mut above = openat(root, c".", names, Mode::empty())?;
    for part in path.components() {
        match part {
            std::path::Component::Normal(name) => above = openat(&above, name, names, Mode::empty())?,
            std::path::Component::CurDir => {}
            _ => return Err(Errno::XDEV),
        }
    }
    openat(&above, c".", flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_way_of_opening_follows_a_link_or_leads_up() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("a/b")).unwrap();
        std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
        let root = std::fs::File::open(folder.path()).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for (path, opens) in [
            ("", true),
            ("a", true),
            ("a/b", true),
            ("link", false),
            ("link/b", false),
            ("..", false),
            ("a/../..", false),
            ("/etc", false),
        ] {
            assert_eq!(open_dir(&root, Path::new(path)).is_ok(), opens, "{path}");
            let path = if path.is_empty() { "." } else { path };
            assert_eq!(open_each(root.as_fd(), Path::new(path), flags).is_ok(), opens, "{path}");
        }
    }
}
