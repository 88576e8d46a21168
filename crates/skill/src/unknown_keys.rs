//! Top-level keys outside the specification: extensions of clients, metadata at the wrong place, or typos.

use serde_json::Value as Json;

use super::metadata::{is_fact, string_json};
use super::yaml::Entry;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::lint::Rule;
use metier_core::suggestion::{closest, did_you_mean, same_word};

/// The keys of the specification, and metier's `runtime`.
pub(super) const KNOWN_KEYS: [&str; 7] =
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools", "runtime"];

/// The keys that no other client has with a meaning of its own: a frontmatter with one of them is one of SWEny.
pub(super) const SWENY_KEYS: [&str; 3] = ["config", "mcp", "mcpAliases"];

/// Keys of other clients that metier reads, too, since they say who may choose a skill.
const CHOICE_KEYS: [&str; 2] = ["disable-model-invocation", "user-invocable"];

/// The number of unknown keys that get a diagnostic each.
const MAX_REPORTED: usize = 32;

/// A top-level key outside the specification, kept as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownKey {
    /// The key as written.
    pub key: String,
    /// What it seems to be.
    pub class: KeyClass,
    /// Its value, every scalar a string of its source text.
    pub value: Json,
}

/// What an unknown key seems to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyClass {
    /// An extension that these clients read.
    Extension(&'static str),
    /// A property of the skill that belongs under `metadata`.
    BelongsInMetadata,
    /// A misspelt form of this key.
    Typo(&'static str),
    /// None of these.
    Unknown,
}

/// Extensions and the clients that read them, according to their documentation and sources.
const EXTENSIONS: &[(&str, &str)] = &[
    ("advertise", "mux"),
    ("agent", "Claude Code"),
    ("argument-hint", "Claude Code, VS Code and mux"),
    ("arguments", "Claude Code"),
    ("bins", "OpenClaw"),
    ("color", "Claude Code"),
    ("command-arg-mode", "OpenClaw"),
    ("command-dispatch", "OpenClaw"),
    ("command-tool", "OpenClaw"),
    ("config", "SWEny"),
    ("context", "Claude Code and VS Code"),
    ("disable-model-invocation", "Claude Code, VS Code, mux, pi and Cursor"),
    ("disallowed-tools", "Claude Code"),
    ("effort", "Claude Code"),
    ("hooks", "Claude Code"),
    ("install", "OpenClaw"),
    ("mcp", "SWEny"),
    ("mcpAliases", "SWEny"),
    ("mode", "VT Code"),
    ("model", "Claude Code"),
    ("network", "VT Code"),
    ("os", "OpenClaw"),
    ("parameters", "Synwire"),
    ("paths", "Claude Code"),
    ("permissions", "VT Code"),
    ("primaryEnv", "OpenClaw"),
    ("requires", "OpenClaw and Rube"),
    ("shell", "Claude Code"),
    ("user-invocable", "Claude Code, VS Code and mux"),
    ("when_to_use", "Claude Code and mux"),
];

/// The unknown keys of a frontmatter, each with a warning.
pub(super) fn read(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Vec<UnknownKey> {
    let unknown: Vec<_> = entries.iter().filter(|entry| !KNOWN_KEYS.contains(&entry.key.as_str())).collect();
    for entry in unknown.iter().take(MAX_REPORTED) {
        warn(entry, report);
    }
    if let Some(first) = unknown.get(MAX_REPORTED) {
        let message = format!("{} more unknown keys", unknown.len() - MAX_REPORTED);
        report.add(&lint::KEY_UNKNOWN, &first.key_span, message);
    }
    let kept = |entry: &&Entry| UnknownKey {
        key: entry.key.clone(),
        class: classify(&entry.key),
        value: string_json(&entry.node),
    };
    unknown.iter().map(kept).collect()
}

fn warn(entry: &Entry, report: &mut DiagnosticSink<'_>) {
    let key = &entry.key;
    let (rule, message, help): (&Rule, _, _) = match classify(key) {
        KeyClass::Extension(clients) => (
            &lint::KEY_EXTENSION,
            format!("`{key}` is an extension of {clients}"),
            "other clients ignore it, and strict validators refuse it".to_owned(),
        ),
        KeyClass::BelongsInMetadata => (
            &lint::KEY_BELONGS_IN_METADATA,
            format!("`{key}` is not a key of the specification"),
            format!("move it under `metadata:` as `{key}`"),
        ),
        KeyClass::Typo(meant) => {
            (&lint::KEY_TYPO, format!("`{key}` is not a key of the specification"), did_you_mean(meant))
        }
        KeyClass::Unknown => (
            &lint::KEY_UNKNOWN,
            format!("`{key}` is not a key of the specification"),
            "it is kept, and nothing reads it; move it under `metadata:`".to_owned(),
        ),
    };
    report.add(rule, &entry.key_span, message).help(help);
}

fn classify(key: &str) -> KeyClass {
    if let Some(&(_, clients)) = EXTENSIONS.iter().find(|(extension, _)| *extension == key) {
        return KeyClass::Extension(clients);
    }
    if let Some(meant) = same_word(key, CHOICE_KEYS) {
        return KeyClass::Typo(meant);
    }
    // Longer keys are not in the tables, and are no typos of keys that are.
    if key.len() > 32 {
        return KeyClass::Unknown;
    }
    if is_fact(key) {
        return KeyClass::BelongsInMetadata;
    }
    let known = KNOWN_KEYS.into_iter().filter(|_| key.len() <= 20);
    closest(key, known.chain(SWENY_KEYS).chain(CHOICE_KEYS)).map_or(KeyClass::Unknown, KeyClass::Typo)
}

impl UnknownKey {
    /// Whether it is this key, in any spelling.
    pub fn is(&self, known: &str) -> bool {
        same_word(&self.key, [known]).is_some()
    }
}
