//! A skill that does not load, recorded so that a lookup can report why.

use unicode_normalization::UnicodeNormalization;

use super::origin::SkillAddress;
use super::problem::Problem;
use metier_core::error::{ErrorKind, Location, SkillError};
use metier_skill::{Diagnostic, Severity};

/// A `SKILL.md` without a manifest. The folder's name is the only name it has.
#[derive(Clone, Debug)]
pub(super) struct BrokenSkill {
    /// The name of its folder.
    pub(super) name: String,
    pub(super) address: SkillAddress,
    pub(super) problem: Problem,
}

impl BrokenSkill {
    pub(super) fn new(address: SkillAddress, problem: Problem) -> Self {
        let name = address.folder_name().nfkc().collect();
        Self { name, address, problem }
    }

    /// A skill that was read but cannot be loaded.
    pub(super) fn from_diagnostics(address: SkillAddress, diagnostics: Vec<Diagnostic>) -> Self {
        let problem = Problem::not_loaded(address.path(), diagnostics);
        Self::new(address, problem)
    }

    /// A skill whose file could not be read.
    pub(super) fn from_read_error(address: SkillAddress, error: &SkillError) -> Self {
        let problem = Problem::skipped_entry(address.path(), Severity::Error, error.message());
        let problem = match error.help() {
            Some(help) => problem.with_help(help),
            None => problem,
        };
        Self::new(address, problem)
    }

    /// The error for a lookup by that name.
    pub(super) fn error(&self, name: &str) -> SkillError {
        let Problem { path, message, help, .. } = &self.problem;
        let path = path.display();
        let cause = self.problem.blocking_diagnostic();
        let line = cause.map(|cause| format!(":{}:{}", cause.line, cause.column)).unwrap_or_default();
        let sentence = format!("the skill `{name}` does not load: {path}{line}: {message}");
        let error = SkillError::new(ErrorKind::InvalidSkill, sentence);
        let (line, column) = (cause.map(|cause| cause.line), cause.map(|cause| cause.column));
        let location =
            Location::new(self.address.file_name, line, column).with_path(self.address.disk_path());
        let error = error.with_location(location);
        match help {
            Some(help) => error.with_help(help),
            None => error,
        }
    }
}
