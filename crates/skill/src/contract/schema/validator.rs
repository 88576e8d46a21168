//! A compiled schema.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value as Json};

use super::errors::{
    MAX_SHOWN_CHARS, SchemaError, ValidationFailure, ViolationList, describe_value, list_choices, list_types,
    with_article,
};
use crate::lint;
use metier_core::excerpt::shorten;

/// The maximum bytes of a compiled pattern, and of the states that it caches while it matches.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// A schema that can validate values.
pub(super) struct CompiledSchema(Validator);

impl CompiledSchema {
    /// Compiles with patterns that match in linear time, with nothing to fetch, and with formats as annotations in every
    /// dialect.
    pub(super) fn compile(schema: &Json) -> Result<Self, SchemaError> {
        let patterns =
            PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
        let options = jsonschema::options().with_pattern_options(patterns).should_validate_formats(false);
        let validator = match schema.get("$id") {
            // References stay inside the schema; an `$id` could redirect them to a known dialect.
            Some(_) => options.build(&without_id(schema)),
            None => options.build(schema),
        };
        validator.map(Self).map_err(|error| {
            SchemaError::new(&lint::SCHEMA_INVALID, error.instance_path().as_str(), error_message(&error))
        })
    }

    /// Holds a value against the schema, which was compiled from `schema` and whose properties have these names. Where not all
    /// violations are wanted, the search ends with the first.
    pub(super) fn check(
        &self,
        schema: &Json,
        names: &[String],
        value: &Json,
        all: bool,
    ) -> Result<(), ValidationFailure> {
        if self.0.is_valid(value) {
            return Ok(());
        }
        let mut collector = ViolationCollector { schema, names, value, list: ViolationList::default() };
        if all {
            self.0.iter_errors(value).for_each(|error| collector.record(&error));
        } else {
            self.0.validate(value).err().iter().for_each(|error| collector.record(error));
        }
        Err(collector.list.into_failure())
    }
}

fn without_id(schema: &Json) -> Json {
    let mut schema = schema.clone();
    schema.as_object_mut().and_then(|keywords| keywords.shift_remove("$id"));
    schema
}

fn error_message(error: &ValidationError<'_>) -> String {
    let place = error.instance_path().as_str();
    let text = match error.kind() {
        Kind::Format { format } if format == "regex" => {
            format!(
                "{} is not a pattern that can be used here: patterns match in linear time, without look-around and \
                 back-references, and are at most as large as {MAX_PATTERN_BYTES} bytes once compiled",
                error.instance()
            )
        }
        _ => error.to_string(),
    };
    let text = shorten(&text, 300);
    if place.is_empty() { text } else { format!("{text}, at {place}") }
}

struct ViolationCollector<'a> {
    schema: &'a Json,
    names: &'a [String],
    value: &'a Json,
    list: ViolationList,
}

impl<'a> ViolationCollector<'a> {
    fn record(&mut self, error: &ValidationError<'_>) {
        let path = error.instance_path().as_str();
        match error.kind() {
            Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
                for name in unexpected {
                    self.record_unexpected_field(error, name, error.instance().get(name));
                }
            }
            // Told of the first field and not by its name, where the schema names none.
            Kind::FalseSchema if self.unexpected_fields(error).is_some() => {
                for (name, found) in self.unexpected_fields(error).into_iter().flatten() {
                    self.record_unexpected_field(error, name, Some(found));
                }
            }
            Kind::Required { property } => {
                let holder = error.schema_path().as_str().strip_suffix("/required");
                let object = holder.and_then(|holder| self.schema.pointer(holder));
                self.list.push_missing(path, property.as_str().unwrap_or_default(), object);
            }
            kind => {
                let (expected, found) = (expected_by(error), describe_value(error.instance()));
                self.list.push(path, None, kind.keyword(), expected, found);
            }
        }
    }

    /// The fields of the object in which none may be. A field that may not be is told of itself, and not of its object.
    fn unexpected_fields(&self, error: &ValidationError<'_>) -> Option<&'a Map<String, Json>> {
        let holder = self.value.pointer(error.instance_path().as_str())?;
        let is_around = *holder != **error.instance();
        holder
            .as_object()
            .filter(|_| is_around && error.schema_path().as_str().ends_with("/additionalProperties"))
    }

    fn record_unexpected_field(&mut self, error: &ValidationError<'_>, name: &str, value: Option<&Json>) {
        let path = error.instance_path().as_str();
        let keyword = match error.kind() {
            Kind::FalseSchema => "additionalProperties",
            kind => kind.keyword(),
        };
        if path.is_empty() {
            self.list.push_unexpected(path, name, self.names.iter(), keyword, value);
        } else {
            let declared = self.declared_properties(error).into_iter().flat_map(Map::keys);
            self.list.push_unexpected(path, name, declared, keyword, value);
        }
    }

    /// The properties declared where others are refused.
    fn declared_properties(&self, error: &ValidationError<'_>) -> Option<&'a Map<String, Json>> {
        let (holder, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(holder)?.get("properties")?.as_object()
    }
}

/// What a keyword wants, as the rest of "expected …".
fn expected_by(error: &ValidationError<'_>) -> String {
    let limit = |limit: &Json| limit.to_string();
    match error.kind() {
        Kind::Type { kind: TypeKind::Single(kind) } => with_article(&kind.to_string()),
        Kind::Type { kind: TypeKind::Multiple(kinds) } => {
            list_types(kinds.iter().map(|kind| with_article(&kind.to_string())))
        }
        Kind::Enum { options } => list_choices(options),
        Kind::Constant { expected_value } => describe_value(expected_value),
        Kind::Pattern { pattern } => format!("a match of {}", shorten(pattern, MAX_SHOWN_CHARS)),
        Kind::Format { format } => format!("a {}", shorten(format, MAX_SHOWN_CHARS)),
        Kind::MinLength { limit } => format!("at least {limit} characters"),
        Kind::MaxLength { limit } => format!("at most {limit} characters"),
        Kind::MinItems { limit } => format!("at least {limit} items"),
        Kind::MaxItems { limit } => format!("at most {limit} items"),
        Kind::MinProperties { limit } => format!("at least {limit} fields"),
        Kind::MaxProperties { limit } => format!("at most {limit} fields"),
        Kind::Minimum { limit: least } => format!("at least {}", limit(least)),
        Kind::Maximum { limit: most } => format!("at most {}", limit(most)),
        Kind::ExclusiveMinimum { limit: least } => format!("more than {}", limit(least)),
        Kind::ExclusiveMaximum { limit: most } => format!("less than {}", limit(most)),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::UniqueItems => "items that all differ".to_owned(),
        Kind::Contains => "an item that fits `contains`".to_owned(),
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => "one of the alternatives".to_owned(),
        Kind::OneOfMultipleValid { .. } => "only one of the alternatives".to_owned(),
        Kind::Not { .. } => "anything but this".to_owned(),
        Kind::FalseSchema => "nothing here".to_owned(),
        Kind::PropertyNames { error } => format!("names that fit: {}", expected_by(error)),
        other => format!("what `{}` asks for", other.keyword()),
    }
}
