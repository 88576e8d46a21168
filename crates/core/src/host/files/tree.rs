//! Every entry of a tree with its stat: hidden ones too, no link followed, nothing skipped. For digests of whole folders.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use super::delta::Folder;
use super::entry::EntryKind;
use super::path::join_path;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::file_stat::FileStat;
use crate::host::files::{Files, name_encoding, not_regular_file};
use crate::policy::CancelToken;

/// Maximum depth of folders.
const MAX_DEPTH: usize = 256;

/// An entry of a tree, in its open folder.
pub struct TreeEntry<'a> {
    files: &'a Files,
    folder: &'a Folder,
    name: OsString,
    /// Its path below the root, as text.
    pub path: String,
    /// What it is.
    pub kind: EntryKind,
}

/// What the system knows about a file.
pub struct TreeStat {
    /// When and how it last changed.
    pub stat: FileStat,
    /// Its mode, as `stat` reports it.
    pub mode: u32,
}

impl Files {
    /// Calls `visit` with each entry, a folder before its content; it returns whether a folder is entered. Fails at the first
    /// folder that cannot be read.
    pub fn walk_tree(
        &self,
        max_entries: usize,
        cancel: &CancelToken,
        mut visit: impl FnMut(&TreeEntry<'_>) -> Result<bool>,
    ) -> Result<()> {
        let mut pending = vec![(String::new(), 0)];
        let mut left = max_entries;
        while let Some((folder, depth)) = pending.pop() {
            cancel.check()?;
            let place = name_encoding::decode(&folder);
            let failed = |source| {
                SkillError::io(format_args!("failed to read {}", self.display_path(&folder)), source)
            };
            let mut count = |_| {
                let too_many =
                    || io::Error::other(format!("there are more than {max_entries} files and folders"));
                left = left.checked_sub(1).ok_or_else(too_many)?;
                Ok(())
            };
            let (opened, entries) = self.list_dir(&place, &mut count).map_err(failed)?;
            for (name, kind) in entries {
                let path = join_path(&folder, &name_encoding::encode(&name));
                let entry = TreeEntry { files: self, folder: &opened, name, path, kind };
                if visit(&entry)? && kind == EntryKind::Dir {
                    if depth + 1 >= MAX_DEPTH {
                        let sentence = format!(
                            "failed to read {}: folders are nested more than {MAX_DEPTH} deep",
                            entry.display_path()
                        );
                        return Err(SkillError::new(ErrorKind::Io, sentence));
                    }
                    pending.push((entry.path, depth + 1));
                }
            }
        }
        Ok(())
    }

    fn display_path(&self, path: &str) -> String {
        self.root.join(name_encoding::decode(path)).display().to_string()
    }
}

impl TreeEntry<'_> {
    /// Its whole path, to show.
    pub fn display_path(&self) -> String {
        self.files.display_path(&self.path)
    }

    /// Its stat; a link is not followed.
    #[cfg(unix)]
    pub fn stat(&self) -> io::Result<TreeStat> {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        Ok(TreeStat::new(&rustix::fs::statat(self.folder.dir_of(&self.name)?, &self.name, flags)?))
    }

    #[cfg(not(unix))]
    pub(crate) fn stat(&self) -> io::Result<TreeStat> {
        TreeStat::of_open(&self.open_file()?)
    }

    /// The regular file and its stat.
    #[cfg(unix)]
    pub fn open(&self) -> io::Result<(File, TreeStat)> {
        use rustix::fs::{FileType, fstat};

        let file = self.open_file()?;
        let stat = fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((file, TreeStat::new(&stat))),
            _ => Err(not_regular_file()),
        }
    }

    #[cfg(not(unix))]
    pub fn open(&self) -> io::Result<(File, TreeStat)> {
        let file = self.open_file()?;
        if !file.metadata()?.is_file() {
            return Err(not_regular_file());
        }
        let stat = TreeStat::of_open(&file)?;
        Ok((file, stat))
    }

    /// The target of the link, as it is written.
    pub fn link_target(&self) -> io::Result<PathBuf> {
        self.folder.dir_of(&self.name)?.read_link_contents(&self.name)
    }

    fn open_file(&self) -> io::Result<File> {
        (self.files.backend.open_file)(self.folder.dir_of(&self.name)?, self.name.as_ref())
    }
}

impl TreeStat {
    #[cfg(unix)]
    #[allow(clippy::unnecessary_cast, reason = "the mode has another type on other systems")]
    fn new(stat: &rustix::fs::Stat) -> Self {
        Self { stat: FileStat::new(stat), mode: stat.st_mode as u32 }
    }

    /// Systems without modes of Unix have no executable files.
    #[cfg(not(unix))]
    fn of_open(file: &File) -> io::Result<Self> {
        Ok(Self { stat: FileStat::of_open(file)?, mode: 0 })
    }
}
