//! The work itself: what is read of a module that an untrusted author wrote is read here, and nowhere else.

use super::super::engine::{plain, refused};
use super::super::facts::Facts;
use super::super::module::Module;
use super::super::{rewrite, text};
use super::Machined;
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::Script;

/// Compiles a module.
pub(super) fn compile(script: &Script, counts: bool) -> Result<Machined> {
    let binary = text::binary(script)?;
    let module = Module::new(&binary, script)?;
    let rewritten = rewrite::rewritten(&binary, &module).map_err(|error| {
        SkillError::new(ErrorKind::InvalidSkill, format!("{} cannot be read: {error}", script.path))
    })?;
    let facts = Facts::of(module);
    let code = plain(counts).and_then(|engine| engine.precompile_module(&rewritten));
    Ok((facts, code.map_err(|error| refused(&script.path, &error))?))
}
