//! Collects the anchors of a schema: the names by which references lead to its subschemas.
//!
//! The cost estimate and the compiler must agree on where a reference leads. So each anchor must be unique and name a schema, and
//! no keyword below the top may change the meaning of references.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::errors::{SchemaError, escape_token, tokens};
use super::keywords::{SubschemaKind, subschema_kind};
use crate::lint;

/// Keywords whose values are data, whatever they look like.
const DATA_KEYWORDS: [&str; 4] = ["default", "const", "enum", "examples"];
/// Keywords that change the meaning of references below them.
const BASE_URI_KEYWORDS: [&str; 3] = ["$id", "id", "$schema"];
/// Anchors of references that are not supported.
const DYNAMIC_ANCHORS: [&str; 2] = ["$dynamicAnchor", "$recursiveAnchor"];

/// What a position in a schema contains.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SchemaPosition {
    Schema,
    /// A map or list of schemas.
    Schemas,
    Data,
    /// The value of an unknown keyword.
    Other,
}

impl SchemaPosition {
    /// The position of the value under a key.
    fn child(self, key: &str, value: &Json) -> Self {
        match self {
            Self::Schema if DATA_KEYWORDS.contains(&key) => Self::Data,
            Self::Schema => match (subschema_kind(key), value) {
                (Some(SubschemaKind::Schema), Json::Object(_)) => Self::Schema,
                (Some(SubschemaKind::Schema | SubschemaKind::Schemas), Json::Array(_))
                | (Some(SubschemaKind::NamedSchemas), Json::Object(_)) => Self::Schemas,
                _ => Self::Other,
            },
            Self::Schemas => Self::Schema,
            Self::Data => Self::Data,
            Self::Other => Self::Other,
        }
    }
}

/// The JSON Pointers of the schemas that have an `$anchor`, by its name.
pub(super) fn collect_anchors(schema: &Json) -> Result<HashMap<&str, String>, SchemaError> {
    let mut anchors = HashMap::new();
    collect_anchors_in(schema, SchemaPosition::Schema, "", &mut anchors)?;
    Ok(anchors)
}

fn collect_anchors_in<'a>(
    value: &'a Json,
    place: SchemaPosition,
    at: &str,
    anchors: &mut HashMap<&'a str, String>,
) -> Result<(), SchemaError> {
    match value {
        _ if place == SchemaPosition::Data => Ok(()),
        Json::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            let below = format!("{at}/{}", escape_token(key));
            if place != SchemaPosition::Schemas {
                add_anchor(key, value, place, at, &below, anchors)?;
            }
            collect_anchors_in(value, place.child(key, value), &below, anchors)
        }),
        Json::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            collect_anchors_in(item, place.child("", item), &format!("{at}/{index}"), anchors)
        }),
        _ => Ok(()),
    }
}

/// Adds the anchor that a key defines, or refuses it.
fn add_anchor<'a>(
    key: &str,
    value: &'a Json,
    place: SchemaPosition,
    at: &str,
    below: &str,
    anchors: &mut HashMap<&'a str, String>,
) -> Result<(), SchemaError> {
    let refused = |message: &str| Err(SchemaError::new(&lint::SCHEMA_REFERENCE, below, message));
    match (key, value) {
        (key, Json::String(_)) if BASE_URI_KEYWORDS.contains(&key) && !at.is_empty() => {
            refused(&format!("`{key}` below the top would give references another meaning"))
        }
        (key, Json::String(_) | Json::Bool(_)) if DYNAMIC_ANCHORS.contains(&key) => {
            refused(&format!("`{key}` is not supported; write `$anchor`"))
        }
        ("$anchor", Json::String(_)) if place != SchemaPosition::Schema => {
            refused("no schema stands here that `$anchor` could name")
        }
        ("$anchor", Json::String(name)) => match anchors.insert(name, at.to_owned()) {
            Some(_) => refused(&format!("`{name}` is the `$anchor` of another schema already")),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Whether the pointer leads into data, which is not a schema.
pub(super) fn points_into_data(root: &Json, pointer: &str) -> bool {
    let (mut value, mut place) = (root, SchemaPosition::Schema);
    for key in tokens(pointer) {
        let below = match value {
            Json::Object(fields) => fields.get(&key),
            Json::Array(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        let Some(below) = below else { return false };
        (value, place) = (below, place.child(&key, below));
    }
    place == SchemaPosition::Data
}
