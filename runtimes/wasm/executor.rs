//! The executor of a plug-in, which is checked and compiled once, and runs on a few engines that are kept for reuse.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::cache;
use super::engine::{LinkedPlugin, operation_limit};
use crate::error::Result;
use crate::executor::{Script, SkillExecutor};
use crate::host::SkillContext;
use crate::policy::{CancelToken, Limits};
use crate::runtimes::RuntimeServices;
use crate::runtimes::pool::{PooledExecutor, Program};
use crate::runtimes::wasm::compiled_plugin::CompiledPlugin;

/// Compiles a plug-in; errors in it are `invalid-skill`, with line and column if it is in the text format.
pub(crate) fn load(
    script: &Script,
    shared: &RuntimeServices,
    cancel: &CancelToken,
) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(PooledExecutor::new(&script.skill, PluginLoader::new(script, shared, cancel)?)))
}

struct PluginLoader {
    script: Script,
    services: RuntimeServices,
    /// The first engine, created when the plug-in is loaded so that an error is reported then.
    first: Mutex<Option<LinkedPlugin>>,
}

impl PluginLoader {
    fn new(script: &Script, shared: &RuntimeServices, cancel: &CancelToken) -> Result<Self> {
        let first = load_plugin(script, false, shared, cancel)?;
        Ok(Self { script: script.clone(), services: shared.clone(), first: Mutex::new(Some(first)) })
    }
}

fn load_plugin(
    script: &Script,
    counts: bool,
    shared: &RuntimeServices,
    cancel: &CancelToken,
) -> Result<LinkedPlugin> {
    LinkedPlugin::new(
        CompiledPlugin::load_or_compile(script, counts, cache::user_cache(), shared, cancel)?,
        &script.path,
        counts,
    )
}

impl Program for PluginLoader {
    type State = LinkedPlugin;

    fn new_state(&self, context: &SkillContext) -> Result<LinkedPlugin> {
        let counts = operation_limit(context.limits()).is_some();
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = first.take_if(|machine| machine.counts_operations == counts) {
            return Ok(machine);
        }
        drop(first);
        load_plugin(&self.script, counts, &self.services, context.cancel())
    }

    fn supports_limits(&self, machine: &LinkedPlugin, limits: &Limits) -> bool {
        machine.counts_operations == operation_limit(limits).is_some()
    }

    fn run(&self, machine: &mut LinkedPlugin, input: &Value, context: &SkillContext) -> Result<Value> {
        machine.run(input, context)
    }
}
