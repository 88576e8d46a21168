//! JSON into Rhai. `null` is `()`; integers and floats stay what they are; what would be rounded is refused.

use rhai::{Array, Dynamic, Map};
use serde_json::{Number, Value as Json};

use super::super::border::Fault;
use crate::error::ErrorKind;

/// The Rhai value for JSON; `invalid-input` for an integer beyond 64 bits with a sign.
pub(super) fn value(json: &Json) -> Result<Dynamic, Fault> {
    Ok(match json {
        Json::Null => Dynamic::UNIT,
        Json::Bool(flag) => Dynamic::from_bool(*flag),
        Json::Number(number) => self::number(number)?,
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => {
            let mut array = Array::with_capacity(items.len());
            for (position, item) in items.iter().enumerate() {
                array.push(value(item).map_err(|fault| fault.below(|| format!("[{position}]")))?);
            }
            Dynamic::from_array(array)
        }
        Json::Object(fields) => {
            let mut map = Map::new();
            for (key, field) in fields {
                let field = value(field).map_err(|fault| fault.below(|| format!(".{key}")))?;
                map.insert(key.as_str().into(), field);
            }
            Dynamic::from_map(map)
        }
    })
}

/// Bytes the Rhai value takes at least: its places, its texts and their blocks.
pub(super) fn weight(json: &Json) -> u64 {
    const PLACE: u64 = size_of::<Dynamic>() as u64;
    match json {
        Json::String(text) => PLACE + 32 + text.len() as u64,
        Json::Array(items) => PLACE + 48 + items.iter().map(weight).sum::<u64>(),
        Json::Object(fields) => {
            let field = |(key, field): (&String, &Json)| 24 + key.len() as u64 + weight(field);
            PLACE + 48 + fields.iter().map(field).sum::<u64>()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => PLACE,
    }
}

fn number(number: &Number) -> Result<Dynamic, Fault> {
    if let Some(integer) = number.as_i64() {
        return Ok(Dynamic::from_int(integer));
    }
    match number.as_f64().filter(|_| !number.is_u64()) {
        Some(float) => Ok(Dynamic::from_float(float)),
        None => Err(Fault::of_kind(
            ErrorKind::InvalidInput,
            format!("is the integer {number}, which Rhai cannot hold exactly"),
        )
        .with_help("pass it as a string, or keep integers below 2^63")),
    }
}
