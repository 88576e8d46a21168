//! What is read of a skill to write it in another form.

use serde_json::{Value as Json, json};

use crate::Manifest;
use crate::contract::Contract;

/// A skill, as what is written of it is read.
#[derive(Clone, Copy, Debug)]
pub struct ExportSource<'a> {
    /// Its manifest.
    pub manifest: &'a Manifest,
    /// Its contract.
    pub contract: Option<&'a Contract>,
    /// The text that a model reads.
    pub text: &'a str,
}

impl ExportSource<'_> {
    /// The schema of the input, or one that accepts any object.
    pub(super) fn input_schema(self) -> Json {
        let inputs = self.contract.and_then(|contract| contract.inputs.as_ref());
        inputs.map_or_else(|| json!({"type": "object"}), |schema| schema.json().clone())
    }
}

/// A value as the text of a file.
pub(super) fn json_text(value: &Json) -> String {
    format!("{value:#}\n")
}
