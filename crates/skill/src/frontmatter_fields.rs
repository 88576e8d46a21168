//! The fields of the frontmatter that metier reads itself: texts, the runtime and the allowed tools.

use std::ops::Range;

use super::yaml::{Entry, Node, Value};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint::{self, Rule};
use crate::version::parse_version_range;

pub(super) const MAX_DESCRIPTION: usize = 1024;
pub(super) const MAX_COMPATIBILITY: usize = 500;

/// The description, trimmed; `None` if it is missing, empty or no text.
pub(super) fn description(entry: Option<&Entry>, report: &mut DiagnosticSink<'_>) -> Option<String> {
    const HELP: &str = "say in a sentence what the skill does and when to use it";
    let Some(Entry { node, .. }) = entry else {
        let message = "Missing required field in frontmatter: description";
        report.add_missing(&lint::DESCRIPTION_MISSING, message).help(HELP);
        return None;
    };
    let text = text(node, &lint::DESCRIPTION_NOT_TEXT, "description", report)?;
    if text.is_empty() {
        let message = "description must be a non-empty string";
        report.add(&lint::DESCRIPTION_EMPTY, &node.span, message).help(HELP);
        return None;
    }
    check_length(node, &text, MAX_DESCRIPTION, &lint::DESCRIPTION_TOO_LONG, "description", report);
    Some(text)
}

pub(super) fn license(entry: Option<&Entry>, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let text = text(&entry?.node, &lint::LICENSE_NOT_TEXT, "license", report)?;
    (!text.is_empty()).then_some(text)
}

pub(super) fn compatibility(entry: Option<&Entry>, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let node = &entry?.node;
    let text = text(node, &lint::COMPATIBILITY_NOT_TEXT, "compatibility", report)?;
    if text.is_empty() {
        let message = "compatibility is empty; it must hold 1 to 500 characters";
        report.add(&lint::COMPATIBILITY_EMPTY, &node.span, message).help("remove the line");
        return None;
    }
    check_length(node, &text, MAX_COMPATIBILITY, &lint::COMPATIBILITY_TOO_LONG, "compatibility", report);
    check_version_range(node, &text, report);
    Some(text)
}

/// Some systems write versions of themselves there. A text that begins like a range and is none is for readers.
fn check_version_range(node: &Node, text: &str, report: &mut DiagnosticSink<'_>) {
    let begins_like_range = text.starts_with(|c: char| "<>=^~".contains(c));
    let range = begins_like_range.then(|| parse_version_range(text)).flatten();
    let Some(own) = semver::Version::parse(env!("CARGO_PKG_VERSION")).ok() else { return };
    if range.is_some_and(|range| !range.matches(&own)) {
        let message = format!("compatibility is the range of versions {text}, and this is metier {own}");
        report
            .add(&lint::COMPATIBILITY_VERSION, &node.span, message)
            .help("it is compared for this warning only; the skill runs");
    }
}

/// The trimmed text of a scalar; null is empty.
fn text(node: &Node, not_text: &Rule, field: &str, report: &mut DiagnosticSink<'_>) -> Option<String> {
    match node.text() {
        Some(_) if node.is_null() => Some(String::new()),
        Some(text) => Some(text.trim().to_owned()),
        None => {
            report.add(not_text, &node.span, format!("{field} must be a string, not a list or a map"));
            None
        }
    }
}

fn check_length(
    node: &Node,
    text: &str,
    limit: usize,
    rule: &Rule,
    field: &str,
    report: &mut DiagnosticSink<'_>,
) {
    let length = text.chars().count();
    if length > limit {
        let message = format!("{field} exceeds {limit} character limit ({length} characters)");
        report.add(rule, &node.span, message);
    }
}

/// The declared runtime. If both keys are there and differ, that is an error, and the one at top level counts.
pub(super) fn runtime(
    top: Option<&Entry>,
    nested: Option<&Entry>,
    report: &mut DiagnosticSink<'_>,
) -> Option<String> {
    if let Some(entry) = top {
        let message = "runtime stands at top level, where strict validators refuse it";
        report
            .add(&lint::RUNTIME_AT_TOP_LEVEL, &entry.key_span, message)
            .help("move it under `metadata:` to please them");
    }
    let outer = runtime_name(top).unwrap_or_else(|span| {
        report.add(&lint::RUNTIME_NOT_TEXT, &span, "runtime must be a name such as `lua` or `external`");
        None
    });
    let inner = runtime_name(nested).unwrap_or_else(|span| {
        let message = "metadata.runtime is not the name of a runtime, so the script runs by its extension";
        report.add(&lint::METADATA_RUNTIME, &span, message).help("write a name such as `lua` or `external`");
        None
    });
    if let (Some(outer), Some(inner), Some(entry)) = (&outer, &inner, nested)
        && outer != inner
    {
        let message = format!("runtime is `{outer}` at top level and `{inner}` under metadata");
        report.add(&lint::RUNTIME_DISAGREES, &entry.node.span, message).help("keep one of them");
    }
    outer.or(inner)
}

