//! A diagnostic about a `SKILL.md`, a contract or a plan: what is wrong, where, and how to fix it.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

/// A diagnostic.
///
/// Serialises as `{code, severity, line, column, message, help}`.
///
/// ```
/// # mod metier { pub use metier_core::*; pub use metier_skill as skill; pub use metier_skill::formats; }
/// use metier::skill::{Profile, SkillLocation, parse};
///
/// let location = SkillLocation { directory: "greeting", file_name: "SKILL.md" };
/// let parsed = parse(b"---\nname: Greeting\n---\n", location);
/// assert!(!parsed.is_valid(Profile::Spec));
/// for diagnostic in parsed.diagnostics(Profile::Spec) {
///     println!("{}: {}", diagnostic.code, diagnostic.message);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The stable code, one of [`RULES`](super::RULES).
    pub code: &'static str,
    /// The severity under the profile that was used.
    pub severity: Severity,
    /// The line in the file, from 1.
    pub line: u32,
    /// The column in characters, from 1; a byte order mark is not counted.
    pub column: u32,
    /// One sentence: what is wrong.
    pub message: String,
    /// How to fix it, where that is known.
    pub help: Option<String>,
    /// The bytes of the file that it is about; may be empty, and always lies inside the file.
    #[serde(skip)]
    pub span: Range<usize>,
    /// Whether the skill does not load, or does not run, because of it.
    #[serde(skip)]
    pub blocks: bool,
}

/// The severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information; nothing is wrong.
    Info,
    /// It works here, but maybe not in other clients.
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
