//! Turns a panic in foreign code into an error of the run, so that it does not end the host process.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{ErrorKind, Result, SkillError};

/// Returns the result of `work`; if it panics, an error of this kind that names what panicked (`the runtime panicked: index out
/// of bounds`).
pub fn catch_panic<T>(who: &str, kind: ErrorKind, work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given");
        Err(SkillError::new(kind, format!("{who} panicked: {message}")))
    })
}
