//! Checks a module before anything is compiled: it must be valid and bounded, have an entry if it is the main module of its
//! plug-in, and import only known functions.

use wasmparser::types::Types;
use wasmparser::{
    BinaryReaderError, ElementItems, ExternalKind, FuncType, FunctionBody, MemoryType, Parser, Payload,
    RefType, TableType, ValType, Validator, WasmFeatures,
};

use super::imports::ResolvedImport;
use crate::module_source::{ModuleRole, ModuleSource};
use metier_core::error::{ErrorKind, Result, SkillError};

/// A checked module, with what is needed to instrument it.
pub(super) struct CheckedModule {
    /// Its imports, in order.
    pub(super) imports: Vec<ResolvedImport>,
    pub(super) types: u32,
    /// The number of its own functions.
    pub(super) functions: u32,
    pub(super) has_memory: bool,
    pub(super) tables: Vec<RefType>,
    /// The number of elements of its largest table.
    pub(super) largest_table_elements: u64,
    /// The start function.
    pub(super) start: Option<u32>,
    /// The functions that run after it, in the order in which Extism would run them.
    pub(super) initialisers: Vec<Initialiser>,
    /// The entry function of the main module; `None` for a library, whose exported functions are kept.
    pub(super) entry: Option<EntryFunction>,
    /// The initial size of its memory and tables in bytes.
    pub(super) initial_bytes: u64,
}

/// An exported function that initialises the plug-in.
pub(super) struct Initialiser {
    pub(super) function: u32,
    /// The number of parameters, which are all zero.
    pub(super) params: usize,
    pub(super) results: usize,
}

/// The entry function of the skill.
pub(super) struct EntryFunction {
    pub(super) function: u32,
    pub(super) returns_code: bool,
}

/// The supported features: those that the tool chains of C, Rust, Go, Zig and `AssemblyScript` use. No shared memory, no
/// second memory, no garbage-collected types: their bytes would be in no budget.
const FEATURES: WasmFeatures = WasmFeatures::WASM2
    .union(WasmFeatures::LIME1)
    .union(WasmFeatures::TAIL_CALL)
    .union(WasmFeatures::RELAXED_SIMD);

/// The maximum numbers of each: enough for an interpreter compiled to WebAssembly, few enough to compile in seconds.
pub(super) const MAX_IMPORTS: u32 = 1_000;
const MAX_EXPORTS: u32 = 10_000;
pub(super) const MAX_FUNCTIONS: u32 = 50_000;
pub(super) const MAX_TABLES: u32 = 16;
const MAX_SEGMENTS: u32 = 50_000;
/// The maximum size of one function in bytes.
const MAX_FUNCTION_BYTES: usize = 1 << 20;

/// The function that is added to a library, which initialises it.
pub(super) const INITIALIZE_EXPORT: &str = "metier:initialize";

/// The bytes that an element of a table counts for.
pub(super) const ELEMENT_BYTES: u64 = 8;
/// The size of a page of memory in bytes.
pub(super) const PAGE_BYTES: u64 = 64 << 10;
/// The maximum number of elements of a table: no instruction that processes all of it takes long.
pub(super) const MAX_TABLE_ELEMENTS: u64 = 1_000_000;
/// The maximum initial size of a memory and all tables in bytes.
pub(super) const MAX_INITIAL_BYTES: u64 = (4 << 30) + MAX_TABLE_ELEMENTS * ELEMENT_BYTES * MAX_TABLES as u64;

impl CheckedModule {
    /// Checks a module; fails with `invalid-skill` and the reason if it cannot be run.
    pub(super) fn new(binary: &[u8], source: &ModuleSource) -> Result<Self> {
        let invalid = |error: BinaryReaderError| {
            let sentence = format!("{} is not a module that runs here: {}", source.label, error.message());
            SkillError::new(ErrorKind::InvalidSkill, sentence)
                .with_help(format!("the fault lies at byte {} of the binary", error.offset()))
        };
        let outline = Outline::new(binary).map_err(invalid)?;
        outline.check_limits(&source.label)?;
        let types = Validator::new_with_features(FEATURES).validate_all(binary).map_err(invalid)?;
        outline.checked_module(&types, source)
    }
}

