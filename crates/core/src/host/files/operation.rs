//! A file operation on a path: the beginning of its error messages, and the permission it needs.

use std::fmt;
use std::io;

use crate::error::{ErrorContext, ErrorKind, SkillError};
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

    /// Reading a path that can only be a file, so that nothing is below it.
    pub(super) fn read(path: &'a str) -> Self {
        Self { is_file_read: true, ..Self::inspect("read", path) }
    }

    pub(super) fn write(verb: &'static str, path: &'a str) -> Self {
        Self { verb, is_write: true, is_file_read: false, path }
    }

    /// Whether only the folders above the path matter, since the path itself cannot be a folder.
    pub(super) fn is_file_read(&self) -> bool {
        self.is_file_read
    }

    /// The access that this operation on `path` needs.
    pub(super) fn required_access(&self, path: &str) -> Access {
        if self.is_write { Access::write(path) } else { Access::read(path) }
    }

    /// The error for a system error, or for one of our own that was wrapped as a system error.
    pub(super) fn io_error(&self, source: io::Error) -> SkillError {
        match source.downcast::<SkillError>() {
            Ok(own) => self.with_context(own),
            Err(source) => SkillError::io(self, source),
        }
    }

    /// One of our errors, prefixed with the failed operation. The error of a stopped run is unchanged.
    pub(super) fn with_context(&self, error: SkillError) -> SkillError {
        if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Timeout) {
            return error;
        }
        error.with_message(format!("{self}: {error}"))
    }

    /// An I/O error of our own, with a hint.
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

/// The error for FIFOs, sockets and devices.
pub fn not_regular_file() -> io::Error {
    io::Error::other("it is not a regular file")
}
