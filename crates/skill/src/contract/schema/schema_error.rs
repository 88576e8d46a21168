//! Why a value is not a usable schema, and where in it.

use crate::lint::Rule;

/// An error in a schema.
#[derive(Clone, Debug)]
pub(in crate::contract) struct SchemaError {
    pub(in crate::contract) rule: &'static Rule,
    /// The position in the schema, as a JSON Pointer.
    pub(in crate::contract) pointer: String,
    pub(in crate::contract) message: String,
}

impl SchemaError {
    pub(super) fn new(rule: &'static Rule, pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self { rule, pointer: pointer.into(), message: message.into() }
    }
}
