//! The host's side of a state: the functions scripts call, and the run they are called for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Table, Value};

use super::failure::{self, HostFailure};
use super::{from_lua, to_lua};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{HostFunction, SkillContext, functions};

/// What stands in every run's environment, and the way in.
pub(super) struct Globals {
    pub(super) boundary: Function,
    pub(super) array_meta: Table,
    seed: Function,
}

/// The run that occupies the state, and the error it ended with.
pub(super) struct Slot {
    state: Mutex<Occupant>,
    /// Whether a run seeded the generator, which the next one must not find out.
    seeded: AtomicBool,
    pub(super) file: Arc<str>,
}

#[derive(Default)]
struct Occupant {
    context: Option<SkillContext>,
    caught: Option<SkillError>,
}

/// Names that Luau or mlua put into the globals and that no script gets.
const REMOVED: [&str; 12] = [
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
    /// Fills the globals of a new state, before it is sealed.
    pub(super) fn install(lua: &Lua, slot: &Arc<Slot>) -> mlua::Result<Self> {
        let globals = lua.globals();
        let math: Table = globals.get("math")?;
        let seed: Function = math.get("randomseed")?;
        math.raw_set("randomseed", noted_seed(lua, slot, seed.clone())?)?;
        let array_meta = lua.create_table()?;
        array_meta.raw_set("__metatable", "array")?;
        array_meta.set_readonly(true);

        let raw = lua.create_table()?;
        raw.raw_set("functions", host_functions(lua, slot, &array_meta)?)?;
        raw.raw_set("aliases", lua.create_table_from(aliases())?)?;
        raw.raw_set("encode", json_encode(lua, slot, &array_meta)?)?;
        raw.raw_set("decode", json_decode(lua, &array_meta)?)?;
        raw.raw_set("array", array(lua, &array_meta)?)?;
        let prelude = lua.load(include_str!("prelude.luau")).set_name("=[host]");
        let (boundary, ctx, vfs, print, json, array): (Function, Table, Table, Function, Table, Function) =
            prelude.call((raw, failure::located(lua)?, failure::caught(lua, slot)?))?;

        for name in REMOVED {
            globals.raw_remove(name)?;
        }
        let traceback: Function = globals.get::<Table>("debug")?.get("traceback")?;
        globals.raw_set("debug", lua.create_table_from([("traceback", traceback)])?)?;
        for table in [&ctx, &vfs, &json, &globals.get("debug")?] {
            table.set_readonly(true);
        }
        globals.raw_set("ctx", ctx)?;
        globals.raw_set("vfs", vfs)?;
        globals.raw_set("json", json)?;
        globals.raw_set("print", print)?;
        globals.raw_set("array", array)?;
        globals.raw_set("null", Value::NULL)?;
        Ok(Self { boundary, array_meta, seed })
    }

    /// A run that seeded the generator must not make the next one predictable.
    pub(super) fn forget_randomness(&self, slot: &Slot) -> mlua::Result<()> {
        use std::hash::{BuildHasher, RandomState};
        if !slot.seeded.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        // 31 bits: what every Luau number type takes without rounding.
        self.seed.call(RandomState::new().hash_one(0) >> 33)
    }
}

impl Slot {
    pub(super) fn new(file: Arc<str>) -> Self {
        Self { state: Mutex::default(), seeded: AtomicBool::new(false), file }
    }

    /// The state belongs to this run until the guard is dropped.
    pub(super) fn occupy(&self, context: &SkillContext) -> impl Drop + use<'_> {
        *self.locked() = Occupant { context: Some(context.clone()), caught: None };
        Occupied(self)
    }

    pub(super) fn catch(&self, error: SkillError) {
        self.locked().caught = Some(error);
    }

    pub(super) fn take_caught(&self) -> Option<SkillError> {
        self.locked().caught.take()
    }

    fn context(&self) -> Result<SkillContext> {
        self.locked()
            .context
            .clone()
            .ok_or_else(|| SkillError::new(ErrorKind::Unavailable, "no run is under way"))
    }

    fn locked(&self) -> MutexGuard<'_, Occupant> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Occupied<'a>(&'a Slot);

impl Drop for Occupied<'_> {
    fn drop(&mut self) {
        *self.0.locked() = Occupant::default();
    }
}

