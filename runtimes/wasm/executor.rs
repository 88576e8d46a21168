//! A plug-in, checked and compiled once; runs on a few engines that are kept warm.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::super::warm::{Program, Warm};
use super::engine::{Machine, Prepared, counted};
use super::module::Module;
use super::{cache, rewrite, text};
use crate::error::{ErrorKind, Result, SkillError};
use crate::executor::{Script, SkillExecutor};
use crate::host::SkillContext;
use crate::policy::Limits;

/// Compiles a plug-in; what is wrong with it is `invalid-skill`, in text form with line and column.
pub(crate) fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(Warm::new(&script.skill, Loaded::new(script)?)))
}

struct Loaded {
    prepared: Prepared,
    /// The first engine, made when the plug-in was loaded so that a fault shows there.
    first: Mutex<Option<Machine>>,
}

impl Loaded {
    fn new(script: &Script) -> Result<Self> {
        let prepared = prepared(script)?;
        let machine = Machine::new(&prepared, None, cache::settings())?;
        machine.check(&prepared)?;
        Ok(Self { prepared, first: Mutex::new(Some(machine)) })
    }
}

/// The script as the module that runs.
pub(super) fn prepared(script: &Script) -> Result<Prepared> {
    let binary = text::binary(script)?;
    let module = Module::new(&binary, script)?;
    let rewritten = rewrite::rewritten(&binary, &module).map_err(|error| {
        SkillError::new(ErrorKind::InvalidSkill, format!("{} cannot be read: {error}", script.path))
    })?;
    Ok(Prepared { file: script.path.clone(), module, binary: rewritten })
}

impl Program for Loaded {
    type State = Machine;

    fn state(&self, limits: &Limits) -> Result<Machine> {
        let operations = counted(limits);
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = first.take_if(|machine| machine.operations == operations) {
            return Ok(machine);
        }
        drop(first);
        Machine::new(&self.prepared, operations, cache::settings())
    }

    fn fits(&self, machine: &Machine, limits: &Limits) -> bool {
        machine.operations == counted(limits)
    }

    fn run(&self, machine: &mut Machine, input: &Value, context: &SkillContext) -> Result<Value> {
        machine.run(&self.prepared, input, context)
    }

    fn is_reusable(&self, machine: &mut Machine) -> bool {
        machine.is_reusable()
    }
}
