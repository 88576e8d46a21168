//! A schema that somebody hands in as JSON.

use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;

use super::{Parts, Schema, walk};

impl Schema {
    /// The schema, word for word; nothing where it is none, or would cost too much.
    pub fn of_json(json: Json) -> Option<Self> {
        let weight = walk::size(&json).ok()?;
        let order = json.get("properties").and_then(Json::as_object);
        let order = order.into_iter().flat_map(|properties| properties.keys().cloned()).collect();
        let compiled = OnceLock::new();
        let schema = Self(Arc::new(Parts { json, order, defaults: Vec::new(), weight, line: 1, compiled }));
        schema.fault().is_none().then_some(schema)
    }
}
