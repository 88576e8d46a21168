//! The state that the steps of one run share: its plan and services, the outcomes so far, and the memory of their values.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use metier_core::error::{ErrorKind, Hint, LimitKind, Result, SkillError};
use metier_core::host::{
    CallAccess, LogLevel, PlanStep, RunMessages, SkillContext, StepReport, StepStatus, memory_size,
    plan_step, step_finished, step_started,
};
use metier_core::policy::{CancelToken, MemoryBudget, Watchdog};
use serde_json::{Map, Value};

use super::backend::StepBackend;
use super::scope::{StepOutcome, StepScope, charge_size};
use crate::Plan;
use crate::journal::{Journal, RecordedOutcome};

/// One run of a plan.
pub(crate) struct PlanRunState<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) inputs: &'a Value,
    pub(crate) declared_inputs: BTreeSet<String>,
    pub(crate) ctx: &'a SkillContext,
    pub(crate) backend: &'a dyn StepBackend,
    pub(crate) journal: Option<&'a Journal>,
    pub(crate) watchdog: &'a Watchdog,
    pub(crate) token: CancelToken,
    pub(crate) is_read_only: Vec<bool>,
    pub(crate) is_repeatable: Vec<bool>,
    pub(crate) outcomes: Vec<OnceLock<StepOutcome>>,
    pub(crate) reports: Vec<OnceLock<StepReport>>,
    pub(crate) max_output_bytes: u64,
    /// The memory budget for the values of steps.
    pub(crate) memory_budget: MemoryBudget,
    /// The memory budget that these values share with those of the plans that called this one, and of the plans that its
    /// steps run.
    pub(crate) run_memory_budget: &'a MemoryBudget,
}

impl PlanRunState<'_> {
    pub(crate) fn scope<'a>(&'a self, item: Option<(&'a str, &'a Value)>) -> StepScope<'a> {
        let Self { plan, inputs, declared_inputs, outcomes, max_output_bytes, token, .. } = self;
        StepScope { plan, inputs, declared_inputs, outcomes, item, max_bytes: *max_output_bytes, token }
    }

    /// Reserves memory for a value that is kept until the run ends.
    pub(crate) fn reserve_for_value(&self, value: &Value) -> Result<()> {
        self.reserve_bytes(memory_size(value))
    }

    /// Reserves this many bytes for as long as the returned reservation exists.
    pub(crate) fn reserve_temporarily(&self, bytes: u64) -> Result<MemoryReservation<'_>> {
        self.reserve_bytes(bytes).map(|()| MemoryReservation(self, bytes))
    }

    /// Reserves this many bytes until the run ends.
    pub(crate) fn reserve_bytes(&self, bytes: u64) -> Result<()> {
        if !self.memory_budget.try_reserve(bytes) {
            return Err(memory_limit_error("the steps", &self.memory_budget));
        }
        if !self.run_memory_budget.try_reserve(bytes) {
            self.memory_budget.release(bytes);
            return Err(memory_limit_error("all plans under way", self.run_memory_budget));
        }
        Ok(())
    }

    /// Whether a step failed because a person decides about its call later: a plan with a journal then stops there, whatever the step
    /// says, and goes on when the same run is made again.
    pub(crate) fn waits_for_person(&self, error: &SkillError) -> bool {
        self.journal.is_some() && error.kind() == ErrorKind::Pending
    }

    /// Reports and records that the run continues although this failed.
    pub(crate) fn record_ignored_failure(
        &self,
        at: usize,
        item: Option<usize>,
        failed: &ErrorWithInput,
    ) -> Result<()> {
        if failed.is_from_journal {
            return Ok(());
        }
        let step = &self.plan.steps()[at];
        let error = self.ctx.redaction().error(failed.error.clone()).into_inner();
        let which = item.map_or(String::new(), |item| format!(" (item {item})"));
        self.ctx
            .log(LogLevel::Warn, format!("step {}{which} failed, and the run goes on: {error}", step.id))?;
        match self.journal {
            Some(journal) => {
                let how = RecordedOutcome::Failed(error.to_string());
                journal.record_outcome((at, item), &step.id, &how, failed.access.clone())
            }
            None => Ok(()),
        }
    }

    /// Notifies the observer that a step, or one item of it, starts.
    pub(crate) fn notify_start(&self, at: usize, item: Option<usize>) {
        self.ctx.notify(|| step_started(self.plan_step(at, item)));
    }

    /// Notifies the observer that a step, or one item of it, has ended.
    pub(crate) fn notify_end(&self, at: usize, item: Option<usize>, end: StepEnd<'_>) {
        self.ctx.notify(|| {
            let StepEnd { status, attempts, duration, value, error } = end;
            let fits = |value: &&Value| charge_size(value, &mut { self.max_output_bytes }, 0).is_ok();
            let value = value.filter(fits).cloned();
            let step = self.plan_step(at, item);
            step_finished(step, (status, attempts, duration), value, error)
        });
    }

    fn plan_step(&self, at: usize, item: Option<usize>) -> PlanStep {
        let (steps, step) = (self.plan.steps(), &self.plan.steps()[at]);
        plan_step((at, steps.len()), &step.id, step.call.to_string(), item)
    }
}

/// How a step, or one item of it, ended, for the observer.
pub(crate) struct StepEnd<'a> {
    pub(crate) status: StepStatus,
    pub(crate) attempts: u32,
    pub(crate) duration: Duration,
    pub(crate) value: Option<&'a Value>,
    pub(crate) error: Option<String>,
}

impl Drop for PlanRunState<'_> {
    fn drop(&mut self) {
        self.run_memory_budget.release(self.memory_budget.reserved());
    }
}

fn memory_limit_error(whose: &str, budget: &MemoryBudget) -> SkillError {
    let max = budget.capacity();
    let sentence = format!("the values of {whose} need more than the {max} bytes of memory there are");
    SkillError::new(ErrorKind::Memory, sentence)
        .with_help("give the run more memory, or let steps answer with less")
        .with_hint(Hint::Limit(LimitKind::Memory))
}

/// Reserved memory, released on drop.
pub(crate) struct MemoryReservation<'a>(&'a PlanRunState<'a>, u64);

impl Drop for MemoryReservation<'_> {
    fn drop(&mut self) {
        self.0.memory_budget.release(self.1);
        self.0.run_memory_budget.release(self.1);
    }
}

/// The result of a step.
pub(crate) struct StepResult {
    pub(crate) outcome: Result<StepOutcome, ErrorWithInput>,
    pub(crate) status: StepStatus,
    pub(crate) attempts: u32,
    pub(crate) duration: Duration,
}

/// An error, and the input of the step.
pub(crate) struct ErrorWithInput {
    pub(crate) error: SkillError,
    pub(crate) input: Option<Map<String, Value>>,
    /// What the calls of the step had.
    pub(crate) access: Vec<CallAccess>,
    /// Whether the error is the result of an earlier run, from the journal.
    pub(crate) is_from_journal: bool,
}

impl From<SkillError> for ErrorWithInput {
    fn from(error: SkillError) -> Self {
        Self { error, input: None, access: Vec::new(), is_from_journal: false }
    }
}
