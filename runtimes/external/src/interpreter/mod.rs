//! Interpreters: which one runs a script, where it is installed, and what it must be able to read.

#[cfg(unix)]
pub(super) mod cache;
pub(super) mod detect;
#[cfg(unix)]
pub(super) mod lookup_cache;
pub(super) mod path;
#[cfg(unix)]
pub(super) mod path_dir;
#[cfg(unix)]
pub(super) mod prefix;
pub(super) mod required_version;
pub(super) mod shebang;
#[cfg(unix)]
pub(super) mod version;
#[cfg(unix)]
pub(super) mod version_manager;
#[cfg(unix)]
pub(super) mod version_text;
