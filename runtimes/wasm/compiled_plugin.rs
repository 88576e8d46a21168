//! A plug-in as machine code: loaded from the host's own cache on disk, or compiled.

use wasmtime::{Engine, Module as Code};

use super::cache::ModuleCache;
use super::engine::{on_demand_engine, pooling_engine};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::Script;
use crate::policy::CancelToken;
use crate::runtimes::RuntimeServices;
use crate::runtimes::wasm::cache_entry;
use crate::runtimes::wasm::cache_entry::{CacheKey, MacKey};
use crate::runtimes::wasm::metadata::ModuleMetadata;
use crate::runtimes::wasm::{compiler, deserialize};

pub(super) struct CompiledPlugin {
    pub(super) engine: Engine,
    pub(super) module: Code,
    pub(super) metadata: ModuleMetadata,
}

impl CompiledPlugin {
    /// Loads or compiles the plug-in, on an engine of its own that counts operations on request.
    pub(super) fn load_or_compile(
        script: &Script,
        counts: bool,
        disk: Option<&ModuleCache>,
        shared: &RuntimeServices,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let key = CacheKey::compute(script, counts, cancel)?;
        let kept = disk.and_then(|disk| {
            Self::from_cache_entry(&disk.read_entry(&key.file_name())?, &key, disk.mac_key(), counts)
        });
        if let Some(known) = kept {
            return Ok(known);
        }
        let (facts, code) = compiler::compile(script, counts, shared, cancel)?;
        let entry = disk.map(|disk| (disk, cache_entry::encode(&key, disk.mac_key(), &facts, &code)));
        let compiled = Self::from_machine_code(facts, &code, &script.path, counts)?;
        // Only code that the engine accepted is cached.
        if let Some((disk, entry)) = entry {
            disk.store_entry(&key.file_name(), &entry);
        }
        cancel.check()?;
        Ok(compiled)
    }

    fn from_cache_entry(entry: &[u8], key: &CacheKey, mac_key: &MacKey, counts: bool) -> Option<Self> {
        let (facts, code) = cache_entry::decode(entry, key, mac_key)?;
        let (engine, module) = deserialize_with_engine(&facts, code, counts)?;
        Some(Self { engine, module, metadata: facts })
    }

    fn from_machine_code(facts: ModuleMetadata, code: &[u8], file: &str, counts: bool) -> Result<Self> {
        let made = deserialize_with_engine(&facts, code, counts).ok_or_else(|| {
            let sentence =
                format!("{file} cannot be made ready to run: its machine code is not for this host");
            SkillError::new(ErrorKind::InvalidSkill, sentence)
        });
        let (engine, module) = made?;
        Ok(Self { engine, module, metadata: facts })
    }
}

fn deserialize_with_engine(facts: &ModuleMetadata, code: &[u8], counts: bool) -> Option<(Engine, Code)> {
    let made = |engine: wasmtime::Result<Engine>| {
        let engine = engine.ok()?;
        let module = deserialize::deserialize_module(&engine, code)?;
        Some((engine, module))
    };
    made(pooling_engine(facts, counts)).or_else(|| made(on_demand_engine(counts)))
}
