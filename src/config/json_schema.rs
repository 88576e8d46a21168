//! The JSON Schema of configuration files, for editors.

use serde_json::{Map, Value, json};

use super::keys::{KEYS, Key};
use super::value::KeyType;

/// The JSON Schema (2020-12) of a configuration file.
pub fn json_schema() -> Value {
    let mut schema = object_schema();
    for key in KEYS {
        let mut section = &mut schema;
        let mut words = key.name.split('.').peekable();
        while let Some(word) = words.next() {
            let is_variable = word == "NAME" || word == "ENTRY";
            let slot = if is_variable {
                &mut section["additionalProperties"]
            } else {
                &mut section["properties"][word]
            };
            if words.peek().is_none() {
                *slot = key_schema(key);
            } else if !slot.is_object() {
                *slot = object_schema();
            }
            section = slot;
        }
    }
    let head = [
        ("$schema", json!("https://json-schema.org/draft/2020-12/schema")),
        ("title", json!("The configuration of metier")),
    ];
    let mut all: Map<String, Value> =
        head.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    if let Value::Object(rest) = schema {
        all.extend(rest);
    }
    Value::Object(all)
}

fn object_schema() -> Value {
    json!({"type": "object", "properties": {}, "additionalProperties": false})
}

fn key_schema(key: &Key) -> Value {
    let mut schema = type_schema(key.value_type);
    let default = if key.default.is_empty() { String::new() } else { format!(" Default: {}.", key.default) };
    schema["description"] = json!(format!("{}.{default}", key.doc));
    schema
}

fn type_schema(value_type: KeyType) -> Value {
    let texts = || json!({"type": "array", "items": {"type": "string"}});
    let amount = || json!({"type": ["string", "number"]});
    match value_type {
        KeyType::Flag => json!({"type": "boolean"}),
        KeyType::Text => json!({"type": "string"}),
        KeyType::Product => json!({"type": "string", "pattern": r"^[\p{L}\p{N}_-]+$"}),
        KeyType::Word(words) => json!({"enum": words}),
        KeyType::Duration | KeyType::Size | KeyType::Count => amount(),
        KeyType::Score => json!({"type": "integer", "minimum": 0, "maximum": 100}),
        KeyType::Folders | KeyType::Names | KeyType::Permissions | KeyType::Denials => texts(),
        KeyType::Json => json!({}),
        KeyType::Secret => {
            let host = json!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]});
            let table = |key: &str, source: Value| json!({"type": "object", "properties": {key: source, "host": host}, "required": [key], "additionalProperties": false});
            json!({"oneOf": [
                table("env", json!({"type": "string"})),
                table("file", json!({"type": "string"})),
                table("command", json!({"type": "array", "items": {"type": "string"}, "minItems": 1})),
            ]})
        }
    }
}
