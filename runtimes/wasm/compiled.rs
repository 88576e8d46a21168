//! A plug-in as machine code: taken from the disk where it lies there, checked, given its new form and compiled otherwise.

use wasmtime::{Engine, Module as Code};

use super::cache::Cache;
use super::engine::{plain, pooled, refused};
use super::entry::{self, Key};
use super::facts::Facts;
use super::module::Module;
use super::{artefact, rewrite, text};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::Script;

pub(super) struct Compiled {
    pub(super) engine: Engine,
    pub(super) module: Code,
    pub(super) facts: Facts,
}

impl Compiled {
    /// The plug-in on an engine of its own, which counts operations where that is asked.
    pub(super) fn new(script: &Script, counts: bool, disk: Option<&Cache>) -> Result<Self> {
        let Some(disk) = disk else { return Self::anew(script, counts) };
        let key = Key::new(script, counts);
        if let Some(known) = disk.entry(&key.name()).and_then(|entry| Self::known(&entry, &key, counts)) {
            return Ok(known);
        }
        let compiled = Self::anew(script, counts)?;
        match compiled.module.serialize() {
            Ok(code) => disk.keep(&key.name(), &entry::written(&key, &compiled.facts, &code)),
            Err(error) => tracing::warn!("a compiled module was not kept on disk: {error:#}"),
        }
        Ok(compiled)
    }

    fn known(entry: &[u8], key: &Key, counts: bool) -> Option<Self> {
        let (facts, code) = entry::read(entry, key)?;
        let made = |engine: wasmtime::Result<Engine>| {
            let engine = engine.ok()?;
            let module = artefact::module(&engine, code)?;
            Some((engine, module))
        };
        let (engine, module) = made(pooled(&facts, counts)).or_else(|| made(plain(counts)))?;
        Some(Self { engine, module, facts })
    }

    fn anew(script: &Script, counts: bool) -> Result<Self> {
        let binary = text::binary(script)?;
        let module = Module::new(&binary, script)?;
        let rewritten = rewrite::rewritten(&binary, &module).map_err(|error| {
            SkillError::new(ErrorKind::InvalidSkill, format!("{} cannot be read: {error}", script.path))
        })?;
        let facts = Facts::of(module);
        let made = |engine: wasmtime::Result<Engine>| {
            let engine = engine?;
            let module = Code::from_binary(&engine, &rewritten)?;
            Ok((engine, module))
        };
        let made = made(pooled(&facts, counts)).or_else(|_| made(plain(counts)));
        let (engine, module) = made.map_err(|error| refused(&script.path, &error))?;
        Ok(Self { engine, module, facts })
    }
}
