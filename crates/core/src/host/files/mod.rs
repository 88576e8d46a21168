//! The files of a project or a skill, accessed through one directory handle: files outside it are never reached.
//!
//! Every operation opens its path without following symbolic links. If the path contains a link, it is resolved below the root,
//! the permission is checked again for the target, and the target is opened, again without following links: a link that is
//! swapped in between makes the operation fail and never escape. Mounts below the root are part of it; so are hard links, which
//! are only ever written by putting a new file in their place.

mod delta;
mod editor;
mod entry;
mod grep;
mod hard_links;
mod hidden_paths;
mod ignore_rules;
mod list;
mod lookup;
pub mod name_encoding;
mod open;
#[cfg(target_os = "linux")]
mod openat2;
mod operation;
mod path;
mod protected;
mod protected_cache;
mod read;
mod remove;
mod symlinks;
mod tree;
mod unsaved;
mod view;
mod walk;
mod write;

pub use delta::Delta;
pub use editor::{ChangeDecision, FileChange, FileChangeKind, FileEditor};
#[cfg(unix)]
pub use entry::for_each_entry;
pub use entry::{Entry, EntryKind, for_each_entry_portable};
pub use grep::{Grep, GrepMatch, GrepResults};
pub use hidden_paths::HiddenPaths;
pub use list::Stat;
pub use operation::not_regular_file;
pub use path::{path_below, relative_path};
pub use protected_cache::SecretLinks;
pub use tree::{TreeEntry, TreeStat};
pub use view::FilesView;
pub use walk::{Skipped, WalkFilter, WalkOptions};

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata};

use self::delta::Folder;
use self::open::OpenBackend;
use self::protected_cache::ProtectedCache;
use crate::error::{Result, SkillError};
#[cfg(target_os = "linux")]
use crate::host::canonical_folder;
use crate::host::metier_dirs::leads_into_metier_dir;
use crate::host::{FileId, HostPaths, file_id};

/// A directory tree, opened once. Every operation uses the handle, so replacing or renaming the root has no effect.
pub struct Files {
    dir: Dir,
    root: PathBuf,
    backend: OpenBackend,
    /// By which the host reaches what a run sees below the root.
    host_paths: HostPaths,
    /// Where changes go instead, if the tree stays as it is.
    delta: Option<DeltaPart>,
    /// Paths in it that are metier's own: closed to everything that runs for a script. Others are recognized by their names.
    reserved_paths: OnceLock<Vec<String>>,
    protected_cache: ProtectedCache,
}

/// A folder of a tree with a delta.
#[derive(Clone)]
struct DeltaPart {
    delta: Arc<Delta>,
    folder: PathBuf,
}

impl DeltaPart {
    /// The path in the whole tree.
    fn path(&self, path: &Path) -> PathBuf {
        // An empty path joined to a path leaves a `/` at its end.
        self.folder.join(path).components().collect()
    }
}

/// Paths below a root, `/`-separated, that are closed to scripts.
fn reserved_paths(root: &Path) -> Vec<String> {
    let own = crate::host::temp_dirs::metier_dirs_in(root);
    own.iter()
        .filter_map(|own| {
            Some(self::name_encoding::encode(own.strip_prefix(root).ok()?.as_os_str()).into_owned())
        })
        .collect()
}

