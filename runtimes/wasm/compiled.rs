//! A plug-in as machine code: taken from the disk where the host itself has kept it there, compiled otherwise.

use wasmtime::{Engine, Module as Code};

use super::cache::Cache;
use super::engine::{plain, pooled};
use super::entry::{self, Key, MacKey};
use super::facts::Facts;
use super::{artefact, compiler};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::Script;
use crate::policy::CancelToken;
use crate::runtimes::Shared;

pub(super) struct Compiled {
    pub(super) engine: Engine,
    pub(super) module: Code,
    pub(super) facts: Facts,
}

impl Compiled {
    /// The plug-in on an engine of its own, which counts operations where that is asked.
    pub(super) fn new(
        script: &Script,
        counts: bool,
        disk: Option<&Cache>,
        shared: &Shared,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let key = Key::under(script, counts, cancel)?;
        let kept = disk.and_then(|disk| Self::known(&disk.entry(&key.name())?, &key, disk.mac_key(), counts));
        if let Some(known) = kept {
            return Ok(known);
        }
        let (facts, code) = compiler::compile(script, counts, shared, cancel)?;
        let entry = disk.map(|disk| (disk, entry::written(&key, disk.mac_key(), &facts, &code)));
        let compiled = Self::anew(facts, &code, &script.path, counts)?;
        // Only what the engine took is kept.
        if let Some((disk, entry)) = entry {
            disk.keep(&key.name(), &entry);
        }
        cancel.check()?;
        Ok(compiled)
    }

    fn known(entry: &[u8], key: &Key, mac_key: &MacKey, counts: bool) -> Option<Self> {
        let (facts, code) = entry::read(entry, key, mac_key)?;
        let (engine, module) = made(&facts, code, counts)?;
        Some(Self { engine, module, facts })
    }

    fn anew(facts: Facts, code: &[u8], file: &str, counts: bool) -> Result<Self> {
        let made = made(&facts, code, counts).ok_or_else(|| {
            let sentence =
                format!("{file} cannot be made ready to run: its machine code is not for this host");
            SkillError::new(ErrorKind::InvalidSkill, sentence)
        });
        let (engine, module) = made?;
        Ok(Self { engine, module, facts })
    }
}

fn made(facts: &Facts, code: &[u8], counts: bool) -> Option<(Engine, Code)> {
    let made = |engine: wasmtime::Result<Engine>| {
        let engine = engine.ok()?;
        let module = artefact::module(&engine, code)?;
        Some((engine, module))
    };
    made(pooled(facts, counts)).or_else(|| made(plain(counts)))
}
