//! Skill folders through cap-std, on every platform it supports.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::DirEntryKind;

/// An open folder.
pub(in crate::registry) struct SkillDir(Dir);

impl SkillDir {
    /// Opens the folder at that path, following links.
    pub(in crate::registry) fn open(path: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(path, ambient_authority()).map(Self)
    }

    /// Calls `each` with every name and its kind, in the system's order, until it breaks.
    pub(in crate::registry) fn for_each_entry(
        &mut self,
        each: &mut dyn FnMut(&OsStr, DirEntryKind) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for entry in self.0.entries()? {
            let entry = entry?;
            let kind = match entry.file_type()? {
                folder if folder.is_dir() => DirEntryKind::Folder,
                link if link.is_symlink() => DirEntryKind::Symlink,
                _ => DirEntryKind::Other,
            };
            if each(&entry.file_name(), kind).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Opens a regular file in it. A link is followed inside the folder only.
    pub(in crate::registry) fn open_file(&self, name: &str) -> io::Result<File> {
        super::open_regular_file(&self.0, name)
    }
}
