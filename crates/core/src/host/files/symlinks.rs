//! Resolves symbolic links in a path and checks the permission for their targets.

use std::ffi::OsString;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::files::operation::FileOperation;
use crate::host::files::view::FilesView;
use crate::host::files::{Files, name_encoding};
use crate::policy::RunPermissions;

/// Whether the last component of a path is followed if it is a symbolic link.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum FinalSymlink {
    Follow,
    NoFollow,
}

/// Maximum symbolic links in one path; Linux's own limit.
const MAX_SYMLINKS: usize = 40;

impl FilesView<'_> {
    /// Calls `act` on the path. `act` must refuse every symbolic link; when it fails and the path contains links, it is called
    /// once more on the resolved path, if the run has the permission for that path.
    pub(super) fn with_resolved_path<T>(
        &self,
        operation: FileOperation<'_>,
        last: FinalSymlink,
        act: impl Fn(&str) -> io::Result<T>,
    ) -> Result<T> {
        self.check_not_reserved(operation, operation.path)?;
        self.check_protected(operation, operation.path)?;
        let refused = match act(operation.path) {
            Ok(done) => return Ok(done),
            Err(refused) => refused,
        };
        let real = match self.files.resolve_symlinks(operation.path, last) {
            Ok(real) => real,
            Err(SymlinkError::Outside) => return Err(self.outside_error(operation)),
            Err(SymlinkError::Io(error)) => return Err(operation.io_error(error)),
        };
        if real == operation.path {
            return Err(operation.io_error(refused));
        }
        self.check_not_reserved(operation, &real)?;
        if let Some(permissions) = self.permissions {
            permissions.require(&operation.required_access(&real), operation)?;
        }
        self.check_protected(operation, &real)?;
        act(&real).map_err(|error| operation.io_error(error))
    }

    /// Refuses metier's own files: other runs rely on them.
    pub(super) fn check_not_reserved(&self, operation: FileOperation<'_>, path: &str) -> Result<()> {
        if self.files.is_reserved(path) {
            return Err(SkillError::new(
                ErrorKind::Denied,
                format!("{operation}: it belongs to metier, which keeps files of other runs there"),
            ));
        }
        Ok(())
    }

    fn outside_error(&self, operation: FileOperation<'_>) -> SkillError {
        let label = self.label;
        SkillError::new(
            ErrorKind::OutsideProject,
            format!("{operation}: a symbolic link leads outside {label}"),
        )
    }
}

/// Why a path with symbolic links cannot be resolved.
enum SymlinkError {
    Outside,
    Io(io::Error),
}

impl Files {
    /// The path with every symbolic link replaced by its target. Components that do not exist are kept, unless a link points to
    /// them.
    ///
    /// This resolves only the text: the result is opened afterwards without following links.
    fn resolve_symlinks(&self, path: &str, last: FinalSymlink) -> Result<String, SymlinkError> {
        let mut ahead = PendingParts::new(&name_encoding::decode(path));
        let mut real = PathBuf::new();
        let mut links = 0;
        while let Some((part, from_link)) = ahead.next() {
            if part == ".." {
                if !real.pop() {
                    return Err(SymlinkError::Outside);
                }
                continue;
            }
            real.push(part);
            if last == FinalSymlink::NoFollow && ahead.is_empty() && !from_link {
                break;
            }
            let Some(target) = self.symlink_target(&real, from_link).map_err(SymlinkError::Io)? else {
                continue;
            };
            links += 1;
            if links > MAX_SYMLINKS {
                return Err(SymlinkError::Io(io::Error::other("the path has too many symbolic links")));
            }
            if target.has_root() {
                ahead.add(target.strip_prefix(&self.root).map_err(|_| SymlinkError::Outside)?);
                real.clear();
            } else {
                ahead.add(&target);
                real.pop();
            }
        }
        Ok(path_text(&real))
    }

    /// The target of the symbolic link at `path`, or `None` if there is no link. Fails if a link led here and nothing exists.
    fn symlink_target(&self, path: &Path, from_link: bool) -> io::Result<Option<PathBuf>> {
        match self.symlink_metadata(path) {
            Ok(found) if found.is_symlink() => self.read_link(path).map(Some),
            Err(error) if from_link && error.kind() == io::ErrorKind::NotFound => {
                Err(io::Error::new(error.kind(), "a symbolic link in the path leads to nothing"))
            }
            // Other errors are reported when the path is opened.
            _ => Ok(None),
        }
    }
}

/// The remaining components, nearest last, and how many of them are not from a link.
struct PendingParts {
    parts: Vec<OsString>,
    original: usize,
}

impl PendingParts {
    fn new(path: &Path) -> Self {
        let mut ahead = Self { parts: Vec::new(), original: 0 };
        ahead.add(path);
        ahead.original = ahead.parts.len();
        ahead
    }

    fn add(&mut self, path: &Path) {
        let parts =
            path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
        let place = self.parts.len();
        self.parts.extend(parts.map(|part| part.as_os_str().to_owned()));
        self.parts[place..].reverse();
    }

    fn next(&mut self) -> Option<(OsString, bool)> {
        let from_link = self.parts.len() > self.original;
        let part = self.parts.pop()?;
        self.original = self.original.min(self.parts.len());
        Some((part, from_link))
    }

    fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }
}

fn path_text(path: &Path) -> String {
    let parts: Vec<_> = path.iter().map(name_encoding::encode).collect();
    parts.join("/")
}
