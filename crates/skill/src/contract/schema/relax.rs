//! Relaxes a schema, so that every part of a valid value is valid too: the same value with fields left out.

use serde_json::{Map, Value as Json};

use super::keywords::{SUBSCHEMA_KEYWORDS, SubschemaKind};

/// Keywords that a value may satisfy and a part of it violate.
const WHOLE_VALUE_KEYWORDS: [&str; 15] = [
    "required",
    "minProperties",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "contains",
    "minContains",
    "maxContains",
    "uniqueItems",
    "unevaluatedItems",
    "unevaluatedProperties",
];

/// The schema for a part of a value, in which objects may lack fields and lists are complete.
pub(super) fn relax(schema: &Json) -> Json {
    let Json::Object(keywords) = schema else { return schema.clone() };
    let kept = keywords.iter().filter(|(keyword, value)| applies_to_parts(keyword, value));
    let mut loose: Map<_, _> =
        kept.map(|(keyword, value)| (keyword.clone(), relax_subschemas(keyword, value))).collect();
    // A part may fit more of the alternatives than the complete value does.
    if let Some(alternatives) = loose.shift_remove("oneOf") {
        add_alternatives(&mut loose, alternatives);
    }
    loose.into()
}

/// Adds alternatives to a schema that may have others.
fn add_alternatives(schema: &mut Map<String, Json>, alternatives: Json) {
    let all = schema.entry("allOf").or_insert_with(|| Json::Array(Vec::new()));
    if let Json::Array(all) = all {
        all.push(Map::from_iter([("anyOf".to_owned(), alternatives)]).into());
    }
}

fn applies_to_parts(keyword: &str, value: &Json) -> bool {
    match keyword {
        "const" => !contains_object(value),
        "enum" => !value.as_array().is_some_and(|choices| choices.iter().any(contains_object)),
        _ => !WHOLE_VALUE_KEYWORDS.contains(&keyword),
    }
}

fn contains_object(value: &Json) -> bool {
    match value {
        Json::Object(_) => true,
        Json::Array(items) => items.iter().any(contains_object),
        _ => false,
    }
}

/// The value of a keyword with the schemas in it relaxed.
fn relax_subschemas(keyword: &str, value: &Json) -> Json {
    let held = SUBSCHEMA_KEYWORDS.iter().find(|(known, _)| *known == keyword).map(|(_, holds)| *holds);
    match (held, value) {
        (Some(SubschemaKind::Schema), Json::Object(_)) => relax(value),
        (Some(SubschemaKind::Schema | SubschemaKind::Schemas), Json::Array(schemas)) => {
            schemas.iter().map(relax).collect()
        }
        (Some(SubschemaKind::NamedSchemas), Json::Object(schemas)) => {
            let named = schemas.iter().map(|(name, schema)| (name.clone(), relax(schema)));
            named.collect::<Map<_, _>>().into()
        }
        _ => value.clone(),
    }
}
