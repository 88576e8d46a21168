//! Where a project begins, and what lies in it.

use std::path::{Component, Path, PathBuf};

use super::origin::slashed;

/// The nearest folder at or above `start` that has `.<product>` or `.git`; `start` itself, made absolute, when none has.
pub fn project_root(start: &Path, product: &str) -> PathBuf {
    let start = absolute(start);
    let own = format!(".{product}");
    let is_root = |folder: &&Path| folder.join(&own).exists() || folder.join(".git").exists();
    let root = start.ancestors().find(is_root).unwrap_or(&start);
    root.to_owned()
}

/// The path from the root of the file system. Only where it holds `..` are links resolved: they decide where that leads.
pub(super) fn absolute(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    if absolute.components().any(|part| part == Component::ParentDir) {
        return std::fs::canonicalize(&absolute).unwrap_or(absolute);
    }
    absolute
}

/// The path without links on the way, as far down as it exists.
pub(super) fn real(path: &Path) -> PathBuf {
    let existing = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    match existing {
        Some((above, real)) => path.strip_prefix(above).map_or_else(|_| real.clone(), |rest| real.join(rest)),
        None => path.to_owned(),
    }
}

/// The place of a folder in a project, neither with links on the way, `/`-separated; nothing when it lies elsewhere.
pub(super) fn below(project: &Path, folder: &Path) -> Option<String> {
    folder.strip_prefix(project).ok().map(slashed)
}

/// As [`below`], with the links in the project left as they are: they are things in it too.
pub(super) fn written_below(project: &Path, folder: &Path) -> Option<String> {
    let root =
        folder.ancestors().find(|above| std::fs::canonicalize(above).is_ok_and(|real| real == project));
    folder.strip_prefix(root?).ok().map(slashed)
}
