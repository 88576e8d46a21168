//! An entry of a directory (its name or path, and its kind), and the entries of an open one in the order of the system.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Dir,
    /// A symbolic link, whatever its target.
    Symlink,
    /// A FIFO, a socket, a device.
    Other,
}

/// An entry found by a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path, relative to the root.
    pub path: String,
    /// Its kind.
    pub kind: EntryKind,
}

impl Entry {
    /// Approximate bytes that it takes in a list.
    pub fn memory_size(&self) -> u64 {
        const BESIDE: u64 = 96;
        self.path.len() as u64 + BESIDE
    }
}

/// Receives a name and its kind. An error or a break ends the listing.
type EachEntry<'a> = dyn FnMut(&OsStr, EntryKind) -> io::Result<ControlFlow<()>> + 'a;

/// Lists a directory on every system that cap-std supports.
pub fn for_each_entry_portable(dir: &cap_std::fs::Dir, each: &mut EachEntry<'_>) -> io::Result<()> {
    for entry in dir.entries()? {
        let entry = entry?;
        let kind = match entry.file_type()? {
            dir if dir.is_dir() => EntryKind::Dir,
            file if file.is_file() => EntryKind::File,
            link if link.is_symlink() => EntryKind::Symlink,
            _ => EntryKind::Other,
        };
        if each(&entry.file_name(), kind)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Lists a directory on Unix, without a copy of each name.
#[cfg(unix)]
pub fn for_each_entry(dir: &mut rustix::fs::Dir, each: &mut EachEntry<'_>) -> io::Result<()> {
    use std::os::unix::ffi::OsStrExt;

    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        let Some(kind) = entry_kind(dir.fd()?, name, entry.file_type())? else { continue };
        if each(OsStr::from_bytes(name.to_bytes()), kind)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// What an entry of an open directory is; `None` for the directory itself and the one above.
#[cfg(unix)]
pub(super) fn entry_kind(
    dir: impl std::os::fd::AsFd,
    name: &std::ffi::CStr,
    reported: rustix::fs::FileType,
) -> io::Result<Option<EntryKind>> {
    use rustix::fs::{AtFlags, FileType, statat};

    if matches!(name.to_bytes(), b"." | b"..") {
        return Ok(None);
    }
    let file_type = match reported {
        // Some file systems do not report the type.
        FileType::Unknown => FileType::from_raw_mode(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode),
        known => known,
    };
    Ok(Some(match file_type {
        FileType::Directory => EntryKind::Dir,
        FileType::RegularFile => EntryKind::File,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    }))
}
