//! Reads a schema that is written as JSON Schema, and tells it from parameters.

use serde_json::{Map, Value as Json};

use super::source::{SchemaDraft, SchemaRole, SchemaSource};
use crate::contract::fields;
use crate::diagnostic_sink::DiagnosticSink;
use crate::yaml::{Entry, Node, Value};

/// Keywords that take a list; a parameter is never one.
const LIST_KEYWORDS: [&str; 5] = ["allOf", "anyOf", "oneOf", "required", "enum"];
/// Keywords that apply to properties that the schema does not name.
const EXTRA_PROPERTY_KEYWORDS: [&str; 3] =
    ["additionalProperties", "unevaluatedProperties", "patternProperties"];
/// Keywords that may name properties elsewhere.
const COMBINING_KEYWORDS: [&str; 7] =
    ["$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies"];

/// Whether a map is a JSON Schema. In a map of parameters, each value is a map.
pub(super) fn is_schema(node: &Node) -> bool {
    let Value::Map(entries) = &node.value else { return false };
    entries.iter().any(|Entry { key, node, .. }| match (key.as_str(), &node.value) {
        (key, _) if key.starts_with('$') => true,
        ("type", value) => !matches!(value, Value::Map(_)),
        ("additionalProperties" | "unevaluatedProperties", value) => matches!(value, Value::Scalar(_)),
        ("properties", Value::Map(properties)) => {
            properties.iter().all(|property| is_subschema(&property.node))
        }
        (key, Value::List(_)) => LIST_KEYWORDS.contains(&key),
        _ => false,
    })
}

/// A parameter called `properties` has keys of text, such as `type` or `description`.
fn is_subschema(node: &Node) -> bool {
    matches!(node.value, Value::Map(_)) || matches!(node.to_json(), Ok(Json::Bool(_)))
}

pub(super) fn read<'a>(
    node: &'a Node,
    side: SchemaRole,
    report: &mut DiagnosticSink<'_>,
) -> Option<SchemaDraft<'a>> {
    let mut json = fields::json(node, report)?;
    if let (SchemaRole::Inputs, Some(schema)) = (side, json.as_object_mut()) {
        close_properties(schema);
    }
    let properties = match &node.value {
        Value::Map(entries) => fields::find(entries, "properties"),
        _ => None,
    };
    let order = match properties.map(|node| &node.value) {
        Some(Value::Map(entries)) => entries.iter().map(|entry| entry.key.clone()).collect(),
        _ => Vec::new(),
    };
    Some(SchemaDraft { json, property_names: order, source: SchemaSource::JsonSchema(node) })
}

/// Refuses undeclared properties, if the schema declares some and says nothing about others.
fn close_properties(schema: &mut Map<String, Json>) {
    let says = |keys: &[&str]| keys.iter().any(|key| schema.contains_key(*key));
    let declares = schema.get("properties").and_then(Json::as_object).is_some_and(|map| !map.is_empty());
    if !declares || says(&EXTRA_PROPERTY_KEYWORDS) {
        return;
    }
    let keyword = if says(&COMBINING_KEYWORDS) { "unevaluatedProperties" } else { "additionalProperties" };
    schema.insert(keyword.to_owned(), false.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::yaml;

    fn is_schema_text(text: &str) -> bool {
        is_schema(&yaml::parse(text).unwrap().root.unwrap())
    }

    #[test]
    fn a_schema_is_distinguished_from_parameters_whatever_their_names() {
        for schema in [
            "type: object",
            "type: [object, 'null']",
            "properties: {a: {type: string}, b: true}",
            "{}\n$ref: '#/$defs/x'".trim_start_matches("{}\n"),
            "anyOf: [{type: object}]",
            "required: [a]\nproperties: {a: {}}",
        ] {
            assert!(is_schema_text(schema), "{schema}");
        }
        for parameters in [
            "type: {type: string}",
            "properties: {type: array, description: the properties}",
            "required: {type: boolean}",
            "items: {type: array}\nenum: {type: string}",
            "path: {type: string}",
            "{}",
        ] {
            assert!(!is_schema_text(parameters), "{parameters}");
        }
    }
}
