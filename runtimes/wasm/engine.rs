//! One WebAssembly engine with one plug-in on it, for one run at a time.

use std::path::Path;
use std::sync::Arc;

use extism::{CompiledPlugin, DebugOptions, Plugin, PluginBuilder};
use serde_json::Value;
use wasmtime::{InstanceAllocationStrategy, PoolingAllocationConfig};

use super::budget::Budget;
use super::failure;
use super::host::{self, Slot};
use super::imports::{Import, replaced};
use super::kernel::{OWN, OWN_NAMESPACE};
use super::leash::Leash;
use super::module::Module;
use super::rewrite::{ENTRY, first_added};
use super::run::Run;
use crate::error::{ErrorKind, Result, SkillError};
use crate::exact;
use crate::host::SkillContext;
use crate::policy::{Limits, Need};

/// A module in the form that runs, and what is known of it.
pub(super) struct Prepared {
    pub(super) file: String,
    pub(super) module: Module,
    pub(super) binary: Vec<u8>,
}

/// An engine, and the run that occupies it.
pub(super) struct Machine {
    compiled: CompiledPlugin,
    slot: Arc<Slot>,
    pub(super) operations: Option<u64>,
    was_stopped: bool,
}

/// Bytes of native stack a plug-in's calls may take; a thread has 2 MiB as a rule.
const STACK: usize = 512 << 10;

/// Bytes of memory, and of each table, that are wiped and kept rather than given back to the system after a run.
const KEPT: usize = 256 << 10;

/// The limit of operations that has to be counted; no plug-in gets to the largest number there is.
pub(super) fn counted(limits: &Limits) -> Option<u64> {
    limits.operations.filter(|count| *count < u64::MAX)
}

impl Machine {
    /// Compiles the plug-in on an engine of its own, or takes it from the disk, where wasmtime's settings are given.
    pub(super) fn new(prepared: &Prepared, operations: Option<u64>, disk: Option<&Path>) -> Result<Self> {
        let slot = Arc::new(Slot::default());
        // A pool of one makes a fresh instance cheap. It reserves addresses, which there may not be enough of.
        let made = |strategy| compiled(prepared, configured(strategy), operations, disk, &slot);
        let compiled =
            made(pooling(&prepared.module)).or_else(|_| made(InstanceAllocationStrategy::OnDemand));
        let compiled = compiled.map_err(|error| refused(prepared, &error))?;
        Ok(Self { compiled, slot, operations, was_stopped: false })
    }

    /// Whether the plug-in can be linked, which is decided anew for every run.
    pub(super) fn check(&self, prepared: &Prepared) -> Result<()> {
        Plugin::new_from_compiled(&self.compiled).map(drop).map_err(|error| refused(prepared, &error))
    }

    /// Whether another run may have the engine. A run that was told to stop may have left a signal on its way.
    pub(super) fn is_reusable(&self) -> bool {
        !self.was_stopped
    }

    /// Runs the plug-in once. Whatever it answers, the token that stopped it has the last word.
    pub(super) fn run(
        &mut self,
        prepared: &Prepared,
        input: &Value,
        context: &SkillContext,
    ) -> Result<Value> {
        context.cancel().check()?;
        if prepared.module.uses_wasi() {
            let attempt = format_args!("failed to start {} with WASI", prepared.file);
            context.permissions().require(&Need::wasi(), attempt)?;
        }
        let result = self.call(prepared, &input.to_string(), context);
        context.cancel().check()?;
        result
    }

