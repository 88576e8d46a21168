//! The files of a project or a skill, behind one directory handle: nothing outside it is ever reached.
//!
//! Every operation opens its path with no link on the way. Where a link is in the way, it is resolved below the root, the
//! permission is asked again for where it leads, and that place is opened, again with no link on the way: a link that is
//! swapped in between makes the operation fail and never escape. Mounts below the root are part of it; so are hard
//! links, which are only ever written by putting a new file in their place.

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

/// A directory tree, opened once. Every operation goes through the handle, so a replaced or renamed root changes nothing.
pub struct Files {
    dir: Dir,
    root: PathBuf,
    backend: OpenBackend,
    /// Paths in it that are metier's own: nobody who works for a script comes there. Others are known by their names.
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
    /// Whether a path without links is closed to scripts.
    fn is_reserved(&self, path: &str) -> bool {
        self.reserved_paths.iter().any(|own| {
            path.strip_prefix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || own.is_empty())
        }) || leads_into_metier_dir(path, |other| {
            (self.backend.exists)(&self.dir, &self::name_encoding::decode(other))
        })
    }

    /// Opens the tree below `root`. The root itself may be reached through links.
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

    /// Opens the tree below a root that was reached before, by its path without links: one that has come there since is not
    /// followed.
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

    /// The same tree, opened component by component, as systems without `openat2` have to.
    #[doc(hidden)]
    pub fn portable(self) -> Self {
        Self { backend: self::open::PORTABLE, ..self }
    }

    /// The root, canonical, as it was when opened.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files as a run with these permissions may see them.
    pub fn with_permissions<'a>(&'a self, permissions: &'a Permissions) -> FilesView<'a> {
        FilesView { files: self, permissions: Some(permissions), label: "the project", limits: None }
    }

    /// The files with nothing asked, for whoever works for the user and not for a script.
    pub fn unrestricted(&self) -> FilesView<'_> {
        FilesView { files: self, permissions: None, label: "the project", limits: None }
    }
}

/// The files as one run may see them. Paths are relative to the root, as [`relative`] makes them; the path itself was
/// permitted by whoever calls, what hides behind a link or below a folder is held against the permissions here.
#[derive(Clone, Copy)]
pub struct FilesView<'a> {
    files: &'a Files,
    permissions: Option<&'a Permissions>,
    label: &'static str,
    limits: Option<OperationLimits<'a>>,
}

impl<'a> FilesView<'a> {
    /// The same files for a run, which holds no more memory than it may, and ends when it is told to.
    pub(crate) fn with_limits(self, bounds: OperationLimits<'a>) -> Self {
        Self { limits: Some(bounds), ..self }
    }

    /// What one operation holds: nothing yet.
    fn empty_reservation(&self) -> HostMemoryReservation {
        self.limits.map_or_else(HostMemoryReservation::uncounted, |bounds| bounds.memory.empty_reservation())
    }

    /// Whether the run goes on.
    fn check_cancelled(&self) -> Result<()> {
        self.limits.map_or(Ok(()), |bounds| bounds.cancel.check())
    }

    /// Whether a file may have so many bytes; `output` where not.
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

    /// The same files, called this in errors instead of `the project`.
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
