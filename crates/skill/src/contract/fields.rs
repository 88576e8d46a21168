//! Reads the values of a contract as typed values. A value of another type is reported and treated as absent.

use serde_json::{Map, Value as Json};

use super::super::yaml::{Entry, Node, Value};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::metadata::is_fact;
use metier_core::error::Result;
use metier_core::suggestion::{closest, did_you_mean, is_one_typo, same_word};

/// The number of unknown keys of one map that get a diagnostic each.
const MAX_REPORTED: usize = 16;
/// Longer keys are not compared with known ones.
const MAX_KEY_LEN: usize = 32;

pub(crate) fn find<'a>(entries: &'a [Entry], key: &str) -> Option<&'a Node> {
    entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node)
}

/// The entries of a map; empty for null.
pub(crate) fn entries<'a>(
    node: &'a Node,
    what: &str,
    report: &mut DiagnosticSink<'_>,
) -> Option<&'a [Entry]> {
    match &node.value {
        Value::Map(entries) => Some(entries),
        Value::Scalar(_) if node.is_null() => Some(&[]),
        Value::Scalar(_) | Value::List(_) => {
            report_invalid(node, &format!("{what} must be a map"), report);
            None
        }
    }
}

/// The items of a list; empty for null.
pub(crate) fn items<'a>(node: &'a Node, what: &str, report: &mut DiagnosticSink<'_>) -> Option<&'a [Node]> {
    match &node.value {
        Value::List(items) => Some(items),
        Value::Scalar(_) if node.is_null() => Some(&[]),
        Value::Scalar(_) | Value::Map(_) => {
            report_invalid(node, &format!("{what} must be a list"), report);
            None
        }
    }
}

/// The trimmed source text of a scalar; `None` for null.
pub(crate) fn text(node: Option<&Node>, what: &str, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let node = node?;
    match node.text().map(str::trim) {
        Some(_) if node.is_null() => None,
        Some(text) if !text.is_empty() => Some(text.to_owned()),
        _ => {
            report_invalid(node, &format!("{what} must be a text"), report);
            None
        }
    }
}

pub(crate) fn flag(node: Option<&Node>, what: &str, report: &mut DiagnosticSink<'_>) -> Option<bool> {
    let node = node?;
    match node.to_json() {
        Ok(Json::Bool(flag)) => Some(flag),
        Ok(Json::Null) => None,
        _ => {
            let message = format!("{what} must be true or false");
            let found = report.add(&lint::CONTRACT_VALUE, &node.span, message);
            let word = node.text().map(|text| text.trim().to_ascii_lowercase());
            let is_among = |words: [&str; 4]| word.as_deref().is_some_and(|word| words.contains(&word));
            if is_among(["yes", "on", "y", "true"]) {
                found.help("write `true`, without quotes");
            } else if is_among(["no", "off", "n", "false"]) {
                found.help("write `false`, without quotes");
            }
            None
        }
    }
}

