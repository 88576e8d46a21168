//! The executor of Lua scripts: a script is compiled once, and runs on a few states that are kept for reuse and reset between
//! runs.

use serde_json::Value;

use super::vm::{CompiledScript, Vm};
use metier_core::error::Result;
use metier_core::executor::pool::{PooledExecutor, Program};
use metier_core::executor::{Script, SkillExecutor};
use metier_core::host::SkillContext;

/// Compiles a Lua script; a syntax error is `invalid-skill` with its file and line.
pub fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(PooledExecutor::new(&script.skill, CompiledScript::new(script)?)))
}

impl Program for CompiledScript {
    type State = Vm;

    fn new_state(&self, _: &SkillContext) -> Result<Vm> {
        Vm::new(self)
    }

    fn run(&self, vm: &mut Vm, input: &Value, context: &SkillContext) -> Result<Value> {
        vm.run(input, context)
    }

    fn reset_for_reuse(&self, vm: &mut Vm) -> bool {
        vm.reset_for_reuse()
    }

    fn discard(&self, vm: Vm) {
        vm.drop_in_background();
    }
}
