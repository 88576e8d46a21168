//! Parses the text of a `skill.yaml` to a contract and diagnostics.

use std::ops::Range;

use super::super::diagnostic::Diagnostic;
use super::super::manifest::Manifest;
use super::super::name::normalise;
use super::super::version;
use super::super::yaml::{self, Entry, Tree, Value, YamlError};
use super::schema::{self, SchemaRole};
use crate::contract::sections::http::reader as http_reader;
use crate::contract::sections::tools::ToolScope;
use crate::contract::sections::{
    config, dependencies, entrypoints, examples, forms, limits, metadata, permissions, resources, state,
    tools,
};
use crate::contract::{Contract, DefinitionFormat, SourceLocation, StepsForm, consistency, fields};
use crate::diagnostic_sink::{DiagnosticSink, find_control_character};
use crate::{dropped_text, lint};
use metier_core::byte_order_mark::mark_len;
use metier_core::error::SkillError;
use metier_core::excerpt::shorten;
use metier_core::sanitizer::SanitizeProfile;

/// The maximum size of a contract in bytes: 256 KiB.
pub const MAX_CONTRACT: usize = 256 * 1024;

/// The maximum number of diagnostics of one contract.
const MAX_DIAGNOSTICS: usize = 100;
/// The most characters of the name of a service.
const MAX_SERVICE_CHARS: usize = 60;
/// The key below which all others may stand.
const ROOT_KEY: &str = "skill";
/// All keys of a contract. Those of plans are read by `plan::parse`.
pub(crate) const KEYS: [&str; 30] = [
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
    "state",
    "env",
    "config",
    "secrets",
    "base_url",
    "service",
    "tools",
    "forms",
    "resources",
    "attachments",
    "sanitize",
];

/// A parsed contract.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ParsedContract {
    /// The contract; present exactly when no diagnostic blocks and the file is not left out.
    pub contract: Option<Contract>,
    /// The diagnostics, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl ParsedContract {
    /// The diagnostic that prevents the skill from running.
    pub fn blocking_diagnostic(&self) -> Option<&Diagnostic> {
        self.diagnostics.iter().find(|diagnostic| diagnostic.blocks)
    }

    /// A contract that could not be read at all, and why.
    fn from_error(rule: &lint::Rule, message: impl Into<String>, help: Option<&str>) -> Self {
        let mut found = Diagnostic::new(rule, "", &(0..0), message);
        found.help = help.map(str::to_owned);
        Self { contract: None, diagnostics: vec![found] }
    }
}

/// A contract whose file could not be read.
pub fn unreadable_contract(error: std::io::Error) -> ParsedContract {
    let sentence = SkillError::io("the contract cannot be read", error);
    ParsedContract::from_error(&lint::CONTRACT_UNREADABLE, sentence.message(), None)
}

/// The result if a folder has several contracts, with these names: none counts.
pub fn duplicate_contracts(names: &[&str]) -> ParsedContract {
    let message = format!("there are {}, and each could be the contract", names.join(" and "));
    ParsedContract::from_error(&lint::CONTRACT_TWICE, message, Some("keep one of them"))
}

/// Parses a contract and checks it completely: schemas are compiled, defaults and examples are validated.
///
/// Never fails, touches no disk and fetches nothing; hostile text results in a diagnostic.
pub fn parse(source: &[u8]) -> ParsedContract {
    read(source, None, CheckDepth::Whole)
}

/// Like [`parse`], and checks that it agrees with the `SKILL.md` beside it.
pub fn parse_with_manifest(source: &[u8], manifest: &Manifest) -> ParsedContract {
    read(source, Some(manifest), CheckDepth::Whole)
}

/// Like [`parse`], for loading many skills: schemas are compiled at their first use.
pub fn load(source: &[u8]) -> ParsedContract {
    read(source, None, CheckDepth::Structure)
}

/// Like [`parse_with_manifest`], for loading many skills.
pub fn load_with_manifest(source: &[u8], manifest: &Manifest) -> ParsedContract {
    read(source, Some(manifest), CheckDepth::Structure)
}

/// How much of a contract is checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CheckDepth {
    /// Only what can be read in passing.
    Structure,
    /// Everything, also whether schemas are valid.
    Whole,
}

fn read(source: &[u8], manifest: Option<&Manifest>, depth: CheckDepth) -> ParsedContract {
    parse_source(source, ("YAML", yaml::parse_within), |entries, report| {
        Some(read_definition(entries, manifest, depth, report))
    })
}

