//! Which folder is the project.

use std::path::{Path, PathBuf};

/// The nearest folder, from `start` upwards, that holds `.<product>` or `.git`; `start` itself where none does.
pub fn project_root(start: &Path, product: &str) -> PathBuf {
    let start = std::path::absolute(start).unwrap_or_else(|_| start.to_owned());
    let start = std::fs::canonicalize(&start).unwrap_or(start);
    let marks = [format!(".{product}"), ".git".into()];
    let found = start.ancestors().find(|folder| marks.iter().any(|mark| folder.join(mark).exists()));
    found.map_or(start.clone(), Path::to_owned)
}
