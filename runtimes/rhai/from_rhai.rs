//! Rhai into JSON. What has no JSON form is an error that names its place, never a silent change.

use rhai::{Array, Dynamic, Map};
use serde_json::{Number, Value as Json};

use super::super::border::{Budget, DEPTH, Fault};
use crate::error::ErrorKind;

/// The JSON for a Rhai value, of at most `cap` bytes.
pub(super) fn value(value: &Dynamic, cap: u64) -> Result<Json, Fault> {
    within(value, cap, &mut u64::MAX.clone())
}

/// The same, where there is memory for it; what it takes is taken from what is left.
pub(super) fn within(value: &Dynamic, cap: u64, left: &mut u64) -> Result<Json, Fault> {
    Reader { budget: Budget::new(cap), left }.read(value, 0)
}

struct Reader<'a> {
    budget: Budget,
    /// Bytes of memory.
    left: &'a mut u64,
}

/// Bytes that a place takes in a list, and in a map with its share of a node.
const PLACE: u64 = size_of::<Json>() as u64;
const FIELD: u64 = 2 * (size_of::<Json>() + size_of::<String>()) as u64;

impl Reader<'_> {
    /// Counts memory before it is taken.
    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        *self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            Fault::of_kind(ErrorKind::Memory, "takes more memory than the script has left".to_owned())
        })?;
        Ok(())
    }

    fn read(&mut self, value: &Dynamic, depth: usize) -> Result<Json, Fault> {
        // The questions are cheap and the answers are not: each that fails would name the type.
        if value.is_string() {
            if let Ok(text) = value.as_immutable_string_ref() {
                return self.text(&text).map(Json::String);
            }
        } else if let Some(integer) = value.is_int().then(|| value.as_int().ok()).flatten() {
            return self.budget.spend(1).map(|()| integer.into());
        } else if let Some(float) = value.is_float().then(|| value.as_float().ok()).flatten() {
            return self.budget.spend(1).and_then(|()| number(float));
        } else if value.is_map() {
            if let Ok(map) = value.as_map_ref() {
                return self.record(&map, deeper(depth)?);
            }
        } else if value.is_array() {
            if let Ok(array) = value.as_array_ref() {
                return self.list(&array, deeper(depth)?);
            }
        } else if let Ok(flag) = value.as_bool() {
            return self.budget.spend(4).map(|()| Json::Bool(flag));
        } else if let Ok(character) = value.as_char() {
            return self.text(character.encode_utf8(&mut [0; 4])).map(Json::String);
        } else if value.is_unit() {
            return self.budget.spend(4).map(|()| Json::Null);
        }
        Err(Fault::new(format!("is a {}, which has no JSON form", kind_of(value))))
    }

    fn list(&mut self, array: &Array, depth: usize) -> Result<Json, Fault> {
        self.budget.spend(2 + array.len() as u64)?;
        self.take(array.len() as u64 * PLACE)?;
        let mut items = Vec::with_capacity(array.len());
        for (position, item) in array.iter().enumerate() {
            items.push(self.read(item, depth).map_err(|fault| fault.below(|| format!("[{position}]")))?);
        }
        Ok(Json::Array(items))
    }

    fn record(&mut self, map: &Map, depth: usize) -> Result<Json, Fault> {
        self.budget.spend(2)?;
        let mut fields = serde_json::Map::new();
        for (key, field) in map {
            self.take(FIELD)?;
            let key = self.text(key)?;
            let field = self.read(field, depth).map_err(|fault| fault.below(|| format!(".{key}")))?;
            fields.insert(key, field);
        }
        Ok(Json::Object(fields))
    }

    fn text(&mut self, text: &str) -> Result<String, Fault> {
        self.budget.spend(text.len() as u64 + 2)?;
        self.take(text.len() as u64 + 16)?;
        Ok(text.to_owned())
    }
}

fn deeper(depth: usize) -> Result<usize, Fault> {
    if depth < DEPTH { Ok(depth + 1) } else { Err(Fault::too_deep()) }
}

fn number(float: f64) -> Result<Json, Fault> {
    Number::from_f64(float)
        .map(Json::Number)
        .ok_or_else(|| Fault::new(format!("is {float}, which JSON has no form for")))
}

/// The type as Rhai's own `type_of` names it, short of module paths.
pub(super) fn kind_of(value: &Dynamic) -> &str {
    let name = value.type_name();
    match name.rsplit("::").next() {
        Some("Fn" | "FnPtr") => "function",
        Some("Instant") => "timestamp",
        Some(last) => last.trim_end_matches('>'),
        None => name,
    }
}
