//! A plug-in linked on an engine of its own, used by one run at a time.

use std::sync::Arc;

use serde_json::Value;
use wasmtime::{Engine, InstancePre, Store, UpdateDeadline};

use super::budget::PluginBudget;
use super::engine::invalid_module;
use super::failure;
use super::json_cost::json_cost;
use super::plugin_manifest::PluginSettings;
use super::wasi::I32Exit;
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::SkillContext;
use crate::policy::{Access, Limits};
use crate::runtimes::wasm::compiled_plugin::CompiledPlugin;
use crate::runtimes::wasm::instrument::ENTRY_EXPORT;
use crate::runtimes::wasm::linker;
use crate::runtimes::wasm::linker::StoreData;
use crate::runtimes::wasm::metadata::ModuleMetadata;
use crate::runtimes::wasm::run_state::RunState;
use crate::strict_json;

/// A plug-in, linked and ready to be instantiated.
pub(super) struct LinkedPlugin {
    file: String,
    engine: Engine,
    instance_pre: InstancePre<StoreData>,
    metadata: ModuleMetadata,
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
        let CompiledPlugin { engine, module, metadata: facts } = compiled;
        let linked =
            linker::build_linker(&engine, &facts.imports).and_then(|linker| linker.instantiate_pre(&module));
        let linked = linked.map_err(|error| invalid_module(file, &error))?;
        Ok(Self {
            file: file.to_owned(),
            engine,
            instance_pre: linked,
            metadata: facts,
            counts_operations: counts,
        })
    }

    /// Runs the plug-in once. A cancelled or timed-out run fails, whatever the plug-in returned.
    pub(super) fn run(
        &self,
        input: &Value,
        context: &SkillContext,
        settings: &Arc<PluginSettings>,
    ) -> Result<Value> {
        context.cancel().check()?;
        if self.metadata.uses_wasi() {
            let attempt = format_args!("failed to start {} with WASI", self.file);
            context.permissions().require(&Access::wasi(), attempt)?;
        }
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
        let budget = PluginBudget::new(limit, self.metadata.initial_bytes, context.cancel())?;
        let run = RunState::new(context, budget, input, settings.clone());
        let mut store = Store::new(&self.engine, StoreData::new(run));
        let called = self.call_entry(&mut store, context);
        let mut run = store.into_data().run;
        let in_file = |error| {
            failure::with_traceback(
                error,
                &self.file,
                called.as_ref().err(),
                self.metadata.first_added_function,
            )
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

    /// Calls the plug-in's entry function and returns its code.
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
        let instance = self.instance_pre.instantiate(&mut *store)?;
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
        let sentence = format!("the plug-in's output is larger than the {most} bytes a run may put out");
        return Err(SkillError::new(ErrorKind::Output, sentence));
    }
    let text = std::str::from_utf8(output).map_err(|error| {
        invalid(format!("the plug-in's output is not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    // The memory of the value is charged before the value is created, like all memory of a run.
    let limit = context.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
    json_cost(text, &mut PluginBudget::new(limit, 0, context.cancel())?)?;
    strict_json::parse(text).map_err(|reason| invalid(format!("the plug-in's output is not JSON: {reason}")))
}
