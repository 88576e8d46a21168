//! A folder, opened once: the names in it, and a file of it; where the system has no descriptors of folders.

use std::ffi::OsString;
use std::fs::{File, ReadDir};
use std::io;
use std::path::{Path, PathBuf};

use crate::host::files::EntryKind;

/// An open folder.
pub(super) struct Opened {
    path: PathBuf,
    names: ReadDir,
}

impl Opened {
    /// Opens a folder, or the folder a link leads to.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), names: std::fs::read_dir(path)? })
    }

    /// The next name in it, and what has that name.
    pub(super) fn next_name(&mut self) -> Option<io::Result<(OsString, EntryKind)>> {
        let named = |entry: std::fs::DirEntry| {
            let kind = match entry.file_type()? {
                dir if dir.is_dir() => EntryKind::Dir,
                file if file.is_file() => EntryKind::File,
                link if link.is_symlink() => EntryKind::Link,
                _ => EntryKind::Other,
            };
            Ok((entry.file_name(), kind))
        };
        Some(self.names.next()?.and_then(named))
    }

    /// Opens a file in it, unless that is a link.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let path = self.path.join(name);
        if path.symlink_metadata()?.is_file() {
            return File::open(path);
        }
        Err(io::ErrorKind::InvalidInput.into())
    }
}
