//! Our errors inside system errors: how they pass through functions that return [`io::Error`].

use std::io;

use crate::error::SkillError;

/// Wraps an error so that it passes through a function that returns system errors.
pub(super) fn into_io_error(error: SkillError) -> io::Error {
    io::Error::other(error)
}

/// Whether a system error wraps one of our errors.
pub(super) fn is_skill_error(error: &io::Error) -> bool {
    error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<SkillError>)
}
