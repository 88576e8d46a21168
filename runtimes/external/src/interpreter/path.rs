//! Programs on `PATH`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use metier_core::host::untrusted::UntrustedDirs;

/// The folders that are searched if the host has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The absolute folders of `PATH`. A relative one would find its programs in the project.
pub(crate) fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(DEFAULT_PATH));
    std::env::split_paths(&path).filter(|folder| folder.is_absolute()).collect()
}

/// Whether a program of that name is on `PATH`. It is not started.
pub fn is_on_path(name: &str) -> bool {
    !name.contains('/') && find_on_path(name, &search_path()).is_some()
}

/// The first program of that name.
pub(crate) fn find_on_path(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    find_all_on_path(name, folders).next()
}

/// The first program of that name on `PATH` that untrusted folders do not control.
pub fn find_trusted(name: &str, untrusted: &UntrustedDirs) -> Option<PathBuf> {
    find_all_on_path(name, &search_path()).find(|program| !untrusted.may_control(program))
}

/// All programs of that name, in the order of the folders.
pub(super) fn find_all_on_path(name: &str, folders: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    // A program that was set by its path is in no folder.
    let set = Some(PathBuf::from(name)).filter(|name| name.is_absolute());
    let folders = if set.is_some() { &[] } else { folders };
    set.into_iter()
        .chain(folders.iter().map(move |folder| folder.join(name)))
        .filter(|path| is_executable_file(path))
}

/// Whether this is a file that the user may execute.
pub(crate) fn is_executable_file(path: &Path) -> bool {
    path.is_file() && may_execute(path)
}

#[cfg(unix)]
fn may_execute(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn may_execute(_: &Path) -> bool {
    true
}
