//! The open parent directory of a path and the last name in it, so that changes above it have no effect.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use cap_fs_ext::DirExt;
use cap_std::fs::Dir;

use crate::host::files::{Files, name_encoding};

/// A name in an open folder. It may not exist.
pub(super) struct ParentDir {
    pub(super) dir: Dir,
    pub(super) name: OsString,
}

impl Files {
    /// The parent directory of a path; it must exist, and its path must not contain symbolic links. The root has no parent
    /// directory.
    pub(super) fn parent_dir(&self, path: &str) -> io::Result<ParentDir> {
        parent_dir_with(path, |folder| (self.backend.open_dir)(&self.dir, folder))
    }

    /// The parent directory of a path; missing folders are created.
    pub(super) fn create_parent_dir(&self, path: &str) -> io::Result<ParentDir> {
        parent_dir_with(path, |folder| self.create_dir_all(folder))
    }

    /// Opens the folder at that path; it and its missing parents are created.
    pub(super) fn create_dir_all(&self, path: &Path) -> io::Result<Dir> {
        match (self.backend.open_dir)(&self.dir, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path
                .iter()
                .try_fold(self.dir.try_clone()?, |folder, name| create_child_dir(&folder, Path::new(name))),
            opened => opened,
        }
    }
}

fn parent_dir_with(path: &str, open: impl Fn(&Path) -> io::Result<Dir>) -> io::Result<ParentDir> {
    let path = name_encoding::decode(path);
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::IsADirectory.into()) };
    let folder = open(path.parent().unwrap_or(Path::new("")))?;
    Ok(ParentDir { dir: folder, name: name.to_owned() })
}

fn create_child_dir(folder: &Dir, name: &Path) -> io::Result<Dir> {
    match folder.open_dir_nofollow(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match folder.create_dir(name) {
        // Another process created it first.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => created?,
    }
    folder.open_dir_nofollow(name)
}
