//! Converts JSON into Lua values. Numbers keep their value or are refused; `null` stays distinct from nil; lists stay lists.

use mlua::{Either, Lua, Table, Value};
use serde_json::Number;

use super::value_path::{field_segment, index_segment};
use metier_core::error::{ErrorKind, SkillError};

/// Why a value could not be converted to a Lua value, and where in it.
pub(super) enum ToLuaError {
    /// An integer that Lua would round; the path leads to it, innermost part first.
    InexactInteger { number: Number, path: Vec<String> },
    /// Lua refused it, usually because memory ran out.
    Lua(mlua::Error),
}

impl ToLuaError {
    /// The error for a value of this name; it has this kind unless memory ran out.
    pub(super) fn into_error(self, kind: ErrorKind, name: &str) -> SkillError {
        match self {
            Self::InexactInteger { number, path } => {
                let path: String = path.iter().rev().map(String::as_str).collect();
                SkillError::new(kind, format!("{name}{path}: Lua cannot hold the integer {number} exactly"))
                    .with_help("pass it as a string, or keep integers within ±2^53")
            }
            Self::Lua(mlua::Error::MemoryError(_)) => SkillError::new(ErrorKind::Memory, "out of memory"),
            Self::Lua(error) => SkillError::new(kind, format!("{name}: {error}")),
        }
    }

    pub(super) fn with_path_segment(self, part: impl FnOnce() -> String) -> Self {
        match self {
            Self::InexactInteger { number, mut path } => {
                path.push(part());
                Self::InexactInteger { number, path }
            }
            state @ Self::Lua(_) => state,
        }
    }
}

impl From<mlua::Error> for ToLuaError {
    fn from(error: mlua::Error) -> Self {
        Self::Lua(error)
    }
}

/// The Lua value for a JSON value. Lists carry `array_meta`, so that an empty one comes back as a list.
pub(super) fn value(lua: &Lua, array_meta: &Table, json: &serde_json::Value) -> Result<Value, ToLuaError> {
    match (Writer { lua, array_meta, error: None }).convert(json)? {
        TextOrValue::Left(text) => Ok(Value::String(lua.create_string(text)?)),
        TextOrValue::Right(value) => Ok(value),
    }
}

/// Tables are created from all their parts at once, which saves the state a lock and a reference for each. A part that cannot
/// be created is nil until the table is done, and then the table fails with its error.
struct Writer<'a> {
    lua: &'a Lua,
    array_meta: &'a Table,
    error: Option<ToLuaError>,
}

/// A text that is written directly into its table, or any other value.
type TextOrValue<'j> = Either<&'j str, Value>;

impl Writer<'_> {
    fn convert_nested<'j>(
        &mut self,
        json: &'j serde_json::Value,
        path_segment: impl FnOnce() -> String,
    ) -> TextOrValue<'j> {
        if self.error.is_some() {
            return TextOrValue::Right(Value::Nil);
        }
        self.convert(json).unwrap_or_else(|error| {
            self.error = Some(error.with_path_segment(path_segment));
            TextOrValue::Right(Value::Nil)
        })
    }

    fn convert<'j>(&mut self, json: &'j serde_json::Value) -> Result<TextOrValue<'j>, ToLuaError> {
        use serde_json::Value as Json;
        let lua = self.lua;
        Ok(TextOrValue::Right(match json {
            Json::Null => Value::NULL,
            Json::Bool(flag) => Value::Boolean(*flag),
            Json::Number(number) => self::number(number)?,
            Json::String(text) => return Ok(TextOrValue::Left(text)),
            Json::Array(items) => {
                let parts = items.iter().enumerate();
                let parts =
                    parts.map(|(position, item)| self.convert_nested(item, || index_segment(position)));
                let list = lua.create_sequence_from(parts);
                self.take_error()?;
                let list = list?;
                list.set_metatable(Some(self.array_meta.clone()))?;
                Value::Table(list)
            }
            Json::Object(fields) => {
                let parts = fields.iter();
                let parts = parts.map(|(key, field)| {
                    (key.as_str(), self.convert_nested(field, || field_segment(key.as_bytes())))
                });
                let record = lua.create_table_from(parts);
                self.take_error()?;
                Value::Table(record?)
            }
        }))
    }

    /// The error of the table that was created last.
    fn take_error(&mut self) -> Result<(), ToLuaError> {
        self.error.take().map_or(Ok(()), Err)
    }
}

/// Luau numbers are doubles: an integer is accepted if the nearest double is equal to it.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // what is lost is looked at
pub(super) fn number(number: &Number) -> Result<Value, ToLuaError> {
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let double = match integer {
        Some(integer) if (integer as f64) as i128 == integer => integer as f64,
        Some(_) => return Err(ToLuaError::InexactInteger { number: number.clone(), path: Vec::new() }),
        None => number.as_f64().unwrap_or(f64::NAN),
    };
    Ok(Value::Number(double))
}
