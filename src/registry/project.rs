//! Finds the root of a project, and paths relative to it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};

use super::origin::slash_separated;
use crate::registry::home_dirs::{contains_home_dir, is_mounted_whole};
use metier_core::host::untrusted::home_dirs;

/// The nearest folder at or above `start` that has `.<product>` or `.git`; `start` itself, made absolute, when none has.
///
/// The search ends below home folders and the root of a file system: a folder of that name there belongs to the user and does
/// not mark a project. Whether `start` itself is such a folder is checked with [`contains_home_dir`](super::contains_home_dir).
pub fn project_root(start: &Path, product: &str) -> PathBuf {
    let start = absolute_path(start);
    let own = format!(".{product}");
    let has_sign = |folder: &Path| folder.join(&own).exists() || folder.join(".git").exists();
    let homes = home_dirs();
    let is_home = |folder: &Path| std::fs::canonicalize(folder).is_ok_and(|folder| homes.contains(&folder));
    for folder in start.ancestors() {
        let is_mount = is_mount(folder);
        if has_sign(folder) {
            let is_start = folder == start;
            let is_end = contains_home_dir(folder) || (is_mount && !is_start && is_mounted_whole(folder));
            return if is_end { start } else { folder.to_owned() };
        }
        if is_mount || is_home(folder) {
            break;
        }
    }
    start
}

/// Whether a folder is on another file system than its parent.
#[cfg(unix)]
fn is_mount(folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |folder: &Path| folder.metadata().ok().map(|about| about.dev());
    folder.parent().is_none_or(|above| device(above) != device(folder))
}

#[cfg(not(unix))]
fn is_mount(folder: &Path) -> bool {
    folder.parent().is_none()
}

/// The absolute path. Links are resolved only where the path contains `..`, because they decide where that leads.
pub(super) fn absolute_path(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if absolute.components().any(|part| part == Component::ParentDir) {
        return std::fs::canonicalize(&absolute).unwrap_or(absolute);
    }
    absolute
}

/// The path with links resolved, as far as it exists.
pub(super) fn real_path(path: &Path) -> PathBuf {
    LinkResolver::default().real_path(path)
}

/// Resolves the links of many paths that have folders in common, each folder once.
#[derive(Default)]
pub(super) struct LinkResolver(RefCell<HashMap<PathBuf, Option<PathBuf>>>);

impl LinkResolver {
    fn canonicalize(&self, path: &Path) -> Option<PathBuf> {
        if let Some(known) = self.0.borrow().get(path) {
            return known.clone();
        }
        let real = self.canonicalize_below_parent(path);
        self.0.borrow_mut().insert(path.to_owned(), real.clone());
        real
    }

    /// Asks the system about the last part of the path alone, unless that is a link. Other systems than Linux may write it in other
    /// letters.
    fn canonicalize_below_parent(&self, path: &Path) -> Option<PathBuf> {
        let is_plain = cfg!(target_os = "linux") && path.is_absolute();
        let (Some(parent), Some(name)) = (path.parent().filter(|_| is_plain), path.file_name()) else {
            return std::fs::canonicalize(path).ok();
        };
        let place = self.canonicalize(parent)?.join(name);
        let is_link = place.symlink_metadata().ok()?.is_symlink();
        if is_link { std::fs::canonicalize(place).ok() } else { Some(place) }
    }

    /// The same as [`real_path`].
    pub(super) fn real_path(&self, path: &Path) -> PathBuf {
        let existing = path.ancestors().find_map(|above| Some((above, self.canonicalize(above)?)));
        match existing {
            Some((above, real)) => {
                path.strip_prefix(above).map_or_else(|_| real.clone(), |rest| real.join(rest))
            }
            None => path.to_owned(),
        }
    }

    /// The same as [`unresolved_path_in_project`].
    pub(super) fn unresolved_path_in_project(&self, project: &Path, folder: &Path) -> Option<String> {
        let is_project = |above: &&Path| self.canonicalize(above).is_some_and(|real| real == project);
        folder.strip_prefix(folder.ancestors().find(is_project)?).ok().map(slash_separated)
    }
}

/// The path of a folder relative to the project, both with links resolved, `/`-separated; `None` when it lies elsewhere.
pub(super) fn path_in_project(project: &Path, folder: &Path) -> Option<String> {
    folder.strip_prefix(project).ok().map(slash_separated)
}

/// Like [`path_in_project`], with the links in the project left as they are: they are entries of it too.
pub(super) fn unresolved_path_in_project(project: &Path, folder: &Path) -> Option<String> {
    LinkResolver::default().unresolved_path_in_project(project, folder)
}
