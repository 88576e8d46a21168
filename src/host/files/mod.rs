//! The files of a project or a skill, accessed through one directory handle: files outside it are never reached.
//!
//! Every operation opens its path without following symbolic links. If the path contains a link, it is resolved below the root,
//! the permission is checked again for the target, and the target is opened, again without following links: a link that is
//! swapped in between makes the operation fail and never escape. Mounts below the root are part of it; so are hard links, which
//! are only ever written by putting a new file in their place.

mod file_id;
mod grep;
mod grep_sink;
mod ignore_rules;
mod list;
mod name_encoding;
mod open;
#[cfg(target_os = "linux")]
mod openat2;
mod operation;
mod parent_dir;
mod path;
mod protected;
mod read;
mod remove;
mod symlinks;
mod walk;
mod write;

pub use grep::{Grep, GrepMatch, GrepResults};
pub use list::Stat;
pub(crate) use path::path_below;
pub use path::relative_path;
pub(crate) use protected::SecretLinks;
pub use walk::{Entry, EntryKind, Skipped, WalkFilter, WalkOptions};

use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use self::open::OpenBackend;
use self::protected::ProtectedCache;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::memory::{HostMemoryReservation, OperationLimits};
use crate::host::metier_dirs::leads_into_metier_dir;
use crate::policy::Permissions;

/// A directory tree, opened once. Every operation uses the handle, so replacing or renaming the root has no effect.
pub struct Files {
    dir: Dir,
    root: PathBuf,
    backend: OpenBackend,
    /// Paths in it that are metier's own: closed to everything that runs for a script. Others are recognized by their names.
    reserved_paths: Vec<String>,
    protected_cache: ProtectedCache,
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
        self.reserved_paths.iter().any(|own| {
            path.strip_prefix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || own.is_empty())
        }) || leads_into_metier_dir(path, |other| {
            (self.backend.exists)(&self.dir, &self::name_encoding::decode(other))
        })
    }

    /// Opens the tree below `root`. The path of the root may contain symbolic links.
    pub fn open(root: &Path) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", root.display()), source);
        let root = std::fs::canonicalize(root).map_err(failed)?;
        let dir = Dir::open_ambient_dir(&root, ambient_authority()).map_err(failed)?;
        let door = fastest_backend(&dir);
        let closed = reserved_paths(&root);
        Ok(Self {
            dir,
            root,
            backend: door,
            reserved_paths: closed,
            protected_cache: ProtectedCache::default(),
        })
    }

    /// Opens the tree below a root that was opened before, by its path without symbolic links: a link that was put there since is
    /// not followed.
    pub fn open_nofollow(root: &Path) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", root.display()), source);
        let dir = open_dir_nofollow(root).map_err(failed)?;
        let door = fastest_backend(&dir);
        Ok(Self {
            dir,
            root: root.to_owned(),
            backend: door,
            reserved_paths: reserved_paths(root),
            protected_cache: ProtectedCache::default(),
        })
    }

    /// The same tree, opened component by component, as on systems without `openat2`.
    #[doc(hidden)]
    pub fn portable(self) -> Self {
        Self { backend: self::open::PORTABLE, ..self }
    }

    /// The canonical path of the root when it was opened.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files that a run with these permissions may access.
    pub fn with_permissions<'a>(&'a self, permissions: &'a Permissions) -> FilesView<'a> {
        FilesView { files: self, permissions: Some(permissions), label: "the project", limits: None }
    }

    /// The files without permission checks, for code that works for the user and not for a script.
    pub fn unrestricted(&self) -> FilesView<'_> {
        FilesView { files: self, permissions: None, label: "the project", limits: None }
    }
}

/// The files that one run may access. Paths are relative to the root, as [`relative_path`] returns them. The caller has checked the
/// permission for the path itself; targets of symbolic links and paths below a folder are checked against the permissions here.
#[derive(Clone, Copy)]
pub struct FilesView<'a> {
    files: &'a Files,
    permissions: Option<&'a Permissions>,
    label: &'static str,
    limits: Option<OperationLimits<'a>>,
}

impl<'a> FilesView<'a> {
    /// The same files for a run: operations respect its memory limit and stop when it is cancelled.
    pub(crate) fn with_limits(self, bounds: OperationLimits<'a>) -> Self {
        Self { limits: Some(bounds), ..self }
    }

    /// An empty memory reservation for one operation.
    fn empty_reservation(&self) -> HostMemoryReservation {
        self.limits.map_or_else(HostMemoryReservation::uncounted, |bounds| bounds.memory.empty_reservation())
    }

    /// Fails if the run was stopped.
    fn check_cancelled(&self) -> Result<()> {
        self.limits.map_or(Ok(()), |bounds| bounds.cancel.check())
    }

    /// Checks that a file may have this many bytes; `output` if not.
    fn check_file_size(&self, bytes: u64) -> Result<()> {
        match self.limits {
            Some(OperationLimits { file_size, .. }) if bytes > file_size => {
                let sentence =
                    format!("it would have {bytes} bytes, and no file may have more than {file_size}");
                Err(SkillError::new(ErrorKind::Output, sentence)
                    .with_help("write less, or raise that with --file-size"))
            }
            _ => Ok(()),
        }
    }

    /// The same files, with this label in errors instead of `the project`.
    pub fn with_label(self, place: &'static str) -> Self {
        Self { label: place, ..self }
    }
}

#[cfg(target_os = "linux")]
fn open_dir_nofollow(root: &Path) -> std::io::Result<Dir> {
    self::openat2::open_dir_nofollow(root)
}

#[cfg(not(target_os = "linux"))]
fn open_dir_nofollow(root: &Path) -> std::io::Result<Dir> {
    Dir::open_ambient_dir(root, ambient_authority())
}

#[cfg(target_os = "linux")]
fn fastest_backend(dir: &Dir) -> OpenBackend {
    if self::openat2::is_supported(dir) { self::openat2::OPENAT2 } else { self::open::PORTABLE }
}

#[cfg(not(target_os = "linux"))]
fn fastest_backend(_dir: &Dir) -> OpenBackend {
    self::open::PORTABLE
}
