//! Checks the parts of a contract against each other: schemas must compile, defaults and examples must fit them.

use std::ops::Range;

use serde_json::Value as Json;

use super::schema::{KeywordTypo, LocatedSchema, Schema, ValidationFailure};
use super::{Contract, Example};
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use metier_core::suggestion::did_you_mean;

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
