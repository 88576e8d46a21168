//! The portable open backend: opens a path component by component without following symbolic links.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, OpenOptions};

use super::entry::{EntryKind, for_each_entry_portable};

/// The functions that open everything below a root. Each fails if the path contains a symbolic link, including the last
/// component; none blocks. The empty path is the root.
#[derive(Clone, Copy)]
pub(super) struct OpenBackend {
    /// Opens a file for reading.
    pub(super) open_file: fn(&Dir, &Path) -> io::Result<File>,
    /// Opens a directory.
    pub(super) open_dir: fn(&Dir, &Path) -> io::Result<Dir>,
    /// Opens a directory, and lists the names in it, in the system's order. Each is counted first; an error of the count ends the
    /// listing.
    pub(super) list_dir: fn(&Dir, &Path, &mut NameCounter<'_>) -> io::Result<ListedDir>,
    /// Whether anything exists at a path. It may be replaced later, and symbolic links are not checked for.
    pub(super) exists: fn(&Dir, &Path) -> bool,
}

/// Called with the length of each name before the name is stored.
pub(super) type NameCounter<'a> = dyn FnMut(usize) -> io::Result<()> + 'a;

/// An open directory, and the names in it.
pub(super) type ListedDir = (Dir, Vec<NamedEntry>);

/// A name in a directory and its kind.
pub(super) type NamedEntry = (OsString, EntryKind);

/// The backend for every system.
pub(super) const PORTABLE: OpenBackend = OpenBackend { open_file, open_dir, list_dir, exists };

impl OpenBackend {
    /// The names in a directory, as `list_dir` lists them.
    pub(super) fn read_dir(
        &self,
        root: &Dir,
        path: &Path,
        count: &mut NameCounter<'_>,
    ) -> io::Result<Vec<NamedEntry>> {
        Ok((self.list_dir)(root, path, count)?.1)
    }
}

fn open_file(root: &Dir, path: &Path) -> io::Result<File> {
    let Some(name) = path.file_name() else { return Err(io::ErrorKind::IsADirectory.into()) };
    let parent = open_dir(root, path.parent().unwrap_or(Path::new("")))?;
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true).follow(FollowSymlinks::No);
    Ok(parent.open_with(name, &options)?.into_std())
}

fn open_dir(root: &Dir, path: &Path) -> io::Result<Dir> {
    path.components().try_fold(root.try_clone()?, |here, part| here.open_dir_nofollow(part.as_os_str()))
}

fn list_dir(root: &Dir, path: &Path, count: &mut NameCounter<'_>) -> io::Result<ListedDir> {
    let (dir, mut found) = (open_dir(root, path)?, Vec::new());
    for_each_entry_portable(&dir, &mut |name, kind| {
        count(name.len())?;
        found.push((name.to_owned(), kind));
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((dir, found))
}

fn exists(root: &Dir, path: &Path) -> bool {
    root.symlink_metadata(path).is_ok()
}
