//! JSON into Lua. Numbers keep their value or are refused; `null` stays distinct from nil; lists stay lists.

use mlua::{Lua, Table, Value};
use serde_json::Number;

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

    fn below(self, part: impl FnOnce() -> String) -> Self {
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
    use serde_json::Value as Json;
    Ok(match json {
        Json::Null => Value::NULL,
        Json::Bool(flag) => Value::Boolean(*flag),
        Json::Number(number) => self::number(number)?,
        Json::String(text) => Value::String(lua.create_string(text)?),
        Json::Array(items) => {
            let list = lua.create_table_with_capacity(items.len(), 0)?;
            for (position, item) in items.iter().enumerate() {
                let item =
                    value(lua, array_meta, item).map_err(|fault| fault.below(|| format!("[{position}]")))?;
                list.raw_push(item)?;
            }
            list.set_metatable(Some(array_meta.clone()))?;
            Value::Table(list)
        }
        Json::Object(fields) => {
            let record = lua.create_table_with_capacity(0, fields.len())?;
            for (key, field) in fields {
                let field =
                    value(lua, array_meta, field).map_err(|fault| fault.below(|| format!(".{key}")))?;
                record.raw_set(key.as_str(), field)?;
            }
            Value::Table(record)
        }
    })
}

/// Luau numbers are doubles: an integer passes when the double next to it is the integer itself.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // what is lost is looked at
fn number(number: &Number) -> Result<Value, Fault> {
    let integer = number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from));
    let double = match integer {
        Some(integer) if (integer as f64) as i128 == integer => integer as f64,
        Some(_) => return Err(Fault::Rounded { number: number.clone(), path: Vec::new() }),
        None => number.as_f64().unwrap_or(f64::NAN),
    };
    Ok(Value::Number(double))
}
