//! Allowed and denied tools: what a caller, or the program around a server, leaves of the tools of skills and of the host.

use crate::error::{ErrorKind, Result, SkillError};
use crate::policy::tool::{plain_tool_name, split_tool_name};

/// Allowed and denied tools, by `NAME` of the host's or `SKILL.TOOL` of a skill's; `SKILL.*` is every tool of a skill. What is denied is
/// denied, also where it is allowed. An empty filter leaves every tool.
///
/// ```
/// # use metier_core as metier;
/// use metier::policy::ToolFilter;
///
/// # fn main() -> metier::error::Result<()> {
/// let filter = ToolFilter::default().allow(["weather.*", "search"])?.deny(["weather.delete"])?;
/// assert!(filter.accepts("weather.forecast") && filter.accepts("search"));
/// assert!(!filter.accepts("weather.delete") && !filter.accepts("mail.send"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// `None` for every tool.
    allowed: Option<Vec<String>>,
    denied: Vec<String>,
}

/// Every tool of a skill.
const EVERY_TOOL: &str = "*";

impl ToolFilter {
    /// Leaves only these tools, besides those that were allowed before; `usage` for a list without names, and for the name of a skill
    /// with a root or a version: what runs under a name may be another skill of it.
    pub fn allow(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        let names = checked_names(names)?;
        let is_qualified =
            |name: &&String| split_tool_name(name).is_some_and(|(skill, _)| skill.contains([':', '@']));
        if let Some(name) = names.iter().find(is_qualified) {
            let sentence = format!("`{}` names a root or a version of a skill", name.escape_debug());
            return Err(SkillError::new(ErrorKind::Usage, sentence)
                .with_help("allow tools by the plain name of their skill, such as weather.forecast"));
        }
        self.allowed.get_or_insert_default().extend(names);
        Ok(self)
    }

    /// Leaves out these tools; `usage` for a list without names.
    pub fn deny(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Result<Self> {
        self.denied.extend(checked_names(names)?);
        Ok(self)
    }

    /// Whether it leaves the tool of that name, whatever root and version the name of its skill has.
    pub fn accepts(&self, name: &str) -> bool {
        let is_listed = |list: &[String]| list.iter().any(|listed| matches(listed, name));
        self.allowed.as_deref().is_none_or(is_listed) && !is_listed(&self.denied)
    }

    /// Whether it leaves every tool.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_none() && self.denied.is_empty()
    }

    /// The names that mean none of these tools, each once: probably mistakes.
    pub fn unknown_names<'a>(&'a self, tools: &[String]) -> Vec<&'a str> {
        let mut unknown: Vec<&str> = Vec::new();
        for listed in self.allowed.iter().flatten().chain(&self.denied) {
            let is_known = tools.iter().any(|tool| matches(listed, tool));
            if !is_known && !unknown.contains(&listed.as_str()) {
                unknown.push(listed);
            }
        }
        unknown
    }
}

fn matches(listed: &str, name: &str) -> bool {
    match split_tool_name(listed) {
        Some((_, EVERY_TOOL)) => {
            let skill = |name: &str| {
                let plain = plain_tool_name(name);
                plain.rsplit_once('.').map(|(skill, _)| skill.to_owned())
            };
            split_tool_name(name).is_some() && skill(listed) == skill(name)
        }
        _ => listed == name || plain_tool_name(listed) == plain_tool_name(name),
    }
}

/// A list that is empty, or has an empty name, is a mistake, and would mean everything or nothing.
fn checked_names(names: impl IntoIterator<Item = impl Into<String>>) -> Result<Vec<String>> {
    let names: Vec<String> = names.into_iter().map(|name| name.into().trim().to_owned()).collect();
    if names.is_empty() || names.iter().any(String::is_empty) {
        let sentence = "a list of tools has at least one name, and no empty ones";
        return Err(SkillError::new(ErrorKind::Usage, sentence)
            .with_help("write names such as search, weather.forecast or weather.*"));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(allowed: &[&str], denied: &[&str]) -> ToolFilter {
        let filter = ToolFilter::default();
        let filter = if allowed.is_empty() { filter } else { filter.allow(allowed.to_vec()).unwrap() };
        if denied.is_empty() { filter } else { filter.deny(denied.to_vec()).unwrap() }
    }

    #[test]
    fn what_is_denied_is_denied_also_where_it_is_allowed() {
        // SW-18, SW-T04
        let both = filter(&["a.x", "a.y", "search"], &["a.x"]);
        assert_eq!(
            ["a.x", "a.y", "search", "b.x"].map(|name| both.accepts(name)),
            [false, true, true, false]
        );
        let nothing = filter(&["a.x"], &["a.*"]);
        assert!(!nothing.accepts("a.x") && !nothing.is_empty());
        assert!(ToolFilter::default().accepts("anything") && ToolFilter::default().is_empty());
    }

    #[test]
    fn no_other_name_of_a_tool_gets_around_it() {
        let denied = filter(&[], &["weather.delete"]);
        let all = filter(&[], &["project/.metier:weather.*"]);
        for name in [
            "weather.delete",
            "project/.metier:weather.delete",
            "weather@1.0.0.delete",
            "user/metier:weather@^1.delete",
            " weather.delete",
            "ｗｅａｔｈｅｒ.delete",
        ] {
            assert!(!denied.accepts(name) && !all.accepts(name), "{name}");
        }
        assert!(denied.accepts("weather.delete2") && denied.accepts("my-weather.delete"));
        assert!(all.accepts("weather") && all.accepts("weatherx.delete"));
    }

    #[test]
    fn a_qualified_name_allows_nothing() {
        for name in ["user/metier:weather.forecast", "weather@1.0.0.forecast", "project:weather.*"] {
            let refused = ToolFilter::default().allow([name]).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Usage, "{name}");
            assert!(ToolFilter::default().deny([name]).is_ok());
        }
    }

    #[test]
    fn a_list_without_names_is_a_mistake() {
        for names in [&[][..], &[""], &["a", " "]] {
            let kind = |result: Result<ToolFilter>| result.unwrap_err().kind();
            assert_eq!(kind(ToolFilter::default().allow(names.to_vec())), ErrorKind::Usage, "{names:?}");
            assert_eq!(kind(ToolFilter::default().deny(names.to_vec())), ErrorKind::Usage, "{names:?}");
        }
    }

    #[test]
    fn names_that_mean_no_tool_are_reported_once() {
        let tools = ["a.x".to_owned(), "search".to_owned()];
        let filter = filter(&["a.*", "a.z", "serach"], &["search", "a.z"]);
        assert_eq!(filter.unknown_names(&tools), ["a.z", "serach"]);
    }
}
