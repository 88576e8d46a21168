//! A Luau state: created once, with a fresh environment for every run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use mlua::prelude::{LuaChunkMode, LuaCompiler};
use mlua::{Function, Lua, LuaOptions, StdLib, Table, Value};

use super::failure::{self, syntax_error};
use super::interrupt::Interrupt;
use super::missing_functions::MissingFunctions;
use crate::globals::Globals;
use crate::run_slot::RunSlot;
use crate::{from_lua, interruptible_std, to_lua};
use metier_core::byte_order_mark::bytes_without_mark;
use metier_core::error::{ErrorKind, Hint, LimitKind, Location, Result, SkillError};
use metier_core::executor::Script;
use metier_core::executor::json_boundary::out_of_memory;
use metier_core::host::SkillContext;
use metier_core::policy::Limits;

/// A script as bytecode, compiled here from its text; text is the only form in which scripts are accepted.
pub(super) struct CompiledScript {
    bytecode: Vec<u8>,
    chunk_name: String,
    file: Arc<str>,
    /// The function that is called once the script has run.
    function: Option<String>,
    /// What it calls that is not there, by line, for the error of such a call.
    missing_functions: Arc<MissingFunctions>,
}

/// The maximum size of a script in bytes. Luau takes up to half a microsecond and 200 bytes of memory for each byte of a
/// source, and its compiler cannot be interrupted.
const MAX_SOURCE: usize = 192 << 10;

impl CompiledScript {
    pub(super) fn new(script: &Script) -> Result<Self> {
        if script.source.len() > MAX_SOURCE {
            let sentence =
                format!("{}: longer than the {MAX_SOURCE} bytes a Lua script may have", script.path);
            return Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_help("keep data in a file of the skill's and read it with ctx.asset"));
        }
        let bytecode = LuaCompiler::new()
            .set_optimization_level(1)
            .set_debug_level(1)
            .compile(bytes_without_mark(&script.source))
            .map_err(|error| syntax_error(&error, &script.path))?;
        // What compiles loads: all errors of a script are those of its text.
        Ok(Self {
            bytecode,
            chunk_name: format!("={}", script.path),
            file: script.path.as_str().into(),
            function: script.function.clone(),
            missing_functions: Arc::new(MissingFunctions::new(&script.source)),
        })
    }

    fn load(&self, lua: &Lua) -> Result<Function> {
        let chunk =
            lua.load(self.bytecode.as_slice()).set_name(&self.chunk_name).set_mode(LuaChunkMode::Binary);
        chunk.into_function().map_err(|error| syntax_error(&error, &self.file))
    }
}

pub(super) struct Vm {
    lua: Lua,
    main: Function,
    globals: Globals,
    /// The metatable of every run's environment; locked, so that no run can change the next one through it.
    environment_meta: Table,
    slot: Arc<RunSlot>,
    interrupt: Interrupt,
    function: Option<String>,
    missing_functions: Arc<MissingFunctions>,
    initial_bytes: usize,
}

/// What a protected call gives: whether it ended by itself, its first value, and how many more it returned.
type CallResult = (bool, Value, usize);

/// A state that holds this many bytes more than when it was created is dropped.
const MAX_RETAINED_BYTES: usize = 1 << 20;

impl Vm {
    pub(super) fn new(compiled: &CompiledScript) -> Result<Self> {
        Self::build(compiled).map_err(|error| state_error(&error))?
    }

    fn build(compiled: &CompiledScript) -> mlua::Result<Result<Self>> {
        let libraries = StdLib::COROUTINE
            | StdLib::TABLE
            | StdLib::OS
            | StdLib::STRING
            | StdLib::UTF8
            | StdLib::BIT
            | StdLib::MATH
            | StdLib::BUFFER
            | StdLib::VECTOR
            | StdLib::DEBUG;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let slot = Arc::new(RunSlot::new(compiled.file.clone()));
        interruptible_std::install(&lua, &slot)?;
        let globals = Globals::install(&lua, &slot)?;
        let environment_meta = lua.create_table()?;
        environment_meta.raw_set("__index", lua.globals())?;
        environment_meta.raw_set("__metatable", false)?;
        environment_meta.set_readonly(true);
        lua.sandbox(true)?;
        let main = match compiled.load(&lua) {
            Ok(main) => main,
            Err(error) => return Ok(Err(error)),
        };
        let interrupt = Interrupt::for_state(&lua)?;
        lua.gc_collect()?;
        Ok(Ok(Self {
            initial_bytes: lua.used_memory(),
            lua,
            main,
            globals,
            environment_meta,
            slot,
            interrupt,
            function: compiled.function.clone(),
            missing_functions: compiled.missing_functions.clone(),
        }))
    }

