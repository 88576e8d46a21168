//! A skill that does not load, remembered so that whoever asks for it hears why.

use super::origin::Address;
use super::problem::Problem;
use crate::error::{ErrorKind, Location, SkillError};
use crate::skill::{Diagnostic, Severity};

/// A `SKILL.md` without a manifest. Its folder's name is the only one it has.
#[derive(Clone, Debug)]
pub(super) struct Broken {
    pub(super) address: Address,
    pub(super) problem: Problem,
}

impl Broken {
    /// One that was read and cannot be loaded.
    pub(super) fn text(address: Address, diagnostics: Vec<Diagnostic>) -> Self {
        Self { problem: Problem::unreadable(address.path(), diagnostics), address }
    }

    /// One that could not even be read.
    pub(super) fn file(address: Address, error: &SkillError) -> Self {
        let problem = Problem::skipped(address.path(), Severity::Error, error.message());
        Self { address, problem }
    }

    /// The error for whoever asked for it under that name.
    pub(super) fn error(&self, name: &str) -> SkillError {
        let Problem { path, message, help, .. } = &self.problem;
        let path = path.display();
        let cause = self.problem.cause();
        let line = cause.map(|cause| format!(":{}:{}", cause.line, cause.column)).unwrap_or_default();
        let sentence = format!("the skill `{name}` does not load: {path}{line}: {message}");
        let error = SkillError::new(ErrorKind::InvalidSkill, sentence).with_location(Location {
            file: self.address.file.to_owned(),
            line: cause.map(|cause| cause.line),
            column: cause.map(|cause| cause.column),
        });
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }
}
