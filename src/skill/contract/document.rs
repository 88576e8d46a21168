//! A `skill.yaml` as text: the contract it is, and what is wrong with it.

use std::ops::Range;

use super::super::diagnostic::Diagnostic;
use super::super::manifest::Manifest;
use super::super::name::normalised;
use super::super::report::{Report, control_character};
use super::super::rule;
use super::super::version;
use super::super::yaml::{self, Entry, Value};
use super::schema::{self, Side, Source};
use super::{
    Contract, Form, Place, agreement, asks, bounds, check, dependencies, entrypoint, examples, facts, read,
};
use crate::error::SkillError;

/// The most bytes a contract may have: 256 KiB.
pub const MAX_CONTRACT: usize = 256 * 1024;

/// Findings in one contract that are told.
const MOST: usize = 100;
const BYTE_ORDER_MARK: char = '\u{feff}';
/// The key that holds the others, in the article's form.
const ROOT: &str = "skill";
/// Every key, those of plans included, which are read elsewhere.
const KEYS: [&str; 19] = [
    "name",
    "version",
    "description",
    "runtime",
    "entrypoint",
    "entrypoints",
    "inputs",
    "outputs",
    "limits",
    "timeout",
    "permissions",
    "dependencies",
    "metadata",
    "examples",
    "steps",
    "composed_of",
    "outputs_from",
    "concurrency",
    "license",
];

/// A contract as it was read.
#[derive(Clone, Debug, Default)]
pub struct ParsedContract {
    /// The contract; there exactly when nothing in it blocks.
    pub contract: Option<Contract>,
    /// What is wrong or worth knowing, in the file's order.
    pub diagnostics: Vec<Diagnostic>,
}

impl ParsedContract {
    /// What keeps the skill from running.
    pub fn cause(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|diagnostic| diagnostic.blocks)
    }

    /// A contract that could not be read at all, and why.
    fn refused(rule: &rule::Rule, message: impl Into<String>, help: Option<&str>) -> Self {
        let mut found = Diagnostic::new(rule, "", &(0..0), message);
        found.help = help.map(str::to_owned);
        Self { contract: None, diagnostics: vec![found] }
    }

    /// One that could not be read from its place.
    pub fn unreadable(error: std::io::Error) -> Self {
        let sentence = SkillError::io("the contract cannot be read", error);
        Self::refused(&rule::CONTRACT_UNREADABLE, sentence.message(), None)
    }

    /// One of two, where nobody can tell which counts.
    pub fn twice() -> Self {
        let message = "there are a skill.yaml and a skill.yml";
        Self::refused(&rule::CONTRACT_TWICE, message, Some("keep skill.yaml"))
    }
}

/// Parses a contract and holds it against itself: schemas are compiled, and defaults and examples are checked.
///
/// Never fails, touches no disk and fetches nothing; hostile text ends in a diagnostic.
pub fn parse(source: &[u8]) -> ParsedContract {
    read(source, None, Depth::Whole)
}

/// The same, and holds it against the `SKILL.md` beside it.
pub fn parse_beside(source: &[u8], manifest: &Manifest) -> ParsedContract {
    read(source, Some(manifest), Depth::Whole)
}

/// As [`parse`], for those who load many skills: schemas are compiled when they are first used.
pub fn load(source: &[u8]) -> ParsedContract {
    read(source, None, Depth::Structure)
}

/// As [`parse_beside`], for those who load many skills.
pub fn load_beside(source: &[u8], manifest: &Manifest) -> ParsedContract {
    read(source, Some(manifest), Depth::Structure)
}

/// How far a contract is looked into.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Structure,
    Whole,
}

/// Schemas and where their parts stand.
pub(super) type Placed<'a> = Option<(schema::Schema, Source<'a>)>;

fn read(source: &[u8], manifest: Option<&Manifest>, depth: Depth) -> ParsedContract {
    if source.len() > MAX_CONTRACT {
        let message = format!("the contract is larger than {} KiB", MAX_CONTRACT / 1024);
        let help = "move long text to SKILL.md or to files beside it";
        return ParsedContract::refused(&rule::CONTRACT_TOO_LARGE, message, Some(help));
    }
    let text = source.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let mut report = Report::on(text).at_most(MOST);
    let contract = if text.len() < source.len() {
        let message =
            format!("the file is not UTF-8: byte 0x{:02X} at offset {}", source[text.len()], text.len());
        report.add(&rule::NOT_UTF8, &(text.len()..text.len()), message).help("save it as UTF-8");
        None
    } else {
        read_text(text, manifest, depth, &mut report)
    };
    let mut diagnostics = report.finish();
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    let blocked = diagnostics.iter().any(|diagnostic| diagnostic.blocks);
    ParsedContract { contract: contract.filter(|_| !blocked), diagnostics }
}