impl Files {
    /// Whether a path without symbolic links is closed to scripts.
    fn is_reserved(&self, path: &str) -> bool {
        self.reserved_paths.get_or_init(|| reserved_paths(&self.root)).iter().any(|own| {
            path.strip_prefix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || own.is_empty())
        }) || leads_into_metier_dir(path, |other| self.exists(&self::name_encoding::decode(other)))
    }

    /// Opens the tree below `root`. The path of the root may contain symbolic links.
    pub fn open(root: &Path) -> Result<Self> {
        if let Some((dir, backend)) = open_canonical(root) {
            return Ok(Self::new(dir, backend, root.to_owned()));
        }
        let failed = |source| SkillError::io(format_args!("failed to open {}", root.display()), source);
        let root = std::fs::canonicalize(root).map_err(failed)?;
        let dir = Dir::open_ambient_dir(&root, ambient_authority()).map_err(failed)?;
        let backend = fastest_backend(&dir);
        Ok(Self::new(dir, backend, root))
    }

    /// Opens the tree below a root that was opened before, by its path without symbolic links: a link that was put there since is
    /// not followed.
    pub fn open_nofollow(root: &Path) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", root.display()), source);
        let (dir, backend) = open_nofollow(root).map_err(failed)?;
        Ok(Self::new(dir, backend, root.to_owned()))
    }

    /// The tree that a run has in the place of the one at `root`, a canonical path: its open folder.
    #[cfg(unix)]
    pub fn of_overlay(folder: std::os::fd::OwnedFd, root: &Path) -> Result<Self> {
        let failed =
            |source| SkillError::io(format_args!("failed to open the copy of {}", root.display()), source);
        let host_paths =
            HostPaths::with_overlay(root, folder.try_clone().map_err(failed)?).map_err(failed)?;
        let dir = Dir::from_std_file(folder.into());
        let backend = fastest_backend(&dir);
        Ok(Self { host_paths, ..Self::new(dir, backend, root.to_owned()) })
    }

    /// The tree below a folder of this one, which must not lead through symbolic links.
    pub fn open_below(&self, folder: &Path) -> io::Result<Self> {
        // An empty path joined to a path leaves a `/` at its end.
        let root = self.root.join(folder).components().collect();
        let (dir, delta) = match self.open_dir(folder)? {
            Folder::Disk(dir) => (dir, None),
            Folder::Merged(merged) => {
                let part = |part: &DeltaPart| DeltaPart { folder: part.path(folder), ..part.clone() };
                (merged.into_dir()?, self.delta.as_ref().map(part))
            }
        };
        Ok(Self { host_paths: self.host_paths.clone(), delta, ..Self::new(dir, self.backend, root) })
    }

    /// The tree as a run sees it whose changes go to a delta. `root` is its canonical path.
    pub fn of_delta(delta: &Arc<Delta>, root: &Path) -> Result<Self> {
        let failed =
            |source| SkillError::io(format_args!("failed to open the copy of {}", root.display()), source);
        let dir = delta.tree().map_err(failed)?;
        let backend = fastest_backend(&dir);
        let part = DeltaPart { delta: delta.clone(), folder: PathBuf::new() };
        Ok(Self { delta: Some(part), ..Self::new(dir, backend, root.to_owned()) })
    }

    fn new(dir: Dir, backend: OpenBackend, root: PathBuf) -> Self {
        Self {
            backend,
            host_paths: HostPaths::default(),
            delta: None,
            reserved_paths: OnceLock::new(),
            protected_cache: ProtectedCache::default(),
            dir,
            root,
        }
    }

    /// The metadata of a path without symbolic links; the empty path is the root.
    fn metadata_nofollow(&self, path: &Path) -> io::Result<Metadata> {
        let Some(name) = path.file_name() else { return self.dir.dir_metadata() };
        self.open_dir(path.parent().unwrap_or(Path::new("")))?.symlink_metadata(name)
    }

    /// Whether anything is at this path now, be it a link; whoever opens it finds out what.
    pub fn has(&self, path: &str) -> bool {
        self.exists(&self::name_encoding::decode(path))
    }

    /// The stat of the root, or of what an entry of it leads to.
    #[cfg(unix)]
    pub fn stat_entry(&self, name: Option<&str>) -> io::Result<rustix::fs::Stat> {
        Ok(match name {
            Some(name) => rustix::fs::statat(&self.dir, name, rustix::fs::AtFlags::empty())?,
            None => rustix::fs::fstat(&self.dir)?,
        })
    }

    /// The identity of the file at this path, which must not contain symbolic links; the empty path is the root.
    pub fn file_id(&self, path: &Path) -> io::Result<FileId> {
        Ok(file_id(&self.metadata_nofollow(path)?))
    }

    /// By which the host reaches what a run sees below the root.
    pub fn host_paths(&self) -> &HostPaths {
        &self.host_paths
    }

    /// The canonical path of the root when it was opened.
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// The same tree, opened component by component, as on systems without `openat2`.
pub fn portable(files: Files) -> Files {
    Files { backend: self::open::PORTABLE, ..files }
}

impl Delta {
    /// For a run that sees this open folder, which nothing changes; `upper` is an open and empty folder that nobody else uses.
    pub fn new(tree: File, upper: File) -> Self {
        let (tree, upper) = (Dir::from_std_file(tree), Dir::from_std_file(upper));
        let backend = fastest_backend(&tree);
        Self::with_backend(tree, upper, backend)
    }
}

#[cfg(target_os = "linux")]
fn open_canonical(root: &Path) -> Option<(Dir, OpenBackend)> {
    Some((canonical_folder::open_canonical(root)?, self::openat2::OPENAT2))
}

#[cfg(not(target_os = "linux"))]
fn open_canonical(_root: &Path) -> Option<(Dir, OpenBackend)> {
    None
}

#[cfg(target_os = "linux")]
fn open_nofollow(root: &Path) -> io::Result<(Dir, OpenBackend)> {
    match canonical_folder::open_without_links(root)? {
        Some(dir) => Ok((dir, self::openat2::OPENAT2)),
        None => Ok((Dir::open_ambient_dir(root, ambient_authority())?, self::open::PORTABLE)),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_nofollow(root: &Path) -> io::Result<(Dir, OpenBackend)> {
    Ok((Dir::open_ambient_dir(root, ambient_authority())?, self::open::PORTABLE))
}

#[cfg(target_os = "linux")]
fn fastest_backend(dir: &Dir) -> OpenBackend {
    if self::openat2::is_supported(dir) { self::openat2::OPENAT2 } else { self::open::PORTABLE }
}

#[cfg(not(target_os = "linux"))]
fn fastest_backend(_dir: &Dir) -> OpenBackend {
    self::open::PORTABLE
}
