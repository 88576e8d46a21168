//! A problem found by discovery at a path on disk.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use metier_skill::{Diagnostic, Severity};

/// A skill that does not load or cannot run, a folder that was not searched, or a skill that another one shadows.
///
/// Serialises as `{path, severity, message, help, skipped, diagnostics}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Problem {
    /// The file or folder concerned; for a skill inside the program, what [`Skill::path`](super::Skill::path) returns.
    pub path: PathBuf,
    /// How severe it is: an error hides a skill, a warning may, the rest is worth knowing.
    pub severity: Severity,
    /// One sentence: what is wrong.
    pub message: String,
    /// How to fix it, where that is known.
    pub help: Option<String>,
    /// Whether the file or folder was left out.
    pub skipped: bool,
    /// The parser's diagnostics of a `SKILL.md` that does not load, or of a contract with which the skill cannot run.
    pub diagnostics: Vec<Diagnostic>,
}

impl Problem {
    /// A file or folder that was left out, and why.
    pub(super) fn skipped_entry(
        path: impl Into<PathBuf>,
        severity: Severity,
        message: impl Into<String>,
    ) -> Self {
        Self { skipped: true, ..Self::note(path, severity, message) }
    }

    /// A note about something that was not left out.
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

    /// A `SKILL.md` that does not load: the blocking diagnostic, and all the others.
    pub(super) fn not_loaded(path: PathBuf, diagnostics: Vec<Diagnostic>) -> Self {
        let cause = diagnostics.iter().find(|diagnostic| diagnostic.blocks);
        let message = cause.map_or("it does not load", |cause| &cause.message).to_owned();
        let help = cause.and_then(|cause| cause.help.clone());
        Self { help, diagnostics, ..Self::skipped_entry(path, Severity::Error, message) }
    }

    /// A contract that prevents its skill from running; the skill stays listed.
    pub(super) fn invalid_contract(path: PathBuf, diagnostics: Vec<Diagnostic>) -> Self {
        Self { skipped: false, ..Self::not_loaded(path, diagnostics) }
    }

    pub(super) fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }

    /// The diagnostic that prevents the skill from loading.
    pub(crate) fn blocking_diagnostic(&self) -> Option<&Diagnostic> {
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
