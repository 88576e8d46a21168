//! Plug-ins that run in worker processes. The host compiles and caches them, checks permissions and prepares the input; it
//! never loads their machine code. The worker gets the machine code and the settings, and executes.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::cache;
use super::compiled_plugin::{CompiledPlugin, MachineCode};
use super::linked_plugin::{LinkedPlugin, operation_limit};
use super::message_parts::{length_prefix, split_parts};
use super::plugin_settings::PluginSettings;
use crate::cache_entry::compiler_fingerprint;
use crate::metadata::ModuleMetadata;
use crate::module_source::ModuleSource;
use crate::plugin_manifest::resolve;
use crate::services::PluginServices;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::CompiledScript;
use metier_core::executor::own_context::run_with;
use metier_core::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use metier_core::host::SkillContext;
use metier_core::policy::{CancelToken, Limits, Permission, Watchdog};

/// Compiles a plug-in for its workers; errors in it are `invalid-skill`, with line and column if it is in the text format.
pub fn compile_for_workers(
    script: &Script,
    shared: &PluginServices,
    cancel: &CancelToken,
) -> Result<Box<dyn CompiledScript>> {
    let (sources, settings) = resolve(script)?;
    let mut plugin = PluginForWorkers {
        file: script.path.clone(),
        sources,
        settings,
        services: shared.clone(),
        uses_wasi: false,
        latest: Mutex::default(),
    };
    let modules = plugin.compile(false, cancel)?;
    plugin.uses_wasi = modules.iter().any(|module| module.metadata.uses_wasi());
    let message = plugin.encode(&modules, false);
    plugin.latest = Mutex::new(Some((false, message)));
    Ok(Box::new(plugin))
}

/// The host's side of a plug-in.
struct PluginForWorkers {
    file: String,
    sources: Vec<ModuleSource>,
    settings: PluginSettings,
    services: PluginServices,
    uses_wasi: bool,
    /// The latest message to a worker, and whether its code counts operations.
    latest: Mutex<Option<(bool, Arc<[u8]>)>>,
}

impl PluginForWorkers {
    fn compile(&self, counts: bool, cancel: &CancelToken) -> Result<Vec<MachineCode>> {
        let (cancel, _armed) = self.services.load_token(cancel);
        let disk = cache::user_cache();
        let modules =
            MachineCode::load_or_compile_all(&self.sources, counts, disk, disk, &self.services, &cancel)?;
        MachineCode::store_new(&modules, disk);
        Ok(modules)
    }

    fn encode(&self, modules: &[MachineCode], counts: bool) -> Arc<[u8]> {
        let header = MessageHeader {
            compiler: Cow::Borrowed(compiler_fingerprint(counts)),
            file: Cow::Borrowed(&self.file),
            counts_operations: counts,
            settings: Cow::Borrowed(&self.settings),
            libraries: self.sources.first().map(|source| source.libraries.clone()).unwrap_or_default(),
            modules: modules.iter().map(ModuleHeader::new).collect(),
        };
        let header = serde_json::to_vec(&header).unwrap_or_default();
        let code_bytes: usize = modules.iter().map(|module| module.code().len()).sum();
        let mut message = Vec::with_capacity(header.len() + code_bytes + 16);
        message.extend_from_slice(&length_prefix(&header));
        message.extend_from_slice(&header);
        message.extend_from_slice(&(code_bytes as u64).to_le_bytes());
        for module in modules {
            message.extend_from_slice(module.code());
        }
        message.into()
    }
}

impl CompiledScript for PluginForWorkers {
    fn machine_code(&self, limits: &Limits, cancel: &CancelToken) -> Result<Arc<[u8]>> {
        let counts = self.counts_operations(limits);
        let latest = || self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, message)) = latest().as_ref().filter(|(latest_counts, _)| *latest_counts == counts) {
            return Ok(message.clone());
        }
        // Not under the lock: a run waits for no other one's compiler.
        let message = self.encode(&self.compile(counts, cancel)?, counts);
        *latest() = Some((counts, message.clone()));
        Ok(message)
    }

    fn counts_operations(&self, limits: &Limits) -> bool {
        operation_limit(limits).is_some()
    }

    fn prepare_input(&self, input: Value, context: &SkillContext) -> Result<Value> {
        let prepared = self.settings.prepare_input(&input, &self.file, self.uses_wasi, context)?;
        let changed = match prepared {
            Cow::Owned(changed) => Some(changed),
            Cow::Borrowed(_) => None,
        };
        Ok(changed.unwrap_or(input))
    }

    fn timeout(&self) -> Option<Duration> {
        self.settings.timeout
    }

    fn requested_permissions(&self) -> Vec<Permission> {
        self.settings.permissions.clone()
    }
}

