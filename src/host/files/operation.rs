//! What is being done to which path: the beginning of every sentence about files, and the permission it takes.

use std::fmt;
use std::io;

use crate::error::{ErrorKind, SkillError};
use crate::policy::Access;

/// An operation on a path; reads as `failed to read notes.txt`.
#[derive(Clone, Copy)]
pub(super) struct FileOperation<'a> {
    verb: &'static str,
    pub(super) is_write: bool,
    is_file_read: bool,
    pub(super) path: &'a str,
}

impl<'a> FileOperation<'a> {
    pub(super) fn inspect(verb: &'static str, path: &'a str) -> Self {
        Self { verb, is_write: false, is_file_read: false, path }
    }

    /// Reading what can only be a file: there is nothing below its path.
    pub(super) fn read(path: &'a str) -> Self {
        Self { is_file_read: true, ..Self::inspect("read", path) }
    }

    pub(super) fn write(verb: &'static str, path: &'a str) -> Self {
        Self { verb, is_write: true, is_file_read: false, path }
    }

    /// Whether only what the path lies in matters, since it can be no folder.
    pub(super) fn is_file_read(&self) -> bool {
        self.is_file_read
    }

    /// What doing this to `path` takes.
    pub(super) fn required_access(&self, path: &str) -> Access {
        if self.is_write { Access::write(path) } else { Access::read(path) }
    }

    /// The operating system's refusal, or our own that came the same way.
    pub(super) fn io_error(&self, source: io::Error) -> SkillError {
        match source.downcast::<SkillError>() {
            Ok(own) => self.with_context(own),
            Err(source) => SkillError::io(self, source),
        }
    }

    /// A refusal of ours, with what it was that failed. What stopped the run says so itself.
    pub(super) fn with_context(&self, error: SkillError) -> SkillError {
        if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Timeout) {
            return error;
        }
        let told = SkillError::new(error.kind(), format!("{self}: {error}"));
        match error.help() {
            Some(help) => told.with_help(help),
            None => told,
        }
    }

    /// Our own refusal, with the way out.
    pub(super) fn refusal(&self, why: impl fmt::Display, help: &str) -> SkillError {
        SkillError::new(ErrorKind::Io, format!("{self}: {why}; {help}")).with_help(help)
    }
}

impl fmt::Display for FileOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "." } else { self.path };
        write!(f, "failed to {} {path}", self.verb)
    }
}
