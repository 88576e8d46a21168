//! Where schemas stand in a schema, and the names by which references reach them.
//!
//! Whoever weighs a schema and whoever compiles it must agree on where a reference leads. So a name is given once, in a place
//! where a schema stands, and nothing below the top may give references another meaning.

use std::collections::HashMap;

use serde_json::Value as Json;

use super::super::super::rule;
use super::Fault;
use super::keywords::{Holds, holds};
use super::notation::escaped;
use super::walk::fault;

/// Keywords whose values are data, whatever they look like.
const DATA: [&str; 4] = ["default", "const", "enum", "examples"];
/// Keywords that give references another meaning, from where they stand downwards.
const TURNING: [&str; 3] = ["$id", "id", "$schema"];
/// Keywords that are there for references which are not followed.
const DYNAMIC: [&str; 2] = ["$dynamicAnchor", "$recursiveAnchor"];

/// What stands at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Schema,
    /// A map or list of schemas.
    Schemas,
    Data,
    /// What no keyword known here holds.
    Elsewhere,
}

impl Place {
    /// The place of what this one holds under a key.
    fn below(self, key: &str, value: &Json) -> Self {
        match self {
            Self::Schema if DATA.contains(&key) => Self::Data,
            Self::Schema => match (holds(key), value) {
                (Some(Holds::Schema), Json::Object(_)) => Self::Schema,
                (Some(Holds::Schema | Holds::Schemas), Json::Array(_))
                | (Some(Holds::NamedSchemas), Json::Object(_)) => Self::Schemas,
                _ => Self::Elsewhere,
            },
            Self::Schemas => Self::Schema,
            Self::Data => Self::Data,
            Self::Elsewhere => Self::Elsewhere,
        }
    }
}

/// The pointers to what was given a name with `$anchor`.
pub(super) fn anchors(schema: &Json) -> Result<HashMap<&str, String>, Fault> {
    let mut anchors = HashMap::new();
    collect(schema, Place::Schema, "", &mut anchors)?;
    Ok(anchors)
}

fn collect<'a>(
    value: &'a Json,
    place: Place,
    at: &str,
    anchors: &mut HashMap<&'a str, String>,
) -> Result<(), Fault> {
    match value {
        _ if place == Place::Data => Ok(()),
        Json::Object(fields) => fields.iter().try_for_each(|(key, value)| {
            let below = format!("{at}/{}", escaped(key));
            if place != Place::Schemas {
                name(key, value, place, at, &below, anchors)?;
            }
            collect(value, place.below(key, value), &below, anchors)
        }),
        Json::Array(items) => items.iter().enumerate().try_for_each(|(index, item)| {
            collect(item, place.below("", item), &format!("{at}/{index}"), anchors)
        }),
        _ => Ok(()),
    }
}

/// Takes up the name that a key gives, or refuses it.
fn name<'a>(
    key: &str,
    value: &'a Json,
    place: Place,
    at: &str,
    below: &str,
    anchors: &mut HashMap<&'a str, String>,
) -> Result<(), Fault> {
    let refused = |message: &str| Err(fault(&rule::SCHEMA_REFERENCE, below, message));
    match (key, value) {
        (key, Json::String(_)) if TURNING.contains(&key) && !at.is_empty() => {
            refused(&format!("`{key}` below the top would give references another meaning"))
        }
        (key, Json::String(_) | Json::Bool(_)) if DYNAMIC.contains(&key) => {
            refused(&format!("`{key}` is not supported; write `$anchor`"))
        }
        ("$anchor", Json::String(_)) if place != Place::Schema => {
            refused("no schema stands here that `$anchor` could name")
        }
        ("$anchor", Json::String(name)) => match anchors.insert(name, at.to_owned()) {
            Some(_) => refused(&format!("`{name}` is the `$anchor` of another schema already")),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Whether the pointer leads into values, which are no schemas.
pub(super) fn is_in_data(root: &Json, pointer: &str) -> bool {
    let (mut value, mut place) = (root, Place::Schema);
    for key in pointer.split('/').skip(1) {
        let key = key.replace("~1", "/").replace("~0", "~");
        let below = match value {
            Json::Object(fields) => fields.get(&key),
            Json::Array(items) => key.parse::<usize>().ok().and_then(|index| items.get(index)),
            _ => None,
        };
        let Some(below) = below else { return false };
        (value, place) = (below, place.below(&key, below));
    }
    place == Place::Data
}
