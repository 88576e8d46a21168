//! The names in an open directory and their kinds, in the order of the system.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;

use super::entry::EntryKind;

/// Receives a name and its kind. An error or a break ends the listing.
pub(crate) type EachEntry<'a> = dyn FnMut(&OsStr, EntryKind) -> io::Result<ControlFlow<()>> + 'a;

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

    use rustix::fs::{AtFlags, FileType, statat};

    while let Some(entry) = dir.read() {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let file_type = match entry.file_type() {
            // Some file systems do not report the type.
            FileType::Unknown => {
                FileType::from_raw_mode(statat(dir.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode)
            }
            known => known,
        };
        let kind = match file_type {
            FileType::Directory => EntryKind::Dir,
            FileType::RegularFile => EntryKind::File,
            FileType::Symlink => EntryKind::Symlink,
            _ => EntryKind::Other,
        };
        if each(OsStr::from_bytes(name.to_bytes()), kind)?.is_break() {
            break;
        }
    }
    Ok(())
}
