//! The dialect that a schema names: clients whose validator knows only another one cannot use it, also where it would be the same there.

use serde_json::Value;

/// The dialect of the protocol, which holds where a schema names none.
const DEFAULT_DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";
/// The keywords that draft 7 does not have. Those of other names mean the same there.
const NEWER_KEYWORDS: [&str; 13] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$recursiveAnchor",
    "$recursiveRef",
    "$vocabulary",
    "dependentRequired",
    "dependentSchemas",
    "maxContains",
    "minContains",
    "prefixItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// The schema without the name of the default dialect, if a validator of draft 7 understands it as well.
pub(super) fn without_default_dialect(mut schema: Value) -> Value {
    let names_default = |dialect: &Value| {
        dialect.as_str().is_some_and(|dialect| dialect.trim_end_matches('#') == DEFAULT_DIALECT)
    };
    if schema.get("$schema").is_some_and(names_default)
        && !has_newer_keyword(&schema)
        && let Value::Object(keywords) = &mut schema
    {
        keywords.shift_remove("$schema");
    }
    schema
}

/// A property of such a name counts, too, which costs nothing but the key.
fn has_newer_keyword(schema: &Value) -> bool {
    match schema {
        Value::Object(keywords) => keywords
            .iter()
            .any(|(keyword, value)| NEWER_KEYWORDS.contains(&keyword.as_str()) || has_newer_keyword(value)),
        Value::Array(items) => items.iter().any(has_newer_keyword),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_the_default_dialect_is_left_out_and_only_where_draft_7_is_the_same() {
        for (dialect, items, is_left_out) in [
            (DEFAULT_DIALECT, json!({"type": "array", "items": {"type": "string"}}), true),
            ("https://json-schema.org/draft/2020-12/schema#", json!({"$ref": "#/$defs/x"}), true),
            (DEFAULT_DIALECT, json!({"prefixItems": [{"type": "string"}], "items": false}), false),
            (DEFAULT_DIALECT, json!({"anyOf": [{"unevaluatedProperties": false}]}), false),
            ("http://json-schema.org/draft-07/schema#", json!({"type": "string"}), false),
            ("https://json-schema.org/draft/2019-09/schema", json!({"type": "string"}), false),
        ] {
            let schema = json!({"$schema": dialect, "type": "object", "properties": {"a": items}});
            let found = without_default_dialect(schema.clone());
            assert_eq!(found.get("$schema").is_none(), is_left_out, "{schema}");
            assert_eq!(found["properties"], schema["properties"]);
        }
        assert_eq!(without_default_dialect(json!(true)), json!(true));
    }
}
