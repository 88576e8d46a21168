//! A plug-in whose modules are linked on an engine of their own, used by one run at a time.

use std::sync::Arc;

use serde_json::Value;
use wasmtime::{Engine, FrameInfo, Store, UpdateDeadline};

use super::budget::{PluginBudget, json_cost};
use super::failure;
use super::linked_module::LinkedModule;
use super::plugin_settings::PluginSettings;
use super::wasi::I32Exit;
use crate::compiled_plugin::{CompiledPlugin, sort_by_imports};
use crate::instrument::ENTRY_EXPORT;
use crate::linker::StoreData;
use crate::module::INITIALIZE_EXPORT;
use crate::run_state::RunState;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::json_boundary::output_too_large;
use metier_core::host::SkillContext;
use metier_core::policy::Limits;
use metier_core::strict_json;

/// A plug-in, linked and ready to be instantiated.
pub(super) struct LinkedPlugin {
    file: String,
    engine: Engine,
    /// The libraries, each after those that it imports from.
    libraries: Vec<LinkedModule>,
    main: LinkedModule,
    pub(super) uses_wasi: bool,
    /// The initial size of all memories and tables in bytes.
    initial_bytes: u64,
    /// Whether it counts operations.
    pub(super) counts_operations: bool,
}

/// The limit of operations, if it has to be counted; no plug-in reaches the largest number, which means no limit.
pub(super) fn operation_limit(limits: &Limits) -> Option<u64> {
    limits.operations.filter(|count| *count < u64::MAX)
}

impl LinkedPlugin {
    /// Links a compiled plug-in; fails with `invalid-skill` if that is not possible.
    pub(super) fn new(compiled: CompiledPlugin, file: &str, counts: bool) -> Result<Self> {
        let CompiledPlugin { engine, modules } = compiled;
        let uses_wasi = modules.iter().any(|module| module.metadata.uses_wasi());
        let sizes = modules.iter().map(|module| module.metadata.initial_bytes);
        let initial_bytes = sizes.fold(0, u64::saturating_add);
        let mut libraries = Vec::with_capacity(modules.len());
        for module in sort_by_imports(file, modules)? {
            libraries.push(LinkedModule::new(&engine, module, &libraries)?);
        }
        // The main module is the last one, since none imports from it.
        let main = libraries
            .pop()
            .ok_or_else(|| SkillError::new(ErrorKind::InvalidSkill, format!("{file} has no module")))?;
        let file = file.to_owned();
        Ok(Self { file, engine, libraries, main, uses_wasi, initial_bytes, counts_operations: counts })
    }

    /// Runs the plug-in once, with permission to use WASI if it does. A cancelled or timed-out run fails, whatever it returned.
    pub(super) fn run(
        &self,
        input: &Value,
        context: &SkillContext,
        settings: &Arc<PluginSettings>,
    ) -> Result<Value> {
        context.cancel().check()?;
        let result = self.run_instance(input.to_string(), context, settings);
        context.cancel().check()?;
        result
    }

    fn run_instance(
        &self,
        input: String,
        context: &SkillContext,
        settings: &Arc<PluginSettings>,
    ) -> Result<Value> {
        let limit = context.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
        let limit = limit.min(settings.max_memory_bytes.unwrap_or(u64::MAX));
        let budget = PluginBudget::new(limit, self.initial_bytes, context.cancel())?;
        let run = RunState::new(context, budget, input, settings.clone());
        let mut store = Store::new(&self.engine, StoreData::new(run));
        let called = self.call_entry(&mut store, context);
        let mut run = store.into_data().run;
        let in_file = |error| {
            failure::with_traceback(error, &self.file, called.as_ref().err(), |frame| self.frame_name(frame))
        };
        if let Some(error) = run.take_error() {
            return Err(in_file(error));
        }
        match &called {
            Ok(0) => parse_output(run.output(), context).map_err(in_file),
            Ok(code) => Err(in_file(failure::exit_code_error(code.cast_unsigned()))),
            Err(error) => Err(in_file(failure::call_error(error))),
        }
    }

    fn frame_name(&self, frame: &FrameInfo) -> Option<String> {
        self.libraries.iter().chain([&self.main]).find_map(|module| module.frame_name(frame))
    }

    /// Initialises the libraries, calls the plug-in's entry function and returns its code.
    fn call_entry(&self, store: &mut Store<StoreData>, context: &SkillContext) -> wasmtime::Result<i32> {
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|guest| match guest.data().run.context().cancel().check() {
            Ok(()) => Ok(UpdateDeadline::Continue(1)),
            Err(error) => Err(wasmtime::Error::msg(error.to_string())),
        });
        if let Some(operations) = operation_limit(context.limits()) {
            store.set_fuel(operations)?;
        }
        let engine = self.engine.clone();
        let _heard = context.cancel().on_stop(move |_| engine.increment_epoch());
        let mut instances = Vec::with_capacity(self.libraries.len());
        for library in &self.libraries {
            // Large tables take their time, and no code of the plug-in runs in which it could be stopped.
            context.cancel().check().map_err(|error| wasmtime::Error::msg(error.to_string()))?;
            let instance = library.instantiate(store, &instances)?;
            instance.get_typed_func::<(), ()>(&mut *store, INITIALIZE_EXPORT)?.call(&mut *store, ())?;
            instances.push(instance);
        }
        let instance = self.main.instantiate(store, &instances)?;
        let code = instance.get_typed_func::<(), i32>(&mut *store, ENTRY_EXPORT)?.call(&mut *store, ());
        code.or_else(|error| match error.downcast_ref::<I32Exit>() {
            Some(exit) => Ok(exit.0),
            None => Err(error),
        })
    }
}

/// Parses the text of an output.
fn parse_output(output: &[u8], context: &SkillContext) -> Result<Value> {
    let most = context.limits().output;
    let invalid = |sentence: String| SkillError::new(ErrorKind::InvalidOutput, sentence);
    if output.is_empty() {
        return Err(invalid("the plug-in set no output".into())
            .with_help("set JSON text with output_set of Extism, `null` where there is nothing to say"));
    }
    if output.len() as u64 > most {
        return Err(output_too_large("the plug-in's output", most));
    }
    let text = std::str::from_utf8(output).map_err(|error| {
        invalid(format!("the plug-in's output is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    // The memory of the value is charged before the value is created, like all memory of a run.
    let limit = context.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
    json_cost(text, &mut PluginBudget::new(limit, 0, context.cancel())?)?;
    strict_json::parse_repaired(text)
        .map_err(|reason| invalid(format!("the plug-in's output is not JSON: {reason}")))
}
