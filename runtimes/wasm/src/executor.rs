//! The executor of a plug-in, which is checked and compiled once, and runs on a few engines that are kept for reuse.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use serde_json::Value;

use super::cache;
use super::linked_plugin::{LinkedPlugin, operation_limit};
use super::plugin_manifest::resolve;
use super::plugin_settings::PluginSettings;
use crate::compiled_plugin::CompiledPlugin;
use crate::module_source::ModuleSource;
use crate::services::PluginServices;
use metier_core::error::Result;
use metier_core::executor::pool::{PooledExecutor, Program};
use metier_core::executor::{Script, SkillExecutor};
use metier_core::host::{RunContext, SkillContext};
use metier_core::policy::{CancelToken, Limits, Permission};

/// Compiles a plug-in; errors in it are `invalid-skill`, with line and column if it is in the text format.
pub fn load(
    script: &Script,
    shared: &PluginServices,
    cancel: &CancelToken,
) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(PooledExecutor::new(&script.skill, PluginLoader::new(script, shared, cancel)?)))
}

struct PluginLoader {
    file: String,
    modules: Vec<ModuleSource>,
    settings: Arc<PluginSettings>,
    services: PluginServices,
    /// The first engine, created when the plug-in is loaded so that an error is reported then.
    first: Mutex<Option<LinkedPlugin>>,
}

impl PluginLoader {
    fn new(script: &Script, shared: &PluginServices, cancel: &CancelToken) -> Result<Self> {
        let (file, (modules, settings)) = (script.path.clone(), resolve(script)?);
        let first = load_plugin(&file, &modules, false, shared, cancel)?;
        let first = Mutex::new(Some(first));
        Ok(Self { file, modules, settings: settings.into(), services: shared.clone(), first })
    }
}

fn load_plugin(
    file: &str,
    modules: &[ModuleSource],
    counts: bool,
    shared: &PluginServices,
    cancel: &CancelToken,
) -> Result<LinkedPlugin> {
    LinkedPlugin::new(
        CompiledPlugin::load_or_compile(modules, counts, cache::user_cache(), shared, cancel)?,
        file,
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
        load_plugin(&self.file, &self.modules, counts, &self.services, context.cancel())
    }

    fn supports_limits(&self, machine: &LinkedPlugin, limits: &Limits) -> bool {
        machine.counts_operations == operation_limit(limits).is_some()
    }

    fn run(&self, machine: &mut LinkedPlugin, input: &Value, context: &SkillContext) -> Result<Value> {
        let input = self.settings.prepare_input(input, &self.file, machine.uses_wasi, context)?;
        let Some(timeout) = self.settings.timeout else {
            return machine.run(&input, context, &self.settings);
        };
        let token = context.cancel().child();
        let _armed = self.services.watchdog.arm(Instant::now() + timeout, &token);
        machine.run(&input, &context.with_cancel(token), &self.settings)
    }

    fn requested_permissions(&self) -> Vec<Permission> {
        self.settings.permissions.clone()
    }
}
