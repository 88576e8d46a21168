//! The verdict of the reference validator, bugs included.
//!
//! It ends the frontmatter at the first `---` after the opening one, wherever that is; it accepts only the subset of YAML that
//! `strictyaml` accepts; and it refuses every key outside the specification.

use std::ops::Range;

use super::diagnostic::{Diagnostic, Severity};
use super::frontmatter::MAX_FRONTMATTER;
use super::name::{self, normalise};
use super::yaml::{self, Entry, Node, Tree, Value, YamlError};
use crate::diagnostic_sink::{DiagnosticSink, find_control_character};
use crate::frontmatter_fields::{MAX_COMPATIBILITY, MAX_DESCRIPTION};
use crate::lint;
use crate::manifest::SkillLocation;
use crate::yaml::Style;

const FILES: [&str; 2] = ["SKILL.md", "skill.md"];
const KEYS: [&str; 6] = ["allowed-tools", "compatibility", "description", "license", "metadata", "name"];

/// YAML that is already parsed, and its span.
type ParsedFrontmatter<'a> = (&'a Range<usize>, Result<&'a Tree, &'a YamlError>);

/// The errors of the reference validator and, as warnings, what prevents the skill from loading here.
///
/// `parsed` is used if the reference finds the frontmatter at the same place, as it usually does.
pub(super) fn check(
    text: &str,
    place: SkillLocation<'_>,
    parsed: Option<ParsedFrontmatter<'_>>,
    spec: &[Diagnostic],
) -> Vec<Diagnostic> {
    let mut report = DiagnosticSink::new(text);
    report.set_opening(0..text.len().min(3));
    if FILES.contains(&place.file_name) {
        check_text(text, place, parsed, &mut report);
    } else {
        report.add(&lint::FILE_NAME, &(0..0), "Missing required file: SKILL.md");
    }
    let mut found = report.finish();
    let blocking = spec.iter().filter(|diagnostic| diagnostic.blocks);
    let unreported: Vec<_> =
        blocking.filter(|blocking| found.iter().all(|known| known.code != blocking.code)).collect();
    found.extend(
        unreported
            .into_iter()
            .map(|diagnostic| Diagnostic { severity: Severity::Warning, ..diagnostic.clone() }),
    );
    found
}

fn check_text(
    text: &str,
    place: SkillLocation<'_>,
    parsed: Option<ParsedFrontmatter<'_>>,
    report: &mut DiagnosticSink<'_>,
) {
    let Some(after) = text.strip_prefix("---") else {
        let message = "SKILL.md must start with YAML frontmatter (---)";
        report.add(&lint::FRONTMATTER_MISSING, &(0..0), message);
        return;
    };
    let Some(length) = after.find("---") else {
        let message = "SKILL.md frontmatter not properly closed with ---";
        report.add_missing(&lint::FRONTMATTER_UNCLOSED, message);
        return;
    };
    let yaml = 3..3 + length;
    match parsed {
        Some((at, tree)) if at.end == yaml.end && text[yaml.start..at.start].trim().is_empty() => {
            check_yaml(text, &yaml, place, tree, report);
        }
        _ if length > MAX_FRONTMATTER => {
            report.add_missing(&lint::FRONTMATTER_TOO_LARGE, "frontmatter is larger than 64 KiB");
        }
        _ => check_yaml(text, &yaml, place, yaml::parse_within(text, &yaml).as_ref(), report),
    }
}

fn check_yaml(
    text: &str,
    yaml: &Range<usize>,
    place: SkillLocation<'_>,
    tree: Result<&Tree, &YamlError>,
    report: &mut DiagnosticSink<'_>,
) {
    if let Some(at) = find_control_character(&text[yaml.clone()]) {
        let at = yaml.start + at;
        report.add(&lint::CONTROL_CHARACTER, &(at..at + 1), "the frontmatter holds a control character");
        return;
    }
    let tree = match tree {
        Ok(tree) => tree,
        Err(fault) => {
            report.add(fault.rule, &fault.span, format!("Invalid YAML in frontmatter: {}", fault.message));
            return;
        }
    };
    if let Some((span, what)) = first_refusal(text, yaml, tree) {
        report.add(&lint::YAML_NOT_STRICT, &span, format!("Invalid YAML in frontmatter: {what}"));
        return;
    }
    match &tree.root {
        Some(Node { value: Value::Map(entries), .. }) => check_entries(entries, place, report),
        _ => {
            report.add_missing(&lint::NOT_A_MAP, "SKILL.md frontmatter must be a YAML mapping");
        }
    }
}

fn check_entries(entries: &[Entry], place: SkillLocation<'_>, report: &mut DiagnosticSink<'_>) {
    check_keys(entries, report);
    let field = |key: &str| entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node);
    check_name(field("name"), place.directory, report);
    check_description(field("description"), report);
    if let Some(node) = field("compatibility") {
        check_compatibility(node, report);
    }
}

fn check_keys(entries: &[Entry], report: &mut DiagnosticSink<'_>) {
    let unexpected = || entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str()));
    let Some(first) = unexpected().next() else { return };
    let mut keys: Vec<_> = unexpected().map(|entry| entry.key.as_str()).collect();
    keys.sort_unstable();
    let (keys, allowed) = (keys.join(", "), KEYS.join(", "));
    let message = format!("Unexpected fields in frontmatter: {keys}; only {allowed} are allowed");
    report.add(&lint::KEY_UNEXPECTED, &first.key_span, message).help("move them under `metadata:`");
}

