//! A schema for a part of a value: what it holds of a value, it holds of that value with fields left out.

use serde_json::{Map, Value as Json};

use super::keywords::{Holds, KEYWORDS};

/// Keywords that a whole value may fit and a part of it break.
const OF_WHOLE_VALUES: [&str; 15] = [
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

/// The same schema for a part of a value, in which objects may lack fields and lists have all their items.
pub(super) fn loosened(schema: &Json) -> Json {
    let Json::Object(keywords) = schema else { return schema.clone() };
    let kept = keywords.iter().filter(|(keyword, value)| holds_of_parts(keyword, value));
    let mut loose: Map<_, _> =
        kept.map(|(keyword, value)| (keyword.clone(), schemas_in(keyword, value))).collect();
    // A part may fit more of the alternatives than the whole does.
    if let Some(alternatives) = loose.remove("oneOf") {
        also(&mut loose, alternatives);
    }
    loose.into()
}

/// Adds alternatives to a schema that may have others.
fn also(schema: &mut Map<String, Json>, alternatives: Json) {
    let all = schema.entry("allOf").or_insert_with(|| Json::Array(Vec::new()));
    if let Json::Array(all) = all {
        all.push(Map::from_iter([("anyOf".to_owned(), alternatives)]).into());
    }
}

fn holds_of_parts(keyword: &str, value: &Json) -> bool {
    match keyword {
        "const" => !holds_objects(value),
        "enum" => !value.as_array().is_some_and(|choices| choices.iter().any(holds_objects)),
        _ => !OF_WHOLE_VALUES.contains(&keyword),
    }
}

fn holds_objects(value: &Json) -> bool {
    match value {
        Json::Object(_) => true,
        Json::Array(items) => items.iter().any(holds_objects),
        _ => false,
    }
}

/// The value of a keyword, the schemas in it loosened.
fn schemas_in(keyword: &str, value: &Json) -> Json {
    let held = KEYWORDS.iter().find(|(known, _)| *known == keyword).map(|(_, holds)| *holds);
    match (held, value) {
        (Some(Holds::Schema), Json::Object(_)) => loosened(value),
        (Some(Holds::Schema | Holds::Schemas), Json::Array(schemas)) => {
            schemas.iter().map(loosened).collect()
        }
        (Some(Holds::NamedSchemas), Json::Object(schemas)) => {
            let named = schemas.iter().map(|(name, schema)| (name.clone(), loosened(schema)));
            named.collect::<Map<_, _>>().into()
        }
        _ => value.clone(),
    }
}
