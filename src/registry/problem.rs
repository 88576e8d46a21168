//! What discovery left out, cut short or refused, and why.

use std::fmt;
use std::path::PathBuf;

use crate::skill::Diagnostic;

/// One thing that is wrong with a root or a skill.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub message: String,
    /// Where in the file, and the way out, when a SKILL.md did not load.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether a skill is missing because of it.
    pub skipped: bool,
}

impl Problem {
    pub(super) fn new(path: impl Into<PathBuf>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into(), diagnostics: Vec::new(), skipped: false }
    }

    pub(super) fn skipping(mut self) -> Self {
        self.skipped = true;
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.diagnostics.first() {
            Some(first) => {
                write!(f, "{}:{}:{}: {}", self.path.display(), first.line, first.column, self.message)
            }
            None => write!(f, "{}: {}", self.path.display(), self.message),
        }
    }
}
