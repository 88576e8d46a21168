//! Calls of what an embedder implements, and the error where it is not there.

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::catch_panic::catch_panic;

/// The result of a provider; a panic is `unavailable`.
pub(super) fn call_provider<T>(what: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_panic(&format!("the provider of {what}"), ErrorKind::Unavailable, call)
}

/// The error where a run has no such provider.
pub(super) fn unavailable(what: &str) -> SkillError {
    SkillError::new(ErrorKind::Unavailable, format!("this host does not provide {what} to skills"))
}
