//! Why a value breaks a schema, why a schema is not usable, and where: as a JSON Pointer (RFC 6901).

use metier_core::error::Violation;
use metier_core::suggestion::{closest, did_you_mean};
use serde_json::{Map, Value as Json};

use crate::lint::Rule;

/// The maximum number of violations that are listed.
const MAX_VIOLATIONS: usize = 32;
/// Letters of a text, and choices of an enum, that are shown.
pub(super) const MAX_SHOWN_CHARS: usize = 60;
const MAX_SHOWN_CHOICES: usize = 10;
/// The most fields of an object that an error names.
const MAX_SHOWN_FIELDS: usize = 6;
/// Declared names that a misspelled one is compared with.
const MAX_COMPARED_NAMES: usize = 256;
/// The maximum bytes of a path, or of a name in it, in a message.
const MAX_PATH_BYTES: usize = 500;

/// Why a value does not fit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ValidationFailure {
    /// The schema itself is invalid, for this reason.
    InvalidSchema(String),
    /// Validating it would take too long.
    TooLarge,
    /// It violates the schema.
    Violations {
        /// The first 32 violations.
        violations: Vec<Violation>,
        /// The number of further violations; not counted for large values.
        more: usize,
        /// The declared name that an undeclared one probably meant.
        meant: Option<String>,
    },
}

/// The violations found so far.
#[derive(Default)]
pub(super) struct ViolationList {
    violations: Vec<Violation>,
    more: usize,
    suggestion: Option<String>,
}

impl ViolationList {
    /// Adds a violation of the value at that JSON Pointer, or of the field with that name in it.
    pub(super) fn push(
        &mut self,
        path: &str,
        name: Option<&str>,
        keyword: &str,
        expected: String,
        found: String,
    ) {
        if self.violations.len() == MAX_VIOLATIONS {
            self.more += 1;
            return;
        }
        let path = match name {
            _ if path.len() > MAX_PATH_BYTES => "/…".to_owned(),
            Some(name) if name.len() > MAX_PATH_BYTES => format!("{path}/…"),
            Some(name) => format!("{path}/{}", escape_token(name)),
            None => path.to_owned(),
        };
        self.violations.push(Violation::new(path, keyword, expected, found));
    }

    /// Adds a field that the object at that JSON Pointer must not have; `declared` are the names it may have.
    pub(super) fn push_unexpected<'a>(
        &mut self,
        path: &str,
        name: &str,
        declared: impl Iterator<Item = &'a String>,
        keyword: &str,
        value: Option<&Json>,
    ) {
        if self.violations.len() == MAX_VIOLATIONS {
            self.more += 1;
            return;
        }
        let meant = similar_name(name, declared);
        let expected = match &meant {
            Some(meant) => format!("no such field; {}", did_you_mean(meant)),
            None => "no such field".to_owned(),
        };
        self.suggestion = self.suggestion.take().or(meant);
        let found = value.map_or_else(|| "it".to_owned(), describe_value);
        self.push(path, Some(name), keyword, expected, found);
    }

    /// Adds a field that the object at that JSON Pointer lacks; `object` is the object's schema.
    pub(super) fn push_missing(&mut self, path: &str, name: &str, object: Option<&Json>) {
        let field_type = object.and_then(|object| object.get("properties")?.get(name)?.get("type"));
        let expected = field_type.and_then(Json::as_str).map_or_else(|| "a value".to_owned(), with_article);
        self.push(path, Some(name), "required", expected, "nothing".to_owned());
    }

    pub(super) fn into_failure(self) -> ValidationFailure {
        ValidationFailure::Violations { violations: self.violations, more: self.more, meant: self.suggestion }
    }
}

pub(super) fn list_choices(options: &Json) -> String {
    let options = options.as_array().map_or(&[][..], Vec::as_slice);
    let mut listed: Vec<String> = options.iter().take(MAX_SHOWN_CHOICES).map(describe_value).collect();
    if options.len() > MAX_SHOWN_CHOICES {
        listed.push(format!("{} more", options.len() - MAX_SHOWN_CHOICES));
    }
    format!("one of {}", listed.join(", "))
}

/// Types with their articles as `a or b`, in one order whatever the schema says.
pub(super) fn list_types(types: impl Iterator<Item = String>) -> String {
    let mut types: Vec<String> = types.collect();
    types.sort();
    types.join(" or ")
}

pub(super) fn with_article(kind: &str) -> String {
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
pub(super) fn describe_value(value: &Json) -> String {
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
    let count = count_noun(fields.len(), "field");
    let is_plain = |name: &String| {
        name.len() <= MAX_SHOWN_CHARS && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.$".contains(c))
    };
    if !fields.keys().all(is_plain) {
        return format!("an object of {count}");
    }
    let mut names: Vec<&str> = fields.keys().take(MAX_SHOWN_FIELDS).map(String::as_str).collect();
    if fields.len() > MAX_SHOWN_FIELDS {
        names.push("…");
    }
    format!("an object of {count} ({})", names.join(", "))
}

fn count_noun(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// The declared name that was probably meant.
fn similar_name<'a>(name: &str, names: impl Iterator<Item = &'a String>) -> Option<String> {
    closest(name, names.take(MAX_COMPARED_NAMES)).cloned()
}

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

/// A name as a token.
pub(crate) fn escape_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The names that a pointer leads through, from the top.
pub(super) fn tokens(pointer: &str) -> impl Iterator<Item = String> {
    pointer.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~"))
}
