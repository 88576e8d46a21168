//! Encodes values as JSON and decodes JSON. The library's own function writes text that is not always JSON and takes many
//! times the memory of the text it decodes.

use std::io;

use rhai::{Dynamic, FuncRegistration, Map, Module, NativeCallContext};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::from_rhai::type_name;
use crate::run_slot::{RhaiError, check_stop, data_too_large, remaining_memory, require_memory};
use crate::to_rhai;
use metier_core::executor::json_boundary::MAX_DEPTH;
use metier_core::strict_json;

/// The memory of a value while its text is decoded: its JSON, its place in a growing list, and the Rhai value.
const VALUE_BYTES: u64 = 320;
/// The memory of a map with one entry, in JSON and in Rhai.
const OBJECT_BYTES: u64 = 1536;

/// Registers `to_json` and `parse_json`.
pub(super) fn install(module: &mut Module) {
    FuncRegistration::new("to_json")
        .with_purity(true)
        .set_into_module(module, |call: NativeCallContext, map: &mut Map| encode(&call, map));
    module.set_native_fn("parse_json", |call: NativeCallContext, text: &str| decode(&call, text));
}

fn encode(call: &NativeCallContext, map: &Map) -> Result<String, RhaiError> {
    let mut out = BoundedWriter {
        call,
        bytes_since_check: 0,
        out: Vec::new(),
        remaining: remaining_memory(call),
        is_full: false,
    };
    match serde_json::to_writer(&mut out, &JsonValue { value: ValueRef::Map(map), depth: 0 }) {
        Ok(()) => Ok(String::from_utf8_lossy(&out.out).into_owned()),
        Err(_) if out.is_full => Err(data_too_large("The text").into()),
        Err(error) => Err(format!("to_json: {error}").into()),
    }
}

fn decode(call: &NativeCallContext, text: &str) -> Result<Dynamic, RhaiError> {
    let bytes_for = |byte: u8| match byte {
        b'{' => OBJECT_BYTES,
        b',' | b'[' => VALUE_BYTES,
        _ => 2,
    };
    require_memory(call, 1, text.bytes().map(bytes_for).sum())?;
    let json = strict_json::parse_repaired(text).map_err(|error| format!("parse_json: {error}"))?;
    // Its memory was required above.
    to_rhai::value(&json, &mut u64::MAX.clone())
        .map_err(|error| error.into_error("parse_json: the value").to_string().into())
}

/// A text that may not grow beyond the memory that is left.
struct BoundedWriter<'a, 'b> {
    call: &'a NativeCallContext<'b>,
    bytes_since_check: usize,
    out: Vec<u8>,
    remaining: u64,
    is_full: bool,
}

impl io::Write for BoundedWriter<'_, '_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.bytes_since_check += part.len();
        if self.bytes_since_check > 1 << 20 {
            self.bytes_since_check = 0;
            check_stop(self.call).map_err(|_| io::ErrorKind::Other)?;
        }
        // A growing text is copied to an allocation of twice the size, and once more when it is complete.
        let Some(left) = self.remaining.checked_sub(3 * part.len() as u64) else {
            self.is_full = true;
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        self.remaining = left;
        self.out.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value as JSON, or an error if it has no JSON form.
struct JsonValue<'a> {
    value: ValueRef<'a>,
    depth: usize,
}

enum ValueRef<'a> {
    Map(&'a Map),
    Any(&'a Dynamic),
}

impl Serialize for JsonValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.depth > MAX_DEPTH {
            return Err(S::Error::custom(format_args!("the value is nested deeper than {MAX_DEPTH} levels")));
        }
        match self.value {
            ValueRef::Map(map) => self.map(map, serializer),
            ValueRef::Any(value) => self.any(value, serializer),
        }
    }
}

impl JsonValue<'_> {
    fn any<S: Serializer>(&self, value: &Dynamic, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = value.as_immutable_string_ref() {
            serializer.serialize_str(&text)
        } else if let Ok(integer) = value.as_int() {
            serializer.serialize_i64(integer)
        } else if let Some(float) = value.as_float().ok().filter(|float| float.is_finite()) {
            serializer.serialize_f64(float)
        } else if let Ok(flag) = value.as_bool() {
            serializer.serialize_bool(flag)
        } else if let Ok(character) = value.as_char() {
            serializer.serialize_char(character)
        } else if value.is_unit() {
            serializer.serialize_unit()
        } else if let Ok(map) = value.as_map_ref() {
            self.map(&map, serializer)
        } else if let Ok(list) = value.as_array_ref() {
            self.list(&list, serializer)
        } else {
            Err(S::Error::custom(format_args!("a {} has no JSON form", type_name(value))))
        }
    }

    fn map<S: Serializer>(&self, map: &Map, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(Some(map.len()))?;
        for (key, field) in map {
            fields.serialize_entry(key.as_str(), &self.nested(field))?;
        }
        fields.end()
    }

    fn list<S: Serializer>(&self, list: &[Dynamic], serializer: S) -> Result<S::Ok, S::Error> {
        let mut items = serializer.serialize_seq(Some(list.len()))?;
        for item in list {
            items.serialize_element(&self.nested(item))?;
        }
        items.end()
    }

    fn nested<'b>(&self, value: &'b Dynamic) -> JsonValue<'b> {
        JsonValue { value: ValueRef::Any(value), depth: self.depth + 1 }
    }
}
