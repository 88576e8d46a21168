//! Compiles a module. An untrusted module is parsed here, and nowhere else.

use super::super::engine::{invalid_module, on_demand_engine};
use super::super::module::CheckedModule;
use crate::metadata::ModuleMetadata;
use crate::module_source::ModuleSource;
use crate::{instrument, wat};
use metier_core::error::{ErrorKind, Result, SkillError};

/// The metadata of a module, and its machine code from `Engine::precompile_module`.
pub(in super::super) type CompiledModule = (ModuleMetadata, Vec<u8>);

/// Compiles a module.
pub(super) fn compile(source: &ModuleSource, counts: bool) -> Result<CompiledModule> {
    let binary = wat::to_binary(source)?;
    let module = CheckedModule::new(&binary, source)?;
    let rewritten = instrument::instrument(&binary, &module).map_err(|error| {
        SkillError::new(ErrorKind::InvalidSkill, format!("{} cannot be read: {error}", source.label))
    })?;
    let facts = ModuleMetadata::from_module(module);
    let code = on_demand_engine(counts).and_then(|engine| engine.precompile_module(&rewritten));
    Ok((facts, code.map_err(|error| invalid_module(&source.label, &error))?))
}
