//! Compiles a module. An untrusted module is parsed here, and nowhere else.

use metier_core::error::{ErrorKind, Hint, Result, SkillError};

use super::super::engine::{invalid_module, on_demand_engine};
use super::super::module::CheckedModule;
use crate::metadata::ModuleMetadata;
use crate::module_source::ModuleSource;
use crate::{instrument, module_source};

/// The metadata of a module, and its machine code from `Engine::precompile_module`.
pub(in super::super) type CompiledModule = (ModuleMetadata, Vec<u8>);

/// Compiles a module.
pub(super) fn compile(source: &ModuleSource, counts: bool) -> Result<CompiledModule> {
    let binary = module_source::to_binary(source)?;
    let module = CheckedModule::new(&binary, source)?;
    let rewritten = instrument::instrument(&binary, &module).map_err(|error| {
        SkillError::new(ErrorKind::InvalidSkill, format!("{} cannot be read: {error}", source.label))
    })?;
    let facts = ModuleMetadata::from_module(module);
    let code = on_demand_engine(counts).and_then(|engine| engine.precompile_module(&rewritten));
    Ok((facts, code.map_err(|error| invalid_module(&source.label, &error))?))
}

pub(super) enum CompileError {
    /// There is no compiler process.
    NoCompiler(SkillError),
    /// The process was started and failed.
    Failed(SkillError),
}

impl CompileError {
    /// No process can be started in a sandbox here.
    pub(super) fn no_sandbox() -> Self {
        let sentence = "WebAssembly modules are compiled in a sandbox, and this build or system has none";
        let help = "run it on Linux with the Cargo feature `sandboxed`, or without a sandbox in the host's own process, \
                    where no limit holds (EngineBuilder::compile_in_process)";
        let error = SkillError::new(ErrorKind::SandboxUnavailable, sentence).with_help(help);
        Self::NoCompiler(error.with_hint(Hint::NoSandbox))
    }

    /// This program cannot be started again to compile, and a copy of it must not be.
    #[cfg_attr(not(unix), allow(dead_code))]
    pub(super) fn no_program() -> Self {
        let sentence =
            "WebAssembly modules are compiled in a process of the helper program, and this program has none";
        let help = "begin its `main` with metier::helper_main(), or name a helper with EngineBuilder::helper; \
                    EngineBuilder::compile_in_process compiles in this process, without a limit";
        Self::NoCompiler(SkillError::new(ErrorKind::Unavailable, sentence).with_help(help))
    }
}
