//! Describes a schema in one line: `path: string, deep?: boolean = false`.

use serde_json::Value as Json;

use super::Schema;
use metier_core::excerpt::shorten;

/// The maximum characters of a default or choice, number of choices or fields, and depth of objects.
const MAX_VALUE_CHARS: usize = 40;
const MAX_LISTED: usize = 12;
const MAX_DEPTH: usize = 2;

/// The properties of a schema as the parameters of a function, without parentheses. Optional ones have a `?`, or their default.
pub fn parameters(schema: &Schema) -> String {
    let (names, schema) = (schema.names(), schema.json());
    let property = |name: &String| {
        let property = &schema["properties"][name];
        let kind = type_of(property, MAX_DEPTH);
        match property.get("default") {
            Some(default) => format!("{name}: {kind} = {}", value_excerpt(default)),
            None if is_required(schema, name) => format!("{name}: {kind}"),
            None => format!("{name}?: {kind}"),
        }
    };
    names.iter().map(property).collect::<Vec<_>>().join(", ")
}

/// A schema as a type: `{total: integer, files?: [object]}`.
pub fn type_name(schema: &Schema) -> String {
    if schema.names().is_empty() {
        return type_of(schema.json(), MAX_DEPTH);
    }
    object_type(schema.json(), schema.names(), MAX_DEPTH)
}

/// The properties of a schema, one row each: name, type, and description with constraints.
pub fn rows(schema: &Schema) -> Vec<[String; 3]> {
    let (names, schema) = (schema.names(), schema.json());
    let row = |name: &String| {
        let property = &schema["properties"][name];
        let description = property["description"].as_str().unwrap_or_default().to_owned();
        let mut notes: Vec<String> = Vec::new();
        if is_required(schema, name) {
            notes.push("required".to_owned());
        }
        notes.extend(property.get("default").map(|default| format!("default {}", value_excerpt(default))));
        notes.extend(constraint_notes(property));
        let description =
            if notes.is_empty() { description } else { format!("{description} ({})", notes.join(", ")) };
        [name.clone(), type_of(property, MAX_DEPTH), description.trim().to_owned()]
    };
    names.iter().map(row).collect()
}

fn is_required(schema: &Json, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|known| known == name))
}

fn type_of(schema: &Json, depth: usize) -> String {
    if let Some(choices) = schema["enum"].as_array() {
        return join_limited(choices.iter().map(value_excerpt), " | ");
    }
    match &schema["type"] {
        Json::String(kind) if kind == "array" => match schema.get("items") {
            Some(items) if depth > 0 => format!("[{}]", self::type_of(items, depth - 1)),
            _ => "[any]".to_owned(),
        },
        Json::String(kind) if kind == "object" => match schema["properties"].as_object() {
            Some(properties) if depth > 0 && !properties.is_empty() => {
                let names: Vec<String> = properties.keys().cloned().collect();
                object_type(schema, &names, depth - 1)
            }
            _ => "object".to_owned(),
        },
        Json::String(kind) => kind.clone(),
        Json::Array(kinds) => join_limited(kinds.iter().filter_map(Json::as_str).map(str::to_owned), " | "),
        _ => "any".to_owned(),
    }
}

fn object_type(schema: &Json, names: &[String], depth: usize) -> String {
    let field = |name: &String| {
        let mark = if is_required(schema, name) { "" } else { "?" };
        format!("{name}{mark}: {}", type_of(&schema["properties"][name], depth))
    };
    format!("{{{}}}", join_limited(names.iter().map(field), ", "))
}

/// The bounds of a property, as `min_length 3`.
fn constraint_notes(property: &Json) -> Vec<String> {
    let known = super::constraints::CONSTRAINTS
        .iter()
        .filter(|row| !matches!(row.keyword, "enum" | "items" | "properties" | "additionalProperties"));
    known
        .filter_map(|row| Some(format!("{} {}", row.name, value_excerpt(property.get(row.keyword)?))))
        .collect()
}

fn join_limited(parts: impl Iterator<Item = String>, joint: &str) -> String {
    let mut parts: Vec<String> = parts.take(MAX_LISTED + 1).collect();
    if parts.len() > MAX_LISTED {
        parts.truncate(MAX_LISTED);
        parts.push("…".to_owned());
    }
    parts.join(joint)
}

fn value_excerpt(value: &Json) -> String {
    let text = match value {
        Json::Array(items) if !items.is_empty() => return "[…]".to_owned(),
        Json::Object(fields) if !fields.is_empty() => return "{…}".to_owned(),
        other => other.to_string(),
    };
    shorten(&text, MAX_VALUE_CHARS)
}
