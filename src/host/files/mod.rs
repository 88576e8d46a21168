//! The files of a project or a skill, behind one directory handle: nothing outside it is ever reached.
//!
//! Every operation opens its path with no link on the way. Where a link is in the way, it is resolved below the root, the
//! permission is asked again for where it leads, and that place is opened, again with no link on the way: a link that is
//! swapped in between makes the operation fail and never escape. Mounts below the root are part of it; so are hard
//! links, which are only ever written by putting a new file in their place.

mod attempt;
mod change;
mod door;
mod grep;
mod identity;
mod ignore_rules;
mod links;
#[cfg(target_os = "linux")]
mod linux;
mod list;
mod matches;
mod names;
mod path;
mod place;
mod protected;
mod read;
mod remove;
mod walk;

pub use grep::{Grep, Grepped, Row};
pub use list::Stat;
pub(crate) use path::beneath;
pub use path::relative;
pub(crate) use protected::SecretLinks;
pub use walk::{Entry, EntryKind, Skipped, Tidy, Walk};

use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use self::door::Door;
use self::protected::Known;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::memory::{Bounds, Held};
use crate::host::own_folders::leads_to_own;
use crate::policy::Permissions;

/// A directory tree, opened once. Every operation goes through the handle, so a replaced or renamed root changes nothing.
pub struct Files {
    dir: Dir,
    root: PathBuf,
    door: Door,
    /// Paths in it that are metier's own: nobody who works for a script comes there. Others are known by their names.
    closed: Vec<String>,
    known: Known,
}

/// Paths below a root, `/`-separated, that are closed to scripts.
fn closed(root: &Path) -> Vec<String> {
    let own = super::temp_places::own_places_in(root);
    own.iter()
        .filter_map(|own| Some(names::text(own.strip_prefix(root).ok()?.as_os_str()).into_owned()))
        .collect()
}

impl Files {
    /// Whether a path without links is closed to scripts.
    fn is_closed(&self, path: &str) -> bool {
        self.closed.iter().any(|own| {
            path.strip_prefix(own.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || own.is_empty())
        }) || leads_to_own(path, |other| (self.door.is_there)(&self.dir, &names::os(other)))
    }

    /// Opens the tree below `root`. The root itself may be reached through links.
    pub fn open(root: &Path) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", root.display()), source);
        let root = std::fs::canonicalize(root).map_err(failed)?;
        let dir = Dir::open_ambient_dir(&root, ambient_authority()).map_err(failed)?;
        let door = quickest_door(&dir);
        let closed = closed(&root);
        Ok(Self { dir, root, door, closed, known: Known::default() })
    }

    /// Opens the tree below a root that was reached before, by its path without links: one that has come there since is not
    /// followed.
    pub fn open_itself(root: &Path) -> Result<Self> {
        let failed = |source| SkillError::io(format_args!("failed to open {}", root.display()), source);
        let dir = opened_itself(root).map_err(failed)?;
        let door = quickest_door(&dir);
        Ok(Self { dir, root: root.to_owned(), door, closed: closed(root), known: Known::default() })
    }

    /// The same tree, opened component by component, as systems without `openat2` have to.
    #[doc(hidden)]
    pub fn portable(self) -> Self {
        Self { door: door::PORTABLE, ..self }
    }

    /// The root, canonical, as it was when opened.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files as a run with these permissions may see them.
    pub fn seen_by<'a>(&'a self, permissions: &'a Permissions) -> View<'a> {
        View { files: self, permissions: Some(permissions), place: "the project", bounds: None }
    }

    /// The files with nothing asked, for whoever works for the user and not for a script.
    pub fn unguarded(&self) -> View<'_> {
        View { files: self, permissions: None, place: "the project", bounds: None }
    }
}

/// The files as one run may see them. Paths are relative to the root, as [`relative`] makes them; the path itself was
/// permitted by whoever calls, what hides behind a link or below a folder is held against the permissions here.
#[derive(Clone, Copy)]
pub struct View<'a> {
    files: &'a Files,
    permissions: Option<&'a Permissions>,
    place: &'static str,
    bounds: Option<Bounds<'a>>,
}

impl<'a> View<'a> {
    /// The same files for a run, which holds no more memory than it may, and ends when it is told to.
    pub(crate) fn within(self, bounds: Bounds<'a>) -> Self {
        Self { bounds: Some(bounds), ..self }
    }

    /// What one operation holds: nothing yet.
    fn hold(&self) -> Held {
        self.bounds.map_or_else(Held::uncounted, |bounds| bounds.memory.hold())
    }

    /// Whether the run goes on.
    fn check(&self) -> Result<()> {
        self.bounds.map_or(Ok(()), |bounds| bounds.cancel.check())
    }

    /// Whether a file may have so many bytes; `output` where not.
    fn may_have(&self, bytes: u64) -> Result<()> {
        match self.bounds {
            Some(Bounds { file_size, .. }) if bytes > file_size => {
                let sentence =
                    format!("it would have {bytes} bytes, and no file may have more than {file_size}");
                Err(SkillError::new(ErrorKind::Output, sentence)
                    .with_help("write less, or raise that with --file-size"))
            }
            _ => Ok(()),
        }
    }

    /// The same files, called this in errors instead of `the project`.
    pub fn called(self, place: &'static str) -> Self {
        Self { place, ..self }
    }
}

#[cfg(target_os = "linux")]
fn opened_itself(root: &Path) -> std::io::Result<Dir> {
    linux::opened_itself(root)
}

#[cfg(not(target_os = "linux"))]
fn opened_itself(root: &Path) -> std::io::Result<Dir> {
    Dir::open_ambient_dir(root, ambient_authority())
}

#[cfg(target_os = "linux")]
fn quickest_door(dir: &Dir) -> Door {
    if linux::is_supported(dir) { linux::DOOR } else { door::PORTABLE }
}

#[cfg(not(target_os = "linux"))]
fn quickest_door(_dir: &Dir) -> Door {
    door::PORTABLE
}
