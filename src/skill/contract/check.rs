//! A contract held against itself: schemas compile, defaults fit them, examples fit both.

use serde_json::Value as Json;

use super::super::report::Report;
use super::super::rule::{self, Rule};
use super::document::Placed;
use super::schema::{Schema, Unfit};
use super::{Contract, Example};

pub(super) fn all(contract: &Contract, inputs: &Placed<'_>, outputs: &Placed<'_>, report: &mut Report<'_>) {
    for (schema, source) in inputs.iter().chain(outputs) {
        if let Some(fault) = schema.fault() {
            report.add(fault.rule, &source.span(&fault.pointer), fault.message.clone());
        }
    }
    if let Some((schema, source)) = inputs {
        for (path, message) in broken(&schema.loosened(), &schema.all_defaults()) {
            let span = source.span(&format!("{}/default", in_schema(&path)));
            report.add(&rule::DEFAULT_INVALID, &span, format!("a default does not fit: {message}"));
        }
    }
    for example in &contract.examples {
        check_example(example, contract, report);
    }
}

fn check_example(example: &Example, contract: &Contract, report: &mut Report<'_>) {
    let (input_span, output_span) = &example.spans;
    let mut tell = |rule: &Rule, span, what: &str, found: Vec<(String, String)>| {
        for (_, message) in found {
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

/// The violations, each with its path; none where the schema itself is no schema, which is told already.
fn broken(schema: &Schema, value: &Json) -> Vec<(String, String)> {
    match schema.check(value) {
        Err(Unfit::Broken { violations, .. }) => {
            violations.into_iter().map(|violation| (violation.path.clone(), violation.to_string())).collect()
        }
        _ => Vec::new(),
    }
}

/// Where the schema of that place in a value stands, as far as properties lead: `/a/b` is `/properties/a/properties/b`.
fn in_schema(path: &str) -> String {
    path.replace('/', "/properties/")
}
