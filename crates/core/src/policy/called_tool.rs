//! The tool that a call is about, as an approver is shown it.

use serde::Serialize;

/// A tool of a skill that is called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CalledTool {
    /// Its name in the skill.
    pub name: String,
    /// What a call may do, as its author states it for the tool or else for the skill, such as `read-only`.
    pub risk_level: Option<String>,
    /// The same from 0, no risk, to 100.
    pub risk_score: Option<u8>,
    /// Whether a person must agree to each call.
    pub requires_confirmation: bool,
}

/// For the other packages of metier; may change in any release.
#[doc(hidden)]
impl CalledTool {
    /// A tool of that name, which states no risk and asks for nothing.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), risk_level: None, risk_score: None, requires_confirmation: false }
    }

    /// The same with that risk.
    pub fn risk(self, level: Option<String>, score: Option<u8>) -> Self {
        Self { risk_level: level, risk_score: score, ..self }
    }

    /// The same, with or without the need of a person's consent.
    pub fn confirmation(self, is_required: bool) -> Self {
        Self { requires_confirmation: is_required, ..self }
    }
}
