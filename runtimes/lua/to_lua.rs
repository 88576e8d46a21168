//! JSON into Lua. Numbers keep their value or are refused; `null` stays distinct from nil; lists stay lists.

use mlua::{Either, Lua, Table, Value};
use serde_json::Number;

use super::failure;
use crate::error::{ErrorKind, SkillError};

/// Why a value could not become a Lua value, and where in it.
pub(super) enum Fault {
    /// An integer Lua would round; the path leads to it, innermost part first.
    Rounded { number: Number, path: Vec<String> },
    /// The state refused, for want of memory as a rule.
    State(mlua::Error),
}

impl Fault {
    /// The error for a value that goes by this name, of this kind unless memory ran out.
    pub(super) fn into_error(self, kind: ErrorKind, name: &str) -> SkillError {
        match self {
            Self::Rounded { number, path } => {
                let path: String = path.iter().rev().map(String::as_str).collect();
                SkillError::new(kind, format!("{name}{path}: Lua cannot hold the integer {number} exactly"))
                    .with_help("pass it as a string, or keep integers within ±2^53")
            }
            Self::State(mlua::Error::MemoryError(_)) => SkillError::new(ErrorKind::Memory, "out of memory"),
            Self::State(error) => SkillError::new(kind, format!("{name}: {error}")),
        }
    }

    pub(super) fn below(self, part: impl FnOnce() -> String) -> Self {
        match self {
            Self::Rounded { number, mut path } => {
                path.push(part());
                Self::Rounded { number, path }
            }
            state @ Self::State(_) => state,
        }
    }
}

impl From<mlua::Error> for Fault {
    fn from(error: mlua::Error) -> Self {
        Self::State(error)
    }
}

/// The Lua value for a JSON value. Lists carry `array_meta`, so that an empty one comes back as a list.
pub(super) fn value(lua: &Lua, array_meta: &Table, json: &serde_json::Value) -> Result<Value, Fault> {
    match (Writer { lua, array_meta, fault: None }).made(json)? {
        Part::Left(text) => Ok(Value::String(lua.create_string(text)?)),
        Part::Right(value) => Ok(value),
    }
}

/// Tables are made of all their parts at once, which spares the state a lock and a reference for each. What cannot be
/// made stands as nil until the table is done, and then is its fault.
struct Writer<'a> {
    lua: &'a Lua,
    array_meta: &'a Table,
    fault: Option<Fault>,
}

/// A text that is written straight into its table, or any other value.
type Part<'j> = Either<&'j str, Value>;

impl Writer<'_> {
    fn part<'j>(&mut self, json: &'j serde_json::Value, place: impl FnOnce() -> String) -> Part<'j> {
        if self.fault.is_some() {
            return Part::Right(Value::Nil);
        }
        self.made(json).unwrap_or_else(|fault| {
            self.fault = Some(fault.below(place));
            Part::Right(Value::Nil)
        })
    }

    fn made<'j>(&mut self, json: &'j serde_json::Value) -> Result<Part<'j>, Fault> {
        use serde_json::Value as Json;
        let lua = self.lua;
        Ok(Part::Right(match json {
            Json::Null => Value::NULL,
            Json::Bool(flag) => Value::Boolean(*flag),
            Json::Number(number) => self::number(number)?,
            Json::String(text) => return Ok(Part::Left(text)),
            Json::Array(items) => {
                let parts = items.iter().enumerate();
                let parts = parts.map(|(position, item)| self.part(item, || format!("[{position}]")));
                let list = lua.create_sequence_from(parts);
                self.whole()?;
                let list = list?;
                list.set_metatable(Some(self.array_meta.clone()))?;
                Value::Table(list)
            }
            Json::Object(fields) => {
                let parts = fields.iter();
                let parts = parts.map(|(key, field)| {
                    (key.as_str(), self.part(field, || format!(".{}", failure::brief(key.as_bytes()))))
                });
                let record = lua.create_table_from(parts);
                self.whole()?;
                Value::Table(record?)
            }
        }))
    }

    /// The fault of the table that was made last.
    fn whole(&mut self) -> Result<(), Fault> {
        self.fault.take().map_or(Ok(()), Err)
    }
}

/// Luau numbers are doubles: an integer passes when the double next to it is the integer itself.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // what is lost is looked at
pub(super) fn number(number: &Number) -> Result<Value, Fault> {
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let double = match integer {
        Some(integer) if (integer as f64) as i128 == integer => integer as f64,
        Some(_) => return Err(Fault::Rounded { number: number.clone(), path: Vec::new() }),
        None => number.as_f64().unwrap_or(f64::NAN),
    };
    Ok(Value::Number(double))
}
