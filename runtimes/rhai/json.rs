//! JSON as text, from a value and into one. The library's own writes text that is not always JSON and takes many times the
//! space of what it reads.

use std::io;

use rhai::{Dynamic, FuncRegistration, Map, Module, NativeCallContext};
use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};

use super::super::border::DEPTH;
use super::from_rhai::kind_of;
use super::growth::{Thrown, go_on, left, room, too_large};
use super::to_rhai;
use crate::exact;

/// Bytes a value takes while its text is read: its JSON, its place in a list that grows, and the Rhai value.
const VALUE: u64 = 160;
/// Bytes of a map with one entry, of either kind.
const OBJECT: u64 = 1536;

/// Registers `to_json` and `parse_json`.
pub(super) fn install(module: &mut Module) {
    FuncRegistration::new("to_json")
        .with_purity(true)
        .set_into_module(module, |call: NativeCallContext, map: &mut Map| written(&call, map));
    module.set_native_fn("parse_json", |call: NativeCallContext, text: &str| read(&call, text));
}

fn written(call: &NativeCallContext, map: &Map) -> Result<String, Thrown> {
    let mut out = Capped { call, unasked: 0, out: Vec::new(), left: left(call), is_full: false };
    match serde_json::to_writer(&mut out, &Written { value: Held::Map(map), depth: 0 }) {
        Ok(()) => Ok(String::from_utf8_lossy(&out.out).into_owned()),
        Err(_) if out.is_full => Err(too_large("The text").into()),
        Err(error) => Err(format!("to_json: {error}").into()),
    }
}

fn read(call: &NativeCallContext, text: &str) -> Result<Dynamic, Thrown> {
    let weight = |byte: u8| match byte {
        b'{' => OBJECT,
        b',' | b'[' => VALUE,
        _ => 2,
    };
    room(call, 1, text.bytes().map(weight).sum())?;
    let json = exact::json(text).map_err(|error| format!("parse_json: {error}"))?;
    to_rhai::value(&json).map_err(|fault| fault.into_error("parse_json: the value").to_string().into())
}

/// Text that may not grow beyond what is left.
struct Capped<'a, 'b> {
    call: &'a NativeCallContext<'b>,
    unasked: usize,
    out: Vec<u8>,
    left: u64,
    is_full: bool,
}

impl io::Write for Capped<'_, '_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        self.unasked += part.len();
        if self.unasked > 1 << 20 {
            self.unasked = 0;
            go_on(self.call).map_err(|_| io::ErrorKind::Other)?;
        }
        // A growing text is copied to where there is twice the room, and once more when it is done.
        let Some(left) = self.left.checked_sub(3 * part.len() as u64) else {
            self.is_full = true;
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        self.left = left;
        self.out.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A value as JSON, or an error where it has no such form.
struct Written<'a> {
    value: Held<'a>,
    depth: usize,
}

enum Held<'a> {
    Map(&'a Map),
    Any(&'a Dynamic),
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.depth > DEPTH {
            return Err(S::Error::custom(format_args!("the value is nested deeper than {DEPTH} levels")));
        }
        match self.value {
            Held::Map(map) => self.map(map, serializer),
            Held::Any(value) => self.any(value, serializer),
        }
    }
}

impl Written<'_> {
    fn any<S: Serializer>(&self, value: &Dynamic, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(text) = value.as_immutable_string_ref() {
            serializer.serialize_str(&text)
        } else if let Ok(integer) = value.as_int() {
            serializer.serialize_i64(integer)
        } else if let Some(float) = value.as_float().ok().filter(|float| float.is_finite()) {
            serializer.serialize_f64(float)
        } else if let Ok(flag) = value.as_bool() {
            serializer.serialize_bool(flag)
        } else if let Ok(letter) = value.as_char() {
            serializer.serialize_char(letter)
        } else if value.is_unit() {
            serializer.serialize_unit()
        } else if let Ok(map) = value.as_map_ref() {
            self.map(&map, serializer)
        } else if let Ok(list) = value.as_array_ref() {
            self.list(&list, serializer)
        } else {
            Err(S::Error::custom(format_args!("a {} has no JSON form", kind_of(value))))
        }
    }

    fn map<S: Serializer>(&self, map: &Map, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(Some(map.len()))?;
        for (key, field) in map {
            fields.serialize_entry(key.as_str(), &self.below(field))?;
        }
        fields.end()
    }

    fn list<S: Serializer>(&self, list: &[Dynamic], serializer: S) -> Result<S::Ok, S::Error> {
        let mut items = serializer.serialize_seq(Some(list.len()))?;
        for item in list {
            items.serialize_element(&self.below(item))?;
        }
        items.end()
    }

    fn below<'b>(&self, value: &'b Dynamic) -> Written<'b> {
        Written { value: Held::Any(value), depth: self.depth + 1 }
    }
}
