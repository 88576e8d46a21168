//! A plug-in as machine code: its modules, each loaded from the host's own cache on disk or compiled, on one engine.

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::UserCache;
use metier_core::policy::CancelToken;
use wasmtime::{Engine, Module as Code};

use super::engine::{on_demand_engine, pooling_engine};
use crate::cache_entry::{self, CacheKey};
use crate::metadata::ModuleMetadata;
use crate::module_source::ModuleSource;
use crate::services::PluginServices;
use crate::{compiler, deserialize};

/// The maximum size of the machine code of all modules in bytes, that of one module alone.
const MAX_CODE_BYTES: usize = 192 << 20;

pub(super) struct CompiledPlugin {
    pub(super) engine: Engine,
    /// In the order of their sources.
    pub(super) modules: Vec<PluginModule>,
}

pub(super) struct PluginModule {
    /// What messages call it.
    pub(super) label: String,
    /// The name of a library; `None` for the main module.
    pub(super) library: Option<String>,
    pub(super) code: Code,
    pub(super) metadata: ModuleMetadata,
}

impl CompiledPlugin {
    /// Loads or compiles each module of a plug-in, on an engine of their own that counts operations on request.
    pub(super) fn load_or_compile(
        sources: &[ModuleSource],
        counts: bool,
        disk: Option<&UserCache>,
        shared: &PluginServices,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let (cancel, _armed) = shared.load_token(cancel);
        let load = |reads| MachineCode::load_or_compile_all(sources, counts, reads, disk, shared, &cancel);
        let mut modules = load(disk)?;
        let mut deserialized = deserialize_with_engine(&modules, counts);
        if deserialized.is_none() && modules.iter().any(|module| module.new_entry.is_none()) {
            modules = load(None)?;
            deserialized = deserialize_with_engine(&modules, counts);
        }
        let (engine, codes) = deserialized.ok_or_else(|| wrong_host(&modules))?;
        // Only code that the engine accepted is cached.
        MachineCode::store_new(&modules, disk);
        cancel.check()?;
        Ok(Self::new(engine, modules, codes))
    }

    /// Deserializes the machine code of a plug-in that the host sent to this worker process.
    #[cfg(unix)]
    pub(super) fn from_machine_code(modules: Vec<MachineCode>, counts: bool) -> Result<Self> {
        let (engine, codes) =
            deserialize_with_engine(&modules, counts).ok_or_else(|| wrong_host(&modules))?;
        Ok(Self::new(engine, modules, codes))
    }

    fn new(engine: Engine, modules: Vec<MachineCode>, codes: Vec<Code>) -> Self {
        let module = |(machine, code): (MachineCode, Code)| PluginModule {
            label: machine.label,
            library: machine.library,
            code,
            metadata: machine.metadata,
        };
        Self { engine, modules: modules.into_iter().zip(codes).map(module).collect() }
    }
}

fn wrong_host(modules: &[MachineCode]) -> SkillError {
    let file = modules.last().map_or("the plug-in", |module| module.label.as_str());
    let sentence = format!("{file} cannot be made ready to run: its machine code is not for this host");
    SkillError::new(ErrorKind::InvalidSkill, sentence)
}

/// The machine code of a module.
pub(super) struct MachineCode {
    /// What messages call the module.
    pub(super) label: String,
    /// The name of a library; `None` for the main module.
    pub(super) library: Option<String>,
    pub(super) metadata: ModuleMetadata,
    /// The machine code, and before it what is cached with it.
    bytes: Vec<u8>,
    code_offset: usize,
    /// The key of its entry, if it was compiled just now.
    new_entry: Option<CacheKey>,
}

impl MachineCode {
    /// Loads or compiles each module of a plug-in. Nothing of it is deserialized.
    pub(super) fn load_or_compile_all(
        sources: &[ModuleSource],
        counts: bool,
        reads: Option<&UserCache>,
        writes: Option<&UserCache>,
        shared: &PluginServices,
        cancel: &CancelToken,
    ) -> Result<Vec<Self>> {
        let mut total = 0;
        let module = |source| {
            let module = Self::load_or_compile(source, counts, reads, writes, shared, cancel)?;
            total += module.code().len();
            check_code_size(total, source).map(|()| module)
        };
        sources.iter().map(module).collect()
    }

    /// Machine code that a host sent.
    #[cfg(unix)]
    pub(super) fn received(
        label: String,
        library: Option<String>,
        metadata: ModuleMetadata,
        code: Vec<u8>,
    ) -> Self {
        Self { label, library, metadata, bytes: code, code_offset: 0, new_entry: None }
    }

    /// Caches the modules that were compiled just now.
    pub(super) fn store_new(modules: &[Self], disk: Option<&UserCache>) {
        let Some(disk) = disk else { return };
        for module in modules {
            if let Some(key) = &module.new_entry {
                disk.store_entry(&key.file_name(), &module.bytes);
            }
        }
    }

