//! Folders wherever cap-std runs.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::Kind;

/// A folder, open.
pub(in crate::registry) struct Opened(Dir);

impl Opened {
    /// Opens the folder at that path, links followed.
    pub(in crate::registry) fn at(path: &Path) -> io::Result<Self> {
        Dir::open_ambient_dir(path, ambient_authority()).map(Self)
    }

    /// Calls `each` with every name and its kind, in the system's order, until it breaks off.
    pub(in crate::registry) fn names(
        &mut self,
        each: &mut dyn FnMut(&OsStr, Kind) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for entry in self.0.entries()? {
            let entry = entry?;
            let kind = match entry.file_type()? {
                folder if folder.is_dir() => Kind::Folder,
                link if link.is_symlink() => Kind::Link,
                _ => Kind::Other,
            };
            if each(&entry.file_name(), kind).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Opens a regular file in it. A link is followed inside the folder only.
    pub(in crate::registry) fn file(&self, name: &str) -> io::Result<File> {
        super::file_in(&self.0, name)
    }
}
