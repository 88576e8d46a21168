//! `metadata`: a map whose keys the specification leaves to clients.

use std::iter;

use serde_json::{Map, Value as Json};

use super::yaml::{Entry, Node, Value};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use metier_core::policy::Permission;
use metier_core::suggestion::{closest, did_you_mean, same_word};

/// The keys that metier reads, besides those of other clients.
const KEYS: [&str; 6] = ["runtime", "version", "entrypoint", "max_operations", "max_memory_mb", "worker"];

/// The maximum number of variables that the metadata asks for.
const MAX_VARIABLES: usize = 100;

/// Keys people put at top level that say something about the skill; lowercase, with hyphens.
const FACTS: &[&str] = &[
    "author",
    "authors",
    "author-url",
    "categories",
    "category",
    "created",
    "credits",
    "date",
    "dependencies",
    "display-name",
    "displayname",
    "domain",
    "emoji",
    "examples",
    "homepage",
    "icon",
    "id",
    "keywords",
    "language",
    "languages",
    "library",
    "logo",
    "maintainer",
    "models",
    "origin",
    "output-format",
    "package",
    "platforms",
    "priority",
    "repo",
    "repository",
    "risk",
    "role",
    "scope",
    "slug",
    "source",
    "sources",
    "stability",
    "status",
    "subcategory",
    "summary",
    "tag",
    "tags",
    "tier",
    "title",
    "tools",
    "trigger",
    "triggers",
    "type",
    "updated",
    "url",
    "version",
    "stage",
    "stats",
];

/// The entries of the metadata map; empty if it is absent or no map.
pub(super) fn entries<'a>(entry: Option<&'a Entry>, report: &mut DiagnosticSink<'_>) -> &'a [Entry] {
    let Some(Entry { node, .. }) = entry else { return &[] };
    match &node.value {
        Value::Map(entries) => entries,
        Value::Scalar(_) if node.is_null() => &[],
        Value::Scalar(_) | Value::List(_) => {
            let message = "metadata must be a map of keys to strings";
            report.add(&lint::METADATA_NOT_A_MAP, &node.span, message);
            &[]
        }
    }
}

/// The metadata as JSON, each scalar as a string with its source text.
pub(super) fn read(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Map<String, Json> {
    let nested: Vec<_> = entries.iter().filter(|entry| entry.node.text().is_none()).collect();
    if let Some(first) = nested.first() {
        let keys = join_keys(nested.iter().map(|entry| entry.key.as_str()));
        let message = format!("metadata values must be strings; {keys} hold lists or maps");
        report
            .add(&lint::METADATA_NESTED, &first.key_span, message)
            .help("kept as it is; other clients may refuse it or turn it into text");
    }
    for Entry { key, key_span, .. } in entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str())) {
        let meant = same_word(key, KEYS).or_else(|| closest(key, KEYS).filter(|_| !is_fact(key)));
        if let Some(meant) = meant {
            let message = format!("`{key}` is not a key under metadata that metier reads");
            report.add(&lint::KEY_TYPO, key_span, message).help(did_you_mean(meant));
        }
    }
    entries.iter().map(|entry| (entry.key.clone(), string_json(&entry.node))).collect()
}

/// The environment variables that the metadata asks for, each the permission `env:NAME`: `env`, `requires.env` and `primaryEnv`, of the
/// metadata itself or of a client in it (`openclaw.requires.env`). Names are in capitals; one that no run is given asks for nothing.
pub(super) fn variables(metadata: &Map<String, Json>) -> Vec<Permission> {
    let clients = metadata.values().filter_map(Json::as_object);
    let mut permissions: Vec<Permission> = Vec::new();
    for map in iter::once(metadata).chain(clients) {
        let required = map.get("requires").and_then(|requires| requires.get("env"));
        let named = [map.get("env"), required, map.get("primaryEnv")].into_iter().flatten();
        let is_name = |name: &&str| !name.is_empty() && !name.contains(|c: char| c.is_ascii_lowercase());
        for permission in named.flat_map(names).filter(is_name).filter_map(|name| Permission::env(name).ok())
        {
            if permissions.len() < MAX_VARIABLES && !permissions.contains(&permission) {
                permissions.push(permission);
            }
        }
    }
    permissions
}

/// The keys below which `OpenClaw` reads its own metadata, and read it under its earlier names.
const OPENCLAW_KEYS: [&str; 4] = ["openclaw", "moltbot", "clawdbot", "clawdis"];

