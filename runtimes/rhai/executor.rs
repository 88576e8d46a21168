//! A Rhai script, parsed once; runs on a few engines that are kept warm.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Instant;

use rhai::AST;

use super::engine::{Machine, parsed};
use crate::error::Result;
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::{SandboxReport, SkillContext};
use crate::policy::Watchdog;

/// Parses a Rhai script; a syntax error is `invalid-skill` with its file, line and column.
pub(crate) fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(Rhai {
        skill: script.skill.clone(),
        file: script.path.clone(),
        ast: parsed(script)?,
        idle: Mutex::default(),
        most_idle: available_parallelism().map_or(1, usize::from),
        watchdog: Watchdog::new(),
    }))
}

struct Rhai {
    skill: String,
    file: String,
    ast: AST,
    idle: Mutex<Vec<Machine>>,
    most_idle: usize,
    watchdog: Watchdog,
}

impl SkillExecutor for Rhai {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        if let Some(context) = context {
            return self.run(input, context);
        }
        let context = SkillContext::builder(&self.skill).build();
        let _armed = self.watchdog.arm(Instant::now() + context.limits().deadline, context.cancel());
        self.run(input, &context)
    }
}

impl Rhai {
    fn run(&self, input: SkillInput, context: &SkillContext) -> Result<SkillOutput> {
        context.report_sandbox(SandboxReport::IN_PROCESS);
        let kept = self.idle().pop();
        let mut machine = kept.unwrap_or_else(Machine::new);
        let result = machine.run(&self.ast, &self.file, &input.value_or_empty(), context);
        let mut idle = self.idle();
        if idle.len() < self.most_idle {
            idle.push(machine);
        }
        result.map(SkillOutput::from)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Machine>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
