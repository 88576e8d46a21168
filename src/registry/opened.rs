//! A folder, opened once: the names in it, and a file of it. Looking for skills spends its time here, so it makes no
//! system call more than it must.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::retry_on_intr;

use crate::host::files::EntryKind;

/// An open folder.
pub(super) struct Opened(Dir);

impl Opened {
    /// Opens a folder, or the folder a link leads to.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?;
        Ok(Self(Dir::new(folder)?))
    }

    /// The next name in it, and what has that name.
    pub(super) fn next_name(&mut self) -> Option<io::Result<(OsString, EntryKind)>> {
        loop {
            let entry = match self.0.read()? {
                Ok(entry) => entry,
                Err(error) => return Some(Err(error.into())),
            };
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                let kind = match entry.file_type() {
                    // Some file systems do not say.
                    FileType::Unknown => self.kind_of(name),
                    known => Ok(kind(known)),
                };
                return Some(kind.map(|kind| (OsStr::from_bytes(name.to_bytes()).to_owned(), kind)));
            }
        }
    }

    /// Opens a file in it, unless that is a link. Never blocks.
    pub(super) fn file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let folder = self.0.fd()?;
        Ok(retry_on_intr(|| rustix::fs::openat(folder, name, flags, Mode::empty()))?.into())
    }

    fn kind_of(&self, name: &std::ffi::CStr) -> io::Result<EntryKind> {
        let stat = rustix::fs::statat(self.0.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(kind(FileType::from_raw_mode(stat.st_mode)))
    }
}

fn kind(file_type: FileType) -> EntryKind {
    match file_type {
        FileType::Directory => EntryKind::Dir,
        FileType::RegularFile => EntryKind::File,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}
