//! Interpreters: which one runs a script, where it is installed, and what it reads.

#[cfg(unix)]
pub(super) mod cache;
pub(super) mod detect;
#[cfg(unix)]
pub(super) mod prefix;
pub(super) mod shebang;
#[cfg(unix)]
pub(super) mod version;
