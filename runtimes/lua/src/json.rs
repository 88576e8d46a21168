//! JSON text as Lua values and back. Decoding makes Lua values as it reads, so that Lua counts what they take.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::io::{self, Write};

use mlua::{Either, Lua, Table, Value};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::from_lua::{self, ConversionBudget};
use super::to_lua::{self, ToLuaError};
use super::value_path::{field_segment, index_segment};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::policy::CancelToken;
use metier_core::strict_json::replace_half_surrogates;

/// Encodes a value, in no more memory than the budget leaves besides the intermediate value.
pub(super) fn encode(value: &Value, array_meta: &Table, budget: &mut ConversionBudget) -> Result<Vec<u8>> {
    let json = from_lua::value(value, array_meta, budget)
        .map_err(|error| error.into_error("json.encode: the value"))?;
    let mut text = BoundedWriter { bytes: Vec::new(), remaining: budget.remaining_memory() / 2 };
    match serde_json::to_writer(&mut text, &json) {
        Ok(()) => Ok(text.bytes),
        Err(_) => Err(SkillError::new(ErrorKind::Memory, "out of memory")),
    }
}

/// A text that does not exceed its memory budget; while it grows, it may exist twice.
struct BoundedWriter {
    bytes: Vec<u8>,
    remaining: u64,
}

impl Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.remaining = self.remaining.checked_sub(bytes.len() as u64).ok_or(io::ErrorKind::OutOfMemory)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Decodes a text, with U+FFFD in place of halves of surrogate pairs. A number that Lua would round is refused, as in the result of a
/// host function.
pub(super) fn decode(lua: &Lua, array_meta: &Table, text: &[u8], token: &CancelToken) -> Result<Value> {
    let decoded = decode_whole(lua, array_meta, text, token);
    let is_wrong = decoded.as_ref().is_err_and(|error| error.kind() == ErrorKind::InvalidArgument);
    let halves = || replace_half_surrogates(std::str::from_utf8(text).ok()?);
    match is_wrong.then(halves).flatten() {
        Some(replaced) => decode_whole(lua, array_meta, replaced.as_bytes(), token),
        None => decoded,
    }
}

fn decode_whole(lua: &Lua, array_meta: &Table, text: &[u8], token: &CancelToken) -> Result<Value> {
    let wrong = |error: serde_json::Error| {
        SkillError::new(ErrorKind::InvalidArgument, format!("json.decode: {error}"))
    };
    let state =
        Decoder { lua, array_meta, token, error: RefCell::new(None), values_since_check: RefCell::new(0) };
    let mut json = serde_json::Deserializer::from_slice(text);
    let read = ValueSeed(&state).deserialize(&mut json);
    if let Some(error) = state.error.take() {
        return Err(error);
    }
    let read = read.map_err(wrong)?;
    json.end().map_err(wrong)?;
    let value = read.and_then(|item| state.to_lua_value(item).map_err(ToLuaError::from));
    value.map_err(|error| error.into_error(ErrorKind::InvalidOutput, "the answer"))
}

struct Decoder<'a> {
    lua: &'a Lua,
    array_meta: &'a Table,
    token: &'a CancelToken,
    /// Why decoding ended early: memory that ran out, or a run that was stopped.
    error: RefCell<Option<SkillError>>,
    /// Values since the token was last checked.
    values_since_check: RefCell<u32>,
}

/// A text that is still to be converted into a Lua string, or any other value.
type TextOrValue<'t> = Either<Cow<'t, str>, Value>;

/// A value, or why Lua cannot represent it; the text must be valid JSON all the same.
type DecodeResult<'t> = std::result::Result<TextOrValue<'t>, ToLuaError>;

impl Decoder<'_> {
    fn to_lua_value(&self, item: TextOrValue) -> mlua::Result<Value> {
        match item {
            Either::Left(text) => self.lua.create_string(text.as_bytes()).map(Value::String),
            Either::Right(value) => Ok(value),
        }
    }

    /// The result of Lua, or the end of decoding.
    fn record_lua_error<T, E: serde::de::Error>(&self, result: mlua::Result<T>) -> std::result::Result<T, E> {
        result.map_err(|error| {
            let error = ToLuaError::from(error).into_error(ErrorKind::InvalidOutput, "the answer");
            self.error.replace(Some(error));
            E::custom("stopped")
        })
    }

    fn count_value<E: serde::de::Error>(&self) -> std::result::Result<(), E> {
        let mut read = self.values_since_check.borrow_mut();
        *read += 1;
        if *read < 1 << 10 {
            return Ok(());
        }
        *read = 0;
        self.token.check().map_err(|stopped| {
            self.error.replace(Some(stopped));
            E::custom("stopped")
        })
    }
}

/// Decodes one value at any position.
#[derive(Clone, Copy)]
struct ValueSeed<'a>(&'a Decoder<'a>);

impl<'t> DeserializeSeed<'t> for ValueSeed<'_> {
    type Value = DecodeResult<'t>;

    fn deserialize<D: Deserializer<'t>>(self, json: D) -> std::result::Result<Self::Value, D::Error> {
        self.0.count_value()?;
        json.deserialize_any(self)
    }
}

