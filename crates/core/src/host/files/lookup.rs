//! Opens and lists the paths of a tree, as the disk has them or as a run with a delta sees them: a path, or its open parent directory
//! and the last name in it, so that changes above it have no effect.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::MutexGuard;

use cap_fs_ext::DirExt;
use cap_std::fs::{Dir, File as OpenedFile, Metadata, OpenOptions};

use super::Files;
use super::delta::Folder;
use super::open::{NameCounter, NamedEntry};
use crate::host::files::name_encoding;

/// All fail if the path contains a symbolic link, as [`OpenBackend`](super::open::OpenBackend) says; the empty path is the root.
impl Files {
    pub(super) fn open_file(&self, path: &Path) -> io::Result<File> {
        match &self.delta {
            None => (self.backend.open_file)(&self.dir, path),
            Some(part) => part.delta.open_file(&part.path(path)),
        }
    }

    pub(super) fn open_dir(&self, path: &Path) -> io::Result<Folder> {
        match &self.delta {
            None => (self.backend.open_dir)(&self.dir, path).map(Folder::Disk),
            Some(part) => part.delta.folder(&part.path(path)).map(Folder::Merged),
        }
    }

    /// Opens a folder, and lists the names in it; see [`OpenBackend::list_dir`](super::open::OpenBackend::list_dir).
    pub(super) fn list_dir(
        &self,
        path: &Path,
        count: &mut NameCounter<'_>,
    ) -> io::Result<(Folder, Vec<NamedEntry>)> {
        match &self.delta {
            None => {
                let (dir, entries) = (self.backend.list_dir)(&self.dir, path, count)?;
                Ok((Folder::Disk(dir), entries))
            }
            Some(part) => {
                let folder = part.delta.folder(&part.path(path))?;
                let entries = folder.entries(count)?;
                Ok((Folder::Merged(folder), entries))
            }
        }
    }

    pub(super) fn read_dir(&self, path: &Path, count: &mut NameCounter<'_>) -> io::Result<Vec<NamedEntry>> {
        Ok(self.list_dir(path, count)?.1)
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        match &self.delta {
            None => (self.backend.exists)(&self.dir, path),
            Some(part) => part.delta.exists(&part.path(path)),
        }
    }

    /// The links above its last component are followed.
    pub(super) fn symlink_metadata(&self, path: &Path) -> io::Result<Metadata> {
        match &self.delta {
            None => self.dir.symlink_metadata(path),
            Some(part) => part.delta.symlink_metadata(&part.path(path)),
        }
    }

    /// The target of a link, as it is written.
    pub(super) fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match &self.delta {
            None => self.dir.read_link_contents(path),
            Some(part) => part.delta.read_link(&part.path(path)),
        }
    }
}

/// A name in an open folder. It may not exist.
pub(super) struct ParentDir {
    folder: Folder,
    name: OsString,
}

impl ParentDir {
    pub(super) fn symlink_metadata(&self) -> io::Result<Metadata> {
        self.folder.symlink_metadata(&self.name)
    }

    /// The folder in which new files are created.
    pub(super) fn dir_for_new_files(&self) -> io::Result<&Dir> {
        match &self.folder {
            Folder::Disk(dir) => Ok(dir),
            Folder::Merged(folder) => folder.writable_dir(),
        }
    }

    /// Creates a file; nothing may be at its name.
    pub(super) fn create_file(&self, options: &mut OpenOptions) -> io::Result<OpenedFile> {
        if matches!(self.folder, Folder::Merged(_)) && self.symlink_metadata().is_ok() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        self.dir_for_new_files()?.open_with(&self.name, options.create_new(true))
    }

    /// Opens a file to change it in place. In a delta it must have been copied first.
    pub(super) fn open_file(&self, options: &OpenOptions) -> io::Result<OpenedFile> {
        match &self.folder {
            Folder::Disk(dir) => dir.open_with(&self.name, options),
            Folder::Merged(folder) => folder.upper()?.open_with(&self.name, options),
        }
    }

    /// The file that has to be copied, to the same name in the folder that is returned with it, before it can be opened to be changed in place.
    pub(super) fn file_to_copy(&self) -> io::Result<Option<(File, &Dir)>> {
        let Folder::Merged(folder) = &self.folder else { return Ok(None) };
        Ok(folder.file_to_copy(&self.name)?.zip(Some(folder.upper()?)))
    }

    /// Held while a file is copied, or put in the place of another one; only a delta needs it.
    pub(super) fn lock_change(&self) -> Option<MutexGuard<'_, ()>> {
        match &self.folder {
            Folder::Disk(_) => None,
            Folder::Merged(folder) => Some(folder.lock_change()),
        }
    }

    /// Puts a file of the folder for new files at the name.
    pub(super) fn rename_to_name(&self, dir: &Dir, from: &str) -> io::Result<()> {
        dir.rename(from, dir, &self.name)
    }

    /// Removes a file, a link or an empty folder.
    pub(super) fn remove(&self) -> io::Result<()> {
        match &self.folder {
            Folder::Merged(folder) => folder.remove(&self.name),
            Folder::Disk(dir) if dir.symlink_metadata(&self.name)?.is_dir() => dir.remove_dir(&self.name),
            Folder::Disk(dir) => dir.remove_file_or_symlink(&self.name),
        }
    }

    /// Removes a file that was just created.
    pub(super) fn remove_new_file(&self) -> io::Result<()> {
        self.dir_for_new_files()?.remove_file(&self.name)
    }
}

impl Files {
    /// The parent directory of a path; it must exist, and its path must not contain symbolic links. The root has no parent
    /// directory.
    pub(super) fn parent_dir(&self, path: &str) -> io::Result<ParentDir> {
        parent_dir_with(path, |folder| self.open_dir(folder))
    }

    /// The parent directory of a path; missing folders are created.
    pub(super) fn create_parent_dir(&self, path: &str) -> io::Result<ParentDir> {
        parent_dir_with(path, |folder| self.create_dir_all(folder))
    }

    /// Opens the folder at that path; it and its missing parents are created.
    pub(super) fn create_dir_all(&self, path: &Path) -> io::Result<Folder> {
        if let Some(part) = &self.delta {
            return part.delta.create_folders(&part.path(path)).map(Folder::Merged);
        }
        let opened = match (self.backend.open_dir)(&self.dir, path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => path
                .iter()
                .try_fold(self.dir.try_clone()?, |folder, name| create_child_dir(&folder, Path::new(name))),
            opened => opened,
        };
        opened.map(Folder::Disk)
    }
}

fn parent_dir_with(path: &str, open: impl Fn(&Path) -> io::Result<Folder>) -> io::Result<ParentDir> {
    let path = name_encoding::decode(path);
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::IsADirectory.into()) };
    let folder = open(path.parent().unwrap_or(Path::new("")))?;
    Ok(ParentDir { folder, name: name.to_owned() })
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
