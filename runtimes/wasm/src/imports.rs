//! What a module may import: Extism's functions, the host API, WASI where it is permitted, the functions of the libraries of its
//! plug-in, and nothing else.

use wasmparser::{FuncType, TypeRef, ValType};

use crate::extism_kernel::{EXTISM_FUNCTIONS, KernelFunction, METIER_NAMESPACE};
use crate::module_source::MAIN_MODULE;
use metier_core::error::{ErrorKind, Hint, Result, SkillError};
use metier_core::host::{HostFunction, functions};
use metier_core::suggestion::{closest, did_you_mean};

const ENV_NAMESPACE: &str = "extism:host/env";
const USER_NAMESPACE: &str = "extism:host/user";
pub(super) const WASI_NAMESPACE: &str = "wasi_snapshot_preview1";

/// The maximum number of parameters of a host function here.
pub(super) const MAX_PARAMS: usize = 8;

/// Whether the host offers functions under this name, so that no module can have it.
pub(super) fn is_host_namespace(name: &str) -> bool {
    [ENV_NAMESPACE, USER_NAMESPACE, WASI_NAMESPACE, METIER_NAMESPACE].contains(&name)
}

/// What an import of a module leads to.
#[derive(Clone)]
pub(super) enum ResolvedImport {
    /// A function of WASI, which is linked by name.
    Wasi,
    Host(Import),
    /// A function of the library of this name. Whether it has one of that type is known when both are compiled.
    Library(String),
}

impl ResolvedImport {
    /// Resolves a module's import and checks what can be checked of its type; `libraries` are those of the plug-in.
    pub(super) fn resolve<'t>(
        import: &wasmparser::Import<'_>,
        libraries: &[String],
        type_of: impl Fn(u32) -> &'t FuncType,
    ) -> Result<Self> {
        let invalid = |reason: &str| {
            let sentence = format!("the import {:?} of {} {reason}", import.name, import.module);
            SkillError::new(ErrorKind::InvalidSkill, sentence)
        };
        let library = libraries.iter().find(|library| *library == import.module);
        let TypeRef::Func(ty) = import.ty else {
            return Err(match library {
                Some(_) => invalid("is not a function; the modules of a plug-in share nothing else")
                    .with_help("export functions that read and write it"),
                None => invalid("is not a function; nothing else is offered"),
            });
        };
        if let Some(library) = library {
            return Ok(Self::Library(library.clone()));
        }
        if import.module == MAIN_MODULE && !libraries.is_empty() {
            return Err(invalid("is of the main module, and no module imports from that one")
                .with_help("move the function to a library that both import from"));
        }
        if import.module == WASI_NAMESPACE {
            return Ok(Self::Wasi);
        }
        let offer = Import::find(import.module, import.name)?;
        let offered = offer.signature();
        let signature = type_of(ty);
        let offer = offer.with_params(signature.params().len());
        let offer = offer.map(|import| import.with_results(signature.results().len()));
        match offer.filter(|import| import.has_type(signature)) {
            Some(import) => Ok(Self::Host(import)),
            None => Err(invalid(&format!("has another type than what is offered: {offered}"))),
        }
    }
}

/// A function of the host that a module may import.
#[derive(Clone)]
pub(super) struct Import {
    pub(super) namespace: &'static str,
    pub(super) name: &'static str,
    pub(super) target: ImportTarget,
    /// The number of optional parameters that the import omits: a function may have more of them than when the plug-in was
    /// compiled.
    omitted_params: usize,
    /// Whether the import has no result, as the functions of Synwire's host that answer nothing.
    pub(super) omits_result: bool,
}

