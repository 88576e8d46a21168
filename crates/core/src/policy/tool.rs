//! The name of a tool, and the tool that a call is about, as an approver is shown it.

use serde::Serialize;
use unicode_normalization::UnicodeNormalization;

/// The skill and the tool in `SKILL.TOOL`; a tool's own name has no dot. `None` for a name without both parts.
pub fn split_tool_name(name: &str) -> Option<(&str, &str)> {
    let (skill, tool) = name.rsplit_once('.')?;
    (!skill.trim().is_empty() && !tool.is_empty()).then_some((skill, tool))
}

/// The name in `SCOPE/ROOT:NAME@VERSION`, as a lookup compares it.
pub(crate) fn plain_skill_name(name: &str) -> String {
    let name: String = name.trim().nfkc().collect();
    let name = name.split('@').next().unwrap_or_default();
    name.rsplit(':').next().unwrap_or_default().trim().to_owned()
}

/// `NAME.TOOL` of any name of the same tool: whatever root and version it names besides. Other names stay as they are.
pub(crate) fn plain_tool_name(name: &str) -> String {
    match split_tool_name(name) {
        Some((skill, tool)) => format!("{}.{tool}", plain_skill_name(skill)),
        None => name.to_owned(),
    }
}

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

/// A tool of that name, with the risk that its author states, and whether a person must agree to each call.
pub fn called_tool(
    name: impl Into<String>,
    (risk_level, risk_score): (Option<String>, Option<u8>),
    requires_confirmation: bool,
) -> CalledTool {
    CalledTool { name: name.into(), risk_level, risk_score, requires_confirmation }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_tool_has_one_plain_form() {
        for name in [
            "weather.forecast",
            "project/.metier:weather.forecast",
            "project/.metier:weather@1.2.0.forecast",
            "weather@^1.2.forecast",
            " weather .forecast",
            "ｗｅａｔｈｅｒ.forecast",
        ] {
            assert_eq!(plain_tool_name(name), "weather.forecast", "{name}");
        }
        for name in ["search", ".x", "x.", ".", ""] {
            assert_eq!(split_tool_name(name), None, "{name}");
            assert_eq!(plain_tool_name(name), name);
        }
    }
}
