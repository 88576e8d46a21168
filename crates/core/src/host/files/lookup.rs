//! Opens and lists the paths of a tree: as the disk has them, or as a run with a delta sees them.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::Metadata;

use super::Files;
use super::folder::Folder;
use super::open::{NameCounter, NamedEntry};

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