fn read_text(
    text: &str,
    manifest: Option<&Manifest>,
    depth: Depth,
    report: &mut Report<'_>,
) -> Option<Contract> {
    if let Some(at) = control_character(text) {
        let character = text[at..].chars().next().map_or(0, u32::from);
        let message = format!("the contract holds the control character U+{character:04X} at byte {at}");
        report.add(&rule::CONTROL_CHARACTER, &(at..at + 1), message).help("remove it");
        return None;
    }
    let start = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
    let tree = yaml::parse_within(text, &(start..text.len()));
    let tree = tree
        .map_err(|fault| {
            let message = format!("Invalid YAML in the contract: {}", fault.message);
            report.add(fault.rule, &fault.span, message).help(fault.help());
        })
        .ok()?;
    match &tree.root {
        Some(yaml::Node { value: Value::Map(entries), .. }) => {
            Some(contract(below_root(entries, report), manifest, depth, report))
        }
        root => {
            let at = root.as_ref().map_or(0..0, |root| root.span.clone());
            let message = "a contract must be a YAML mapping";
            report.add(&rule::NOT_A_MAP, &at, message).help("write `skill:` and its keys below");
            None
        }
    }
}

/// The entries that matter: below `skill`, or those at the top where there is no such key.
fn below_root<'a>(entries: &'a [Entry], report: &mut Report<'_>) -> &'a [Entry] {
    let Some(root) = read::find(entries, ROOT) else { return entries };
    if let Some(stray) = entries.iter().find(|entry| entry.key != ROOT) {
        let message = format!("`{}` stands beside `{ROOT}`", stray.key);
        report
            .add(&rule::CONTRACT_MIXED_ROOT, &stray.key_span, message)
            .help("indent it below `skill:`, or write every key at the top");
    }
    read::entries(root, "`skill`", report).unwrap_or_default()
}

fn contract(
    entries: &[Entry],
    manifest: Option<&Manifest>,
    depth: Depth,
    report: &mut Report<'_>,
) -> Contract {
    let field = |key: &str| read::find(entries, key);
    let text = |key: &str, report: &mut Report<'_>| read::text(field(key), key, report);
    let metadata =
        field("metadata").and_then(|node| read::entries(node, "metadata", report)).unwrap_or_default();
    let inputs = schema::read(field("inputs"), Side::Inputs, report);
    let outputs = schema::read(field("outputs"), Side::Outputs, report);
    let contract = Contract {
        name: text("name", report).map(|name| normalised(&name)),
        version: versioned(entries, report),
        description: text("description", report),
        runtime: text("runtime", report),
        runtime_place: field("runtime").map(|node| Place::of(node, report)).unwrap_or_default(),
        entrypoint: entrypoint::read(field("entrypoint"), "entrypoint", report),
        entrypoints: entrypoint::read_named(field("entrypoints"), report),
        inputs: inputs.as_ref().map(|(schema, _)| schema.clone()),
        outputs: outputs.as_ref().map(|(schema, _)| schema.clone()),
        limits: bounds::read(entries, report),
        permissions: asks::read(entries, metadata, report),
        dependencies: dependencies::read(field("dependencies"), report),
        metadata: facts::read(metadata, report),
        examples: examples::read(field("examples"), report),
        steps: form(entries, report),
        steps_place: steps_place(entries, report),
        unknown: read::unknown(entries, &KEYS, "a contract", report),
    };
    if depth == Depth::Whole {
        check::all(&contract, &inputs, &outputs, report);
    }
    if let Some(manifest) = manifest {
        let span = |key: &str| place(entries, metadata, key);
        agreement::check(&contract, manifest, span, report);
    }
    contract
}

fn versioned(entries: &[Entry], report: &mut Report<'_>) -> Option<semver::Version> {
    let entry = entries.iter().find(|entry| entry.key == "version" && !entry.node.is_null())?;
    Some(version::read(Some(entry), report))
}

/// Where the steps are named.
fn steps_place(entries: &[Entry], report: &Report<'_>) -> Place {
    let entry = entries.iter().find(|entry| ["steps", "composed_of"].contains(&entry.key.as_str()));
    entry.map(|entry| Place::at(&entry.key_span, report)).unwrap_or_default()
}

fn form(entries: &[Entry], report: &mut Report<'_>) -> Option<Form> {
    let forms = [("steps", Form::Steps), ("composed_of", Form::ComposedOf)];
    let mut written = forms.into_iter().filter(|(key, _)| read::find(entries, key).is_some());
    let first = written.next().map(|(_, form)| form);
    if let Some((key, _)) = written.next()
        && let Some(node) = read::find(entries, key)
    {
        report
            .add(
                &rule::CONTRACT_VALUE,
                &node.span,
                "the steps are given twice, under `steps` and `composed_of`",
            )
            .help("keep one of them");
    }
    for key in ["outputs_from", "concurrency"] {
        if let Some(node) = read::find(entries, key).filter(|_| first.is_none()) {
            let message = format!("`{key}` says how `steps` end or run, and there are none here");
            report.add(&rule::CONTRACT_VALUE, &node.span, message).help(
                "write the steps in the contract, or what they answer with in scripts/sequence.json: {\"steps\": …, \"outputs_from\": …}",
            );
        }
    }
    first
}

/// Where the value of a key stands, to point at when it disagrees.
fn place(entries: &[Entry], metadata: &[Entry], key: &str) -> Range<usize> {
    let node = read::find(entries, key).or_else(|| read::find(metadata, key));
    node.map_or(0..0, |node| node.span.clone())
}
