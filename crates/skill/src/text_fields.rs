//! The fields that are free text: description, license, compatibility.

use super::yaml::{Entry, Node};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::lint::Rule;
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
