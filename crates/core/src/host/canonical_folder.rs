//! Folders at canonical paths: on Linux one system call proves that no symbolic link is on the way.

use std::io;
use std::path::{Path, PathBuf};

/// The canonical path of a folder.
#[cfg(target_os = "linux")]
pub fn canonical_folder(path: &Path) -> io::Result<PathBuf> {
    match linux::try_open_canonical(path) {
        Ok(Some(_)) => Ok(path.to_owned()),
        // No link is on the way to what is missing.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
        _ => std::fs::canonicalize(path),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn canonical_folder(path: &Path) -> io::Result<PathBuf> {
    std::fs::canonicalize(path)
}

#[cfg(target_os = "linux")]
pub(super) use self::linux::open_canonical;
#[cfg(target_os = "linux")]
pub use self::linux::open_without_links;

/// Elsewhere there is no such system call.
#[cfg(all(unix, not(target_os = "linux")))]
pub fn open_without_links(_: &Path) -> io::Result<Option<cap_std::fs::Dir>> {
    Ok(None)
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::path::{Component, Path, PathBuf};

    use cap_std::fs::Dir;
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
    use rustix::io::Errno;

    /// Opens the folder at a canonical path; `None` for every other path, and where `openat2` does not work.
    pub(crate) fn open_canonical(path: &Path) -> Option<Dir> {
        try_open_canonical(path).ok()?
    }

    /// The same; an error if no folder is there, or a link is on the way.
    pub(super) fn try_open_canonical(path: &Path) -> io::Result<Option<Dir>> {
        let normal: PathBuf = path.components().collect();
        let is_normal = path.is_absolute() && normal.as_os_str() == path.as_os_str();
        if !is_normal || path.components().any(|part| part == Component::ParentDir) {
            return Ok(None);
        }
        open_without_links(path)
    }

    /// Opens the folder at an absolute path that leads through no symbolic link; `None` where `openat2` does not work.
    pub fn open_without_links(path: &Path) -> io::Result<Option<Dir>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        loop {
            match rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
                Ok(folder) => return Ok(Some(Dir::from_std_file(folder.into()))),
                Err(Errno::INTR) => {}
                Err(Errno::NOSYS | Errno::PERM) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn every_path_of_a_folder_has_the_same_canonical_path() {
        let stage = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(stage.path()).unwrap();
        std::fs::create_dir_all(real.join("a/b")).unwrap();
        std::os::unix::fs::symlink(real.join("a"), real.join("link")).unwrap();
        for path in ["a/b", "a//b", "a/./b", "a/b/", "a/b/../b", "link/b", "link/../a/b"] {
            assert_eq!(canonical_folder(&real.join(path)).unwrap(), real.join("a/b"), "{path}");
        }
        std::os::unix::fs::symlink(real.join("gone"), real.join("a/dangling")).unwrap();
        for path in ["missing", "a/b/c", "a/dangling", "link/missing"] {
            let kind = canonical_folder(&real.join(path)).unwrap_err().kind();
            assert_eq!(kind, io::ErrorKind::NotFound, "{path}");
        }
    }
}
