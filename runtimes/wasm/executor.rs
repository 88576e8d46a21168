//! A plug-in, checked and compiled once; runs on a few engines that are kept warm.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::super::warm::{Program, Warm};
use super::cache;
use super::compiled::Compiled;
use super::engine::{Machine, counted};
use crate::error::Result;
use crate::executor::{Script, SkillExecutor};
use crate::host::SkillContext;
use crate::policy::{CancelToken, Limits};
use crate::runtimes::Shared;

/// Compiles a plug-in; what is wrong with it is `invalid-skill`, in text form with line and column.
pub(crate) fn load(script: &Script, shared: &Shared, cancel: &CancelToken) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(Warm::new(&script.skill, Loaded::new(script, shared, cancel)?)))
}

struct Loaded {
    script: Script,
    shared: Shared,
    /// The first engine, made when the plug-in was loaded so that a fault shows there.
    first: Mutex<Option<Machine>>,
}

impl Loaded {
    fn new(script: &Script, shared: &Shared, cancel: &CancelToken) -> Result<Self> {
        let first = machine(script, false, shared, cancel)?;
        Ok(Self { script: script.clone(), shared: shared.clone(), first: Mutex::new(Some(first)) })
    }
}

fn machine(script: &Script, counts: bool, shared: &Shared, cancel: &CancelToken) -> Result<Machine> {
    Machine::new(Compiled::new(script, counts, cache::of_user(), shared, cancel)?, &script.path, counts)
}

impl Program for Loaded {
    type State = Machine;

    fn state(&self, context: &SkillContext) -> Result<Machine> {
        let counts = counted(context.limits()).is_some();
        let mut first = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(machine) = first.take_if(|machine| machine.counts == counts) {
            return Ok(machine);
        }
        drop(first);
        machine(&self.script, counts, &self.shared, context.cancel())
    }

    fn fits(&self, machine: &Machine, limits: &Limits) -> bool {
        machine.counts == counted(limits).is_some()
    }

    fn run(&self, machine: &mut Machine, input: &Value, context: &SkillContext) -> Result<Value> {
        machine.run(input, context)
    }
}