    /// Reads the module's entry from one cache, or compiles it and encodes its entry for the other.
    fn load_or_compile(
        source: &ModuleSource,
        counts: bool,
        reads: Option<&UserCache>,
        writes: Option<&UserCache>,
        shared: &PluginServices,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let key = CacheKey::compute(source, counts, cancel)?;
        let with = |metadata, bytes, code_offset, new_entry| {
            let library = source.library_name().map(str::to_owned);
            Self { label: source.label.clone(), library, metadata, bytes, code_offset, new_entry }
        };
        if let Some((metadata, bytes, code_offset)) = reads.and_then(|disk| read_entry(disk, &key, source)) {
            return Ok(with(metadata, bytes, code_offset, None));
        }
        let (metadata, code) = compiler::compile(source, counts, shared, cancel)?;
        let length = code.len();
        let bytes = match writes {
            Some(disk) => cache_entry::encode(&key, disk.mac_key(), &metadata, &code),
            None => code,
        };
        let code_offset = bytes.len() - length;
        Ok(with(metadata, bytes, code_offset, Some(key)))
    }

    pub(super) fn code(&self) -> &[u8] {
        &self.bytes[self.code_offset..]
    }
}

/// The metadata of a cached module, its entry, and where the machine code begins there.
fn read_entry(
    disk: &UserCache,
    key: &CacheKey,
    source: &ModuleSource,
) -> Option<(ModuleMetadata, Vec<u8>, usize)> {
    let entry = disk.read_entry(&key.file_name())?;
    let (metadata, code) = cache_entry::decode(&entry, key, disk.mac_key(), &source.libraries)?;
    let code_offset = entry.len() - code.len();
    Some((metadata, entry, code_offset))
}

fn check_code_size(total: usize, source: &ModuleSource) -> Result<()> {
    if total <= MAX_CODE_BYTES {
        return Ok(());
    }
    let mib = MAX_CODE_BYTES >> 20;
    let sentence = format!("{}: the modules come to more than {mib} MiB of machine code", source.label);
    Err(SkillError::new(ErrorKind::InvalidSkill, sentence)
        .with_help("make the modules smaller, or split their largest functions"))
}

fn deserialize_with_engine(modules: &[MachineCode], counts: bool) -> Option<(Engine, Vec<Code>)> {
    let deserialized = |engine: wasmtime::Result<Engine>| {
        let engine = engine.ok()?;
        let module = |module: &MachineCode| deserialize::deserialize_module(&engine, module.code());
        let codes = modules.iter().map(module).collect::<Option<_>>()?;
        Some((engine, codes))
    };
    let metadata = modules.iter().map(|module| &module.metadata);
    deserialized(pooling_engine(metadata, counts)).or_else(|| deserialized(on_demand_engine(counts)))
}

/// Sorts the modules so that each follows the libraries that it imports from, and the main module is last. Fails with
/// `invalid-skill` if modules import from each other in a circle.
pub(super) fn sort_by_imports(file: &str, modules: Vec<PluginModule>) -> Result<Vec<PluginModule>> {
    let mut search = Search { file, modules: &modules, path: Vec::new(), order: Vec::new() };
    // Extism goes through the libraries by name, and then through the imports of each.
    let mut by_name: Vec<usize> = (0..modules.len()).collect();
    by_name.sort_by_key(|index| (modules[*index].library.is_none(), &modules[*index].library));
    by_name.into_iter().try_for_each(|index| search.visit(index))?;
    let order = search.order;
    let mut unsorted: Vec<Option<PluginModule>> = modules.into_iter().map(Some).collect();
    Ok(order.into_iter().filter_map(|index| unsorted[index].take()).collect())
}

/// A search in depth, which is at most the number of modules.
struct Search<'m> {
    file: &'m str,
    modules: &'m [PluginModule],
    /// The modules that are being visited, each imported by the one before.
    path: Vec<usize>,
    order: Vec<usize>,
}

impl Search<'_> {
    fn visit(&mut self, index: usize) -> Result<()> {
        if self.order.contains(&index) {
            return Ok(());
        }
        if let Some(start) = self.path.iter().position(|visited| *visited == index) {
            return Err(self.circle(start));
        }
        self.path.push(index);
        for library in self.modules[index].metadata.libraries() {
            let named = |module: &PluginModule| module.library.as_deref() == Some(library);
            if let Some(library) = self.modules.iter().position(named) {
                self.visit(library)?;
            }
        }
        self.path.pop();
        self.order.push(index);
        Ok(())
    }

    fn circle(&self, start: usize) -> SkillError {
        let circle = self.path[start..].iter().chain(&self.path[start..=start]);
        let names: Vec<&str> = circle.filter_map(|index| self.modules[*index].library.as_deref()).collect();
        let file = self.file;
        let sentence = match names.as_slice() {
            [name, _] => format!("{file}: the module {name} imports from itself"),
            _ => format!(
                "{file}: the modules import from each other in a circle: {}",
                names.join(" imports from ")
            ),
        };
        SkillError::new(ErrorKind::InvalidSkill, sentence)
            .with_help("move the functions that they share to a library of their own")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::module_source::ModuleRole;

    #[test]
    fn all_machine_code_together_is_bounded() {
        let source = ModuleSource {
            label: "scripts/plugin.json (module a)".into(),
            bytes: Vec::new().into(),
            role: ModuleRole::Library { name: "a".into() },
            libraries: vec!["a".into()],
        };
        assert!(check_code_size(MAX_CODE_BYTES, &source).is_ok());
        let error = check_code_size(MAX_CODE_BYTES + 1, &source).unwrap_err();
        assert!(error.message().contains("(module a): the modules come to more than 192 MiB"), "{error}");
    }
}