/// Items that are collected before a table is created from them.
const TABLE_BATCH: usize = 256;

impl<'t> Visitor<'t> for ValueSeed<'_> {
    type Value = DecodeResult<'t>;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(Ok(Either::Right(Value::NULL)))
    }

    fn visit_bool<E>(self, flag: bool) -> std::result::Result<Self::Value, E> {
        Ok(Ok(Either::Right(Value::Boolean(flag))))
    }

    fn visit_i64<E>(self, integer: i64) -> std::result::Result<Self::Value, E> {
        Ok(to_lua::number(&Number::from(integer)).map(Either::Right))
    }

    fn visit_u64<E>(self, integer: u64) -> std::result::Result<Self::Value, E> {
        Ok(to_lua::number(&Number::from(integer)).map(Either::Right))
    }

    fn visit_f64<E>(self, double: f64) -> std::result::Result<Self::Value, E> {
        Ok(Ok(Either::Right(Value::Number(double))))
    }

    fn visit_borrowed_str<E>(self, text: &'t str) -> std::result::Result<Self::Value, E> {
        Ok(Ok(Either::Left(Cow::Borrowed(text))))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Self::Value, E> {
        let text = self.0.record_lua_error(self.0.lua.create_string(text))?;
        Ok(Ok(Either::Right(Value::String(text))))
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut parts: A) -> std::result::Result<Self::Value, A::Error> {
        let decoder = self.0;
        let (mut first, mut list, mut error, mut count) = (Vec::new(), None, None, 0_usize);
        while let Some(part) = parts.next_element_seed(self)? {
            let item = match part {
                Ok(item) => item,
                Err(found) => {
                    error.get_or_insert_with(|| found.with_path_segment(|| index_segment(count)));
                    Either::Right(Value::Nil)
                }
            };
            count += 1;
            if error.is_some() {
                continue;
            }
            if count <= TABLE_BATCH {
                first.push(item);
                continue;
            }
            if list.is_none() {
                let some = std::mem::take(&mut first);
                list = Some(decoder.record_lua_error(decoder.lua.create_sequence_from(some))?);
            }
            if let Some(list) = &list {
                decoder.record_lua_error(list.raw_push(item))?;
            }
        }
        if let Some(error) = error {
            return Ok(Err(error));
        }
        let list = match list {
            Some(list) => list,
            None => decoder.record_lua_error(decoder.lua.create_sequence_from(first))?,
        };
        decoder.record_lua_error(list.set_metatable(Some(decoder.array_meta.clone())))?;
        Ok(Ok(Either::Right(Value::Table(list))))
    }

    fn visit_map<A: MapAccess<'t>>(self, mut fields: A) -> std::result::Result<Self::Value, A::Error> {
        /// The maximum number of fields that cannot be represented; a later field with the same name may replace each.
        const MAX_ERRORS: usize = 256;
        let decoder = self.0;
        let (mut first, mut record) = (Vec::new(), None);
        let mut errors: Vec<(String, ToLuaError)> = Vec::new();
        while let Some(key) = fields.next_key::<FieldName>()? {
            let key = key.0;
            let item = match fields.next_value_seed(self)? {
                Ok(item) => {
                    // The last of several fields with the same name counts.
                    errors.retain(|(failed, _)| *failed != key);
                    item
                }
                Err(error) => {
                    errors.retain(|(failed, _)| *failed != key);
                    let error = error.with_path_segment(|| field_segment(key.as_bytes()));
                    if errors.len() == MAX_ERRORS {
                        let error = error.into_error(ErrorKind::InvalidOutput, "the answer");
                        decoder.error.replace(Some(error));
                        return Err(A::Error::custom("stopped"));
                    }
                    errors.push((key.clone().into_owned(), error));
                    continue;
                }
            };
            if first.len() < TABLE_BATCH && record.is_none() {
                first.push((key, item));
                continue;
            }
            if record.is_none() {
                let some = std::mem::take(&mut first);
                record = Some(decoder.record_lua_error(decoder.lua.create_table_from(some))?);
            }
            if let Some(record) = &record {
                decoder.record_lua_error(record.raw_set(&*key, item))?;
            }
        }
        if let Some((_, error)) = errors.into_iter().next() {
            return Ok(Err(error));
        }
        let record = match record {
            Some(record) => record,
            None => decoder.record_lua_error(decoder.lua.create_table_from(first))?,
        };
        Ok(Ok(Either::Right(Value::Table(record))))
    }
}

/// The name of a field, borrowed from the text if it needs no unescaping.
struct FieldName<'t>(Cow<'t, str>);

impl<'t> Deserialize<'t> for FieldName<'t> {
    fn deserialize<D: Deserializer<'t>>(json: D) -> std::result::Result<Self, D::Error> {
        struct Text;
        impl<'t> Visitor<'t> for Text {
            type Value = FieldName<'t>;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'t str) -> std::result::Result<Self::Value, E> {
                Ok(FieldName(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> std::result::Result<Self::Value, E> {
                Ok(FieldName(Cow::Owned(text.to_owned())))
            }
        }
        json.deserialize_str(Text)
    }
}
