//! Converts JSON into Rhai values. `null` is `()`; integers and floats keep their type; a number that would be rounded is
//! refused.

use rhai::{Array, Dynamic, Map};
use serde_json::{Number, Value as Json};

use crate::error::ErrorKind;
use crate::runtimes::json_boundary::ConversionError;

/// The Rhai value for JSON; `invalid-input` for an integer outside the range of signed 64 bits.
pub(super) fn value(json: &Json) -> Result<Dynamic, ConversionError> {
    Ok(match json {
        Json::Null => Dynamic::UNIT,
        Json::Bool(flag) => Dynamic::from_bool(*flag),
        Json::Number(number) => self::number(number)?,
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => {
            let mut array = Array::with_capacity(items.len());
            for (position, item) in items.iter().enumerate() {
                array.push(value(item).map_err(|error| error.with_path_segment(|| format!("[{position}]")))?);
            }
            Dynamic::from_array(array)
        }
        Json::Object(fields) => {
            let mut map = Map::new();
            for (key, field) in fields {
                let field = value(field).map_err(|error| error.with_path_segment(|| format!(".{key}")))?;
                map.insert(key.as_str().into(), field);
            }
            Dynamic::from_map(map)
        }
    })
}

/// The minimum memory of the Rhai value: its places, its texts and their allocations.
pub(super) fn value_bytes(json: &Json) -> u64 {
    const DYNAMIC_BYTES: u64 = size_of::<Dynamic>() as u64;
    match json {
        Json::String(text) => DYNAMIC_BYTES + 32 + text.len() as u64,
        Json::Array(items) => DYNAMIC_BYTES + 48 + items.iter().map(value_bytes).sum::<u64>(),
        Json::Object(fields) => {
            let field = |(key, field): (&String, &Json)| 24 + key.len() as u64 + value_bytes(field);
            DYNAMIC_BYTES + 48 + fields.iter().map(field).sum::<u64>()
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => DYNAMIC_BYTES,
    }
}

fn number(number: &Number) -> Result<Dynamic, ConversionError> {
    if let Some(integer) = number.as_i64() {
        return Ok(Dynamic::from_int(integer));
    }
    match number.as_f64().filter(|_| !number.is_u64()) {
        Some(float) => Ok(Dynamic::from_float(float)),
        None => Err(ConversionError::with_kind(
            ErrorKind::InvalidInput,
            format!("is the integer {number}, which Rhai cannot hold exactly"),
        )
        .with_help("pass it as a string, or keep integers below 2^63")),
    }
}