    fn call(&mut self, prepared: &Prepared, input: &str, context: &SkillContext) -> Result<Value> {
        let limit = context.limits().memory.unwrap_or(Limits::MEMORY_IN_PROCESS);
        let budget = Budget::new(limit, prepared.module.bytes)?;
        let mut plugin =
            Plugin::new_from_compiled(&self.compiled).map_err(|error| refused(prepared, &error))?;
        let leash = Arc::new(Leash::new(plugin.cancel_handle()));
        self.slot.occupy(Run::new(context, leash.clone(), budget, input)?);
        let held = leash.clone();
        let guard = context.cancel().on_stop(move |_| held.stop());
        // The input is in the slot: what Extism itself is given it would copy by an offset the plug-in could forge.
        let called = plugin.call::<&str, ()>(ENTRY, "");
        self.was_stopped |= leash.end();
        drop(guard);
        let mut run = self.slot.vacate().ok_or_else(|| failure::with_code(0))?;
        let in_file = |error| {
            failure::in_file(error, &prepared.file, called.as_ref().err(), first_added(&prepared.module))
        };
        if let Some(error) = run.take_error() {
            return Err(in_file(error));
        }
        if let Err(error) = &called {
            return Err(in_file(failure::of_call(error)));
        }
        if run.code != 0 {
            return Err(in_file(failure::with_code(run.code)));
        }
        value(run.output(), context.limits().output).map_err(in_file)
    }
}

/// The value of an output's text.
fn value(output: &[u8], most: u64) -> Result<Value> {
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
    exact::json(text).map_err(|reason| invalid(format!("the plug-in's output is not JSON: {reason}")))
}

fn configured(strategy: InstanceAllocationStrategy) -> wasmtime::Config {
    let mut config = wasmtime::Config::new();
    config.max_wasm_stack(STACK).allocation_strategy(strategy);
    config
}

fn compiled(
    prepared: &Prepared,
    config: wasmtime::Config,
    operations: Option<u64>,
    disk: Option<&Path>,
    slot: &Arc<Slot>,
) -> Result<CompiledPlugin, extism::Error> {
    // Spelled out, so that no EXTISM_ variable of the environment decides.
    let debug = DebugOptions {
        profiling_strategy: wasmtime::ProfilingStrategy::None,
        coredump: None,
        memdump: None,
        debug_info: false,
    };
    let builder = PluginBuilder::new(prepared.binary.as_slice())
        .with_debug_options(debug)
        .with_wasmtime_config(config)
        .with_wasi(prepared.module.uses_wasi())
        .with_functions(offered(&prepared.module).map(|import| host::function(&import, slot)));
    let builder = match disk {
        Some(file) => builder.with_cache_config(file),
        None => builder.with_cache_disabled(),
    };
    let builder = operations.into_iter().fold(builder, PluginBuilder::with_fuel_limit);
    builder.compile()
}

/// What the module imports, and no more: each is linked anew for every run.
fn offered(module: &Module) -> impl Iterator<Item = Import> {
    let own = OWN.iter().map(|function| Import::kernel(OWN_NAMESPACE, function));
    let wasi = module.uses_wasi().then(replaced).into_iter().flatten();
    module.imports.iter().flatten().cloned().chain(own).chain(wasi)
}

/// Room for one run: the plug-in and Extism's own module.
fn pooling(module: &Module) -> InstanceAllocationStrategy {
    let tables = u32::try_from(module.tables.len()).unwrap_or(u32::MAX);
    let elements = usize::try_from(module.elements).unwrap_or(usize::MAX);
    let mut pool = PoolingAllocationConfig::default();
    pool.total_core_instances(2)
        // The third is Extism's heap for the one reference it keeps.
        .total_memories(3)
        .total_gc_heaps(1)
        .total_tables(tables + 1)
        .max_tables_per_module(tables.max(1))
        .table_elements(elements.max(100_000))
        .max_unused_warm_slots(4)
        .linear_memory_keep_resident(KEPT)
        .table_keep_resident(KEPT);
    InstanceAllocationStrategy::Pooling(pool)
}

fn refused(prepared: &Prepared, error: &extism::Error) -> SkillError {
    let sentence = format!("{} cannot be made ready to run: {error:#}", prepared.file);
    SkillError::new(ErrorKind::InvalidSkill, sentence)
}
