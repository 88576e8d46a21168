//! What stands in for inputs that were not given.

use serde_json::{Map, Value as Json};

/// Keywords that a schema keeps around a default that is held against its own part of it.
const AROUND: [&str; 6] = ["$schema", "$id", "$anchor", "$defs", "definitions", "properties"];

/// A property that has a default, or holds some.
pub(super) struct Default {
    name: String,
    value: Option<Json>,
    inside: Vec<Default>,
}

/// The defaults of a schema's properties and of those below them.
pub(super) fn of(schema: &Json) -> Vec<Default> {
    let properties = schema.get("properties").and_then(Json::as_object);
    let default = |(name, schema): (&String, &Json)| {
        let (value, inside) = (schema.get("default").cloned(), of(schema));
        (value.is_some() || !inside.is_empty()).then(|| Default { name: name.clone(), value, inside })
    };
    properties.into_iter().flatten().filter_map(default).collect()
}

/// The value with what is missing put in. What is no object stays as it is.
pub(super) fn fill(defaults: &[Default], mut value: Json) -> Json {
    if let Json::Object(fields) = &mut value {
        put_in(defaults, fields);
    }
    value
}

fn put_in(defaults: &[Default], fields: &mut Map<String, Json>) {
    for Default { name, value, inside } in defaults {
        match (fields.get_mut(name), value) {
            (Some(Json::Object(fields)), _) => put_in(inside, fields),
            (None, Some(value)) => {
                fields.insert(name.clone(), fill(inside, value.clone()));
            }
            _ => {}
        }
    }
}

/// How many objects deep the deepest default stands.
pub(super) fn depth(defaults: &[Default]) -> usize {
    defaults.iter().map(|default| 1 + depth(&default.inside)).max().unwrap_or_default()
}

/// The defaults that stand so many objects deep, as they will stand, in objects that hold nothing else.
pub(super) fn at(defaults: &[Default], depth: usize) -> Json {
    let standing = |Default { name, value, inside }: &Default| {
        let value = match depth {
            1 => value.as_ref().map(|value| fill(inside, value.clone())),
            _ => Some(at(inside, depth - 1)).filter(is_filled),
        };
        value.map(|value| (name.clone(), value))
    };
    defaults.iter().filter_map(standing).collect::<Map<_, _>>().into()
}

fn is_filled(value: &Json) -> bool {
    value.as_object().is_some_and(|fields| !fields.is_empty())
}

/// The schema for [`at`] that depth: whole for the properties there, and of the objects around them it says nothing else.
pub(super) fn schema_at(schema: &Json, depth: usize) -> Json {
    let Json::Object(keywords) = schema else { return schema.clone() };
    if depth == 0 {
        return schema.clone();
    }
    let below = |properties: &Map<String, Json>| {
        properties
            .iter()
            .map(|(name, schema)| (name.clone(), schema_at(schema, depth - 1)))
            .collect::<Map<_, _>>()
    };
    let kept = keywords.iter().filter(|(keyword, _)| AROUND.contains(&keyword.as_str()));
    let kept = kept.map(|(keyword, value)| match (keyword.as_str(), value) {
        ("properties", Json::Object(properties)) => (keyword.clone(), below(properties).into()),
        _ => (keyword.clone(), value.clone()),
    });
    kept.collect::<Map<_, _>>().into()
}
