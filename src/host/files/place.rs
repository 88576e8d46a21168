//! A place in a folder that is already open, so that nothing on the way can change any more.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use cap_fs_ext::DirExt;
use cap_std::fs::Dir;

use super::{Files, names};

/// A name in an open folder. Whether something is there, and what, is another question.
pub(super) struct Place {
    pub(super) folder: Dir,
    pub(super) name: OsString,
}

impl Files {
    /// The place of a path; its folder must exist and no link may be on the way. The root is in no folder of ours.
    pub(super) fn place(&self, path: &str) -> io::Result<Place> {
        place_in(path, |folder| (self.door.dir)(&self.dir, folder))
    }

    /// The place of a path whose folders are made where they are missing.
    pub(super) fn place_made(&self, path: &str) -> io::Result<Place> {
        place_in(path, |folder| self.folder_made(folder))
    }

    /// The folder of that path, made with all its parents where they are missing.
    pub(super) fn folder_made(&self, path: &Path) -> io::Result<Dir> {
        match (self.door.dir)(&self.dir, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path
                .iter()
                .try_fold(self.dir.try_clone()?, |folder, name| child_made(&folder, Path::new(name))),
            opened => opened,
        }
    }
}

fn place_in(path: &str, open: impl Fn(&Path) -> io::Result<Dir>) -> io::Result<Place> {
    let path = names::os(path);
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::IsADirectory.into()) };
    let folder = open(path.parent().unwrap_or(Path::new("")))?;
    Ok(Place { folder, name: name.to_owned() })
}

fn child_made(folder: &Dir, name: &Path) -> io::Result<Dir> {
    match folder.open_dir_nofollow(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    match folder.create_dir(name) {
        // Somebody else was quicker.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => created?,
    }
    folder.open_dir_nofollow(name)
}
