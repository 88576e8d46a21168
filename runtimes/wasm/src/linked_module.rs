//! A module of a plug-in, linked to the host functions and to the libraries that it imports from.

use wasmtime::{
    Engine, Error, Extern, ExternType, FrameInfo, FuncType, ImportType, Instance, InstancePre, Linker,
    Module as Code, ModuleExport, Store,
};

use super::compiled_plugin::PluginModule;
use super::engine::invalid_module;
use super::failure::FailedModule;
use super::linker;
use crate::linker::StoreData;
use crate::module::INITIALIZE_EXPORT;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::suggestion::{closest, did_you_mean};

/// A module that is ready to be instantiated.
pub(super) struct LinkedModule {
    label: String,
    library: Option<String>,
    link: Link,
    first_added_function: u32,
}

enum Link {
    /// It imports from the host alone, and is linked once.
    Once(InstancePre<StoreData>),
    /// It imports from libraries, which every run instantiates anew: where each of its imports comes from, in order.
    EachRun { code: Code, linker: Linker<StoreData>, imports: Vec<ImportSource> },
}

enum ImportSource {
    Host,
    /// An export of the library at this position.
    Library(usize, ModuleExport),
}

impl LinkedModule {
    /// Links a module to the libraries before it; fails with `invalid-skill` if one of them lacks a function that it imports,
    /// or has it with another type.
    pub(super) fn new(engine: &Engine, module: PluginModule, libraries: &[Self]) -> Result<Self> {
        let PluginModule { label, library, code, metadata } = module;
        let invalid = |error: &Error| invalid_module(&label, error);
        let linker = linker::build_linker(engine, &metadata.imports).map_err(|error| invalid(&error))?;
        let link = if metadata.libraries().next().is_none() {
            Link::Once(linker.instantiate_pre(&code).map_err(|error| invalid(&error))?)
        } else {
            let source = |import: ImportType<'_>| import_source(&label, &import, libraries);
            let imports = code.imports().map(source).collect::<Result<_>>()?;
            Link::EachRun { code, linker, imports }
        };
        Ok(Self { label, library, link, first_added_function: metadata.first_added_function })
    }

    /// Instantiates it for one run, without executing any of its code. `libraries` are the instances of those before it.
    pub(super) fn instantiate(
        &self,
        store: &mut Store<StoreData>,
        libraries: &[Instance],
    ) -> wasmtime::Result<Instance> {
        let instance = self.instantiate_with(store, libraries);
        instance.map_err(|error| error.context(FailedModule(self.label.clone())))
    }

    fn instantiate_with(
        &self,
        store: &mut Store<StoreData>,
        libraries: &[Instance],
    ) -> wasmtime::Result<Instance> {
        match &self.link {
            Link::Once(linked) => linked.instantiate(store),
            Link::EachRun { code, linker, imports } => {
                let mut import = |(source, import): (&ImportSource, ImportType<'_>)| match source {
                    ImportSource::Host => linker.get_by_import(&mut *store, &import),
                    ImportSource::Library(index, export) => {
                        libraries.get(*index)?.get_module_export(&mut *store, export)
                    }
                };
                let imports: Option<Vec<Extern>> =
                    imports.iter().zip(code.imports()).map(&mut import).collect();
                let imports = imports.ok_or_else(|| Error::msg("an import is not there"))?;
                Instance::new(store, code, &imports)
            }
        }
    }

    /// The frame as a line of a traceback; `None` if it is of another module or of a function that the host added.
    pub(super) fn frame_name(&self, frame: &FrameInfo) -> Option<String> {
        let is_own = frame.module().image_range() == self.code().image_range()
            && frame.func_index() < self.first_added_function;
        is_own.then(|| match frame.func_name() {
            Some(name) => format!("{} function {name}", self.label),
            None => format!("{} function {}", self.label, frame.func_index()),
        })
    }

    fn code(&self) -> &Code {
        match &self.link {
            Link::Once(linked) => linked.module(),
            Link::EachRun { code, .. } => code,
        }
    }
}

/// Finds where an import of a module comes from.
fn import_source(label: &str, import: &ImportType<'_>, libraries: &[LinkedModule]) -> Result<ImportSource> {
    let named = |library: &LinkedModule| library.library.as_deref() == Some(import.module());
    let Some(index) = libraries.iter().position(named) else { return Ok(ImportSource::Host) };
    let library = libraries[index].code();
    let invalid = |what: &str| {
        let (name, module) = (import.name(), import.module());
        SkillError::new(ErrorKind::InvalidSkill, format!("{label}: the import {name:?} of {module} {what}"))
    };
    let function = |name: &str| match library.get_export(name) {
        Some(ExternType::Func(ty)) if name != INITIALIZE_EXPORT => Some(ty),
        _ => None,
    };
    let (Some(offered), Some(export)) = (function(import.name()), library.get_export_index(import.name()))
    else {
        let offers = library.exports().map(|export| export.name()).filter(|name| function(name).is_some());
        let error = invalid("is not there: the module exports no function of that name");
        return Err(match closest(import.name(), offers) {
            Some(name) => error.with_help(did_you_mean(name)),
            None => error.with_help("export it there, or import it from the module that has it"),
        });
    };
    let ExternType::Func(expected) = import.ty() else { return Err(invalid("is not a function")) };
    if !FuncType::eq(&expected, &offered) {
        let what = format!(
            "has the type {}, and the module exports it as {}",
            signature(&expected),
            signature(&offered)
        );
        return Err(invalid(&what).with_help("build both modules from the same declaration"));
    }
    Ok(ImportSource::Library(index, export))
}

/// A type as text: `(i64, i64) -> (i64)`.
fn signature(ty: &FuncType) -> String {
    let listed = |types: &mut dyn Iterator<Item = wasmtime::ValType>| {
        types.map(|ty| ty.to_string()).collect::<Vec<_>>().join(", ")
    };
    format!("({}) -> ({})", listed(&mut ty.params()), listed(&mut ty.results()))
}