/// The parsed sections of a module, not yet validated.
#[derive(Default)]
struct Outline<'a> {
    imports: Vec<wasmparser::Import<'a>>,
    /// The exported functions.
    exports: Vec<(&'a str, u32)>,
    types: u32,
    functions: u32,
    tables: Vec<TableType>,
    memories: Vec<MemoryType>,
    segments: u32,
    /// The number of elements of all element segments together.
    segment_elements: u32,
    limited_counts: Vec<(u32, u32, &'static str)>,
    start: Option<u32>,
    largest_body: usize,
}

impl<'a> Outline<'a> {
    fn new(binary: &'a [u8]) -> Result<Self, BinaryReaderError> {
        let mut outline = Self::default();
        for payload in Parser::new(0).parse_all(binary) {
            outline.add(payload?)?;
        }
        Ok(outline)
    }

    fn add(&mut self, payload: Payload<'a>) -> Result<(), BinaryReaderError> {
        match payload {
            Payload::TypeSection(section) => self.types = section.count(),
            Payload::ImportSection(section) => {
                self.limited_counts.push((section.count(), MAX_IMPORTS, "imports"));
                let most = MAX_IMPORTS as usize + 1;
                self.imports = section.into_imports().take(most).collect::<Result<_, _>>()?;
            }
            Payload::FunctionSection(section) => {
                self.functions = section.count();
                self.limited_counts.push((section.count(), MAX_FUNCTIONS, "functions"));
            }
            Payload::TableSection(section) => {
                self.limited_counts.push((section.count(), MAX_TABLES, "tables"));
                let most = MAX_TABLES as usize + 1;
                let tables = section.into_iter().take(most).map(|table| table.map(|table| table.ty));
                self.tables = tables.collect::<Result<_, _>>()?;
            }
            Payload::MemorySection(section) => {
                self.limited_counts.push((section.count(), 1, "memories"));
                self.memories = section.into_iter().take(1).collect::<Result<_, _>>()?;
            }
            Payload::ExportSection(section) => {
                self.limited_counts.push((section.count(), MAX_EXPORTS, "exports"));
                for export in section.into_iter().take(MAX_EXPORTS as usize) {
                    let export = export?;
                    if export.kind == ExternalKind::Func {
                        self.exports.push((export.name, export.index));
                    }
                }
            }
            Payload::StartSection { func, .. } => self.start = Some(func),
            Payload::ElementSection(section) => {
                self.segments = self.segments.saturating_add(section.count());
                for segment in section.into_iter().take(MAX_SEGMENTS as usize) {
                    let count = match segment?.items {
                        ElementItems::Functions(items) => items.count(),
                        ElementItems::Expressions(_, items) => items.count(),
                    };
                    self.segment_elements = self.segment_elements.saturating_add(count);
                }
            }
            Payload::DataSection(section) => self.segments = self.segments.saturating_add(section.count()),
            Payload::CodeSectionEntry(body) => self.largest_body = self.largest_body.max(body_length(&body)),
            _ => {}
        }
        Ok(())
    }

    fn check_limits(&self, file: &str) -> Result<()> {
        let mut counts = self.limited_counts.clone();
        counts.push((self.segments, MAX_SEGMENTS, "segments"));
        let most = u32::try_from(MAX_TABLE_ELEMENTS).unwrap_or(u32::MAX);
        counts.push((self.segment_elements, most, "elements in its segments"));
        let largest = self.tables.iter().map(|table| table.initial).max().unwrap_or(0);
        counts.push((u32::try_from(largest).unwrap_or(u32::MAX), most, "elements in a table"));
        let body = u32::try_from(self.largest_body).unwrap_or(u32::MAX);
        counts.push((body, u32::try_from(MAX_FUNCTION_BYTES).unwrap_or(u32::MAX), "bytes in one function"));
        let Some((count, most, what)) = counts.into_iter().find(|(count, most, _)| count > most) else {
            return Ok(());
        };
        let sentence = format!("{file} has {count} {what}; a module may have {most}");
        Err(SkillError::new(ErrorKind::InvalidSkill, sentence))
    }

    fn checked_module(&self, types: &Types, source: &ModuleSource) -> Result<CheckedModule> {
        let types = Signatures(types);
        let resolved = |import| ResolvedImport::resolve(import, &source.libraries, |ty| types.type_at(ty));
        let imports = self.imports.iter().map(resolved).collect::<Result<_>>();
        let imports = imports.map_err(|error| source.name_module(error))?;
        let (initialisers, entry) = match &source.role {
            ModuleRole::Main { function } => (
                self.initialisers(&types, &source.label)?,
                Some(self.entry(&types, &source.label, function)?),
            ),
            ModuleRole::Library { .. } => {
                self.check_library(&source.label)?;
                (self.reactor(&types, &source.label)?.into_iter().collect(), None)
            }
        };
        let memory = self.memories.iter().map(|memory| memory.initial.saturating_mul(PAGE_BYTES));
        let tables = self.tables.iter().map(|table| table.initial.saturating_mul(ELEMENT_BYTES));
        Ok(CheckedModule {
            imports,
            types: self.types,
            functions: self.functions,
            has_memory: !self.memories.is_empty(),
            tables: self.tables.iter().map(|table| table.element_type).collect(),
            largest_table_elements: self.tables.iter().map(|table| table.initial).max().unwrap_or(0),
            start: self.start,
            initialisers,
            entry,
            initial_bytes: memory.chain(tables).fold(0, u64::saturating_add),
        })
    }

    fn entry(&self, types: &Signatures, file: &str, name: &str) -> Result<EntryFunction> {
        let invalid = |sentence: String| SkillError::new(ErrorKind::InvalidSkill, sentence);
        let Some(function) = self.exported_function(name) else {
            let error = invalid(format!("{file} exports no function `{name}`"));
            return Err(error.with_help(self.exports_help()));
        };
        let signature = types.function(function);
        if !signature.params().is_empty() {
            let sentence = format!("`{name}` of {file} takes parameters; a skill's function takes none");
            return Err(invalid(sentence)
                .with_help("the input is read with input_length and input_load_u64 of Extism"));
        }
        let has_code = match signature.results() {
            [] => false,
            [ValType::I32] => true,
            _ => {
                let sentence =
                    format!("`{name}` of {file} must answer with nothing or with an i32, 0 for success");
                return Err(invalid(sentence));
            }
        };
        Ok(EntryFunction { function, returns_code: has_code })
    }

    fn exports_help(&self) -> String {
        const MAX_LISTED: usize = 20;
        if self.exports.is_empty() {
            return "it exports no function at all".into();
        }
        let names: Vec<&str> = self.exports.iter().take(MAX_LISTED).map(|(name, _)| *name).collect();
        let more = if self.exports.len() > MAX_LISTED { " and more" } else { "" };
        format!("it exports {}{more}; name one in the contract, or export `run`", names.join(", "))
    }

    /// The initialisers as Extism finds them: Haskell's, or else the constructors, or else those of a reactor.
    fn initialisers(&self, types: &Signatures, file: &str) -> Result<Vec<Initialiser>> {
        let plain = |name: &str| self.plain_function(types, name);
        if self.exported_function("_start").is_none() {
            self.reactor(types, file)?;
        }
        if let Some(function) = self.exported_function("hs_init") {
            let signature = types.function(function);
            if signature.params() != [ValType::I32, ValType::I32] {
                let sentence = format!("`hs_init` of {file} must take two i32");
                return Err(SkillError::new(ErrorKind::InvalidSkill, sentence));
            }
            let haskell = Initialiser { function, params: 2, results: signature.results().len() };
            return Ok(plain("_initialize").into_iter().chain([haskell]).collect());
        }
        let first = ["__wasm_call_ctors", "_initialize"]
            .into_iter()
            .find(|name| self.exported_function(name).is_some());
        Ok(first.and_then(plain).into_iter().collect())
    }

    /// The initialiser of a reactor, if the module has one.
    fn reactor(&self, types: &Signatures, file: &str) -> Result<Option<Initialiser>> {
        let reactor = self.plain_function(types, "_initialize");
        if reactor.is_none() && self.exported_function("_initialize").is_some() {
            let sentence = format!("`_initialize` of {file} must take nothing and answer with nothing");
            return Err(SkillError::new(ErrorKind::InvalidSkill, sentence));
        }
        Ok(reactor)
    }

    /// An exported function that takes nothing and answers with nothing.
    fn plain_function(&self, types: &Signatures, name: &str) -> Option<Initialiser> {
        let function = self.exported_function(name)?;
        let signature = types.function(function);
        let is_plain = signature.params().is_empty() && signature.results().is_empty();
        is_plain.then_some(Initialiser { function, params: 0, results: 0 })
    }

    fn check_library(&self, file: &str) -> Result<()> {
        let invalid = |what: &str| SkillError::new(ErrorKind::InvalidSkill, format!("{file} exports {what}"));
        if self.exported_function("_start").is_some() {
            return Err(invalid("`_start`, so it is a program; no module can import from a program")
                .with_help("build it as a library (a reactor), or name it `main` in the manifest"));
        }
        if self.exported_function(INITIALIZE_EXPORT).is_some() {
            return Err(invalid(&format!("`{INITIALIZE_EXPORT}`, which is a name of the host"))
                .with_help("give the function another name"));
        }
        Ok(())
    }

    fn exported_function(&self, name: &str) -> Option<u32> {
        self.exports.iter().find(|(export, _)| *export == name).map(|(_, function)| *function)
    }
}

fn body_length(body: &FunctionBody<'_>) -> usize {
    body.range().len()
}

/// The types of a valid module's functions.
struct Signatures<'a>(&'a Types);

impl Signatures<'_> {
    fn function(&self, index: u32) -> &FuncType {
        let types = self.0.as_ref();
        self.0[types.core_function_at(index)].unwrap_func()
    }

    fn type_at(&self, index: u32) -> &FuncType {
        let types = self.0.as_ref();
        self.0[types.core_type_at_in_module(index)].unwrap_func()
    }
}