/// The maximum number of names in a list of requirements, and of characters of a name.
const MAX_NAMES: usize = 100;
const MAX_NAME_CHARS: usize = 64;

/// What the metadata of `OpenClaw` requires of the machine. Lists are empty where nothing is required.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineRequirements {
    /// Operating systems, of which it must be one: `darwin`, `linux`, `win32`.
    pub systems: Vec<String>,
    /// Programs on `PATH`.
    pub programs: Vec<String>,
    /// Programs of which one must be on `PATH`.
    pub any_program: Vec<String>,
    /// Whether the skill is offered without its programs, too.
    pub is_always_offered: bool,
}

/// `os`, `requires.bins` and `requires.anyBins` of the first of the keys of `OpenClaw` that is there.
pub(super) fn machine_requirements(metadata: &Map<String, Json>) -> MachineRequirements {
    let Some(client) = OPENCLAW_KEYS.iter().find_map(|key| metadata.get(*key)?.as_object()) else {
        return MachineRequirements::default();
    };
    let required = |key: &str| client.get("requires").and_then(|requires| requires.get(key));
    MachineRequirements {
        systems: plain_names(client.get("os")).into_iter().map(|name| system_name(&name)).collect(),
        programs: plain_names(required("bins")),
        any_program: plain_names(required("anyBins")),
        is_always_offered: client.get("always").is_some_and(|value| value == "true"),
    }
}

/// The names that may be those of programs or systems; others would be words of the author in a sentence.
fn plain_names(value: Option<&Json>) -> Vec<String> {
    let is_plain = |name: &&str| {
        (1..=MAX_NAME_CHARS).contains(&name.len())
            && name.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '_')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._+-@".contains(&byte))
    };
    let mut found: Vec<String> = Vec::new();
    for name in value.into_iter().flat_map(names).filter(is_plain).take(MAX_NAMES) {
        if !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// The name that `OpenClaw`, and Node, give a system.
fn system_name(name: &str) -> String {
    match name.to_ascii_lowercase().as_str() {
        "macos" => "darwin".to_owned(),
        "windows" => "win32".to_owned(),
        name => name.to_owned(),
    }
}

impl MachineRequirements {
    /// The name of the system on which this runs.
    pub fn current_system() -> String {
        system_name(std::env::consts::OS)
    }

    /// Whether nothing is required.
    pub fn is_empty(&self) -> bool {
        self.systems.is_empty() && self.programs.is_empty() && self.any_program.is_empty()
    }
}

/// The names in a text, in a list of names, in a list of maps with a `name`, or in the keys of a map.
fn names(value: &Json) -> Vec<&str> {
    match value {
        Json::String(text) => text.split([' ', ',']).collect(),
        Json::Array(items) => {
            items.iter().filter_map(|item| item.get("name").unwrap_or(item).as_str()).collect()
        }
        Json::Object(entries) => entries.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// A limit: a whole number of at least 1. One that cannot be read must not be left out.
pub(super) fn limit(
    entry: Option<&Entry>,
    report: &mut DiagnosticSink<'_>,
) -> Result<Option<u64>, InvalidLimit> {
    let Some(Entry { key, node, .. }) = entry else { return Ok(None) };
    let limit = node.text().and_then(|text| text.trim().replace('_', "").parse::<u64>().ok());
    if let Some(limit) = limit.filter(|limit| *limit > 0) {
        return Ok(Some(limit));
    }
    let message = format!("metadata.{key} must be a whole number of at least 1");
    report.add(&lint::METADATA_LIMIT, &node.span, message).help("write the number, or remove the line");
    Err(InvalidLimit)
}

/// A limit that cannot be read, which is reported.
pub(super) struct InvalidLimit;

/// Whether a key says something about a skill that people write, so that it is no slip of another one.
pub(super) fn is_fact(key: &str) -> bool {
    let spelt = key.to_lowercase().replace(['_', ' '], "-");
    FACTS.contains(&spelt.as_str())
}

/// A node as JSON, each scalar as a string with its source text.
pub(super) fn string_json(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(text) => Json::String(text.clone()),
        Value::List(items) => Json::Array(items.iter().map(string_json).collect()),
        Value::Map(entries) => {
            Json::Object(entries.iter().map(|entry| (entry.key.clone(), string_json(&entry.node))).collect())
        }
    }
}

/// Up to five keys, quoted, for a sentence.
fn join_keys<'a>(keys: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 5;
    let rest = keys.len().saturating_sub(SHOWN);
    let shown = keys.take(SHOWN).map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
    if rest > 0 { format!("{shown} and {rest} more") } else { shown }
}
