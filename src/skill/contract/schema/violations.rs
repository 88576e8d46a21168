//! Every way in which a value breaks its schema: where, which keyword, what was expected, what was found.

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::{Map, Value as Json};

use super::{Schema, SchemaError};
use crate::error::Violation;
use crate::skill::contract::schema::parameters::escape_pointer;

/// How many violations are told one by one.
const MAX_VIOLATIONS: usize = 32;
/// Steps that checking a value may take: parts of the schema times parts of the value, and places of its patterns times bytes.
const MAX_STEPS: usize = 500_000_000;
/// What takes more steps is not searched for further violations once one is found, since each is made up with all that led to it.
const MAX_STEPS_FOR_ALL_VIOLATIONS: usize = 5_000_000;
/// Bytes of text that cost as much to match as a value.
const TEXT_BYTES_PER_VALUE: usize = 8;
/// Letters of a text, and choices of an enum, that are shown.
const MAX_SHOWN_CHARS: usize = 60;
const MAX_SHOWN_CHOICES: usize = 10;
/// Bytes of a path, or of a name in it, beyond which it is not repeated.
const MAX_PATH_BYTES: usize = 500;

/// Why a value does not fit.
#[derive(Clone, Debug)]
pub enum ValidationFailure {
    /// The schema itself is none, and why.
    InvalidSchema(String),
    /// Checking it would take too long.
    TooLarge,
    /// It breaks the schema.
    Violations {
        /// How, the first 32 ways.
        violations: Vec<Violation>,
        /// How many more there are; of a large value they are not counted.
        more: usize,
        /// The name that was probably meant by one that is not declared.
        meant: Option<String>,
    },
}

impl Schema {
    /// Holds a value against the schema, which is compiled the first time.
    pub fn validate(&self, value: &Json) -> Result<(), ValidationFailure> {
        let fault =
            |faults: &[SchemaError]| faults.first().map(|fault| fault.message.clone()).unwrap_or_default();
        let compiled = self.compiled().map_err(|faults| ValidationFailure::InvalidSchema(fault(faults)))?;
        let steps = count_values(value).saturating_mul(self.0.cost.parts);
        let places = text_bytes(value).saturating_mul(self.0.cost.pattern_positions);
        if steps > MAX_STEPS || places > MAX_STEPS {
            return Err(ValidationFailure::TooLarge);
        }
        if compiled.0.is_valid(value) {
            return Ok(());
        }
        let mut told =
            ViolationCollector { schema: self, value, violations: Vec::new(), more: 0, suggestion: None };
        if steps > MAX_STEPS_FOR_ALL_VIOLATIONS {
            compiled.0.validate(value).err().iter().for_each(|error| told.record(error));
        } else {
            compiled.0.iter_errors(value).for_each(|error| told.record(&error));
        }
        let ViolationCollector { violations, more, suggestion: meant, .. } = told;
        Err(ValidationFailure::Violations { violations, more, meant })
    }
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

struct ViolationCollector<'a> {
    schema: &'a Schema,
    value: &'a Json,
    violations: Vec<Violation>,
    more: usize,
    suggestion: Option<String>,
}

