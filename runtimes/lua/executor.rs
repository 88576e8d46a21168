//! A Lua script, compiled once; runs on a few states that are kept warm and cleaned between runs.

use serde_json::Value;

use super::super::warm::{Program, Warm};
use super::vm::{Compiled, Vm};
use crate::error::Result;
use crate::executor::{Script, SkillExecutor};
use crate::host::SkillContext;

/// Compiles a Lua script; a syntax error is `invalid-skill` with its file and line.
pub(crate) fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(Warm::new(&script.skill, Compiled::new(script)?)))
}

impl Program for Compiled {
    type State = Vm;

    fn state(&self, _: &SkillContext) -> Result<Vm> {
        Vm::new(self)
    }

    fn run(&self, vm: &mut Vm, input: &Value, context: &SkillContext) -> Result<Value> {
        vm.run(input, context)
    }

    fn is_reusable(&self, vm: &mut Vm) -> bool {
        vm.is_reusable()
    }

    fn discard(&self, vm: Vm) {
        vm.discard();
    }
}
