//! Validates a value against a compiled schema, if that takes no more than so many steps.

use serde_json::Value as Json;

use super::cost::SchemaCost;
use super::validator::CompiledSchema;
use super::violations::ValidationFailure;

/// Steps that checking a value may take: parts of the schema times parts of the value, and places of its patterns times bytes.
const MAX_STEPS: usize = 500_000_000;
/// What takes more steps is not searched for further violations once one is found, since each is made up with all that led to it.
const MAX_STEPS_FOR_ALL_VIOLATIONS: usize = 5_000_000;
/// Bytes of text that cost as much to match as a value.
const TEXT_BYTES_PER_VALUE: usize = 8;

/// A compiled schema with what its error messages need.
#[derive(Clone, Copy)]
pub(super) struct Validation<'a> {
    pub(super) compiled: &'a CompiledSchema,
    pub(super) json: &'a Json,
    pub(super) property_names: &'a [String],
    pub(super) cost: &'a SchemaCost,
}

/// Validates a value, and collects how it breaks the schema.
pub(super) fn validate(value: &Json, schema: &Validation<'_>) -> Result<(), ValidationFailure> {
    let steps = count_values(value).saturating_mul(schema.cost.parts);
    let pattern_steps = text_bytes(value).saturating_mul(schema.cost.pattern_positions);
    if steps > MAX_STEPS || pattern_steps > MAX_STEPS {
        return Err(ValidationFailure::TooLarge);
    }
    let find_all = steps <= MAX_STEPS_FOR_ALL_VIOLATIONS;
    schema.compiled.check(schema.json, schema.property_names, value, find_all)
}

/// The bytes of its texts and names, each of which a pattern may have to look at from all its places, and their ends, which it
/// looks at even where nothing else is.
fn text_bytes(value: &Json) -> usize {
    match value {
        Json::String(text) => 1 + text.len(),
        Json::Array(items) => items.iter().map(text_bytes).sum(),
        Json::Object(fields) => fields.iter().map(|(name, value)| 1 + name.len() + text_bytes(value)).sum(),
        _ => 0,
    }
}

/// How many values a value holds, long texts counted for more.
fn count_values(value: &Json) -> usize {
    match value {
        Json::String(text) => 1 + text.len() / TEXT_BYTES_PER_VALUE,
        Json::Array(items) => 1 + items.iter().map(count_values).sum::<usize>(),
        Json::Object(fields) => {
            1 + fields
                .iter()
                .map(|(name, value)| name.len() / TEXT_BYTES_PER_VALUE + count_values(value))
                .sum::<usize>()
        }
        _ => 1,
    }
}
