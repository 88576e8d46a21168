//! The host's side of a state: the functions that scripts call.

use std::sync::Arc;

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Table, Value};

use super::failure::{self, HostFailure};
use super::run_slot::RunSlot;
use super::{from_lua, json, to_lua};
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{HostFunction, functions};
use metier_core::text_encoding;

/// The globals of every run's environment, and the protected call that runs a script.
pub(super) struct Globals {
    pub(super) protected_call: Function,
    pub(super) array_meta: Table,
    randomseed: Function,
}

/// The values that the prelude returns.
type PreludeExports = (Function, Table, Table, Function, Table, Table, Table, Function, Function);

/// Globals of Luau or mlua that are removed.
const REMOVED_GLOBALS: [&str; 12] = [
    // Each run has its own; a shared one would be bound to the script when it is loaded.
    "_G",
    "collectgarbage",
    "dofile",
    "gcinfo",
    "getfenv",
    "load",
    "loadfile",
    "loadstring",
    "newproxy",
    "package",
    "require",
    "setfenv",
];

impl Globals {
    /// Fills the globals of a new state, before it is sandboxed.
    pub(super) fn install(lua: &Lua, slot: &Arc<RunSlot>) -> mlua::Result<Self> {
        let globals = lua.globals();
        let math: Table = globals.get("math")?;
        let seed: Function = math.get("randomseed")?;
        math.raw_set("randomseed", tracked_randomseed(lua, slot, seed.clone())?)?;
        let array_meta = lua.create_table()?;
        array_meta.raw_set("__metatable", "array")?;
        array_meta.set_readonly(true);

        let raw = lua.create_table()?;
        raw.raw_set("functions", host_functions(lua, slot, &array_meta)?)?;
        raw.raw_set("aliases", lua.create_table_from(aliases())?)?;
        raw.raw_set("surplus", too_many_arguments(lua)?)?;
        raw.raw_set("encode", json_encode(lua, slot, &array_meta)?)?;
        raw.raw_set("decode", json_decode(lua, slot, &array_meta)?)?;
        for (name, convert) in CONVERSIONS {
            raw.raw_set(name, text_conversion(lua, slot, (name, convert))?)?;
        }
        raw.raw_set("array", array(lua, &array_meta)?)?;
        let prelude = lua.load(include_str!("prelude.luau")).set_name("=[host]");
        let (boundary, ctx, vfs, print, json, base64, url, array, joined): PreludeExports =
            prelude.call((raw, failure::attach_location(lua)?, failure::record_error(lua, slot)?))?;

        lua.set_named_registry_value(failure::CONCAT_KEY, joined)?;
        for name in REMOVED_GLOBALS {
            globals.raw_remove(name)?;
        }
        let traceback: Function = globals.get::<Table>("debug")?.get("traceback")?;
        globals.raw_set("debug", lua.create_table_from([("traceback", traceback)])?)?;
        for table in [&ctx, &vfs, &json, &base64, &url, &globals.get("debug")?] {
            table.set_readonly(true);
        }
        globals.raw_set("ctx", ctx)?;
        globals.raw_set("vfs", vfs)?;
        globals.raw_set("json", json)?;
        globals.raw_set("base64", base64)?;
        globals.raw_set("url", url)?;
        globals.raw_set("print", print)?;
        globals.raw_set("array", array)?;
        globals.raw_set("null", Value::NULL)?;
        Ok(Self { protected_call: boundary, array_meta, randomseed: seed })
    }

    /// A run that seeded the generator must not make the next one predictable.
    pub(super) fn reseed(&self, slot: &RunSlot) -> mlua::Result<()> {
        use std::hash::{BuildHasher, RandomState};
        if !slot.take_seeded() {
            return Ok(());
        }
        // 31 bits: what every Luau number type takes without rounding.
        self.randomseed.call(RandomState::new().hash_one(0) >> 33)
    }
}

/// `math.randomseed`, which also records that it was called.
fn tracked_randomseed(lua: &Lua, slot: &Arc<RunSlot>, seed: Function) -> mlua::Result<Function> {
    let slot = slot.clone();
    lua.create_function(move |_, value: Value| {
        slot.set_seeded();
        seed.call::<()>(value)
    })
}

/// Every row of the host table as a function that returns `value` or `nil, failure`.
fn host_functions(lua: &Lua, slot: &Arc<RunSlot>, array_meta: &Table) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for &function in functions() {
        let (slot, array_meta) = (slot.clone(), array_meta.clone());
        let call = lua.create_function(move |lua, arguments: MultiValue| {
            let called = call_host_function(lua, function, &slot, &array_meta, &arguments);
            value_or_failure(lua, &array_meta, called)
        })?;
        table.raw_set(function.name, call)?;
    }
    Ok(table)
}

/// Every alias, and the function that it names.
fn aliases() -> impl Iterator<Item = (&'static str, &'static str)> {
    functions().iter().flat_map(|function| function.aliases.iter().map(|alias| (*alias, function.name)))
}

/// `surplus(name, count)`: the failure of a call with more arguments than any function takes.
fn too_many_arguments(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|lua, (name, count): (String, usize)| {
        let function = functions().iter().find(|function| function.name == name);
        let refused = function.map_or(Ok(()), |function| function.check_arity(count));
        let failure = refused.err().map(HostFailure::from);
        (Value::Nil, failure).into_lua_multi(lua)
    })
}

