//! What discovery has to say about a place on disk.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::skill::{Diagnostic, Severity};

/// A skill that does not load or does not run, a folder that was not searched, or a skill that another one shadows.
///
/// Serialises as `{path, severity, message, help, skipped, diagnostics}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The file or folder it is about; `shipped:NAME` for a skill inside the binary.
    pub path: PathBuf,
    /// How much it matters: an error hides a skill, a warning may, the rest is worth knowing.
    pub severity: Severity,
    /// One sentence: what is wrong.
    pub message: String,
    /// The way out, where there is one to name.
    pub help: Option<String>,
    /// Whether what lies at the path was left out.
    pub skipped: bool,
    /// What the parser found in a `SKILL.md` that does not load, or in a contract that nothing runs by.
    pub diagnostics: Vec<Diagnostic>,
}

impl Problem {
    /// A file or folder left out, for that reason.
    pub(super) fn skipped_entry(
        path: impl Into<PathBuf>,
        severity: Severity,
        message: impl Into<String>,
    ) -> Self {
        Self { skipped: true, ..Self::note(path, severity, message) }
    }

    /// Something worth knowing about what was not left out.
    pub(super) fn note(path: impl Into<PathBuf>, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            severity,
            message: message.into(),
            help: None,
            skipped: false,
            diagnostics: Vec::new(),
        }
    }

    /// A `SKILL.md` that does not load: the finding that blocks it, and all the others.
    pub(super) fn not_loaded(path: PathBuf, diagnostics: Vec<Diagnostic>) -> Self {
        let cause = diagnostics.iter().find(|diagnostic| diagnostic.blocks);
        let message = cause.map_or("it does not load", |cause| &cause.message).to_owned();
        let help = cause.and_then(|cause| cause.help.clone());
        Self { help, diagnostics, ..Self::skipped_entry(path, Severity::Error, message) }
    }

    /// A contract by which its skill, which is listed, does not run.
    pub(super) fn invalid_contract(path: PathBuf, diagnostics: Vec<Diagnostic>) -> Self {
        Self { skipped: false, ..Self::not_loaded(path, diagnostics) }
    }

    pub(super) fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The finding that keeps the skill from loading.
    pub fn blocking_diagnostic(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|diagnostic| diagnostic.blocks)
    }
}

/// `.metier/skills/x/SKILL.md:3:7: Invalid YAML in frontmatter: …`
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.blocking_diagnostic() {
            Some(Diagnostic { line, column, .. }) => write!(f, "{path}:{line}:{column}: {}", self.message),
            None => write!(f, "{path}: {}", self.message),
        }
    }
}
