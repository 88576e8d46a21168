//! One thing to say about a `SKILL.md`: where it is, what is wrong, and the way out.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// A finding in a `SKILL.md`.
///
/// Serialises as `{code, severity, line, column, message, help}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The stable code, one of [`RULES`](super::RULES).
    pub code: &'static str,
    /// How much it matters under the profile it was asked for.
    pub severity: Severity,
    /// The line in the file, from 1.
    pub line: u32,
    /// The column in characters, from 1; a byte order mark counts nothing.
    pub column: u32,
    /// One sentence: what is wrong.
    pub message: String,
    /// The way out, where there is one to name.
    pub help: Option<String>,
    /// The bytes of the file it is about, to point at; may be empty, never leaves the file.
    #[serde(skip)]
    pub span: Range<usize>,
    /// The skill does not load because of it.
    #[serde(skip)]
    pub blocks: bool,
}

/// How much a diagnostic matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Works here; other clients may differ.
    Warning,
    /// The skill is not valid.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// `3:7: error[name-uppercase]: the name …`
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, severity, line, column, message, .. } = self;
        write!(f, "{line}:{column}: {severity}[{code}]: {message}")
    }
}
