//! Fills in the defaults of inputs that are not given.

use serde_json::{Map, Value as Json};

/// Keywords that are kept of the schemas around a default when it is validated against its own schema.
const STRUCTURAL_KEYWORDS: [&str; 6] = ["$schema", "$id", "$anchor", "$defs", "definitions", "properties"];

/// A property that has a default, or has properties with defaults.
pub(super) struct Default {
    name: String,
    value: Option<Json>,
    nested_defaults: Vec<Default>,
}

/// The defaults of a schema's properties, at any depth.
pub(super) fn collect_defaults(schema: &Json) -> Vec<Default> {
    let properties = schema.get("properties").and_then(Json::as_object);
    let default = |(name, schema): (&String, &Json)| {
        let (value, inside) = (schema.get("default").cloned(), collect_defaults(schema));
        (value.is_some() || !inside.is_empty()).then(|| Default {
            name: name.clone(),
            value,
            nested_defaults: inside,
        })
    };
    properties.into_iter().flatten().filter_map(default).collect()
}

/// The value with missing fields filled in. A value that is not an object stays as it is.
pub(super) fn apply_defaults(defaults: &[Default], mut value: Json) -> Json {
    if let Json::Object(fields) = &mut value {
        insert_missing(defaults, fields);
    }
    value
}

fn insert_missing(defaults: &[Default], fields: &mut Map<String, Json>) {
    for Default { name, value, nested_defaults: inside } in defaults {
        match (fields.get_mut(name), value) {
            (Some(Json::Object(fields)), _) => insert_missing(inside, fields),
            (None, Some(value)) => {
                fields.insert(name.clone(), apply_defaults(inside, value.clone()));
            }
            _ => {}
        }
    }
}

/// The depth of the deepest default, in objects.
pub(super) fn max_depth(defaults: &[Default]) -> usize {
    defaults.iter().map(|default| 1 + max_depth(&default.nested_defaults)).max().unwrap_or_default()
}

/// The defaults at this depth, in objects that contain nothing else.
pub(super) fn defaults_at_depth(defaults: &[Default], depth: usize) -> Json {
    let standing = |Default { name, value, nested_defaults: inside }: &Default| {
        let value = match depth {
            1 => value.as_ref().map(|value| apply_defaults(inside, value.clone())),
            _ => Some(defaults_at_depth(inside, depth - 1)).filter(is_nonempty_object),
        };
        value.map(|value| (name.clone(), value))
    };
    defaults.iter().filter_map(standing).collect::<Map<_, _>>().into()
}

fn is_nonempty_object(value: &Json) -> bool {
    value.as_object().is_some_and(|fields| !fields.is_empty())
}

/// The schema for [`defaults_at_depth`]: complete for the properties at that depth, without constraints on the objects around
/// them.
pub(super) fn schema_at_depth(schema: &Json, depth: usize) -> Json {
    let Json::Object(keywords) = schema else { return schema.clone() };
    if depth == 0 {
        return schema.clone();
    }
    let below = |properties: &Map<String, Json>| {
        properties
            .iter()
            .map(|(name, schema)| (name.clone(), schema_at_depth(schema, depth - 1)))
            .collect::<Map<_, _>>()
    };
    let kept = keywords.iter().filter(|(keyword, _)| STRUCTURAL_KEYWORDS.contains(&keyword.as_str()));
    let kept = kept.map(|(keyword, value)| match (keyword.as_str(), value) {
        ("properties", Json::Object(properties)) => (keyword.clone(), below(properties).into()),
        _ => (keyword.clone(), value.clone()),
    });
    kept.collect::<Map<_, _>>().into()
}
