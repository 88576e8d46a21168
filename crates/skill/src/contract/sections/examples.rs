//! `examples`: example calls of a skill with their outputs, for readers and for tests.

use std::ops::Range;

use serde::Serialize;
use serde_json::Value as Json;

use crate::contract::fields;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node};
use metier_core::excerpt::shorten;
use metier_core::suggestion::did_you_mean;

const KEYS: [&str; 5] = ["name", "description", "inputs", "input", "expected_output"];

/// The maximum characters of a key in a message.
const MAX_KEY_CHARS: usize = 60;

/// One call, and the expected part of its output.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Example {
    /// What the example shows.
    pub description: Option<String>,
    /// The input; `{}` if it is absent.
    pub inputs: Json,
    /// Fields that the output must have; it may have more.
    pub expected_output: Option<Json>,
    /// A number without quotes that is all of the expected output, as it was written.
    #[serde(skip)]
    pub(in crate::contract) expected_number: Option<String>,
    /// The spans of the input and of the expected output.
    #[serde(skip)]
    pub(in crate::contract) spans: (Range<usize>, Range<usize>),
    /// An unknown key, which makes the example invalid: the expected output may stand under it, unread.
    #[serde(skip)]
    pub(in crate::contract) unknown_key: Option<UnknownExampleKey>,
}

impl Example {
    /// What it says, without where it is written.
    pub(crate) fn call(&self) -> (Option<&str>, &Json, Option<&Json>, Option<&str>) {
        let expected_number = self.expected_number.as_deref();
        (self.description.as_deref(), &self.inputs, self.expected_output.as_ref(), expected_number)
    }
}

/// A number without quotes that is all of the expected output of an example, as it was written.
pub fn expected_number(example: &Example) -> Option<&str> {
    example.expected_number.as_deref()
}

/// An unknown key in an example, which makes it invalid.
pub fn unknown_example_key(example: &Example) -> Option<&UnknownExampleKey> {
    example.unknown_key.as_ref()
}

/// A key that examples do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownExampleKey {
    /// What is wrong, in a sentence.
    pub message: String,
    /// What to write instead.
    pub help: String,
    /// Its line in the file, from 1.
    pub line: u32,
}

pub(in crate::contract) fn read(node: Option<&Node>, report: &mut DiagnosticSink<'_>) -> Vec<Example> {
    let nodes = node.and_then(|node| fields::items(node, "examples", report)).unwrap_or_default();
    nodes.iter().filter_map(|node| read_example(node, report)).collect()
}

fn read_example(node: &Node, report: &mut DiagnosticSink<'_>) -> Option<Example> {
    let entries = fields::entries(node, "an example", report)?;
    let field = |key: &str| fields::find(entries, key);
    let inputs = field("inputs").or_else(|| field("input")).filter(|node| !node.is_null());
    let expected = field("expected_output").filter(|node| !node.is_null());
    let span = |at: Option<&Node>| at.unwrap_or(node).span.clone();
    let expected_output = match expected {
        Some(expected) => Some(fields::json(expected, report)?),
        None => None,
    };
    let is_number = expected_output.as_ref().is_some_and(Json::is_number);
    Some(Example {
        description: fields::text(field("description"), "description", report),
        inputs: match inputs {
            Some(inputs) => fields::json(inputs, report)?,
            None => Json::Object(serde_json::Map::new()),
        },
        expected_output,
        expected_number: expected.filter(|_| is_number).and_then(Node::text).map(str::to_owned),
        spans: (span(inputs), span(expected)),
        unknown_key: entries
            .iter()
            .find(|entry| !KEYS.contains(&entry.key.as_str()))
            .map(|at| report_unknown_key(at, report)),
    })
}

fn report_unknown_key(
    Entry { key, key_span, .. }: &Entry,
    report: &mut DiagnosticSink<'_>,
) -> UnknownExampleKey {
    let shown = shorten(key, MAX_KEY_CHARS);
    let message = format!("`{shown}` is not a key of an example");
    let spelt = key.to_ascii_lowercase();
    let help = match fields::similar_key(key, &KEYS) {
        Some(meant) => did_you_mean(meant),
        None if spelt.contains("expect") || spelt.starts_with("output") => did_you_mean("expected_output"),
        None => "an example has name, description, inputs and expected_output".to_owned(),
    };
    report.add(&lint::EXAMPLE_INVALID, key_span, &*message).help(&*help);
    UnknownExampleKey { message, help, line: report.line(key_span.start) }
}
