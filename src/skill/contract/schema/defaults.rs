//! What stands in for inputs that were not given.

use serde_json::{Map, Value as Json};

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
                fields.insert(name.clone(), value.clone());
            }
            _ => {}
        }
    }
}

/// Every default where it would stand, objects around it made for it.
pub(super) fn all(defaults: &[Default]) -> Json {
    let mut fields = Map::new();
    for Default { name, value, inside } in defaults {
        let value = value.clone().unwrap_or_else(|| all(inside));
        fields.insert(name.clone(), value);
    }
    fields.into()
}
