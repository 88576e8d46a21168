//! A contract held against itself: schemas compile, defaults fit them, examples fit both.

use std::ops::Range;

use serde_json::Value as Json;

use super::super::report::Report;
use super::super::rule;
use super::document::Placed;
use super::schema::{Schema, Slip, Unfit};
use super::{Contract, Example};

/// Findings of one kind that are told; what comes after is the same again.
const MOST: usize = 50;

pub(super) fn all(contract: &Contract, inputs: &Placed<'_>, outputs: &Placed<'_>, report: &mut Report<'_>) {
    for (schema, source) in inputs.iter().chain(outputs) {
        for fault in schema.faults() {
            report.add(fault.rule, &source.span(&fault.pointer), fault.message.clone());
        }
        for Slip { key, span, meant } in source.slips(MOST) {
            let message = format!("`{key}` is not a keyword of JSON Schema, and holds nothing back");
            report.add(&rule::KEY_TYPO, &span, message).help(format!("did you mean `{meant}`?"));
        }
    }
    let outputs = contract.outputs.as_ref().map(Schema::loosened);
    let found = contract.examples.iter().flat_map(|example| {
        let inputs = contract.inputs.as_ref().into_iter().flat_map(|inputs| of_input(example, inputs));
        inputs.chain(outputs.iter().flat_map(|outputs| of_output(example, outputs)))
    });
    for (span, message) in found.take(MOST) {
        report.add(&rule::EXAMPLE_INVALID, span, message);
    }
}

type Found<'a> = (&'a Range<usize>, String);

fn of_input<'a>(example: &'a Example, inputs: &Schema) -> impl Iterator<Item = Found<'a>> + use<'a> {
    let filled = inputs.with_defaults(example.inputs.clone());
    let told = |message| format!("the input of an example does not fit the contract: {message}");
    broken(inputs, &filled).into_iter().map(move |message| (&example.spans.0, told(message)))
}

fn of_output<'a>(example: &'a Example, loosened: &Schema) -> impl Iterator<Item = Found<'a>> + use<'a> {
    let found = example.expected_output.as_ref().map(|expected| broken(loosened, expected));
    let told = |message| format!("the expected output of an example does not fit the contract: {message}");
    found.into_iter().flatten().map(move |message| (&example.spans.1, told(message)))
}

/// The violations; none where the schema itself is no schema, which is told already.
fn broken(schema: &Schema, value: &Json) -> Vec<String> {
    match schema.check(value) {
        Err(Unfit::Broken { violations, .. }) => violations.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}
