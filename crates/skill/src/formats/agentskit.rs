//! The JSON forms of AgentsKit: a skill (what a model becomes), a package with one, and a manifest with tools.
//!
//! The contract of the format numbers its rules S1 to S12 for skills and T1 to T12 for tools; a diagnostic names the rule.

use std::collections::HashSet;

use serde_json::Value as Json;

use crate::contract::fields::{self, find};
use crate::contract::{
    Contract, ContractMetadata, PermissionRequest, Persona, ProvidedTool, Publication, SchemaRole, Turn,
    read_schema,
};
use crate::diagnostic_sink::DiagnosticSink;
use crate::formats::fields::{
    is_blank, is_text, list_items, map_entries, missing, required_text, text, texts,
};
use crate::lint;
use crate::yaml::{Entry, Node, Style, Value};

const SKILL: &str = "an AgentsKit skill";
const PACKAGE: &str = "an AgentsKit package";
const MANIFEST: &str = "an AgentsKit manifest";
const SKILL_KEYS: [&str; 8] =
    ["name", "description", "systemPrompt", "examples", "tools", "delegates", "temperature", "metadata"];
const PACKAGE_KEYS: [&str; 5] = ["version", "publisher", "publishedAt", "tags", "skill"];
const MANIFEST_KEYS: [&str; 9] = [
    "manifestVersion",
    "name",
    "version",
    "publisher",
    "homepage",
    "description",
    "tools",
    "skills",
    "metadata",
];
const TOOL_KEYS: [&str; 6] =
    ["name", "description", "inputSchema", "tags", "category", "requiresConfirmation"];
/// Keys by which something would be called: a skill is activated and never called.
const EXECUTION_KEYS: [&str; 4] = ["run", "execute", "invoke", "onActivate"];
const MANIFEST_VERSION: &str = "2026-04";
/// The most characters of a name.
const MAX_NAME: usize = 64;

