//! A language that runs in process, as an executor: its states are kept warm, and a run without a context gets its own.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;
use std::time::Instant;

use serde_json::Value;

use crate::error::Result;
use crate::executor::{SkillExecutor, SkillInput, SkillOutput};
use crate::host::{SandboxReport, SkillContext};
use crate::policy::{Limits, Watchdog};

/// A compiled script, and how its language runs it.
pub(super) trait Program: Send + Sync {
    /// What one run occupies: a virtual machine, an engine. Never shared by two runs at a time.
    type State: Send;

    /// A new state for a run with this context, made under its token.
    fn new_state(&self, context: &SkillContext) -> Result<Self::State>;

    /// Whether a state that was kept can hold these limits.
    fn supports_limits(&self, _state: &Self::State, _limits: &Limits) -> bool {
        true
    }

    /// Runs the script once. Whatever it answers, the token that stopped it has the last word.
    fn run(&self, state: &mut Self::State, input: &Value, context: &SkillContext) -> Result<Value>;

    /// Cleans up after a run and says whether the state is as good as new.
    fn reset_for_reuse(&self, _state: &mut Self::State) -> bool {
        true
    }

    /// Drops a state that is not.
    fn discard(&self, _state: Self::State) {}
}

/// Asked once: finding out reads the control groups.
static PROCESSORS: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// An executor that keeps as many idle states as there are processors.
pub(super) struct PooledExecutor<P: Program> {
    skill: String,
    program: P,
    idle: Mutex<Vec<P::State>>,
    most_idle: usize,
    watchdog: Watchdog,
}

impl<P: Program> PooledExecutor<P> {
    pub(super) fn new(skill: &str, program: P) -> Self {
        Self {
            skill: skill.to_owned(),
            program,
            idle: Mutex::default(),
            most_idle: *PROCESSORS,
            watchdog: Watchdog::new(),
        }
    }

    fn run(&self, input: SkillInput, context: &SkillContext) -> Result<SkillOutput> {
        context.report_sandbox(SandboxReport::IN_PROCESS);
        let mut state = self.checkout(context)?;
        let result = self.program.run(&mut state, &input.value_or_empty(), context);
        if self.program.reset_for_reuse(&mut state) {
            self.checkin(state);
        } else {
            self.program.discard(state);
        }
        // An error is as long as the script made it: here it loses its secrets, and then what is too much of it.
        result.map(SkillOutput::from).map_err(|error| context.redaction().error(error).into_inner())
    }

    fn checkout(&self, context: &SkillContext) -> Result<P::State> {
        let mut idle = self.idle();
        let fitting = idle
            .iter()
            .rposition(|state| self.program.supports_limits(state, context.limits()))
            .map(|at| idle.remove(at));
        drop(idle);
        fitting.map_or_else(|| self.program.new_state(context), Ok)
    }

    /// The state that has waited longest makes room.
    fn checkin(&self, state: P::State) {
        let mut idle = self.idle();
        let outworn = (idle.len() == self.most_idle).then(|| idle.remove(0));
        idle.push(state);
        drop(idle);
        drop(outworn);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<P::State>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<P: Program> SkillExecutor for PooledExecutor<P> {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        if let Some(context) = context {
            return self.run(input, context);
        }
        let context = SkillContext::builder(&self.skill).build();
        let _armed = self.watchdog.arm(Instant::now() + context.limits().timeout, context.cancel());
        self.run(input, &context)
    }
}
