//! A contract held against itself: schemas compile, defaults fit them, examples fit both.

use serde_json::Value as Json;

use super::super::report::Report;
use super::super::rule;
use super::document::Placed;
use super::schema::{Schema, Unfit};
use super::{Contract, Example};

/// Examples that do not fit, each told of with all that is wrong with it.
const MOST: usize = 16;

pub(super) fn all(contract: &Contract, inputs: &Placed<'_>, outputs: &Placed<'_>, report: &mut Report<'_>) {
    for (schema, source) in inputs.iter().chain(outputs) {
        for fault in schema.faults() {
            report.add(fault.rule, &source.span(&fault.pointer), fault.message.clone());
        }
    }
    examples(contract, report);
}

/// Finding out in how many ways a value is wrong takes far longer than finding out that it is right, so it ends with the
/// first few examples that are wrong.
fn examples(contract: &Contract, report: &mut Report<'_>) {
    let outputs = contract.outputs.as_ref().map(Schema::loosened);
    let mut wrong = 0;
    for example in &contract.examples {
        if wrong == MOST {
            let message =
                format!("{MOST} examples do not fit the contract; those after them were not looked at");
            report.add(&rule::EXAMPLE_INVALID, &example.spans.0, message);
            return;
        }
        wrong += usize::from(is_wrong(example, contract.inputs.as_ref(), outputs.as_ref(), report));
    }
}

/// Whether an example breaks its contract, every way told.
fn is_wrong(
    example: &Example,
    inputs: Option<&Schema>,
    outputs: Option<&Schema>,
    report: &mut Report<'_>,
) -> bool {
    let (input_span, output_span) = &example.spans;
    let mut is_wrong = false;
    let mut tell = |span, what: &str, found: Vec<String>| {
        is_wrong |= !found.is_empty();
        for message in found {
            report.add(&rule::EXAMPLE_INVALID, span, format!("{what} does not fit the contract: {message}"));
        }
    };
    if let Some(inputs) = inputs {
        let filled = inputs.with_defaults(example.inputs.clone());
        tell(input_span, "the input of an example", broken(inputs, &filled));
    }
    if let (Some(outputs), Some(expected)) = (outputs, &example.expected_output) {
        tell(output_span, "the expected output of an example", broken(outputs, expected));
    }
    is_wrong
}

/// The violations; none where the schema itself is no schema, which is told already.
fn broken(schema: &Schema, value: &Json) -> Vec<String> {
    match schema.check(value) {
        Err(Unfit::Broken { violations, .. }) => violations.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}
