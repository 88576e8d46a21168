//! Skill folders through cap-std, on every platform it supports.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::entry::open_regular_file;
use metier_core::host::file_stat::FileStat;
use metier_core::host::files::{EntryKind, for_each_entry_portable};

/// An open folder.
pub(crate) struct SkillDir(Dir);

impl SkillDir {
    /// Opens the folder at that path, following links.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(path, ambient_authority()).map(Self)
    }

    /// Calls `each` with every name and its kind, in the system's order, until it breaks.
    pub(crate) fn for_each_entry(
        &mut self,
        each: &mut dyn FnMut(&OsStr, EntryKind) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for_each_entry_portable(&self.0, &mut |name, kind| Ok(each(name, kind)))
    }

    /// What the system changes about the folder whenever an entry changes.
    #[cfg(not(unix))]
    pub(crate) fn stat(&self) -> io::Result<FileStat> {
        FileStat::of_open(&self.0.try_clone()?.into_std_file())
    }

    /// Opens a regular file in it, with its stat. A link is followed inside the folder only.
    pub(crate) fn open_file(&self, name: &str) -> io::Result<(File, FileStat)> {
        let file = open_regular_file(&self.0, name)?;
        let stat = FileStat::of_open(&file)?;
        Ok((file, stat))
    }
}
