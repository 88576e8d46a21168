//! A schema made ready to check values with, once.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value as Json;

use super::SchemaError;
use crate::skill::lint;

/// Bytes a compiled pattern may have, and the states it may keep while it matches.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A schema that was compiled.
pub(super) struct CompiledSchema(pub(super) Validator);

impl CompiledSchema {
    /// Compiles with patterns that match in linear time, with nothing to fetch, and with formats as annotations in every
    /// dialect.
    pub(super) fn compile(schema: &Json) -> Result<Self, SchemaError> {
        let patterns =
            PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
        let options = jsonschema::options().with_pattern_options(patterns).should_validate_formats(false);
        let validator = match schema.get("$id") {
            // References stay inside, and a name could make them lead into a dialect that is known by it.
            Some(_) => options.build(&without_id(schema)),
            None => options.build(schema),
        };
        validator.map(Self).map_err(|error| {
            let (pointer, message) = (error.instance_path().as_str().to_owned(), error_message(&error));
            SchemaError { rule: &lint::SCHEMA_INVALID, pointer, message }
        })
    }
}

fn without_id(schema: &Json) -> Json {
    let mut schema = schema.clone();
    schema.as_object_mut().and_then(|keywords| keywords.remove("$id"));
    schema
}

fn error_message(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().as_str();
    let text = match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" => {
            format!(
                "{} is no pattern that can be used here: patterns match in linear time, without look-around and \
                 back-references, and are at most as large as {MAX_PATTERN_BYTES} bytes once compiled",
                error.instance()
            )
        }
        _ => error.to_string(),
    };
    let text: String = text.chars().take(300).collect();
    if place.is_empty() { text } else { format!("{text}, at {place}") }
}