fn check_name(node: Option<&Node>, directory: &str, report: &mut DiagnosticSink<'_>) {
    let Some(node) = node else {
        report.add_missing(&lint::NAME_MISSING, "Missing required field in frontmatter: name");
        return;
    };
    let Some(raw) = node.text().filter(|text| !text.trim().is_empty()) else {
        report.add(&lint::NAME_EMPTY, &node.span, "name must be a non-empty string");
        return;
    };
    let name = normalise(raw);
    let faults = name::name_problems(&name, is_alphanumeric_in_python);
    for (rule, message) in faults.into_iter().chain(name::directory_mismatch(&name, directory)) {
        report.add(rule, &node.span, message);
    }
}

fn check_description(node: Option<&Node>, report: &mut DiagnosticSink<'_>) {
    let Some(node) = node else {
        report.add_missing(&lint::DESCRIPTION_MISSING, "Missing required field in frontmatter: description");
        return;
    };
    let Some(text) = node.text().filter(|text| !text.trim().is_empty()) else {
        report.add(&lint::DESCRIPTION_EMPTY, &node.span, "description must be a non-empty string");
        return;
    };
    let length = text.chars().count();
    if length > MAX_DESCRIPTION {
        let message = format!("description exceeds {MAX_DESCRIPTION} character limit ({length} characters)");
        report.add(&lint::DESCRIPTION_TOO_LONG, &node.span, message);
    }
}

fn check_compatibility(node: &Node, report: &mut DiagnosticSink<'_>) {
    let Some(text) = node.text() else {
        report.add(&lint::COMPATIBILITY_NOT_TEXT, &node.span, "compatibility must be a string");
        return;
    };
    let length = text.chars().count();
    if length > MAX_COMPATIBILITY {
        let message =
            format!("compatibility exceeds {MAX_COMPATIBILITY} character limit ({length} characters)");
        report.add(&lint::COMPATIBILITY_TOO_LONG, &node.span, message);
    }
}

/// Python's `str.isalnum`: unlike Rust's, it leaves out combining vowel signs and the squared letters.
fn is_alphanumeric_in_python(c: char) -> bool {
    let is_squared = matches!(c, '\u{1f130}'..='\u{1f189}');
    c.is_alphanumeric() && !unicode_normalization::char::is_combining_mark(c) && !is_squared
}

/// A span, and what is not allowed there.
type Refusal = (Range<usize>, &'static str);

/// The first construct outside of the strict subset. `yaml` is where the document lies in `text`.
fn first_refusal(text: &str, yaml: &Range<usize>, tree: &Tree) -> Option<Refusal> {
    if let Some(span) = &tree.first_property {
        return Some((span.clone(), "anchors, aliases and tags are not allowed"));
    }
    if let Some(at) = stray_tab(text, yaml, tree) {
        return Some((at..at + 1, "a tab cannot start a token"));
    }
    tree.root.as_ref().and_then(refusal_in_node)
}

fn refusal_in_node(node: &Node) -> Option<Refusal> {
    match &node.value {
        Value::Scalar(_) => None,
        Value::List(_) | Value::Map(_) if node.style == Style::Flow => {
            Some((node.span.clone(), "flow style ([…], {…}) is not allowed"))
        }
        Value::List(items) => items.iter().find_map(refusal_in_node),
        Value::Map(entries) => entries.iter().find_map(refusal_in_entry).or_else(|| uneven_maps(entries)),
    }
}

fn refusal_in_entry(entry: &Entry) -> Option<Refusal> {
    if entry.key == "<<" {
        return Some((entry.key_span.clone(), "merge keys are not allowed"));
    }
    refusal_in_node(&entry.node)
}

/// Maps that are values of one map must all be indented alike.
fn uneven_maps(entries: &[Entry]) -> Option<Refusal> {
    let mut maps = entries.iter().map(|entry| &entry.node).filter(|node| matches!(node.value, Value::Map(_)));
    let column = maps.next()?.column;
    let uneven = maps.find(|map| map.column != column)?;
    Some((uneven.span.clone(), "this mapping is indented unlike the one before it"))
}

/// A tab outside quotes, block scalars and comments.
fn stray_tab(text: &str, yaml: &Range<usize>, tree: &Tree) -> Option<usize> {
    if !text[yaml.clone()].contains('\t') {
        return None;
    }
    let mut covered = Vec::new();
    if let Some(root) = &tree.root {
        collect_quoted_spans(root, &mut covered);
    }
    // Without aliases the spans are sorted, so each tab takes one binary search.
    let is_covered = |at: usize| {
        let next = covered.partition_point(|span| span.end <= at);
        covered.get(next).is_some_and(|span| span.start <= at)
    };
    tabs_in_code(text, yaml).find(|&at| !is_covered(at))
}

fn tabs_in_code(text: &str, yaml: &Range<usize>) -> impl Iterator<Item = usize> {
    let lines = text[yaml.clone()].split_inclusive('\n').scan(yaml.start, |offset, line| {
        let start = *offset;
        *offset += line.len();
        Some((start, line))
    });
    lines.flat_map(|(start, line)| without_comment(line).match_indices('\t').map(move |(at, _)| start + at))
}

fn without_comment(line: &str) -> &str {
    if line.trim_start().starts_with('#') {
        return "";
    }
    &line[..line.find(" #").unwrap_or(line.len())]
}

fn collect_quoted_spans(node: &Node, spans: &mut Vec<Range<usize>>) {
    match &node.value {
        Value::Scalar(_) if node.style == Style::Plain => {}
        Value::Scalar(_) => spans.push(node.span.clone()),
        Value::List(items) => items.iter().for_each(|item| collect_quoted_spans(item, spans)),
        Value::Map(entries) => entries.iter().for_each(|entry| collect_quoted_spans(&entry.node, spans)),
    }
}
