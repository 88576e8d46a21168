//! Checks that the parts of a contract agree with each other (schemas compile, defaults and examples fit them) and with the
//! `SKILL.md` beside it. A difference between the files is an error that names both locations.

use std::collections::BTreeSet;
use std::ops::Range;

use metier_core::excerpt::shorten;
use metier_core::executor::{RuntimeId, ScriptDialect};
use metier_core::policy::Permission;
use metier_core::suggestion::did_you_mean;
use serde_json::Value as Json;

use super::super::manifest::Manifest;
use super::schema::{KeywordTypo, LocatedSchema, Schema, ValidationFailure};
use super::{Contract, Entrypoint, Example, SourceLocation};
use crate::contract::sections::entrypoints::normalize_path;
use crate::diagnostic_sink::DiagnosticSink;
use crate::{ManifestFacts, lint};

/// Characters of a value that an error repeats.
const MAX_SHOWN_CHARS: usize = 80;

pub(super) fn check(
    contract: &Contract,
    manifest: &Manifest,
    place: impl Fn(&str) -> Range<usize>,
    report: &mut DiagnosticSink<'_>,
) {
    let lines = &manifest.lines;
    let mut disagree_at = |span: Range<usize>, key: &str, here: &str, there: &str, line: Option<u32>| {
        let at = line.map_or_else(|| "SKILL.md".to_owned(), |line| format!("SKILL.md:{line}"));
        let message = format!("{key} is {here} here, and {there} in {at}");
        report.add(&lint::CONTRACT_DISAGREES, &span, message).help("make them agree, or name it once");
    };
    let main = contract.main_entrypoint();
    if let (Some((runtime, at)), Some(other)) =
        (runtime(contract, main), manifest.declared_runtime(is_built_in_runtime))
        && runtime != other
    {
        disagree_at(at.span.clone(), "runtime", &quoted(runtime), &quoted(other), lines.runtime);
    }
    if let (Some(entrypoint), Some(other)) = (main, manifest.entrypoint())
        && normalize_path(other).as_ref() != Some(&entrypoint.path)
    {
        let (here, there) = (quoted(&entrypoint.path), quoted(other));
        disagree_at(entrypoint.place.span.clone(), "entrypoint", &here, &there, lines.entrypoint);
    }
    let mut disagree =
        |key: &str, here: &str, there: &str, line| disagree_at(place(key), key, here, there, line);
    if let Some(name) = contract.name.as_ref().filter(|name| **name != manifest.name) {
        disagree("name", &quoted(name), &quoted(&manifest.name), lines.name);
    }
    if let (Some(version), Some(line)) = (&contract.version, lines.version)
        && *version != manifest.version
    {
        disagree("version", &version.to_string(), &manifest.version.to_string(), Some(line));
    }
    if let Some((here, there)) = permissions(contract, manifest) {
        disagree("permissions", &join_permissions(&here), &join_permissions(&there), lines.allowed_tools);
    }
}

/// Whether a runtime of every metier is called so.
fn is_built_in_runtime(name: &str) -> bool {
    let plain = name.strip_prefix(ScriptDialect::SYNWIRE_PREFIX).unwrap_or(name);
    let known =
        [RuntimeId::EXTERNAL, RuntimeId::LUA, RuntimeId::RHAI, RuntimeId::TOOL_SEQUENCE, RuntimeId::WASM];
    known.iter().any(|runtime| runtime.name() == plain)
}

/// The runtime that the contract declares for its main script, if any.
fn runtime<'a>(
    contract: &'a Contract,
    main: Option<&'a Entrypoint>,
) -> Option<(&'a String, &'a SourceLocation)> {
    let own = main.and_then(|main| Some((main.runtime.as_ref()?, &main.place)));
    own.or_else(|| Some((contract.runtime.as_ref()?, &contract.runtime_location)))
}

/// The permissions of both files, if both name some and they differ. Every skill may read, so naming `read` in one file only is
/// no difference. Tools of other clients are ignored.
fn permissions(
    contract: &Contract,
    manifest: &Manifest,
) -> Option<(BTreeSet<Permission>, BTreeSet<Permission>)> {
    let asks = contract.permissions.as_ref()?.iter().filter_map(|ask| ask.permission.clone());
    let tools = manifest.allowed_tools.iter().filter_map(|tool| tool.parse::<Permission>().ok());
    let (here, there): (BTreeSet<Permission>, BTreeSet<Permission>) = (asks.collect(), tools.collect());
    let differ = here.symmetric_difference(&there).any(|permission| *permission != Permission::READ);
    (!there.is_empty() && differ).then_some((here, there))
}

fn join_permissions(permissions: &BTreeSet<Permission>) -> String {
    if permissions.is_empty() {
        return "none".to_owned();
    }
    permissions.iter().map(|permission| quoted(&permission.to_string())).collect::<Vec<_>>().join(" ")
}

fn quoted(text: &str) -> String {
    format!("`{}`", shorten(text, MAX_SHOWN_CHARS))
}

/// The maximum number of diagnostics of one kind.
const MAX_REPORTED: usize = 50;

pub(super) fn check_contract<'s>(
    contract: &Contract,
    schemas: impl Iterator<Item = &'s LocatedSchema<'s>>,
    report: &mut DiagnosticSink<'_>,
) {
    for LocatedSchema { schema, source } in schemas {
        for fault in schema.errors() {
            report.add(fault.rule, &source.span(&fault.pointer), fault.message.clone());
        }
        for KeywordTypo { key, span, suggestion: meant } in source.keyword_typos(MAX_REPORTED) {
            let message = format!("`{key}` is not a keyword of JSON Schema, and holds nothing back");
            report.add(&lint::KEY_TYPO, &span, message).help(did_you_mean(meant));
        }
    }
    let outputs = contract.outputs.as_ref().map(Schema::relax);
    let found = contract.examples.iter().flat_map(|example| {
        let inputs = contract.inputs.as_ref().into_iter().flat_map(|inputs| input_problems(example, inputs));
        inputs.chain(outputs.iter().flat_map(|outputs| output_problems(example, outputs)))
    });
    for (span, message) in found.take(MAX_REPORTED) {
        report.add(&lint::EXAMPLE_INVALID, span, message);
    }
}

type ExampleProblem<'a> = (&'a Range<usize>, String);

fn input_problems<'a>(
    example: &'a Example,
    inputs: &Schema,
) -> impl Iterator<Item = ExampleProblem<'a>> + use<'a> {
    let filled = inputs.with_defaults(example.inputs.clone());
    let message_for = |message| format!("the input of an example does not fit the contract: {message}");
    violation_messages(inputs, &filled)
        .into_iter()
        .map(move |message| (&example.spans.0, message_for(message)))
}

fn output_problems<'a>(
    example: &'a Example,
    loosened: &Schema,
) -> impl Iterator<Item = ExampleProblem<'a>> + use<'a> {
    let found = example.expected_output.as_ref().map(|expected| violation_messages(loosened, expected));
    let message_for =
        |message| format!("the expected output of an example does not fit the contract: {message}");
    found.into_iter().flatten().map(move |message| (&example.spans.1, message_for(message)))
}

/// The violations; empty if the schema itself is invalid, which is already reported.
fn violation_messages(schema: &Schema, value: &Json) -> Vec<String> {
    match schema.validate(value) {
        Err(ValidationFailure::Violations { violations, .. }) => {
            violations.iter().map(ToString::to_string).collect()
        }
        _ => Vec::new(),
    }
}
