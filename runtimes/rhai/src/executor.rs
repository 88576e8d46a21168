//! The executor of Rhai scripts: a script is parsed once, and runs on a few engines that are kept for reuse.

use serde_json::Value;

use super::engine::RhaiEngine;
use super::parse::{ParsedScript, parse};
use metier_core::error::Result;
use metier_core::executor::pool::{PooledExecutor, Program};
use metier_core::executor::{Script, SkillExecutor};
use metier_core::host::SkillContext;
use metier_core::policy::CancelToken;

/// Parses a Rhai script; a syntax error is `invalid-skill` with its file, line and column.
pub fn load(script: &Script, cancel: &CancelToken) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(PooledExecutor::new(&script.skill, parse(script, cancel)?)))
}

impl Program for ParsedScript {
    type State = RhaiEngine;

    fn new_state(&self, _: &SkillContext) -> Result<RhaiEngine> {
        Ok(RhaiEngine::new())
    }

    fn run(&self, engine: &mut RhaiEngine, input: &Value, context: &SkillContext) -> Result<Value> {
        engine.run(self, input, context)
    }
}
