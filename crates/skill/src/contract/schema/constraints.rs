//! The constraints of the parameter notation: one row each, with the keyword of JSON Schema.

use serde_json::{Map, Value as Json};

use crate::lint;
use crate::lint::Rule;

/// The value that a constraint takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConstraintArgument {
    Text,
    Count,
    Number,
    Flag,
    List,
    Anything,
    /// A parameter's own description, without `required` and `default`.
    Parameter,
    /// A map of names to parameters.
    Parameters,
}

/// A constraint of the notation.
#[derive(Debug)]
pub(super) struct Constraint {
    /// Its name in the notation.
    pub(super) name: &'static str,
    /// Its keyword in JSON Schema, which the notation accepts too.
    pub(super) keyword: &'static str,
    pub(super) argument: ConstraintArgument,
    /// The types of values that it constrains; empty for all types.
    pub(super) types: &'static [&'static str],
}

const fn row(
    name: &'static str,
    keyword: &'static str,
    takes: ConstraintArgument,
    of: &'static [&'static str],
) -> Constraint {
    Constraint { name, keyword, argument: takes, types: of }
}

const STRING: &[&str] = &["string"];
const NUMBER: &[&str] = &["number", "integer"];
const ARRAY: &[&str] = &["array"];
const OBJECT: &[&str] = &["object"];

pub(super) const CONSTRAINTS: [Constraint; 19] = [
    row("enum", "enum", ConstraintArgument::List, &[]),
    row("const", "const", ConstraintArgument::Anything, &[]),
    row("pattern", "pattern", ConstraintArgument::Text, STRING),
    row("format", "format", ConstraintArgument::Text, STRING),
    row("min_length", "minLength", ConstraintArgument::Count, STRING),
    row("max_length", "maxLength", ConstraintArgument::Count, STRING),
    row("minimum", "minimum", ConstraintArgument::Number, NUMBER),
    row("maximum", "maximum", ConstraintArgument::Number, NUMBER),
    row("exclusive_minimum", "exclusiveMinimum", ConstraintArgument::Number, NUMBER),
    row("exclusive_maximum", "exclusiveMaximum", ConstraintArgument::Number, NUMBER),
    row("multiple_of", "multipleOf", ConstraintArgument::Number, NUMBER),
    row("min_items", "minItems", ConstraintArgument::Count, ARRAY),
    row("max_items", "maxItems", ConstraintArgument::Count, ARRAY),
    row("unique_items", "uniqueItems", ConstraintArgument::Flag, ARRAY),
    row("items", "items", ConstraintArgument::Parameter, ARRAY),
    row("properties", "properties", ConstraintArgument::Parameters, OBJECT),
    row("min_properties", "minProperties", ConstraintArgument::Count, OBJECT),
    row("max_properties", "maxProperties", ConstraintArgument::Count, OBJECT),
    row("additional_properties", "additionalProperties", ConstraintArgument::Flag, OBJECT),
];

/// The keys of a parameter that are no constraints.
pub(super) const OTHER_KEYS: [&str; 8] =
    ["type", "description", "title", "required", "default", "examples", "deprecated", "validation"];

/// Lower and upper bounds of the same thing.
const MIN_MAX_PAIRS: [(&str, &str); 4] = [
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minimum", "maximum"),
];

pub(super) fn find_constraint(key: &str) -> Option<&'static Constraint> {
    CONSTRAINTS.iter().find(|constraint| constraint.name == key || constraint.keyword == key)
}

/// The name of a constraint for a word that other formats use, which may depend on the type of the parameter.
pub(super) fn constraint_for_alias(key: &str, kind: Option<&str>) -> Option<&'static str> {
    let of_kind = |number, string, array, object| match kind {
        Some("string") => string,
        Some("array") => array,
        Some("object") => object,
        _ => number,
    };
    match key {
        "min" => Some(of_kind("minimum", "min_length", "min_items", "min_properties")),
        "max" => Some(of_kind("maximum", "max_length", "max_items", "max_properties")),
        "choices" | "options" | "values" => Some("enum"),
        "regex" | "regexp" => Some("pattern"),
        _ => None,
    }
}

