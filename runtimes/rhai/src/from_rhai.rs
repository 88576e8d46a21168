//! Converts Rhai values into JSON. A value without a JSON form is an error that names its place, never changed silently.

use rhai::{Array, Dynamic, Map};
use serde_json::{Number, Value as Json};

use metier_core::executor::json_boundary::{ConversionError, MAX_DEPTH, OutputBudget, spend_memory};

/// The JSON of a Rhai value, of at most `cap` bytes.
pub(super) fn value(value: &Dynamic, cap: u64) -> Result<Json, ConversionError> {
    value_within(value, cap, &mut u64::MAX.clone())
}

/// The same within a memory limit; the memory that it takes is subtracted from `left`.
pub(super) fn value_within(value: &Dynamic, cap: u64, left: &mut u64) -> Result<Json, ConversionError> {
    Reader { output: OutputBudget::new(cap), remaining_memory: left }.read(value, 0)
}

struct Reader<'a> {
    output: OutputBudget,
    /// Bytes of memory.
    remaining_memory: &'a mut u64,
}

/// The memory that a value takes in a list, and in a map with its share of the table.
const VALUE_BYTES: u64 = size_of::<Json>() as u64;
const FIELD_BYTES: u64 = 2 * (size_of::<Json>() + size_of::<String>()) as u64;

impl Reader<'_> {
    fn read(&mut self, value: &Dynamic, depth: usize) -> Result<Json, ConversionError> {
        // The checks are cheap, but the conversions are not: each that fails would look up the type's name.
        if value.is_string() {
            if let Ok(text) = value.as_immutable_string_ref() {
                return self.text(&text).map(Json::String);
            }
        } else if let Some(integer) = value.is_int().then(|| value.as_int().ok()).flatten() {
            return self.output.spend(1).map(|()| integer.into());
        } else if let Some(float) = value.is_float().then(|| value.as_float().ok()).flatten() {
            return self.output.spend(1).and_then(|()| number(float));
        } else if value.is_map() {
            if let Ok(map) = value.as_map_ref() {
                return self.object(&map, next_depth(depth)?);
            }
        } else if value.is_array() {
            if let Ok(array) = value.as_array_ref() {
                return self.list(&array, next_depth(depth)?);
            }
        } else if let Ok(flag) = value.as_bool() {
            return self.output.spend(4).map(|()| Json::Bool(flag));
        } else if let Ok(character) = value.as_char() {
            return self.text(character.encode_utf8(&mut [0; 4])).map(Json::String);
        } else if value.is_unit() {
            return self.output.spend(4).map(|()| Json::Null);
        }
        Err(ConversionError::new(format!("is a {}, which has no JSON form", type_name(value))))
    }

    fn list(&mut self, array: &Array, depth: usize) -> Result<Json, ConversionError> {
        self.output.spend(2 + array.len() as u64)?;
        spend_memory(self.remaining_memory, array.len() as u64 * VALUE_BYTES)?;
        let mut items = Vec::with_capacity(array.len());
        for (position, item) in array.iter().enumerate() {
            items.push(
                self.read(item, depth)
                    .map_err(|error| error.with_path_segment(|| format!("[{position}]")))?,
            );
        }
        Ok(Json::Array(items))
    }

    fn object(&mut self, map: &Map, depth: usize) -> Result<Json, ConversionError> {
        self.output.spend(2)?;
        spend_memory(self.remaining_memory, map.len() as u64 * FIELD_BYTES)?;
        let mut fields = serde_json::Map::with_capacity(map.len());
        for (key, field) in map {
            let key = self.text(key)?;
            let field =
                self.read(field, depth).map_err(|error| error.with_path_segment(|| format!(".{key}")))?;
            fields.insert(key, field);
        }
        Ok(Json::Object(fields))
    }

    fn text(&mut self, text: &str) -> Result<String, ConversionError> {
        self.output.spend(text.len() as u64 + 2)?;
        spend_memory(self.remaining_memory, text.len() as u64 + 16)?;
        Ok(text.to_owned())
    }
}

fn next_depth(depth: usize) -> Result<usize, ConversionError> {
    if depth < MAX_DEPTH { Ok(depth + 1) } else { Err(ConversionError::too_deep()) }
}

fn number(float: f64) -> Result<Json, ConversionError> {
    Number::from_f64(float)
        .map(Json::Number)
        .ok_or_else(|| ConversionError::new(format!("is {float}, which JSON has no form for")))
}

/// The type as Rhai's own `type_of` names it, short of module paths.
pub(super) fn type_name(value: &Dynamic) -> &str {
    let name = value.type_name();
    match name.rsplit("::").next() {
        Some("Fn" | "FnPtr") => "function",
        Some("Instant") => "timestamp",
        Some(last) => last.trim_end_matches('>'),
        None => name,
    }
}
