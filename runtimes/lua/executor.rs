//! A Lua script, compiled once; runs on a few states that are kept warm and cleaned between runs.

use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Instant;

use super::vm::{Compiled, Vm};
use crate::error::Result;
use crate::executor::{Script, SkillExecutor, SkillInput, SkillOutput};
use crate::host::{SandboxReport, SkillContext};
use crate::policy::Watchdog;

/// Compiles a Lua script; a syntax error is `invalid-skill` with its file and line.
pub(crate) fn load(script: &Script) -> Result<Box<dyn SkillExecutor>> {
    Ok(Box::new(Lua {
        skill: script.skill.clone(),
        compiled: Compiled::new(script)?,
        idle: Mutex::default(),
        most_idle: available_parallelism().map_or(1, usize::from),
        watchdog: Watchdog::new(),
    }))
}

struct Lua {
    skill: String,
    compiled: Compiled,
    idle: Mutex<Vec<Vm>>,
    most_idle: usize,
    watchdog: Watchdog,
}

impl SkillExecutor for Lua {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        if let Some(context) = context {
            return self.run(input, context);
        }
        let context = SkillContext::builder(&self.skill).build();
        let _armed = self.watchdog.arm(Instant::now() + context.limits().deadline, context.cancel());
        self.run(input, &context)
    }
}

impl Lua {
    fn run(&self, input: SkillInput, context: &SkillContext) -> Result<SkillOutput> {
        context.report_sandbox(SandboxReport::IN_PROCESS);
        let vm = match self.idle().pop() {
            Some(vm) => vm,
            None => Vm::new(&self.compiled)?,
        };
        let result = vm.run(&input.value_or_empty(), context);
        if vm.is_reusable() {
            let mut idle = self.idle();
            if idle.len() < self.most_idle {
                idle.push(vm);
            }
        }
        result.map(SkillOutput::from)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Vm>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