/// `math.randomseed`, remembered.
fn noted_seed(lua: &Lua, slot: &Arc<Slot>, seed: Function) -> mlua::Result<Function> {
    let slot = slot.clone();
    lua.create_function(move |_, given: Value| {
        slot.seeded.store(true, Ordering::Relaxed);
        seed.call::<()>(given)
    })
}

/// Every row of the host table as a function that answers `value` or `nil, failure`.
fn host_functions(lua: &Lua, slot: &Arc<Slot>, array_meta: &Table) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    for &function in functions() {
        let (slot, array_meta) = (slot.clone(), array_meta.clone());
        let call = lua.create_function(move |lua, arguments: MultiValue| {
            let called = called(function, &slot, &array_meta, &arguments);
            answered(lua, &array_meta, called)
        })?;
        table.raw_set(function.name, call)?;
    }
    Ok(table)
}

/// Every other name, and the function it means.
fn aliases() -> impl Iterator<Item = (&'static str, &'static str)> {
    functions().iter().flat_map(|function| function.aliases.iter().map(|alias| (*alias, function.name)))
}

fn called(
    function: &HostFunction,
    slot: &Slot,
    array_meta: &Table,
    given: &MultiValue,
) -> Result<serde_json::Value> {
    let context = slot.context()?;
    let mut arguments = Vec::with_capacity(given.len());
    for (position, value) in given.iter().enumerate() {
        let argument = from_lua::value(value, array_meta, context.limits().output);
        arguments.push(argument.map_err(|fault| {
            let name = function.params.get(position).map_or("an argument", |param| param.name);
            let error = fault.into_error(name);
            SkillError::new(ErrorKind::InvalidArgument, format!("{}: {error}", function.signature()))
        })?);
    }
    function.call(&context, arguments)
}

/// A host function's answer as Lua values: `value`, or `nil, failure`.
fn answered(lua: &Lua, array_meta: &Table, answer: Result<serde_json::Value>) -> mlua::Result<MultiValue> {
    let value = match answer {
        Ok(value) => to_lua::value(lua, array_meta, &value),
        Err(error) => return (Value::Nil, HostFailure::from(error)).into_lua_multi(lua),
    };
    match value {
        Ok(value) => value.into_lua_multi(lua),
        Err(fault) => {
            let error = fault.into_error(ErrorKind::InvalidOutput, "the answer");
            (Value::Nil, HostFailure::from(error)).into_lua_multi(lua)
        }
    }
}

fn json_encode(lua: &Lua, slot: &Arc<Slot>, array_meta: &Table) -> mlua::Result<Function> {
    let (slot, array_meta) = (slot.clone(), array_meta.clone());
    lua.create_function(move |lua, value: Value| {
        let cap = slot.context().map_or(0, |context| context.limits().output);
        let text = from_lua::value(&value, &array_meta, cap)
            .map_err(|fault| fault.into_error("json.encode: the value"));
        answered(lua, &array_meta, text.map(|value| value.to_string().into()))
    })
}

fn json_decode(lua: &Lua, array_meta: &Table) -> mlua::Result<Function> {
    let array_meta = array_meta.clone();
    lua.create_function(move |lua, text: Value| {
        let Value::String(text) = text else {
            let error = SkillError::new(ErrorKind::InvalidArgument, "json.decode takes a string");
            return answered(lua, &array_meta, Err(error));
        };
        let parsed = serde_json::from_slice(&text.as_bytes());
        let value = parsed
            .map_err(|error| SkillError::new(ErrorKind::InvalidArgument, format!("json.decode: {error}")));
        answered(lua, &array_meta, value)
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
