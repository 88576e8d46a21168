//! The names of the tools that skills offer: `SKILL.TOOL`, where the skill may be qualified.

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