impl<'a> ViolationCollector<'a> {
    fn record(&mut self, error: &ValidationError<'_>) {
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
                let name = property.as_str().unwrap_or_default();
                let expected = self.type_of(error, name);
                self.push_violation(error, Some(name), expected, "nothing".to_owned());
            }
            _ => self.push_violation(error, None, expected_by(error), describe_value(error.instance())),
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
        let meant = if path.is_empty() {
            similar_name(name, self.schema.names().iter())
        } else {
            self.declared_properties(error).and_then(|declared| similar_name(name, declared.keys()))
        };
        let expected = match &meant {
            Some(meant) => format!("no such field; did you mean `{meant}`?"),
            None => "no such field".to_owned(),
        };
        self.suggestion = self.suggestion.take().or(meant);
        let found = value.map_or_else(|| "it".to_owned(), describe_value);
        self.push_violation(error, Some(name), expected, found);
    }

    /// The properties declared where others are refused.
    fn declared_properties(&self, error: &ValidationError<'_>) -> Option<&'a Map<String, Json>> {
        let (holder, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.json().pointer(holder)?.get("properties")?.as_object()
    }

    /// What a missing property would have been.
    fn type_of(&self, error: &ValidationError<'_>, name: &str) -> String {
        let schema = self.schema.json();
        let at = error.schema_path().as_str();
        let holder = at.strip_suffix("/required").and_then(|holder| schema.pointer(holder));
        let kind = holder.and_then(|holder| holder.get("properties")?.get(name)?.get("type"));
        kind.and_then(Json::as_str).map_or_else(|| "a value".to_owned(), with_article)
    }

    fn push_violation(
        &mut self,
        error: &ValidationError<'_>,
        name: Option<&str>,
        expected: String,
        found: String,
    ) {
        if self.violations.len() == MAX_VIOLATIONS {
            self.more += 1;
            return;
        }
        let path = error.instance_path().as_str();
        let path = match name {
            _ if path.len() > MAX_PATH_BYTES => "/…".to_owned(),
            Some(name) if name.len() > MAX_PATH_BYTES => format!("{path}/…"),
            Some(name) => format!("{path}/{}", escape_pointer(name)),
            None => path.to_owned(),
        };
        let keyword = match error.kind() {
            Kind::FalseSchema if name.is_some() => "additionalProperties",
            kind => kind.keyword(),
        };
        let keyword = keyword.to_owned();
        self.violations.push(Violation { path, keyword, expected, found });
    }
}

/// What a keyword wants, as the rest of "expected …".
fn expected_by(error: &ValidationError<'_>) -> String {
    let limit = |limit: &Json| limit.to_string();
    match error.kind() {
        Kind::Type { kind: TypeKind::Single(kind) } => with_article(&kind.to_string()),
        Kind::Type { kind: TypeKind::Multiple(kinds) } => {
            kinds.iter().map(|kind| with_article(&kind.to_string())).collect::<Vec<_>>().join(" or ")
        }
        Kind::Enum { options } => list_choices(options),
        Kind::Constant { expected_value } => describe_value(expected_value),
        Kind::Pattern { pattern } => format!("a match of {}", shorten(pattern)),
        Kind::Format { format } => format!("a {}", shorten(format)),
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

fn list_choices(options: &Json) -> String {
    let options = options.as_array().map_or(&[][..], Vec::as_slice);
    let mut listed: Vec<String> = options.iter().take(MAX_SHOWN_CHOICES).map(describe_value).collect();
    if options.len() > MAX_SHOWN_CHOICES {
        listed.push(format!("{} more", options.len() - MAX_SHOWN_CHOICES));
    }
    format!("one of {}", listed.join(", "))
}

fn with_article(kind: &str) -> String {
    match kind {
        "null" => "null".to_owned(),
        "array" => "a list".to_owned(),
        "integer" => "a whole number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "object" => "an object".to_owned(),
        other => format!("a {other}"),
    }
}

/// A value in a sentence: what is short in full, what is long by its size. Never a part of a text, for a part of a secret would
/// not be known as one.
fn describe_value(value: &Json) -> String {
    match value {
        Json::String(text) if text.chars().nth(MAX_SHOWN_CHARS).is_some() => {
            format!("a text of {} characters", text.chars().count())
        }
        Json::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Json::Array(items) => format!("a list of {}", count_noun(items.len(), "item")),
        Json::Object(fields) => describe_object(fields),
        other => other.to_string(),
    }
}

fn describe_object(fields: &Map<String, Json>) -> String {
    if fields.is_empty() {
        return "an empty object".to_owned();
    }
    format!("an object of {}", count_noun(fields.len(), "field"))
}

fn count_noun(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

fn shorten(text: &str) -> String {
    let mut letters = text.chars();
    let mut short: String = letters.by_ref().take(MAX_SHOWN_CHARS).collect();
    if letters.next().is_some() {
        short.push('…');
    }
    short
}

/// The declared name a slip or two away.
fn similar_name<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> Option<String> {
    if name.chars().count() > MAX_SHOWN_CHARS {
        return None;
    }
    let slips = (name.chars().count() / 3).clamp(1, 3);
    let plain = |name: &str| name.to_lowercase().replace('-', "_");
    let distance = |known: &String| strsim::osa_distance(&plain(known), &plain(name));
    let near = names.take(256).map(|known| (distance(known), known));
    // A name with nothing in common is no slip.
    let slips = slips.min(name.chars().count().saturating_sub(1));
    near.filter(|(distance, _)| *distance <= slips).min().map(|(_, known)| known.clone())
}
