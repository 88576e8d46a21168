//! Answers questions about a value from its JSON Schema alone. If only a validator could judge the schema, there is no
//! answer.

use serde_json::{Map, Value};

use crate::diagnostic_sink::{quoted_excerpt, suggest_name};
use metier_core::template::PathSegment;

/// Keywords that make a schema say more than its other keywords do.
const COMPOUND_KEYWORDS: [&str; 7] = ["$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "if", "not"];

/// Why there can be no value at this path; `None` if there may be one.
pub(crate) fn path_error(schema: &Value, path: &[PathSegment]) -> Option<(String, String)> {
    let mut schema = schema;
    for segment in path {
        let plain = simple_schema(schema)?;
        schema = match segment {
            PathSegment::Field(key) => match property_schema(plain, key) {
                Ok(inner) => inner?,
                Err(fault) => return Some(fault),
            },
            PathSegment::Index(_) if !allows_type(plain, "array") => {
                return Some(("is not a list".into(), format!("it is {}", describe_types(plain))));
            }
            PathSegment::Index(_) => plain.get("items")?,
        };
    }
    None
}

fn property_schema<'a>(
    schema: &'a Map<String, Value>,
    key: &str,
) -> Result<Option<&'a Value>, (String, String)> {
    if !allows_type(schema, "object") {
        return Err((format!("has no {}", quoted_excerpt(key)), format!("it is {}", describe_types(schema))));
    }
    let Some(properties) = properties(schema) else { return Ok(None) };
    if let Some(inner) = properties.get(key) {
        return Ok(Some(inner));
    }
    if declares_additional_properties(schema) {
        let other = schema.get("additionalProperties").filter(|_| !schema.contains_key("patternProperties"));
        return Ok(other);
    }
    Err((format!("has no {}", quoted_excerpt(key)), suggest_name(key, properties.keys().map(String::as_str))))
}

/// Whether the schema also describes names that are not declared.
fn declares_additional_properties(schema: &Map<String, Value>) -> bool {
    let others = schema.get("additionalProperties");
    others.is_some_and(|others| others.is_object() || *others == Value::Bool(true))
        || schema.contains_key("patternProperties")
}

/// The declared properties, if any.
pub(crate) fn declared_properties(schema: &Value) -> Option<&Map<String, Value>> {
    simple_schema(schema).and_then(properties)
}

/// Whether only declared names are accepted.
pub(crate) fn forbids_additional_properties(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
}

/// Whether the schema says nothing about names that are not declared.
pub(crate) fn declares_no_additional_properties(schema: &Value) -> bool {
    simple_schema(schema).is_some_and(|schema| !declares_additional_properties(schema))
}

/// Whether the rules for each property are independent of all other properties.
pub(crate) fn has_independent_properties(schema: &Value) -> bool {
    const BETWEEN: [&str; 3] = ["dependentSchemas", "dependencies", "unevaluatedProperties"];
    simple_schema(schema).is_some_and(|schema| !BETWEEN.iter().any(|word| schema.contains_key(*word)))
}

/// The types that a value at this path may have, if they are declared.
pub(crate) fn types_at_path(schema: &Value, path: &[PathSegment]) -> Option<Vec<String>> {
    let schema = path.iter().try_fold(schema, |schema, segment| {
        let plain = simple_schema(schema)?;
        match segment {
            PathSegment::Field(key) => property_schema(plain, key).ok()?,
            PathSegment::Index(_) if allows_type(plain, "array") => plain.get("items"),
            PathSegment::Index(_) => None,
        }
    })?;
    let words = match simple_schema(schema)?.get("type")? {
        Value::String(only) => vec![only.clone()],
        Value::Array(some) => some.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => return None,
    };
    Some(words).filter(|words| !words.is_empty())
}

/// The type that the schema requires, if a value of none of these types can match it.
pub(crate) fn type_mismatch(schema: &Value, types_of_value: &[String]) -> Option<String> {
    let schema = simple_schema(schema)?;
    let is_number = |word: &str| word == "integer" || word == "number";
    let may = |word: &String| {
        allows_type(schema, word)
            || is_number(word) && (allows_type(schema, "integer") || allows_type(schema, "number"))
    };
    (!types_of_value.iter().any(may)).then(|| describe_types(schema))
}