/// What a worker gets before the machine code of all modules, one after the other.
#[derive(Serialize, Deserialize)]
struct MessageHeader<'p> {
    /// The compiler's fingerprint: no other build executes its code.
    compiler: Cow<'p, [u8]>,
    file: Cow<'p, str>,
    counts_operations: bool,
    settings: Cow<'p, PluginSettings>,
    libraries: Vec<String>,
    modules: Vec<ModuleHeader>,
}

#[derive(Serialize, Deserialize)]
struct ModuleHeader {
    label: String,
    library: Option<String>,
    /// JSON text.
    metadata: String,
    code_bytes: usize,
}

impl ModuleHeader {
    fn new(module: &MachineCode) -> Self {
        Self {
            label: module.label.clone(),
            library: module.library.clone(),
            metadata: String::from_utf8_lossy(&module.metadata.to_json()).into_owned(),
            code_bytes: module.code().len(),
        }
    }
}

/// The executor of a plug-in in a worker process, from the message of its host.
pub fn load_machine_code(skill: &str, message: &[u8]) -> Result<Box<dyn SkillExecutor>> {
    let (header, modules) = decode(message).ok_or_else(|| {
        SkillError::new(ErrorKind::Unavailable, "the worker process got no machine code that it can read")
    })?;
    let counts = header.counts_operations;
    if *header.compiler != *compiler_fingerprint(counts) {
        let sentence = format!("failed to run {}: the worker process is another build", header.file);
        return Err(SkillError::new(ErrorKind::Unavailable, sentence)
            .with_help("build the helper program and this one from the same version of metier"));
    }
    let compiled = CompiledPlugin::from_machine_code(modules, counts)?;
    let plugin = LinkedPlugin::new(compiled, &header.file, counts)?;
    let settings = Arc::new(header.settings.into_owned());
    Ok(Box::new(PluginInWorker { skill: skill.to_owned(), plugin, settings, watchdog: Watchdog::new() }))
}

fn decode(message: &[u8]) -> Option<(MessageHeader<'static>, Vec<MachineCode>)> {
    let [header, mut codes] = split_parts(message)?;
    let mut header: MessageHeader<'static> = serde_json::from_slice(header).ok()?;
    let module = |module: ModuleHeader| {
        let metadata = ModuleMetadata::from_json(module.metadata.as_bytes(), &header.libraries)?;
        let code;
        (code, codes) = codes.split_at_checked(module.code_bytes)?;
        Some(MachineCode::received(module.label, module.library, metadata, code.to_vec()))
    };
    let modules = std::mem::take(&mut header.modules).into_iter().map(module).collect::<Option<_>>()?;
    codes.is_empty().then_some((header, modules))
}

/// The worker's side of a plug-in.
struct PluginInWorker {
    skill: String,
    plugin: LinkedPlugin,
    settings: Arc<PluginSettings>,
    watchdog: Watchdog,
}

impl SkillExecutor for PluginInWorker {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        run_with(context, &self.skill, &self.watchdog, |context| {
            self.plugin.run(&input.value_or_empty(), context, &self.settings).map(SkillOutput::from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(compiler: &[u8], after: &[u8]) -> Vec<u8> {
        let header = MessageHeader {
            compiler: Cow::Borrowed(compiler),
            file: Cow::Borrowed("run.wasm"),
            counts_operations: false,
            settings: Cow::Owned(PluginSettings::default()),
            libraries: Vec::new(),
            modules: Vec::new(),
        };
        let header = serde_json::to_vec(&header).unwrap();
        [&length_prefix(&header)[..], &header, &length_prefix(after), after].concat()
    }

    #[test]
    fn a_worker_executes_only_what_its_own_build_compiled() {
        let refusal = |message: &[u8]| load_machine_code("x", message).err().unwrap();
        let own = compiler_fingerprint(false);
        let error = refusal(&message(&own.map(|byte| !byte), b""));
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("another build"), "{error}");
        // Of its own build, it has no module.
        let error = refusal(&message(own, b""));
        assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{error}");
        for broken in [&b""[..], b"x", &message(own, b"code"), &message(own, b"")[1..]] {
            assert_eq!(refusal(broken).kind(), ErrorKind::Unavailable);
        }
    }
}