/// Every key that a parameter may have.
pub(super) fn parameter_keys() -> Vec<&'static str> {
    CONSTRAINTS.iter().map(|constraint| constraint.name).chain(OTHER_KEYS).collect()
}

/// A problem of the constraints of one parameter.
pub(super) struct ConstraintProblem {
    pub(super) rule: &'static Rule,
    pub(super) keyword: &'static str,
    pub(super) message: String,
    pub(super) help: Option<&'static str>,
}

/// The problems of a parameter's constraints together: no value fits them, or some never apply.
pub(super) fn constraint_problems(name: &str, schema: &Map<String, Json>) -> Vec<ConstraintProblem> {
    let empty = unsatisfiable(schema).map(|(keyword, why)| {
        let message = format!("no `{name}` could fit: {why}");
        ConstraintProblem { rule: &lint::CONSTRAINT_EMPTY, keyword, message, help: None }
    });
    let kind = schema.get("type").and_then(Json::as_str);
    let idle = kind
        .into_iter()
        .flat_map(|kind| [inapplicable(name, kind, schema), mistyped_choice(name, kind, schema)]);
    empty.into_iter().chain(idle.flatten()).collect()
}

/// The constraint that no value satisfies.
fn unsatisfiable(schema: &Map<String, Json>) -> Option<(&'static str, String)> {
    let number = |key: &str| schema.get(key).and_then(Json::as_f64);
    for (least, most) in MIN_MAX_PAIRS {
        if let (Some(low), Some(high)) = (number(least), number(most))
            && low > high
        {
            return Some((least, format!("{least} {low} is larger than {most} {high}")));
        }
    }
    let is_empty = schema.get("enum").and_then(Json::as_array).is_some_and(Vec::is_empty);
    is_empty.then(|| ("enum", "an empty enum leaves nothing to choose".to_owned()))
}

/// A constraint on values of another type.
fn inapplicable(name: &str, kind: &str, schema: &Map<String, Json>) -> Option<ConstraintProblem> {
    let says_nothing = |row: &&Constraint| {
        schema.contains_key(row.keyword) && !row.types.is_empty() && !row.types.contains(&kind)
    };
    let Constraint { name: constraint, keyword, .. } = CONSTRAINTS.iter().find(says_nothing)?;
    let message = format!("{constraint} says nothing about `{name}`, which is of type {kind}");
    Some(ConstraintProblem { rule: &lint::CONSTRAINT_IDLE, keyword, message, help: None })
}

/// A choice of another type than the parameter, such as `1.0` without quotes for a string.
fn mistyped_choice(name: &str, kind: &str, schema: &Map<String, Json>) -> Option<ConstraintProblem> {
    let choices = schema.get("enum")?.as_array()?;
    let stray = choices.iter().find(|choice| !has_type(choice, kind))?;
    let message =
        format!("the choice {stray} of `{name}` is of type {}, and never fits {kind}", json_type(stray));
    let help = Some("put quotes around text");
    Some(ConstraintProblem { rule: &lint::CONSTRAINT_IDLE, keyword: "enum", message, help })
}

/// Whether a value is of the type with that name; a number without a fraction is an integer.
pub(super) fn has_type(value: &Json, kind: &str) -> bool {
    let found = json_type(value);
    let is_whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    found == kind || (kind == "number" && found == "integer") || (kind == "integer" && is_whole())
}

/// The name of the type a value is of.
fn json_type(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "boolean",
        Json::Number(number) if number.is_f64() => "number",
        Json::Number(_) => "integer",
        Json::String(_) => "string",
        Json::Array(_) => "array",
        Json::Object(_) => "object",
    }
}