fn call_host_function(
    lua: &Lua,
    function: &HostFunction,
    slot: &RunSlot,
    array_meta: &Table,
    arguments: &MultiValue,
) -> Result<serde_json::Value> {
    let context = slot.context()?;
    // Omitted arguments at the end may be passed as nil or null.
    let is_absent = |value: &Value| value.is_nil() || value.is_null();
    let count = arguments.iter().rposition(|value| !is_absent(value)).map_or(0, |last| last + 1);
    function.check_arity(count)?;
    let mut converted = Vec::with_capacity(count);
    let mut budget = slot.conversion_budget(lua, &context);
    for (position, value) in arguments.iter().take(count).enumerate() {
        let argument = from_lua::value(value, array_meta, &mut budget);
        budget.reset_output(context.limits().output);
        converted.push(argument.map_err(|error| {
            let name = function.params.get(position).map_or("an argument", |param| param.name);
            let error = error.into_error(name);
            let kind = if error.kind() == ErrorKind::Memory {
                ErrorKind::Memory
            } else {
                ErrorKind::InvalidArgument
            };
            SkillError::new(kind, format!("{}: {error}", function.signature()))
        })?);
    }
    function.call(&context, converted)
}

/// The result of a host function as Lua values: `value`, or `nil, failure`.
fn value_or_failure(
    lua: &Lua,
    array_meta: &Table,
    result: Result<serde_json::Value>,
) -> mlua::Result<MultiValue> {
    let value = match result {
        Ok(value) => to_lua::value(lua, array_meta, &value),
        Err(error) => return (Value::Nil, HostFailure::from(error)).into_lua_multi(lua),
    };
    match value {
        Ok(value) => value.into_lua_multi(lua),
        Err(error) => {
            let error = error.into_error(ErrorKind::InvalidOutput, "the answer");
            (Value::Nil, HostFailure::from(error)).into_lua_multi(lua)
        }
    }
}

fn json_encode(lua: &Lua, slot: &Arc<RunSlot>, array_meta: &Table) -> mlua::Result<Function> {
    let (slot, array_meta) = (slot.clone(), array_meta.clone());
    lua.create_function(move |lua, value: Value| {
        let encoded = slot.context().and_then(|context| {
            json::encode(&value, &array_meta, &mut slot.conversion_budget(lua, &context))
        });
        match encoded {
            Ok(text) => lua.create_string(text)?.into_lua_multi(lua),
            Err(error) => (Value::Nil, HostFailure::from(error)).into_lua_multi(lua),
        }
    })
}

fn json_decode(lua: &Lua, slot: &Arc<RunSlot>, array_meta: &Table) -> mlua::Result<Function> {
    let (slot, array_meta) = (slot.clone(), array_meta.clone());
    lua.create_function(move |lua, text: Value| {
        let Value::String(text) = text else {
            let error = SkillError::new(ErrorKind::InvalidArgument, "json.decode takes a string");
            return value_or_failure(lua, &array_meta, Err(error));
        };
        let decoded =
            slot.cancel_token().and_then(|token| json::decode(lua, &array_meta, &text.as_bytes(), &token));
        match decoded {
            Ok(value) => value.into_lua_multi(lua),
            Err(error) => (Value::Nil, HostFailure::from(error)).into_lua_multi(lua),
        }
    })
}

/// What makes a text of another one.
type Conversion = fn(&[u8]) -> std::result::Result<Vec<u8>, String>;

/// The functions of `base64` and `url`.
const CONVERSIONS: [(&str, Conversion); 4] = [
    ("base64.encode", |bytes| Ok(text_encoding::encode_base64(bytes).into_bytes())),
    ("base64.decode", text_encoding::decode_base64),
    ("url.encode", |bytes| Ok(text_encoding::encode_url_part(bytes).into_bytes())),
    ("url.decode", text_encoding::decode_url_part),
];

/// A function that converts a text, if the script has the memory for it.
fn text_conversion(
    lua: &Lua,
    slot: &Arc<RunSlot>,
    (name, convert): (&'static str, Conversion),
) -> mlua::Result<Function> {
    let slot = slot.clone();
    lua.create_function(move |lua, text: Value| {
        let refused = |kind, sentence: String| {
            (Value::Nil, HostFailure::from(SkillError::new(kind, sentence))).into_lua_multi(lua)
        };
        let Value::String(text) = text else {
            return refused(ErrorKind::InvalidArgument, format!("{name} takes a string"));
        };
        let text = text.as_bytes();
        let memory = slot.context().map(|context| slot.conversion_budget(lua, &context).remaining_memory());
        if memory.is_ok_and(|left| left < text_encoding::MAX_GROWTH * text.len() as u64) {
            return refused(ErrorKind::Memory, "out of memory".into());
        }
        match convert(&text) {
            Ok(converted) => lua.create_string(converted)?.into_lua_multi(lua),
            Err(reason) => refused(ErrorKind::InvalidArgument, format!("{name}: {reason}")),
        }
    })
}

/// `array{..}`: a table that is a list in JSON, also when it is empty.
fn array(lua: &Lua, array_meta: &Table) -> mlua::Result<Function> {
    let array_meta = array_meta.clone();
    lua.create_function(move |lua, list: Value| {
        let marked = match list {
            Value::Nil => lua.create_table()?,
            Value::Table(list)
                if !list.is_readonly() && list.metatable().is_none_or(|meta| meta == array_meta) =>
            {
                list
            }
            _ => {
                let sentence = "array takes a plain table, or nothing";
                let failure = HostFailure::from(SkillError::new(ErrorKind::InvalidArgument, sentence));
                return (Value::Nil, failure).into_lua_multi(lua);
            }
        };
        marked.set_metatable(Some(array_meta.clone()))?;
        marked.into_lua_multi(lua)
    })
}
