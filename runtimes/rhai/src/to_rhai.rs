//! Converts JSON into Rhai values. `null` is `()`; integers and floats keep their type; a number that would be rounded is
//! refused.

use rhai::{Array, Dynamic, Map};
use serde_json::{Number, Value as Json};

use metier_core::error::ErrorKind;
use metier_core::executor::json_boundary::{ConversionError, spend_memory};

/// The minimum memory of a value in a list, and of a field with its key; of a text, and of a list or a map without what is in it.
const VALUE_BYTES: u64 = size_of::<Dynamic>() as u64;
const FIELD_BYTES: u64 = VALUE_BYTES + 24;
const TEXT_BYTES: u64 = 32;
const CONTAINER_BYTES: u64 = 48;

/// The Rhai value for JSON; `invalid-input` for an integer outside the range of signed 64 bits. The memory that it takes is
/// subtracted from `left`; `memory` if that is not enough.
pub(super) fn value(json: &Json, left: &mut u64) -> Result<Dynamic, ConversionError> {
    Ok(match json {
        Json::Null => Dynamic::UNIT,
        Json::Bool(flag) => Dynamic::from_bool(*flag),
        Json::Number(number) => self::number(number)?,
        Json::String(text) => {
            spend_memory(left, TEXT_BYTES + text.len() as u64)?;
            text.as_str().into()
        }
        Json::Array(items) => {
            spend_memory(left, CONTAINER_BYTES + items.len() as u64 * VALUE_BYTES)?;
            let mut array = Array::with_capacity(items.len());
            for (position, item) in items.iter().enumerate() {
                array.push(
                    value(item, left).map_err(|error| error.with_path_segment(|| format!("[{position}]")))?,
                );
            }
            Dynamic::from_array(array)
        }
        Json::Object(fields) => {
            spend_memory(left, CONTAINER_BYTES)?;
            let mut map = Map::new();
            for (key, field) in fields {
                spend_memory(left, FIELD_BYTES + key.len() as u64)?;
                let field =
                    value(field, left).map_err(|error| error.with_path_segment(|| format!(".{key}")))?;
                map.insert(key.as_str().into(), field);
            }
            Dynamic::from_map(map)
        }
    })
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
