//! Skill folders on Unix: one handle to list and to open files, with a third fewer system calls than the portable version.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;

use super::{DirEntryKind, not_a_regular_file};

/// An open folder.
pub(in crate::registry) struct SkillDir(Dir);

impl SkillDir {
    /// Opens the folder at that path, following links.
    pub(in crate::registry) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(Self(Dir::new(openat(CWD, path, flags, Mode::empty())?)?))
    }

    /// Calls `each` with every name and its kind, in the system's order, until it breaks.
    pub(in crate::registry) fn for_each_entry(
        &mut self,
        each: &mut dyn FnMut(&OsStr, DirEntryKind) -> ControlFlow<()>,
    ) -> io::Result<()> {
        while let Some(entry) = self.0.read() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let file_type = match entry.file_type() {
                // Some file systems do not report the type.
                FileType::Unknown => {
                    let stat = statat(self.0.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
                    FileType::from_raw_mode(stat.st_mode)
                }
                known => known,
            };
            let kind = match file_type {
                FileType::Directory => DirEntryKind::Folder,
                FileType::Symlink => DirEntryKind::Symlink,
                _ => DirEntryKind::Other,
            };
            if each(OsStr::from_bytes(name.to_bytes()), kind).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Opens a regular file in it. A link is followed inside the folder only.
    pub(in crate::registry) fn open_file(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match openat(self.0.fd()?, name, flags, Mode::empty()) {
            Ok(file) => {
                let is_regular = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile;
                if is_regular { Ok(file.into()) } else { Err(not_a_regular_file()) }
            }
            Err(Errno::LOOP | Errno::MLINK) => self.open_linked_file(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Links are rare; cap-std follows them without leaving the folder.
    fn open_linked_file(&self, name: &str) -> io::Result<File> {
        let folder = self.0.fd()?.try_clone_to_owned()?;
        super::open_regular_file(&cap_std::fs::Dir::from_std_file(folder.into()), name)
    }
}
