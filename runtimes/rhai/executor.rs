//! A Rhai script, parsed once; runs on a few engines that are kept warm.

use serde_json::Value;

use super::super::warm::{Program, Warm};
use super::engine::Machine;
use super::parse::{Parsed, parsed};
use crate::error::Result;
use crate::executor::{Script, SkillExecutor};
use crate::host::SkillContext;
use crate::policy::CancelToken;

/// Parses a Rhai script; a syntax error is `invalid-skill` with its file, line and column.
pub(crate) fn load(script: &Script, cancel: &CancelToken) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(Warm::new(&script.skill, parsed(script, cancel)?)))
}

impl Program for Parsed {
    type State = Machine;

    fn state(&self, _: &SkillContext) -> Result<Machine> {
        Ok(Machine::new())
    }

    fn run(&self, machine: &mut Machine, input: &Value, context: &SkillContext) -> Result<Value> {
        machine.run(self, input, context)
    }
}
