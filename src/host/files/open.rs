//! How a path is opened with no link on the way, wherever cap-std runs: component by component.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;

use cap_fs_ext::{DirExt, FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, DirEntry, FileType, OpenOptions};

use super::walk::EntryKind;

/// The ways through which everything below a root is reached. Each fails where it meets a link, the last name included;
/// none blocks. The empty path is the root.
#[derive(Clone, Copy)]
pub(super) struct OpenBackend {
    /// Opens a file for reading.
    pub(super) open_file: fn(&Dir, &Path) -> io::Result<File>,
    /// Opens a directory.
    pub(super) open_dir: fn(&Dir, &Path) -> io::Result<Dir>,
    /// The names in a directory, in the system's order. Each is counted first, and none taken beyond an error.
    pub(super) read_dir: fn(&Dir, &Path, &mut NameCounter<'_>) -> io::Result<Vec<NamedEntry>>,
    /// Whether there is anything at a path: what stands in its place later is another question, and links are not looked for.
    pub(super) exists: fn(&Dir, &Path) -> bool,
}

/// Hears the length of each name before it is kept.
pub(super) type NameCounter<'a> = dyn FnMut(usize) -> io::Result<()> + 'a;

/// A name in a directory and what it is.
pub(super) type NamedEntry = (OsString, EntryKind);

/// Works everywhere.
pub(super) const PORTABLE: OpenBackend = OpenBackend { open_file, open_dir, read_dir, exists };

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

fn read_dir(root: &Dir, path: &Path, count: &mut NameCounter<'_>) -> io::Result<Vec<NamedEntry>> {
    let listed = open_dir(root, path)?.entries()?;
    let mut named = |entry: DirEntry| {
        let name = entry.file_name();
        count(name.len())?;
        Ok((name, kind(entry.file_type()?)))
    };
    listed.map(|entry| entry.and_then(&mut named)).collect()
}

fn exists(root: &Dir, path: &Path) -> bool {
    root.symlink_metadata(path).is_ok()
}

fn kind(file_type: FileType) -> EntryKind {
    match file_type {
        dir if dir.is_dir() => EntryKind::Dir,
        file if file.is_file() => EntryKind::File,
        link if link.is_symlink() => EntryKind::Symlink,
        _ => EntryKind::Other,
    }
}