/// Any JSON value.
pub(crate) fn json(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<Json> {
    node.to_json().map_err(|fault| report.add(&lint::CONTRACT_VALUE, &fault.span, fault.message)).ok()
}

/// A number with a unit.
pub(crate) fn amount<T>(
    node: Option<&Node>,
    what: &str,
    parse: impl Fn(&str) -> Result<T>,
    report: &mut DiagnosticSink<'_>,
) -> Option<T> {
    let node = node?;
    let text = text(Some(node), what, report)?;
    parse(&text).map_err(|error| report_invalid(node, &format!("{what}: {error}"), report)).ok()
}

pub(crate) fn report_invalid(node: &Node, sentence: &str, report: &mut DiagnosticSink<'_>) {
    report.add(&lint::CONTRACT_VALUE, &node.span, sentence);
}

/// What other systems call the keys of a contract: none of these words means anything else there.
const OTHER_NAMES: [(&str, &[&str]); 16] = [
    (
        "inputs",
        &[
            "input_schema",
            "inputs_schema",
            "inputs_json_schema",
            "input_parameters",
            "input_params",
            "parameters",
            "parameters_schema",
            "function_parameters",
            "params",
            "args",
            "args_schema",
            "arguments",
            "schema",
            "properties",
        ],
    ),
    (
        "outputs",
        &[
            "output_schema",
            "outputs_schema",
            "returns",
            "return_type",
            "return_schema",
            "result",
            "response_schema",
        ],
    ),
    ("entrypoint", &["handler", "script"]),
    ("permissions", &["allowed_tools", "grants", "required_permissions", "permissions_required"]),
    (
        "requires_confirmation",
        &[
            "confirm",
            "confirmation",
            "confirmation_required",
            "needs_confirmation",
            "requires_approval",
            "require_approval",
            "needs_approval",
            "approval_required",
        ],
    ),
    ("risk_level", &["risk"]),
    ("config", &["settings", "configuration"]),
    ("env", &["environment", "env_var", "environment_variable"]),
    ("secret", &["sensitive", "is_secret"]),
    ("required", &["is_required", "mandatory"]),
    ("default", &["default_value"]),
    (
        "timeout",
        &[
            "time_limit",
            "time_limit_ms",
            "max_time",
            "timeout_ms",
            "timeout_seconds",
            "timeout_in_seconds",
            "execution_timeout",
        ],
    ),
    ("memory", &["max_memory", "max_memory_mb", "memory_limit", "memory_mb", "memory_bytes"]),
    ("operations", &["max_operations"]),
    ("output", &["max_output", "max_output_size", "output_limit", "output_bytes"]),
    ("expected_output", &["expected", "expect"]),
];

/// The unknown keys of a map with their values. One that is near a known key is an error, since what it says would be lost; every
/// other one is reported with a warning.
pub(crate) fn unknown_keys(
    entries: &[Entry],
    known: &[&str],
    place: &str,
    report: &mut DiagnosticSink<'_>,
) -> Map<String, Json> {
    report_unknown_keys(entries, known, place, &lint::CONTRACT_KEY, report)
}

/// The same for a map that may have keys of anybody: one that is only similar to a known key is reported with a warning.
pub(crate) fn open_keys(
    entries: &[Entry],
    known: &[&str],
    place: &str,
    report: &mut DiagnosticSink<'_>,
) -> Map<String, Json> {
    report_unknown_keys(entries, known, place, &lint::KEY_TYPO, report)
}

fn report_unknown_keys(
    entries: &[Entry],
    known: &[&str],
    place: &str,
    similar: &lint::Rule,
    report: &mut DiagnosticSink<'_>,
) -> Map<String, Json> {
    let unknown: Vec<&Entry> = entries.iter().filter(|entry| !known.contains(&entry.key.as_str())).collect();
    let is_absent = |meant: &str| !entries.iter().any(|entry| entry.key == meant);
    let mut warned = Vec::new();
    for entry in &unknown {
        let Entry { key, key_span, node, .. } = *entry;
        let message = || format!("`{key}` is not a key of {place}");
        let renamed = renamed_key(key, known).filter(|meant| may_be_lost(meant, node));
        let similar_key = similar_key(key, known).filter(|_| !is_fact(key));
        if let Some(meant) = renamed {
            report.add(&lint::CONTRACT_KEY, key_span, message()).help(did_you_mean(meant));
        } else if let Some(meant) = similar_key.filter(|meant| is_one_typo(key, meant) && is_absent(meant)) {
            report.add(similar, key_span, message()).help(did_you_mean(meant));
        } else {
            warned.push((key_span, message(), similar_key));
        }
    }
    for (key_span, message, meant) in warned.iter().take(MAX_REPORTED) {
        match meant {
            Some(meant) => report.add(&lint::KEY_TYPO, key_span, message.clone()).help(did_you_mean(meant)),
            None => report
                .add(&lint::KEY_UNKNOWN, key_span, message.clone())
                .help("it is kept, and nothing reads it"),
        }
    }
    if let Some((first, ..)) = warned.get(MAX_REPORTED) {
        let message = format!("{} more unknown keys in {place}", warned.len() - MAX_REPORTED);
        report.add(&lint::KEY_UNKNOWN, first, message);
    }
    unknown.iter().filter_map(|entry| Some((entry.key.clone(), json(&entry.node, report)?))).collect()
}

/// Whether a value may be what the known key is for. Other systems also have an `entryPoint` that names no file, and a `schema` that is
/// a version.
fn may_be_lost(meant: &str, node: &Node) -> bool {
    let is_file = |text: &str| text.contains(['.', '/']);
    match (meant, &node.value) {
        ("inputs", Value::Scalar(_)) | ("entrypoint" | "entrypoints", Value::List(_)) => false,
        ("entrypoint" | "entrypoints", Value::Scalar(text)) => is_file(text),
        ("entrypoint" | "entrypoints", Value::Map(entries)) => {
            entries.iter().any(|entry| entry.key == "path" || entry.node.text().is_some_and(is_file))
        }
        _ => true,
    }
}

/// The known key that another one certainly means: in another spelling, or by the name that other systems have for it.
fn renamed_key<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    if key.len() > MAX_KEY_LEN {
        return None;
    }
    let has_name = |meant: &str| {
        let mut names = OTHER_NAMES.iter().filter(|(known, _)| *known == meant);
        names.any(|(_, names)| same_word(key, names.iter()).is_some())
            // The scripts of another system are several commands.
            && !(meant == "entrypoint" && key.ends_with('s'))
    };
    same_word(key, known.iter().copied()).or_else(|| known.iter().copied().find(|meant| has_name(meant)))
}

/// The known key that this one is, in another spelling, by another name, or with one typing error.
pub(crate) fn probable_key<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let mistyped = || similar_key(key, known).filter(|meant| is_one_typo(key, meant) && !is_fact(key));
    renamed_key(key, known).or_else(mistyped)
}

/// The known key that was probably meant.
pub(crate) fn similar_key<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    if key.len() > MAX_KEY_LEN {
        return None;
    }
    closest(key, known.iter().copied())
}
