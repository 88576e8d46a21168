//! Where a project begins.

use std::path::{Component, Path, PathBuf};

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