/// Whether a declared property has a default.
pub(crate) fn has_default(schema: &Value, name: &str) -> bool {
    let property = declared_properties(schema).and_then(|declared| declared.get(name));
    property.is_some_and(|property| property.get("default").is_some())
}

/// The names of the required properties.
pub(crate) fn required_names(schema: &Value) -> impl Iterator<Item = &str> {
    simple_schema(schema)
        .and_then(|schema| schema.get("required"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The type or value that the schema requires, if this value cannot match it.
pub(crate) fn value_mismatch(schema: &Value, value: &Value) -> Option<String> {
    let schema = simple_schema(schema)?;
    let one_of = schema.get("enum").and_then(Value::as_array);
    if let Some(words) = one_of.filter(|words| !words.contains(value)) {
        let words: Vec<String> = words.iter().take(12).map(Value::to_string).collect();
        return Some(format!("one of {}", words.join(", ")));
    }
    let name = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.as_f64().is_some_and(|number| number.fract() == 0.0) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let fits = allows_type(schema, name) || (name == "integer" && allows_type(schema, "number"));
    (!fits).then(|| describe_types(schema))
}

/// The schema, if its own keywords say all about its values.
fn simple_schema(schema: &Value) -> Option<&Map<String, Value>> {
    schema.as_object().filter(|schema| !COMPOUND_KEYWORDS.iter().any(|word| schema.contains_key(*word)))
}

fn properties(schema: &Map<String, Value>) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn allows_type(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(some)) => some.iter().any(|word| word == name),
        _ => true,
    }
}

/// `a string`, `an integer or null`.
fn describe_types(schema: &Map<String, Value>) -> String {
    let words: Vec<&str> = match schema.get("type") {
        Some(Value::String(only)) => vec![only],
        Some(Value::Array(some)) => some.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let article =
        if words.first().is_some_and(|word| word.starts_with(['a', 'i', 'o'])) { "an" } else { "a" };
    format!("{article} {}", words.join(" or "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use metier_core::template::{ReferenceRoot, Template};

    fn missing(schema: &Value, path: &str) -> Option<String> {
        let Ok(Template::Reference(reference)) = format!("$inputs{path}").parse() else { panic!("{path}") };
        assert_eq!(reference.root, ReferenceRoot::Inputs);
        path_error(schema, &reference.path).map(|(what, _)| what)
    }

    #[test]
    fn a_path_is_followed_as_far_as_the_schema_tells() {
        let schema = json!({"type": "object", "properties": {
            "files": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
            "any": {}, "one": {"anyOf": [{"type": "string"}]}, "free": {"type": "object"},
            "open": {"type": "object", "properties": {}, "additionalProperties": {"type": "number"}},
        }});
        for path in ["", ".files", ".files[0].name", ".any.x[0]", ".one.x", ".free.x", ".open.x"] {
            assert_eq!(missing(&schema, path), None, "{path}");
        }
        for (path, what) in [
            (".file", "has no \"file\""),
            (".files.name", "has no \"name\""),
            (".files[0].nam", "has no \"nam\""),
            (".files[0].name[0]", "is not a list"),
            ("[0]", "is not a list"),
            (".open.x.y", "has no \"y\""),
        ] {
            assert_eq!(missing(&schema, path).as_deref(), Some(what), "{path}");
        }
    }

    #[test]
    fn a_plain_value_of_another_type_does_not_fit() {
        for (schema, value, expected) in [
            (json!({"type": "string"}), json!(1), Some("a string")),
            (json!({"type": ["integer", "null"]}), json!("x"), Some("an integer or null")),
            (json!({"type": "number"}), json!(1), None),
            (json!({"type": "integer"}), json!(1.0), None),
            (json!({"type": "integer"}), json!(1.5), Some("an integer")),
            (json!({"enum": ["a", "b"]}), json!("c"), Some("one of \"a\", \"b\"")),
            (json!({"anyOf": [{"type": "string"}]}), json!(1), None),
            (json!(true), json!(1), None),
        ] {
            assert_eq!(value_mismatch(&schema, &value).as_deref(), expected, "{schema} {value}");
        }
    }
}
