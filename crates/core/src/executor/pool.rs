//! Executes a language that runs in this process: a pool keeps idle states for reuse, and a run without a context gets its
//! own.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use serde_json::Value;

use super::idle_pool::IdlePool;
use super::own_context::run_with;
use crate::error::Result;
use crate::executor::{SkillExecutor, SkillInput, SkillOutput};
use crate::host::{RunContext, RunMessages, RunReporting, SandboxReport, SkillContext};
use crate::policy::{Limits, Permission, Watchdog};

/// A compiled script, and how its language runs it.
pub trait Program: Send + Sync {
    /// What one run occupies: a virtual machine or an engine. Never shared by two runs at a time.
    type State: Send;

    /// Creates a state for a run with this context, under the run's token.
    fn new_state(&self, context: &SkillContext) -> Result<Self::State>;

    /// Whether an idle state can enforce these limits.
    fn supports_limits(&self, _state: &Self::State, _limits: &Limits) -> bool {
        true
    }

    /// Runs the script once. A cancelled or timed-out run fails, whatever the script returned.
    fn run(&self, state: &mut Self::State, input: &Value, context: &SkillContext) -> Result<Value>;

    /// Cleans up after a run. Returns whether the state can be reused as if it were new.
    fn reset_for_reuse(&self, _state: &mut Self::State) -> bool {
        true
    }

    /// Permissions that the script itself requests.
    fn requested_permissions(&self) -> Vec<Permission> {
        Vec::new()
    }

    /// Drops a state that cannot be reused.
    fn discard(&self, _state: Self::State) {}
}

/// Computed once: it reads the control groups.
static PROCESSORS: LazyLock<usize> = LazyLock::new(|| available_parallelism().map_or(1, usize::from));

/// An executor that keeps as many idle states as there are processors.
pub struct PooledExecutor<P: Program> {
    skill: String,
    program: P,
    /// Boxed: a state is moved in and out for each run.
    idle: IdlePool<Box<P::State>>,
    watchdog: Watchdog,
}

impl<P: Program> PooledExecutor<P> {
    /// Runs that program, a script of that skill.
    pub fn new(skill: &str, program: P) -> Self {
        Self { skill: skill.to_owned(), program, idle: IdlePool::new(*PROCESSORS), watchdog: Watchdog::new() }
    }

    fn run(&self, input: SkillInput, context: &SkillContext) -> Result<SkillOutput> {
        context.report_sandbox(SandboxReport::IN_PROCESS);
        let mut state = self.checkout(context)?;
        let result = self.program.run(&mut state, &input.value_or_empty(), context);
        if self.program.reset_for_reuse(&mut state) {
            self.idle.checkin(state);
        } else {
            self.program.discard(*state);
        }
        // An error is as long as the script made it: here it is redacted first, and then shortened. A worker process knows no secret,
        // so its host does both.
        let shorten = |error| match context.host_api_client() {
            Some(_) => error,
            None => context.redaction().error(error).into_inner(),
        };
        result.map(SkillOutput::from).map_err(shorten)
    }

    fn checkout(&self, context: &SkillContext) -> Result<Box<P::State>> {
        let idle = self.idle.checkout(|state| self.program.supports_limits(state, context.limits()));
        idle.map_or_else(|| self.program.new_state(context).map(Box::new), Ok)
    }
}

impl<P: Program> SkillExecutor for PooledExecutor<P> {
    fn execute_with_context(&self, input: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        run_with(context, &self.skill, &self.watchdog, |context| self.run(input, context))
    }

    fn requested_permissions(&self) -> Vec<Permission> {
        self.program.requested_permissions()
    }
}