/// The name that is declared, if any; the place of a value that is no name.
fn runtime_name(entry: Option<&Entry>) -> Result<Option<String>, Range<usize>> {
    let Some(Entry { node, .. }) = entry else { return Ok(None) };
    match node.text().map(str::trim) {
        Some(text) if !text.is_empty() && !node.is_null() => Ok(Some(text.to_owned())),
        _ => Err(node.span.clone()),
    }
}

const HELP: &str = "write one line with spaces: `allowed-tools: Read Bash(git add:*)`";

/// The tools, as written and in written order.
pub(super) fn allowed_tools(entry: Option<&Entry>, report: &mut DiagnosticSink<'_>) -> Vec<String> {
    let Some(Entry { node, .. }) = entry else { return Vec::new() };
    match &node.value {
        Value::Scalar(_) if node.is_null() => Vec::new(),
        Value::Scalar(text) => from_text(text, node, report),
        Value::List(items) => {
            report.add(&lint::ALLOWED_TOOLS_FORM, &node.span, "allowed-tools is a list").help(HELP);
            items.iter().filter_map(|item| from_item(item, report)).flatten().collect()
        }
        Value::Map(_) => {
            report.add(&lint::ALLOWED_TOOLS_NOT_TEXT, &node.span, "allowed-tools is a map").help(HELP);
            Vec::new()
        }
    }
}

fn from_text(text: &str, node: &Node, report: &mut DiagnosticSink<'_>) -> Vec<String> {
    let split = split_tools(text);
    if split.has_commas {
        report.add(&lint::ALLOWED_TOOLS_FORM, &node.span, "allowed-tools is separated by commas").help(HELP);
    }
    if split.unbalanced {
        let message = "a parenthesis in allowed-tools has no partner";
        report.add(&lint::ALLOWED_TOOLS_UNBALANCED, &node.span, message);
    }
    split.tools
}

fn from_item(item: &Node, report: &mut DiagnosticSink<'_>) -> Option<Vec<String>> {
    let Some(text) = item.text() else {
        report
            .add(&lint::ALLOWED_TOOLS_NOT_TEXT, &item.span, "an allowed tool is a list or a map")
            .help(HELP);
        return None;
    };
    let tool = text.trim();
    (!tool.is_empty()).then(|| split_tools(tool).tools)
}

#[derive(Debug, Default, PartialEq, Eq)]
struct SplitTools {
    tools: Vec<String>,
    has_commas: bool,
    unbalanced: bool,
}

/// Splits at spaces and commas outside parentheses: `Bash(git add:*)` is one tool.
fn split_tools(text: &str) -> SplitTools {
    let mut split = SplitTools::default();
    let mut tool = String::new();
    let mut depth = 0_usize;
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => split.unbalanced = true,
            ')' => depth -= 1,
            _ => {}
        }
        let separates = depth == 0 && (character == ',' || character.is_whitespace());
        if !separates {
            tool.push(character);
            continue;
        }
        split.has_commas |= character == ',';
        split.end(&mut tool);
    }
    split.unbalanced |= depth > 0;
    split.end(&mut tool);
    split
}

impl SplitTools {
    fn end(&mut self, tool: &mut String) {
        if !tool.is_empty() {
            self.tools.push(std::mem::take(tool));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_and_commas_separate_outside_parentheses() {
        assert_eq!(split_tools("Read  Bash(git add:*)\tWrite").tools, ["Read", "Bash(git add:*)", "Write"]);
        assert_eq!(split_tools("Bash(a, b), Read,").tools, ["Bash(a, b)", "Read"]);
        assert_eq!(split_tools("Bash(f(x) y) Read").tools, ["Bash(f(x) y)", "Read"]);
        assert_eq!(split_tools(" , ").tools, [""; 0]);
    }

    #[test]
    fn a_lonely_parenthesis_is_noticed() {
        assert!(split_tools("Bash(git add Read").unbalanced);
        assert!(split_tools("Read) Write").unbalanced);
        assert!(!split_tools("Bash(git:*) Read").unbalanced);
    }
}
