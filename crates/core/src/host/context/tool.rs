//! A tool, as a provider describes it.

use serde::Serialize;
use serde_json::Value;

/// A tool as its provider describes it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Tool {
    /// The name scripts call it by.
    pub name: String,
    /// Its description, for models and people.
    pub description: String,
    /// Its input, as a JSON Schema; `{}` accepts any. An engine never calls the tool with other arguments: `invalid-input`, with
    /// every violation. Omitted arguments (`null`) count as `{}` for a schema whose `type` is `object`, and reach the tool as
    /// they are. A schema that cannot be enforced (one that refers to itself, uses look-around in a pattern, or is larger than
    /// the inputs of a skill may be) refuses nothing: the tool validates by itself.
    pub input_schema: Value,
}

impl Tool {
    /// A tool with that name, description and JSON Schema of its input.
    pub fn new(name: impl Into<String>, description: impl Into<String>, input_schema: Value) -> Self {
        Self { name: name.into(), description: description.into(), input_schema }
    }
}
