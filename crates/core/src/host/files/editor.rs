//! The part of an editor in the file operations of a run: the contents that it has not saved, and its say in changes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use super::entry::EntryKind;
use super::name_encoding;
use super::open::NamedEntry;
use crate::error::Result;
use crate::host::memory::HostMemoryReservation;

/// A change of the project's files that a run is about to make.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileChange {
    /// What changes: relative to the project, `/`-separated, without symbolic links. Bytes of a name that are not UTF-8 are
    /// written as `\xFF`.
    pub path: String,
    /// How it changes.
    pub kind: FileChangeKind,
}

/// How a file changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileChangeKind {
    /// A file gets a new content; it and the folders above it are created if they do not exist.
    #[non_exhaustive]
    Write {
        /// The whole content.
        content: Vec<u8>,
        /// For `append` and `edit`, the content that the new one was made from; `None` for a whole new content, and for a file
        /// that does not exist.
        previous: Option<Vec<u8>>,
    },
    /// A folder is created, with those above it.
    CreateDir,
    /// A file, a symbolic link or a folder is removed.
    #[non_exhaustive]
    Remove {
        /// Whether a folder goes with everything below it.
        recursive: bool,
    },
}

/// What an editor decided about a change. An error refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeDecision {
    /// The change is made on the disk.
    Proceed,
    /// The editor has made the change itself, such as in an open buffer: the disk is left as it is.
    Applied,
}

/// What the file operations of a run ask an editor; paths are those of [`FileChange`].
pub trait FileEditor: Sync {
    /// The unsaved content of a file.
    fn unsaved(&self, path: &str) -> Result<Option<Vec<u8>>>;

    /// The paths that have unsaved contents, as the editor writes them.
    fn unsaved_paths(&self) -> Result<Vec<String>>;

    /// Decides about a change before it is made.
    fn decide(&self, change: &Arc<FileChange>) -> Result<ChangeDecision>;

    /// A change was made on the disk.
    fn changed(&self, change: &Arc<FileChange>);
}

/// The paths that have unsaved contents, for one operation.
#[derive(Default)]
pub(super) struct UnsavedPaths {
    paths: BTreeSet<String>,
    _reservation: Option<HostMemoryReservation>,
}

impl UnsavedPaths {
    pub(super) fn new(paths: BTreeSet<String>, reservation: HostMemoryReservation) -> Self {
        Self { paths, _reservation: Some(reservation) }
    }

    pub(super) fn contains(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Whether a folder contains an unsaved file, also one that is not on the disk.
    pub(super) fn has_below(&self, folder: &str) -> bool {
        self.below(folder).next().is_some()
    }

    /// The names in a folder, with those that exist only in the editor. A folder that does not exist has only these.
    pub(super) fn add_to(
        &self,
        folder: &str,
        read: io::Result<Vec<NamedEntry>>,
    ) -> io::Result<Vec<NamedEntry>> {
        let mut names = BTreeMap::new();
        for rest in self.below(folder) {
            match rest.split_once('/') {
                Some((name, _)) => names.insert(name, EntryKind::Dir),
                None => names.insert(rest, EntryKind::File),
            };
        }
        if names.is_empty() {
            return read;
        }
        let mut entries = match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let known: HashSet<&OsStr> = entries.iter().map(|(name, _)| name.as_os_str()).collect();
        let names =
            names.into_iter().map(|(name, kind)| (name_encoding::decode(name).into_owned().into(), kind));
        let new: Vec<NamedEntry> =
            names.filter(|(name, _): &NamedEntry| !known.contains(name.as_os_str())).collect();
        entries.extend(new);
        Ok(entries)
    }

    /// The paths below a folder, relative to it.
    fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = &'a str> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let start = (Bound::Included(prefix.as_str()), Bound::Unbounded);
        let from = if self.paths.is_empty() { None } else { Some(self.paths.range::<str, _>(start)) };
        from.into_iter().flatten().map_while(move |path| path.strip_prefix(prefix.as_str()))
    }
}
