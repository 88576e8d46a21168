//! The constraints of the parameter notation: a row each, mapped one to one to JSON Schema.

use serde_json::{Map, Value as Json};

use super::super::super::rule::{self, Rule};

/// What a constraint takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
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
    /// As the notation spells it.
    pub(super) name: &'static str,
    /// As JSON Schema does; the notation takes this spelling too.
    pub(super) keyword: &'static str,
    pub(super) takes: Takes,
    /// The types of values it says anything about; all when empty.
    pub(super) of: &'static [&'static str],
}

const fn row(
    name: &'static str,
    keyword: &'static str,
    takes: Takes,
    of: &'static [&'static str],
) -> Constraint {
    Constraint { name, keyword, takes, of }
}

const STRING: &[&str] = &["string"];
const NUMBER: &[&str] = &["number", "integer"];
const ARRAY: &[&str] = &["array"];
const OBJECT: &[&str] = &["object"];

pub(super) const CONSTRAINTS: [Constraint; 19] = [
    row("enum", "enum", Takes::List, &[]),
    row("const", "const", Takes::Anything, &[]),
    row("pattern", "pattern", Takes::Text, STRING),
    row("format", "format", Takes::Text, STRING),
    row("min_length", "minLength", Takes::Count, STRING),
    row("max_length", "maxLength", Takes::Count, STRING),
    row("minimum", "minimum", Takes::Number, NUMBER),
    row("maximum", "maximum", Takes::Number, NUMBER),
    row("exclusive_minimum", "exclusiveMinimum", Takes::Number, NUMBER),
    row("exclusive_maximum", "exclusiveMaximum", Takes::Number, NUMBER),
    row("multiple_of", "multipleOf", Takes::Number, NUMBER),
    row("min_items", "minItems", Takes::Count, ARRAY),
    row("max_items", "maxItems", Takes::Count, ARRAY),
    row("unique_items", "uniqueItems", Takes::Flag, ARRAY),
    row("items", "items", Takes::Parameter, ARRAY),
    row("properties", "properties", Takes::Parameters, OBJECT),
    row("min_properties", "minProperties", Takes::Count, OBJECT),
    row("max_properties", "maxProperties", Takes::Count, OBJECT),
    row("additional_properties", "additionalProperties", Takes::Flag, OBJECT),
];

/// The keys of a parameter that constrain nothing, or are read by themselves.
pub(super) const OTHERS: [&str; 8] =
    ["type", "description", "title", "required", "default", "examples", "deprecated", "validation"];

/// Lower and upper bounds of the same thing.
const PAIRS: [(&str, &str); 4] = [
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
    ("minimum", "maximum"),
];

pub(super) fn constraint(key: &str) -> Option<&'static Constraint> {
    CONSTRAINTS.iter().find(|constraint| constraint.name == key || constraint.keyword == key)
}

/// Our name for a constraint that is called otherwise elsewhere, as it depends on the type it is for.
pub(super) fn ours(key: &str, kind: Option<&str>) -> Option<&'static str> {
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

/// Every key a parameter may have, as the notation spells it.
pub(super) fn keys() -> Vec<&'static str> {
    CONSTRAINTS.iter().map(|constraint| constraint.name).chain(OTHERS).collect()
}

/// Something odd about the constraints of one parameter.
pub(super) struct Finding {
    pub(super) rule: &'static Rule,
    pub(super) keyword: &'static str,
    pub(super) message: String,
    pub(super) help: Option<&'static str>,
}

/// What is odd about a parameter's constraints together: no value fits them, or some never apply.
pub(super) fn findings(name: &str, schema: &Map<String, Json>) -> Vec<Finding> {
    let empty = impossible(schema).map(|(keyword, why)| {
        let message = format!("no `{name}` could fit: {why}");
        Finding { rule: &rule::CONSTRAINT_EMPTY, keyword, message, help: None }
    });
    let kind = schema.get("type").and_then(Json::as_str);
    let idle = kind.into_iter().flat_map(|kind| [idle(name, kind, schema), stray(name, kind, schema)]);
    empty.into_iter().chain(idle.flatten()).collect()
}

/// What no value at all could satisfy.
fn impossible(schema: &Map<String, Json>) -> Option<(&'static str, String)> {
    let number = |key: &str| schema.get(key).and_then(Json::as_f64);
    for (least, most) in PAIRS {
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
fn idle(name: &str, kind: &str, schema: &Map<String, Json>) -> Option<Finding> {
    let says_nothing =
        |row: &&Constraint| schema.contains_key(row.keyword) && !row.of.is_empty() && !row.of.contains(&kind);
    let Constraint { name: constraint, keyword, .. } = CONSTRAINTS.iter().find(says_nothing)?;
    let message = format!("{constraint} says nothing about `{name}`, which is of type {kind}");
    Some(Finding { rule: &rule::CONSTRAINT_IDLE, keyword, message, help: None })
}

/// A choice that is not of the type, as `1.0` without quotes is no text.
fn stray(name: &str, kind: &str, schema: &Map<String, Json>) -> Option<Finding> {
    let choices = schema.get("enum")?.as_array()?;
    let stray = choices.iter().find(|choice| !is_of(choice, kind))?;
    let message =
        format!("the choice {stray} of `{name}` is of type {}, and never fits {kind}", type_of(stray));
    let help = Some("put quotes around text");
    Some(Finding { rule: &rule::CONSTRAINT_IDLE, keyword: "enum", message, help })
}

fn is_of(value: &Json, kind: &str) -> bool {
    let found = type_of(value);
    let is_whole = || value.as_f64().is_some_and(|number| number.fract() == 0.0);
    found == kind || (kind == "number" && found == "integer") || (kind == "integer" && is_whole())
}

/// The name of the type a value is of.
fn type_of(value: &Json) -> &'static str {
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
