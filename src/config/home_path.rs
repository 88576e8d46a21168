//! Paths in a configuration: absolute, or in the home folder.

use std::path::{Path, PathBuf};

/// A path that is absolute, or begins with `~/`.
pub(super) fn expand_home(path: &str) -> Result<PathBuf, String> {
    if let Some(rest) = path.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        let home = etcetera::home_dir().map_err(|_| "there is no home folder".to_owned())?;
        return Ok(home.join(rest.trim_start_matches('/')));
    }
    let path = Path::new(path);
    path.is_absolute()
        .then(|| path.to_owned())
        .ok_or_else(|| "expected an absolute path, or one that begins with ~/".to_owned())
}
