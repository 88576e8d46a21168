//! Takes `null` for an argument that is left out, which is what many models send for it.

use serde_json::Value;

use metier_skill::contract::{Schema, ValidationFailure};

/// How often a value is validated at most: each time shows some of the arguments that may not be null.
const MAX_ROUNDS: usize = 8;
/// Violations that say nothing about the value of a field, but that it should be there, or not.
const ABOUT_NAMES: [&str; 4] = ["required", "additionalProperties", "unevaluatedProperties", "propertyNames"];

/// Whether some field is null, at any depth.
pub(super) fn has_null_field(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(|field| field.is_null() || has_null_field(field)),
        Value::Array(items) => items.iter().any(has_null_field),
        _ => false,
    }
}

/// The value without the fields that are null, that the schema does not allow to be null, and that it does not require. What
/// `is_asked_for` at the top may be left out, too: a person is asked for it.
pub(super) fn without_nulls(schema: &Schema, value: Value, is_asked_for: impl Fn(&str) -> bool) -> Value {
    let (mut shortened, mut removed) = (value, Vec::new());
    for _ in 0..MAX_ROUNDS {
        let refused = violations(schema, &shortened, |keyword| !ABOUT_NAMES.contains(&keyword));
        let before = removed.len();
        removed.extend(refused.into_iter().filter(|path| remove_null(&mut shortened, path)));
        if removed.len() == before {
            break;
        }
    }
    if removed.is_empty() {
        return shortened;
    }
    let is_asked = |path: &str| path.strip_prefix('/').is_some_and(&is_asked_for);
    for missing in violations(schema, &shortened, |keyword| keyword == "required") {
        if removed.contains(&missing) && !is_asked(&missing) {
            insert_null(&mut shortened, &missing);
        }
    }
    shortened
}

/// Where the value violates keywords of this kind, as JSON Pointers.
fn violations(schema: &Schema, value: &Value, is_meant: impl Fn(&str) -> bool) -> Vec<String> {
    let Err(ValidationFailure::Violations { violations, .. }) = schema.validate(value) else {
        return Vec::new();
    };
    violations.into_iter().filter(|found| is_meant(&found.keyword)).map(|found| found.path).collect()
}

/// Removes the field at this JSON Pointer, if it is null. Whether it did.
fn remove_null(value: &mut Value, pointer: &str) -> bool {
    let Some((Value::Object(fields), name)) = field(value, pointer) else { return false };
    fields.get(&name).is_some_and(Value::is_null) && fields.shift_remove(&name).is_some()
}

fn insert_null(value: &mut Value, pointer: &str) {
    if let Some((Value::Object(fields), name)) = field(value, pointer) {
        fields.insert(name, Value::Null);
    }
}

/// What holds the field at this JSON Pointer, and its name.
fn field<'v>(value: &'v mut Value, pointer: &str) -> Option<(&'v mut Value, String)> {
    let (holder, name) = pointer.rsplit_once('/')?;
    Some((value.pointer_mut(holder)?, name.replace("~1", "/").replace("~0", "~")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn null_is_left_out_where_it_may_not_be_and_need_not_be() {
        let schema = Schema::parse(json!({
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "limit": {"type": "integer"},
                "mode": {"enum": ["a", "b"]},
                "note": {"type": ["string", "null"]},
                "any": {},
                "one": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "place": {"$ref": "#/$defs/place"},
                "places": {"type": "array", "items": {"$ref": "#/$defs/place"}},
                "a/b~c": {"type": "string"},
                "numbers": {"type": "array", "items": {"type": "integer"}}
            },
            "$defs": {"place": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zip": {"type": "string"}},
                "required": ["city"]
            }},
            "required": ["name"],
            "additionalProperties": false
        }))
        .unwrap();
        for (sent, taken) in [
            (json!({"name": "x", "limit": null, "mode": null, "one": null}), json!({"name": "x"})),
            (
                json!({"name": "x", "note": null, "any": null}),
                json!({"name": "x", "note": null, "any": null}),
            ),
            (json!({"name": "x", "a/b~c": null}), json!({"name": "x"})),
            (
                json!({"name": "x", "place": {"city": "y", "zip": null}}),
                json!({"name": "x", "place": {"city": "y"}}),
            ),
            (
                json!({"name": "x", "places": [{"city": "y", "zip": null}]}),
                json!({"name": "x", "places": [{"city": "y"}]}),
            ),
            // What is required, what nobody described and what is an item stays, and is refused.
            (json!({"name": null, "limit": null}), json!({"name": null})),
            (json!({"name": "x", "place": {"city": null}}), json!({"name": "x", "place": {"city": null}})),
            (json!({"name": "x", "more": null}), json!({"name": "x", "more": null})),
            (json!({"name": "x", "numbers": [1, null]}), json!({"name": "x", "numbers": [1, null]})),
        ] {
            assert_eq!(without_nulls(&schema, sent.clone(), |_| false), taken, "{sent}");
        }
        assert_eq!(without_nulls(&schema, json!({"name": null}), |name| name == "name"), json!({}));
    }

    #[test]
    fn many_nulls_are_left_out() {
        let names: Vec<String> = (0..100).map(|number| format!("n{number}")).collect();
        let properties: serde_json::Map<String, Value> =
            names.iter().map(|name| (name.clone(), json!({"type": "string"}))).collect();
        let schema = Schema::parse(json!({"type": "object", "properties": properties})).unwrap();
        let sent: Value = names.into_iter().map(|name| (name, Value::Null)).collect();
        assert_eq!(without_nulls(&schema, sent, |_| false), json!({}));
    }
}