/// The contract of a source whose root is a map. `parse_tree` parses a part of the text, which is in that language; `read` translates the
/// map.
pub fn parse_source(
    source: &[u8],
    (language, parse_tree): (&str, impl Fn(&str, &Range<usize>) -> Result<Tree, YamlError>),
    read: impl FnOnce(&[Entry], &mut DiagnosticSink<'_>) -> Option<Contract>,
) -> ParsedContract {
    if source.len() > MAX_CONTRACT {
        let message = format!("the contract is larger than {} KiB", MAX_CONTRACT / 1024);
        let help = "move long text to SKILL.md or to files beside it";
        return ParsedContract::from_error(&lint::CONTRACT_TOO_LARGE, message, Some(help));
    }
    let text = source.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let mut report = DiagnosticSink::new(text).with_max(MAX_DIAGNOSTICS);
    let contract = if text.len() < source.len() {
        let message =
            format!("the file is not UTF-8: byte 0x{:02X} at offset {}", source[text.len()], text.len());
        report.add(&lint::NOT_UTF8, &(text.len()..text.len()), message).help("save it as UTF-8");
        None
    } else {
        read_text(text, (language, parse_tree), read, &mut report)
    };
    let mut diagnostics = report.finish();
    diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    let blocked = diagnostics.iter().any(|diagnostic| diagnostic.blocks);
    ParsedContract { contract: contract.filter(|_| !blocked), diagnostics }
}

fn read_text(
    text: &str,
    (language, parse_tree): (&str, impl Fn(&str, &Range<usize>) -> Result<Tree, YamlError>),
    read: impl FnOnce(&[Entry], &mut DiagnosticSink<'_>) -> Option<Contract>,
    report: &mut DiagnosticSink<'_>,
) -> Option<Contract> {
    if let Some(at) = find_control_character(text) {
        let character = text[at..].chars().next().map_or(0, u32::from);
        let message = format!("the contract holds the control character U+{character:04X} at byte {at}");
        report.add(&lint::CONTROL_CHARACTER, &(at..at + 1), message).help("remove it");
        return None;
    }
    let tree = parse_tree(text, &(mark_len(text)..text.len()));
    let tree = tree
        .map_err(|fault| {
            let message = format!("Invalid {language} in the contract: {}", fault.message);
            report.add(fault.rule, &fault.span, message).help(fault.help_in(text));
        })
        .ok()?;
    match &tree.root {
        Some(yaml::Node { value: Value::Map(entries), .. }) => {
            dropped_text::report(text, entries, report);
            read(entries, report)
        }
        root => {
            let at = root.as_ref().map_or(0..0, |root| root.span.clone());
            let message = "a contract must be a map";
            report.add(&lint::NOT_A_MAP, &at, message).help("write `skill:` and its keys below");
            None
        }
    }
}

/// The contract in the format of metier, with its keys at the top or below `skill`.
pub fn read_definition(
    entries: &[Entry],
    manifest: Option<&Manifest>,
    depth: CheckDepth,
    report: &mut DiagnosticSink<'_>,
) -> Contract {
    read_contract(root_entries(entries, report), manifest, depth, report)
}

/// Checks a contract that was translated from these entries of another format like one of metier's.
pub fn check_translated(
    contract: &Contract,
    entries: &[Entry],
    manifest: Option<&Manifest>,
    depth: CheckDepth,
    report: &mut DiagnosticSink<'_>,
) {
    if depth == CheckDepth::Whole {
        for schema in contract.inputs.iter().chain(&contract.outputs) {
            for fault in schema.errors() {
                report.add(fault.rule, &key_span(entries, &[], "inputs"), fault.message.clone());
            }
        }
    }
    if let Some(manifest) = manifest {
        consistency::check(contract, manifest, |key: &str| key_span(entries, &[], key), report);
    }
}

/// The entries of the contract: those below `skill`, or those at the top if there is no such key.
fn root_entries<'a>(entries: &'a [Entry], report: &mut DiagnosticSink<'_>) -> &'a [Entry] {
    let Some(root) = fields::find(entries, ROOT_KEY) else { return entries };
    if let Some(stray) = entries.iter().find(|entry| entry.key != ROOT_KEY) {
        let message = format!("`{}` stands beside `{ROOT_KEY}`", stray.key);
        report
            .add(&lint::CONTRACT_MIXED_ROOT, &stray.key_span, message)
            .help("indent it below `skill:`, or write every key at the top");
    }
    fields::entries(root, "`skill`", report).unwrap_or_default()
}

fn read_contract(
    entries: &[Entry],
    manifest: Option<&Manifest>,
    depth: CheckDepth,
    report: &mut DiagnosticSink<'_>,
) -> Contract {
    let field = |key: &str| fields::find(entries, key);
    let text = |key: &str, report: &mut DiagnosticSink<'_>| fields::text(field(key), key, report);
    let metadata =
        field("metadata").and_then(|node| fields::entries(node, "metadata", report)).unwrap_or_default();
    let inputs = schema::read(field("inputs"), SchemaRole::Inputs, report);
    let outputs = schema::read(field("outputs"), SchemaRole::Outputs, report);
    let entrypoints = entrypoints::read_named(field("entrypoints"), report);
    let service = text("service", report).map(|name| shorten(&name, MAX_SERVICE_CHARS));
    let mut config = config::read(field("config"), report);
    config.extend(config::read_secrets(field("secrets"), &config, report));
    let base_url = field("base_url").filter(|node| !node.is_null());
    let base_url = base_url.and_then(|node| http_reader::read_base_url(node, &config, report));
    let facts = metadata::read(metadata, report);
    let scope = ToolScope {
        entrypoints: &entrypoints,
        base_url: base_url.as_ref(),
        service: service.as_deref(),
        config: &config,
        risk_score: facts.risk_score,
    };
    let tools = tools::read(field("tools"), &scope, report);
    let all = tools.iter().map(|located| located.tool.clone());
    let (internal, offered) = all.partition(|tool| tool.is_internal);
    let contract = Contract {
        format: DefinitionFormat::Contract,
        name: text("name", report).map(|name| normalise(&name)),
        version: read_version(entries, report),
        description: text("description", report),
        runtime: text("runtime", report),
        runtime_location: field("runtime")
            .map(|node| SourceLocation::from_node(node, report))
            .unwrap_or_default(),
        entrypoint: entrypoints::read(field("entrypoint"), "entrypoint", report),
        entrypoints,
        forms: forms::read(field("forms"), inputs.as_ref().map(|located| &located.schema), report),
        resources: resources::read(field("resources"), &tools, report),
        attachments: resources::read_attachments(field("attachments"), report),
        inputs: inputs.as_ref().map(|located| located.schema.clone()),
        outputs: outputs.as_ref().map(|located| located.schema.clone()),
        limits: limits::read(entries, report),
        permissions: permissions::read(entries, metadata, report),
        env: config::read_env(field("env"), report),
        config: config.into(),
        base_url: base_url.as_ref().map(ToString::to_string),
        dependencies: dependencies::read(field("dependencies"), report),
        metadata: facts,
        examples: examples::read(field("examples"), report),
        state: state::read(field("state"), report),
        sanitize: fields::amount(field("sanitize"), "sanitize", str::parse::<SanitizeProfile>, report),
        tools: offered,
        internal_tools: internal,
        steps: read_steps_form(entries, report),
        steps_location: steps_location(entries, report),
        unknown: fields::unknown_keys(entries, &KEYS, "a contract", report),
        ..Contract::default()
    };
    if depth == CheckDepth::Whole {
        let of_tools = tools.iter().flat_map(|located| located.inputs.iter().chain(&located.outputs));
        let schemas = inputs.iter().chain(&outputs).chain(of_tools);
        consistency::check_contract(&contract, schemas, report);
    }
    if let Some(manifest) = manifest {
        let span = |key: &str| key_span(entries, metadata, key);
        consistency::check(&contract, manifest, span, report);
    }
    contract
}

fn read_version(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Option<semver::Version> {
    let entry = entries.iter().find(|entry| entry.key == "version" && !entry.node.is_null())?;
    if entry.node.text().is_none() {
        fields::report_invalid(&entry.node, "`version` must be a text", report);
        return None;
    }
    Some(version::read(Some(entry), report))
}

/// Where the key of the steps is written.
fn steps_location(entries: &[Entry], report: &DiagnosticSink<'_>) -> SourceLocation {
    let entry = entries.iter().find(|entry| ["steps", "composed_of"].contains(&entry.key.as_str()));
    entry.map(|entry| SourceLocation::from_span(&entry.key_span, report)).unwrap_or_default()
}

fn read_steps_form(entries: &[Entry], report: &mut DiagnosticSink<'_>) -> Option<StepsForm> {
    let forms = [("steps", StepsForm::Steps), ("composed_of", StepsForm::ComposedOf)];
    let mut written = forms.into_iter().filter(|(key, _)| fields::find(entries, key).is_some());
    let first = written.next().map(|(_, form)| form);
    if let Some((key, _)) = written.next()
        && let Some(node) = fields::find(entries, key)
    {
        report
            .add(
                &lint::CONTRACT_VALUE,
                &node.span,
                "the steps are given twice, under `steps` and `composed_of`",
            )
            .help("keep one of them");
    }
    for key in ["outputs_from", "concurrency"] {
        if let Some(node) = fields::find(entries, key).filter(|_| first.is_none()) {
            let message = format!("`{key}` says how `steps` end or run, and there are none here");
            report.add(&lint::CONTRACT_VALUE, &node.span, message).help(
                "write the steps in the contract, or what they answer with in scripts/sequence.json: {\"steps\": …, \"outputs_from\": …}",
            );
        }
    }
    first
}

/// The span of a key's value.
fn key_span(entries: &[Entry], metadata: &[Entry], key: &str) -> Range<usize> {
    let node = fields::find(entries, key).or_else(|| fields::find(metadata, key));
    node.map_or(0..0, |node| node.span.clone())
}
