//! A schema made ready to check values with, once.

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, Validator};
use serde_json::Value as Json;

use super::super::super::rule;
use super::Fault;

/// Bytes a compiled pattern may have, and the states it may keep while it matches.
const MOST_PATTERN: usize = 1 << 20;

/// A schema that was compiled.
pub(super) struct Compiled(pub(super) Validator);

impl Compiled {
    /// Compiles with patterns that match in linear time, with nothing to fetch, and with formats as annotations in every
    /// dialect.
    pub(super) fn of(schema: &Json) -> Result<Self, Fault> {
        let patterns = PatternOptions::regex().size_limit(MOST_PATTERN).dfa_size_limit(MOST_PATTERN);
        let options = jsonschema::options().with_pattern_options(patterns).should_validate_formats(false);
        let validator = match schema.get("$id") {
            // References stay inside, and a name could make them lead into a dialect that is known by it.
            Some(_) => options.build(&nameless(schema)),
            None => options.build(schema),
        };
        validator.map(Self).map_err(|error| {
            let (pointer, message) = (error.instance_path().as_str().to_owned(), sentence(&error));
            Fault { rule: &rule::SCHEMA_INVALID, pointer, message }
        })
    }
}

fn nameless(schema: &Json) -> Json {
    let mut schema = schema.clone();
    schema.as_object_mut().and_then(|keywords| keywords.remove("$id"));
    schema
}

fn sentence(error: &jsonschema::ValidationError<'_>) -> String {
    let place = error.instance_path().as_str();
    let text = match error.kind() {
        ValidationErrorKind::Format { format } if format == "regex" => {
            format!(
                "{} is no pattern that can be used here: patterns match in linear time, without look-around and \
                 back-references, and are at most as large as {MOST_PATTERN} bytes once compiled",
                error.instance()
            )
        }
        _ => error.to_string(),
    };
    let text: String = text.chars().take(300).collect();
    if place.is_empty() { text } else { format!("{text}, at {place}") }
}
