//! A folder of `PATH` as a sandboxed script sees it.

use std::path::{Path, PathBuf};

use crate::system_paths::{SYSTEM_PATHS, is_system_path, real_path};
use metier_core::host::begins_with;

/// A folder of `PATH`.
pub(crate) struct PathDir {
    pub(crate) path: PathBuf,
    /// Without symlinks; `None` for a folder of the system, and for one that does not exist.
    real_path: Option<PathBuf>,
    /// Whether every script that this interpreter runs may read some of its content.
    pub(crate) is_readable: bool,
}

impl PathDir {
    /// A folder for scripts that may read the system and these prefixes.
    pub(super) fn new(path: &Path, prefixes: &[(&Path, Option<PathBuf>)]) -> Self {
        let real_path = if is_system_path(path) { None } else { real_path(path) };
        let is_near_prefix = |real: &Path| {
            prefixes.iter().any(|(prefix, real_prefix)| {
                prefix.starts_with(path) || real_prefix.as_ref().is_some_and(|prefix| overlap(prefix, real))
            })
        };
        let is_readable = is_system_path(path)
            || real_path.as_deref().is_some_and(|real| {
                SYSTEM_PATHS.iter().any(|system| overlap(Path::new(system), real)) || is_near_prefix(real)
            });
        Self { path: path.to_owned(), real_path, is_readable }
    }

    /// Whether this path is inside the folder, or contains it. A symlink in the folder may be all that is readable of it.
    pub(crate) fn overlaps(&self, path: &Path) -> bool {
        self.real_path.as_ref().is_some_and(|real| begins_with(path, &self.path) || overlap(path, real))
    }
}

fn overlap(one: &Path, other: &Path) -> bool {
    begins_with(one, other) || begins_with(other, one)
}
