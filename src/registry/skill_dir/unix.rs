//! Skill folders on Unix: one handle to list and to open files, with a third fewer system calls than the portable version.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use super::entry::open_regular_file;
use metier_core::host::file_stat::FileStat;
use metier_core::host::files::{EntryKind, for_each_entry, not_regular_file};

/// An open folder.
pub(crate) struct SkillDir(Dir);

impl SkillDir {
    /// Opens the folder at that path, following links.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(Self(Dir::new(openat(CWD, path, flags, Mode::empty())?)?))
    }

    /// Calls `each` with every name and its kind, in the system's order, until it breaks.
    pub(crate) fn for_each_entry(
        &mut self,
        each: &mut dyn FnMut(&OsStr, EntryKind) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for_each_entry(&mut self.0, &mut |name, kind| Ok(each(name, kind)))
    }

    /// What the system changes about the folder whenever an entry changes.
    pub(crate) fn stat(&self) -> io::Result<FileStat> {
        FileStat::of_open(self.0.fd()?)
    }

    /// Opens a regular file in it, with its stat. A link is followed inside the folder only.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<(File, FileStat)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match openat(self.0.fd()?, name, flags, Mode::empty()) {
            Ok(file) => {
                let stat = fstat(&file)?;
                let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
                if is_regular { Ok((file.into(), FileStat::new(&stat))) } else { Err(not_regular_file()) }
            }
            Err(Errno::LOOP | Errno::MLINK) => self.open_linked_file(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Links are rare; cap-std follows them without leaving the folder.
    fn open_linked_file(&self, name: &str) -> io::Result<(File, FileStat)> {
        let folder = self.0.fd()?.try_clone_to_owned()?;
        let file = open_regular_file(&cap_std::fs::Dir::from_std_file(folder.into()), name)?;
        let stat = FileStat::of_open(&file)?;
        Ok((file, stat))
    }
}
