//! A contract held against itself: schemas compile, defaults fit them, examples fit both.

use serde_json::Value as Json;

use super::super::report::Report;
use super::super::rule::{self, Rule};
use super::document::Placed;
use super::schema::{Schema, Unfit};
use super::{Contract, Example};

pub(super) fn all(contract: &Contract, inputs: &Placed<'_>, outputs: &Placed<'_>, report: &mut Report<'_>) {
    for (schema, source) in inputs.iter().chain(outputs) {
        for fault in schema.faults() {
            report.add(fault.rule, &source.span(&fault.pointer), fault.message.clone());
        }
    }
    for example in &contract.examples {
        check_example(example, contract, report);
    }
}

fn check_example(example: &Example, contract: &Contract, report: &mut Report<'_>) {
    let (input_span, output_span) = &example.spans;
    let mut tell = |rule: &Rule, span, what: &str, found: Vec<String>| {
        for message in found {
            report.add(rule, span, format!("{what} does not fit the contract: {message}"));
        }
    };
    if let Some(inputs) = &contract.inputs {
        let filled = inputs.with_defaults(example.inputs.clone());
        tell(&rule::EXAMPLE_INVALID, input_span, "the input of an example", broken(inputs, &filled));
    }
    if let (Some(outputs), Some(expected)) = (&contract.outputs, &example.expected_output) {
        let found = broken(&outputs.loosened(), expected);
        tell(&rule::EXAMPLE_INVALID, output_span, "the expected output of an example", found);
    }
}

/// The violations; none where the schema itself is no schema, which is told already.
fn broken(schema: &Schema, value: &Json) -> Vec<String> {
    match schema.check(value) {
        Err(Unfit::Broken { violations, .. }) => violations.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}