    /// Runs the script once. A cancelled or timed-out run fails, whatever the script returned.
    pub(super) fn run(&self, input: &serde_json::Value, context: &SkillContext) -> Result<serde_json::Value> {
        // mlua locks the state at each of its operations; while it is locked already, that takes a fraction of the time.
        self.lua.exec_raw_lua(|_| self.run_locked(input, context))
    }

    fn run_locked(&self, input: &serde_json::Value, context: &SkillContext) -> Result<serde_json::Value> {
        context.cancel().check()?;
        let running = self.interrupt.enable(context.limits().operations);
        let stopper = running.stopper();
        let _guard = context.cancel().on_stop(move |_| stopper());
        let _occupied = self.slot.occupy(context);
        let limit = context.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
        let result = self.call(input, limit, context);
        let at_place = |error: SkillError| {
            let called = || result.as_ref().err().and_then(SkillError::location).cloned();
            let line = running.stopped_line();
            let place = line.map(|line| Location::new(&*self.slot.file, Some(line), None));
            match place.or_else(called) {
                Some(place) => error.with_location(place),
                None => error,
            }
        };
        context.cancel().check().map_err(at_place)?;
        if running.is_exhausted() {
            let sentence = "the script executed more operations than it may";
            return Err(at_place(SkillError::new(ErrorKind::Operations, sentence))
                .with_help("give it more operations, or make it do less")
                .with_hint(Hint::Limit(LimitKind::Operations)));
        }
        result.map_err(|error| if error.kind() == ErrorKind::Memory { out_of_memory(limit) } else { error })
    }

    fn call(
        &self,
        input: &serde_json::Value,
        limit: u64,
        context: &SkillContext,
    ) -> Result<serde_json::Value> {
        let before = self.lua.used_memory();
        let input = to_lua::value(&self.lua, &self.globals.array_meta, input)
            .map_err(|error| error.into_error(ErrorKind::InvalidInput, "input"))?;
        // With a limit set, mlua protects each step of a conversion; so it is set for the script alone, with the input
        // counted in.
        let limited = MemoryLimitGuard::new(&self.lua, before, limit)?;
        self.slot.set_memory_limit(limited.max_bytes);
        let entered = self.enter(input);
        drop(limited);
        match entered? {
            (true, _, surplus @ 1..) => Err(several_values_error(surplus + 1)),
            (true, value, _) => {
                let mut budget = self.slot.conversion_budget(&self.lua, context);
                from_lua::value(&value, &self.globals.array_meta, &mut budget)
                    .map_err(|error| error.into_error("the script's value"))
            }
            (false, raised, _) => {
                let error = self.slot.take_error().unwrap_or_else(|| self.unhandled_error(&raised));
                Err(self.missing_functions.explain(error))
            }
        }
    }

    /// The handler is not called for exhausted memory, nor for errors in error handling.
    fn unhandled_error(&self, raised: &Value) -> SkillError {
        match raised {
            Value::String(text) if text.as_bytes() == b"not enough memory".as_slice() => {
                SkillError::new(ErrorKind::Memory, "out of memory")
            }
            other => failure::script_error(other, &self.slot.file),
        }
    }

    /// Runs the script, and then the function at which it is entered, if there is one.
    fn enter(&self, input: Value) -> Result<CallResult> {
        let failed = |error: mlua::Error| failure::from_mlua(&error, &self.slot.file);
        let Some(name) = self.function.as_deref() else {
            return self.environment(input).and_then(|own| self.call_main(own)).map_err(failed);
        };
        let environment = self.environment(input.clone()).map_err(failed)?;
        let main = self.call_main(environment.clone()).map_err(failed)?;
        if !main.0 {
            return Ok(main);
        }
        let function = find_function(&environment, &main.1, name).map_err(failed)?;
        let function = function.ok_or_else(|| no_function_error(&self.slot.file, name))?;
        self.globals.protected_call.call((function, input)).map_err(failed)
    }