#[derive(Clone, Copy)]
pub(super) enum ImportTarget {
    /// A function of Extism.
    Kernel(&'static KernelFunction),
    /// A function in the host's table.
    Host(&'static HostFunction),
}

impl Import {
    fn has_type(&self, signature: &FuncType) -> bool {
        *signature.params() == *self.params() && *signature.results() == *self.results()
    }

    /// Its type as text: `(i64, i64) -> (i64)`.
    fn signature(&self) -> String {
        let listed =
            |types: Vec<ValType>| types.iter().map(ValType::to_string).collect::<Vec<_>>().join(", ");
        format!("({}) -> ({})", listed(self.params()), listed(self.results()))
    }

    /// The import of that name, or the message that no such import exists.
    fn find(namespace: &str, name: &str) -> Result<Self> {
        let found = available_imports(namespace).find(|offer| offer.name == name);
        found.ok_or_else(|| {
            let offers: Vec<Self> = available_imports(namespace).collect();
            if offers.is_empty() {
                let sentence = format!("nothing offers the import {namespace:?} {name:?}");
                let help = format!("functions are imported from {ENV_NAMESPACE} and {USER_NAMESPACE}");
                return SkillError::new(ErrorKind::InvalidSkill, sentence).with_help(help);
            }
            unknown_import(namespace, name, &offers)
        })
    }

    /// Restores an import that was resolved before, from its names and its numbers of parameters and results.
    pub(super) fn restore(namespace: &str, name: &str, (params, results): (usize, usize)) -> Option<Self> {
        let import = Self::find(namespace, name).ok()?.with_params(params)?.with_results(results);
        (import.results().len() == results).then_some(import)
    }

    /// A function of Extism, under a namespace of its own.
    pub(super) fn kernel_imports(namespace: &'static str, function: &'static KernelFunction) -> Self {
        Self {
            namespace,
            name: function.name,
            target: ImportTarget::Kernel(function),
            omitted_params: 0,
            omits_result: false,
        }
    }

    /// The import with this number of parameters, if the omitted ones are optional.
    fn with_params(self, count: usize) -> Option<Self> {
        let (all, required) = match self.target {
            ImportTarget::Kernel(function) => (function.params.len(), function.params.len()),
            ImportTarget::Host(function) => {
                let required = function.params.iter().filter(|param| param.required).count();
                (function.params.len(), required)
            }
        };
        (required..=all).contains(&count).then(|| Self { omitted_params: all - count, ..self })
    }

    /// The import with this number of results; a function of the host may have none.
    fn with_results(self, count: usize) -> Self {
        let omits_result = count == 0 && matches!(self.target, ImportTarget::Host(_));
        Self { omits_result, ..self }
    }

    pub(super) fn params(&self) -> Vec<ValType> {
        match self.target {
            ImportTarget::Kernel(function) => function.params.to_vec(),
            ImportTarget::Host(function) => vec![ValType::I64; function.params.len() - self.omitted_params],
        }
    }

    pub(super) fn results(&self) -> Vec<ValType> {
        match self.target {
            ImportTarget::Kernel(function) => function.result.into_iter().collect(),
            ImportTarget::Host(_) if self.omits_result => Vec::new(),
            ImportTarget::Host(_) => vec![ValType::I64],
        }
    }
}

fn available_imports(namespace: &str) -> impl Iterator<Item = Import> {
    let env = (namespace == ENV_NAMESPACE).then(|| kernel(ENV_NAMESPACE, EXTISM_FUNCTIONS));
    let user =
        (namespace == USER_NAMESPACE).then(|| functions().iter().flat_map(|function| host_imports(function)));
    env.into_iter().flatten().chain(user.into_iter().flatten())
}

fn kernel(namespace: &'static str, table: &'static [KernelFunction]) -> impl Iterator<Item = Import> {
    table.iter().map(move |function| Import::kernel_imports(namespace, function))
}

fn host_imports(function: &'static HostFunction) -> impl Iterator<Item = Import> {
    let names = std::iter::once(&function.name).chain(function.aliases);
    names.map(move |name| Import {
        namespace: USER_NAMESPACE,
        name,
        target: ImportTarget::Host(function),
        omitted_params: 0,
        omits_result: false,
    })
}

fn unknown_import(namespace: &str, name: &str, offers: &[Import]) -> SkillError {
    let sentence = format!("nothing offers the import {name:?} of {namespace}");
    let error = SkillError::new(ErrorKind::InvalidSkill, sentence);
    match closest(name, offers.iter().map(|offer| offer.name)) {
        Some(offer) => error.with_help(did_you_mean(offer)),
        None => error
            .with_help("import a function of the host, as the documentation of the host API lists them")
            .with_hint(Hint::ListFunctions),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_function_has_more_parameters_than_a_call_carries() {
        let all = available_imports(USER_NAMESPACE).chain(available_imports(ENV_NAMESPACE));
        for import in all {
            assert!(import.params().len() <= MAX_PARAMS, "{}", import.name);
        }
    }

    #[test]
    fn aliases_are_offered_and_near_misses_named() {
        assert!(Import::find(USER_NAMESPACE, "vfs_read_file").is_ok());
        assert!(Import::find(USER_NAMESPACE, "host_log").is_ok());
        let error = Import::find(USER_NAMESPACE, "read_fil").err().unwrap();
        assert_eq!(error.help(), Some("did you mean `read_file`?"));
        assert_eq!(Import::find("env", "abort").err().unwrap().kind(), ErrorKind::InvalidSkill);
    }
}