pub(super) fn read_skill(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Contract {
    read_skill_in(entries, false, report)
}

/// The skills of a manifest need no description.
fn read_skill_in(entries: &[Entry], is_in_manifest: bool, report: &mut DiagnosticSink<'_>) -> Contract {
    for entry in entries.iter().filter(|entry| EXECUTION_KEYS.contains(&entry.key.as_str())) {
        let rule = if entry.key == "onActivate" { "S9" } else { "S10" };
        let message =
            format!("`{}` cannot stand in a definition: a skill is activated, and not called", entry.key);
        broken(rule, entry.key_span.clone(), &message, report);
    }
    let tools = references(entries, ("tools", "S5"), report);
    let requests = tools.iter().map(|name| {
        let permission = format!("tool:{name}");
        PermissionRequest::from_words(&permission, &permission)
    });
    Contract {
        name: read_name(entries, "S1", SKILL, report),
        description: read_description(entries, is_in_manifest, report),
        permissions: Some(requests.collect()),
        persona: Some(Persona {
            instructions: read_prompt(entries, report),
            examples: read_examples(find(entries, "examples"), report),
            tools,
            delegates: references(entries, ("delegates", "S6"), report),
            temperature: read_temperature(find(entries, "temperature"), report),
        }),
        metadata: read_metadata(find(entries, "metadata"), report),
        unknown: fields::open_keys(&without(entries, &EXECUTION_KEYS), &SKILL_KEYS, SKILL, report),
        ..Contract::default()
    }
}

pub(super) fn read_package(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Contract {
    let skill = find(entries, "skill").and_then(|node| map_entries(node, "skill", report));
    let contract = read_skill(skill.unwrap_or_default(), report);
    let mut unknown = contract.unknown;
    unknown.extend(fields::open_keys(entries, &PACKAGE_KEYS, PACKAGE, report));
    Contract {
        version: read_version(entries, PACKAGE, report),
        publication: Publication {
            publisher: text(entries, "publisher", report),
            published_at: text(entries, "publishedAt", report),
            tags: texts(entries, "tags", report),
            ..Publication::default()
        },
        unknown,
        ..contract
    }
}

pub(super) fn read_manifest(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Contract {
    if let Some(node) = find(entries, "manifestVersion").filter(|node| node.text() != Some(MANIFEST_VERSION))
    {
        fields::report_invalid(node, &format!("`manifestVersion` must be \"{MANIFEST_VERSION}\""), report);
    }
    let skills = find(entries, "skills").and_then(|node| list_items(node, "skills", report));
    let own = match skills.unwrap_or_default() {
        [] => Contract {
            name: read_name(entries, "S1", MANIFEST, report),
            description: text(entries, "description", report),
            ..Contract::default()
        },
        [only] => read_skill_in(map_entries(only, "a skill", report).unwrap_or_default(), true, report),
        [_, second, ..] => {
            let message = "the manifest has several skills, and a folder holds one";
            report.add(&lint::CONTRACT_VALUE, &second.span, message).help("make a folder of each");
            Contract::default()
        }
    };
    required_text(entries, "name", MANIFEST, report);
    let mut unknown = own.unknown;
    unknown.extend(fields::open_keys(entries, &MANIFEST_KEYS, MANIFEST, report));
    let metadata = read_metadata(find(entries, "metadata"), report);
    // Only packages are published by strict versions.
    let version = required_text(entries, "version", MANIFEST, report)
        .and_then(|_| entries.iter().find(|entry| entry.key == "version"));
    Contract {
        version: version.map(|entry| crate::version::read(Some(entry), report)),
        description: own.description.or_else(|| text(entries, "description", report)),
        publication: Publication {
            publisher: text(entries, "publisher", report),
            homepage: text(entries, "homepage", report),
            ..Publication::default()
        },
        tools: read_tools(find(entries, "tools"), report),
        metadata: if metadata.unknown.is_empty() { own.metadata } else { metadata },
        unknown,
        ..own
    }
}

/// Reports that a definition breaks a numbered rule.
fn broken(rule: &str, span: std::ops::Range<usize>, message: &str, report: &mut DiagnosticSink<'_>) {
    report.add(&lint::INVARIANT_BROKEN, &span, format!("AK_SKILL_INVALID, {rule}: {message}"));
}

fn span(entries: &[Entry], key: &str) -> std::ops::Range<usize> {
    find(entries, key).map_or(0..0, |node| node.span.clone())
}

fn without(entries: &[Entry], keys: &[&str]) -> Vec<Entry> {
    entries.iter().filter(|entry| !keys.contains(&entry.key.as_str())).cloned().collect()
}

/// Whether a text is a name of a skill or a tool.
pub(super) fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(is_plain)
}

fn read_name(entries: &[Entry], rule: &str, place: &str, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let name = required_text(entries, "name", place, report)?;
    if is_name(&name) {
        return Some(name);
    }
    let message = format!(
        "the name must begin with a letter or `_` and have at most {MAX_NAME} letters, digits, `_` and `-`, not `{}`",
        metier_core::excerpt::shorten(&name, 80)
    );
    broken(rule, span(entries, "name"), &message, report);
    None
}

fn read_description(entries: &[Entry], is_optional: bool, report: &mut DiagnosticSink<'_>) -> Option<String> {
    let description = if is_optional {
        text(entries, "description", report)?
    } else {
        required_text(entries, "description", SKILL, report)?
    };
    // A block of YAML ends with a line break that nobody wrote.
    let is_block = find(entries, "description").is_some_and(|node| node.style == Style::Block);
    let line = description.strip_suffix('\n').filter(|_| is_block).unwrap_or(&description);
    if line.contains(['\n', '\r']) {
        broken("S2", span(entries, "description"), "the description must be one line", report);
    }
    Some(line.to_owned())
}

fn read_prompt(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> String {
    match find(entries, "systemPrompt") {
        Some(node) if is_text(node) && node.text().is_some_and(|text| !is_blank(text)) => {
            node.text().unwrap_or_default().to_owned()
        }
        Some(node) => {
            broken("S3", node.span.clone(), "`systemPrompt` must be a text that is not blank", report);
            String::new()
        }
        None => {
            missing("systemPrompt", SKILL, report);
            String::new()
        }
    }
}

fn read_examples(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<Turn> {
    let Some(node) = node else { return Vec::new() };
    let Value::List(items) = &node.value else {
        broken("S4", node.span.clone(), "`examples` must be a list", report);
        return Vec::new();
    };
    let turn = |item: &Node, report: &mut DiagnosticSink<'_>| {
        let side = |key: &str| match &item.value {
            Value::Map(entries) if entries.len() == 2 => find(entries, key)
                .filter(|node| is_text(node))
                .and_then(Node::text)
                .filter(|text| !is_blank(text)),
            _ => None,
        };
        let Some((input, output)) = side("input").zip(side("output")) else {
            let message =
                "an example has an `input` and an `output`, both texts that are not blank, and nothing else";
            broken("S4", item.span.clone(), message, report);
            return None;
        };
        Some(Turn::new(input.to_owned(), output.to_owned()))
    };
    items.iter().filter_map(|item| turn(item, report)).collect()
}

/// Names of tools or skills, each once.
fn references(entries: &[Entry], (key, rule): (&str, &str), report: &mut DiagnosticSink<'_>) -> Vec<String> {
    let Some(node) = find(entries, key) else { return Vec::new() };
    let Value::List(items) = &node.value else {
        broken(rule, node.span.clone(), &format!("`{key}` must be a list of names"), report);
        return Vec::new();
    };
    let (mut names, mut seen) = (Vec::new(), HashSet::new());
    for item in items {
        match item.text().filter(|name| is_text(item) && is_name(name)) {
            Some(name) if seen.insert(name) => names.push(name.to_owned()),
            Some(name) => {
                broken(rule, item.span.clone(), &format!("`{name}` stands twice under `{key}`"), report);
            }
            None => broken(rule, item.span.clone(), &format!("`{key}` must be a list of names"), report),
        }
    }
    names
}

fn read_temperature(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Option<f64> {
    let node = node?;
    let value = node.to_json().ok().and_then(|value| value.as_f64());
    let value = value.filter(|value| (0.0..=2.0).contains(value));
    if value.is_none() {
        broken("S8", node.span.clone(), "`temperature` must be a number from 0 to 2", report);
    }
    value
}

/// Any JSON object, whose shape means nothing here.
fn read_metadata(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> ContractMetadata {
    let Some(node) = node else { return ContractMetadata::default() };
    let is_object = matches!(node.value, Value::Map(_));
    if !is_object {
        broken("S12", node.span.clone(), "`metadata` must be an object", report);
    }
    // What is no JSON has its own error.
    match fields::json(node, report) {
        Some(Json::Object(unknown)) if is_object => {
            ContractMetadata { unknown, ..ContractMetadata::default() }
        }
        _ => ContractMetadata::default(),
    }
}

/// The largest number in a version that other readers hold exactly.
const MAX_VERSION_NUMBER: u64 = (1 << 53) - 1;

/// A strict version: three numbers, without a `v` or leading zeros, none too large.
fn read_version(entries: &[Entry], place: &str, report: &mut DiagnosticSink<'_>) -> Option<semver::Version> {
    let text = required_text(entries, "version", place, report)?;
    let is_exact = |version: &semver::Version| {
        [version.major, version.minor, version.patch].iter().all(|number| *number <= MAX_VERSION_NUMBER)
    };
    let version = semver::Version::parse(&text).ok().filter(is_exact);
    if version.is_none() {
        let message = format!("`{}` is not a semantic version", metier_core::excerpt::shorten(&text, 60));
        report
            .add(&lint::CONTRACT_VALUE, &span(entries, "version"), message)
            .help("write it as MAJOR.MINOR.PATCH");
    }
    version
}

fn read_tools(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<ProvidedTool> {
    let items = node.and_then(|node| list_items(node, "tools", report)).unwrap_or_default();
    let mut tools: Vec<ProvidedTool> = Vec::new();
    for item in items {
        let Some(tool) = read_tool(item, report) else { continue };
        if tools.iter().any(|other| other.name == tool.name) {
            broken("T1", item.span.clone(), &format!("two tools are called `{}`", tool.name), report);
        }
        tools.push(tool);
    }
    tools
}

fn read_tool(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<ProvidedTool> {
    let place = "a tool";
    let entries = map_entries(node, place, report)?;
    fields::open_keys(entries, &TOOL_KEYS, place, report);
    let schema = read_schema(find(entries, "inputSchema"), SchemaRole::Tool("inputSchema"), report);
    let confirmation = fields::flag(find(entries, "requiresConfirmation"), "requiresConfirmation", report);
    Some(ProvidedTool {
        name: read_name(entries, "T1", place, report)?,
        description: text(entries, "description", report),
        input_schema: schema.map(|located| located.schema),
        requires_confirmation: confirmation.unwrap_or(false),
        tags: texts(entries, "tags", report),
        category: text(entries, "category", report),
        ..ProvidedTool::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers_with_hyphens() {
        // AK-A02, AK-A06
        for name in ["researcher", "_x", "web_search", "a-b", "__proto__", &"a".repeat(64)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["bad name!", "", "1a", "-a", "é", "a.b", &"a".repeat(65)] {
            assert!(!is_name(name), "{name}");
        }
    }
}