    /// The globals of one run.
    fn environment(&self, input: Value) -> mlua::Result<Table> {
        let environment = self.lua.create_table_with_capacity(0, 4)?;
        environment.raw_set("_G", &environment)?;
        environment.raw_set("input", input)?;
        environment.set_metatable(Some(self.environment_meta.clone()))?;
        environment.set_safeenv(true);
        Ok(environment)
    }

    fn call_main(&self, environment: Table) -> mlua::Result<CallResult> {
        let main = self.main.deep_clone()?;
        main.set_environment(environment)?;
        self.globals.protected_call.call(main)
    }

    /// Whether the state can be reused as if it were new. Collecting the garbage of a script can take as long as the script
    /// did, so a state with much garbage is dropped instead.
    pub(super) fn reset_for_reuse(&self) -> bool {
        let is_heavy = self.lua.used_memory() > self.initial_bytes + MAX_RETAINED_BYTES;
        !is_heavy && self.globals.reseed(&self.slot).is_ok()
    }

    /// Drops the state on a thread of its own, so that its caller does not wait. While many are being dropped at the same
    /// time, the caller drops the next one, so that the memory they hold stays bounded.
    pub(super) fn drop_in_background(self) {
        const MAX_BACKGROUND_DROPS: usize = 4;
        static BACKGROUND_DROPS: AtomicUsize = AtomicUsize::new(0);
        struct DropCountGuard;
        impl Drop for DropCountGuard {
            fn drop(&mut self) {
                BACKGROUND_DROPS.fetch_sub(1, Ordering::Relaxed);
            }
        }
        let slot = (BACKGROUND_DROPS.fetch_add(1, Ordering::Relaxed) < MAX_BACKGROUND_DROPS, DropCountGuard);
        if slot.0 {
            let both = (self, slot);
            // If no thread can be created, the closure is dropped here, and the state with it.
            thread::Builder::new().name("metier-lua-drop".into()).spawn(move || drop(both)).ok();
        }
    }
}

/// A global function that the script defined, or a field of the table that it returned. No metamethod of the script is called.
fn find_function(environment: &Table, returned: &Value, name: &str) -> mlua::Result<Option<Function>> {
    let own = environment.raw_get::<Value>(name)?;
    let found = match (own, returned) {
        (Value::Function(function), _) => return Ok(Some(function)),
        (_, Value::Table(exports)) => exports.raw_get::<Value>(name)?,
        _ => return Ok(None),
    };
    Ok(if let Value::Function(function) = found { Some(function) } else { None })
}

fn no_function_error(file: &str, name: &str) -> SkillError {
    let sentence = format!("{file} has no function `{}`", name.escape_debug());
    SkillError::new(ErrorKind::InvalidSkill, sentence)
        .with_help("define it as a global function of the script, or in the table that the script returns")
}

/// A run answers with one value; the others would be lost without a word.
fn several_values_error(count: usize) -> SkillError {
    SkillError::new(
        ErrorKind::InvalidOutput,
        format!("the script returned {count} values; a run answers with one"),
    )
    .with_help(
        "return them in a table, as in return {a, b}; return (f()) keeps only the first value of a call",
    )
}

/// A memory limit that holds until this is dropped.
struct MemoryLimitGuard<'a> {
    lua: &'a Lua,
    max_bytes: usize,
}

impl<'a> MemoryLimitGuard<'a> {
    fn new(lua: &'a Lua, before: usize, limit: u64) -> Result<Self> {
        let max = usize::MAX >> 2;
        let max_bytes = before + usize::try_from(limit).unwrap_or(max).min(max);
        lua.set_memory_limit(max_bytes).map_err(|error| state_error(&error))?;
        Ok(Self { lua, max_bytes })
    }
}

impl Drop for MemoryLimitGuard<'_> {
    fn drop(&mut self) {
        // Removing a limit cannot fail if setting one did not.
        self.lua.set_memory_limit(0).ok();
    }
}

fn state_error(error: &mlua::Error) -> SkillError {
    SkillError::new(ErrorKind::Unavailable, format!("no Lua state could be created: {error}"))
}
