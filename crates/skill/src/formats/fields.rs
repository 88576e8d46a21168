//! Reads the values of definitions that are strict about their keys.

use crate::contract::fields;
use crate::contract::fields::{find, similar_key};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node, Style, Value};
use metier_core::suggestion::did_you_mean;

/// A text that the format requires, as it is written and not blank. Blanks around a name are part of it, as for the systems that read
/// these formats.
pub(super) fn required_text(
    entries: &[Entry],
    key: &str,
    place: &str,
    report: &mut DiagnosticSink<'_>,
) -> Option<String> {
    let Some(node) = find(entries, key) else {
        missing(key, place, report);
        return None;
    };
    filled_text(node, key, report)
}

fn filled_text(node: &Node, key: &str, report: &mut DiagnosticSink<'_>) -> Option<String> {
    match node.text() {
        Some(text) if !is_blank(text) && is_text(node) => Some(text.to_owned()),
        _ => {
            fields::report_invalid(node, &format!("`{key}` must be a text that is not empty"), report);
            None
        }
    }
}

/// Whether a text has nothing to read: a mark of the byte order counts as a blank, as in JavaScript.
pub(super) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == '\u{feff}')
}

/// As [`required_text`], without the blanks around it: for what only people read.
pub(super) fn required_prose(
    entries: &[Entry],
    key: &str,
    place: &str,
    report: &mut DiagnosticSink<'_>,
) -> Option<String> {
    required_text(entries, key, place, report).map(|text| text.trim().to_owned())
}

/// Reports that a key is missing.
pub(super) fn missing(key: &str, place: &str, report: &mut DiagnosticSink<'_>) {
    report.add(&lint::FIELD_MISSING, &(0..0), format!("{place} needs `{key}`")).help(format!("add `{key}`"));
}

/// A text that may be absent, as it is written and not blank.
pub(super) fn text(entries: &[Entry], key: &str, report: &mut DiagnosticSink<'_>) -> Option<String> {
    find(entries, key).and_then(|node| filled_text(node, key, report))
}

/// The entries of a map, which null is not.
pub(super) fn map_entries<'a>(
    node: &'a Node,
    what: &str,
    report: &mut DiagnosticSink<'_>,
) -> Option<&'a [Entry]> {
    if node.is_null() {
        fields::report_invalid(node, &format!("{what} must be a map"), report);
        return None;
    }
    fields::entries(node, what, report)
}

/// The items of a list, which null is not.
pub(super) fn list_items<'a>(
    node: &'a Node,
    what: &str,
    report: &mut DiagnosticSink<'_>,
) -> Option<&'a [Node]> {
    if node.is_null() {
        fields::report_invalid(node, &format!("{what} must be a list"), report);
        return None;
    }
    fields::items(node, what, report)
}

/// A list of texts that are not blank, each as it is written in quotes or as a plain word.
pub(super) fn texts(entries: &[Entry], key: &str, report: &mut DiagnosticSink<'_>) -> Vec<String> {
    let Some(node) = find(entries, key) else { return Vec::new() };
    let items = list_items(node, key, report).unwrap_or_default();
    let text = |item: &Node, report: &mut DiagnosticSink<'_>| match item.text() {
        Some(text) if !is_blank(text) && is_text(item) => Some(text.to_owned()),
        _ => {
            fields::report_invalid(item, &format!("`{key}` must be a list of texts"), report);
            None
        }
    };
    items.iter().filter_map(|item| text(item, report)).collect()
}

/// Whether a scalar is a text and not a number, a flag or null.
pub(super) fn is_text(node: &Node) -> bool {
    node.style != Style::Plain || matches!(node.to_json(), Ok(serde_json::Value::String(_)))
}

/// The pairs of a map whose values are texts.
pub(super) fn text_pairs(
    entries: &[Entry],
    key: &str,
    report: &mut DiagnosticSink<'_>,
) -> Vec<(String, String)> {
    let Some(pairs) = find(entries, key).and_then(|node| map_entries(node, key, report)) else {
        return Vec::new();
    };
    let pair = |entry: &Entry, report: &mut DiagnosticSink<'_>| match &entry.node.value {
        Value::Scalar(text) if is_text(&entry.node) => Some((entry.key.clone(), text.clone())),
        _ => {
            fields::report_invalid(
                &entry.node,
                &format!("`{}` under `{key}` must be a text", entry.key),
                report,
            );
            None
        }
    };
    pairs.iter().filter_map(|entry| pair(entry, report)).collect()
}

/// Refuses keys that the format does not allow: a misspelt key would lose what it says.
pub(super) fn require_known(entries: &[Entry], known: &[&str], place: &str, report: &mut DiagnosticSink<'_>) {
    for Entry { key, key_span, .. } in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        let shown = metier_core::excerpt::shorten(key, 60);
        let help = match similar_key(key, known) {
            Some(meant) => did_you_mean(meant),
            None => format!("its keys are {}", known.join(", ")),
        };
        report.add(&lint::FIELD_UNKNOWN, key_span, format!("`{shown}` is not a key of {place}")).help(help);
    }
}
