//! What is being done to which path: the beginning of every sentence about files, and the permission it takes.

use std::fmt;
use std::io;

use crate::error::{ErrorKind, SkillError};
use crate::policy::Need;

/// An operation on a path; reads as `failed to read notes.txt`.
#[derive(Clone, Copy)]
pub(super) struct Attempt<'a> {
    verb: &'static str,
    pub(super) changes: bool,
    opens_a_file: bool,
    pub(super) path: &'a str,
}

impl<'a> Attempt<'a> {
    pub(super) fn look(verb: &'static str, path: &'a str) -> Self {
        Self { verb, changes: false, opens_a_file: false, path }
    }

    /// Reading what can only be a file: there is nothing below its path.
    pub(super) fn read(path: &'a str) -> Self {
        Self { opens_a_file: true, ..Self::look("read", path) }
    }

    pub(super) fn change(verb: &'static str, path: &'a str) -> Self {
        Self { verb, changes: true, opens_a_file: false, path }
    }

    /// Whether only what the path lies in matters, since it can be no folder.
    pub(super) fn opens_a_file(&self) -> bool {
        self.opens_a_file
    }

    /// What doing this to `path` takes.
    pub(super) fn need(&self, path: &str) -> Need {
        if self.changes { Need::write(path) } else { Need::read(path) }
    }

    /// The operating system's refusal, or our own that came the same way.
    pub(super) fn io(&self, source: io::Error) -> SkillError {
        match source.downcast::<SkillError>() {
            Ok(own) => self.own(own),
            Err(source) => SkillError::io(self, source),
        }
    }

    /// A refusal of ours, with what it was that failed. What stopped the run says so itself.
    pub(super) fn own(&self, error: SkillError) -> SkillError {
        if matches!(error.kind(), ErrorKind::Cancelled | ErrorKind::Deadline) {
            return error;
        }
        let told = SkillError::new(error.kind(), format!("{self}: {error}"));
        match error.help() {
            Some(help) => told.with_help(help),
            None => told,
        }
    }

    /// Our own refusal, with the way out.
    pub(super) fn refused(&self, why: impl fmt::Display, help: &str) -> SkillError {
        SkillError::new(ErrorKind::Io, format!("{self}: {why}; {help}")).with_help(help)
    }
}

impl fmt::Display for Attempt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "." } else { self.path };
        write!(f, "failed to {} {path}", self.verb)
    }
}
