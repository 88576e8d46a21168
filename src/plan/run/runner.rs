//! Runs a checked plan to its end: it starts the steps that are ready, frees those that wait for a finished step, and stops
//! at a failure.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use serde_json::Value;

use super::scope::{StepOutcome, StepScope};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{LogLevel, SkillContext, StepEvent, StepReport, StepStatus, memory_size};
use crate::plan::check::declared_input_names;
use crate::plan::journal::{Journal, RecordedOutcome};
use crate::plan::run::step_failure::{StepFailure, location_in_plan};
use crate::plan::run::step_pool::StepPool;
use crate::plan::run::step_runner::{ErrorWithInput, StepResult};
use crate::plan::{CallTarget, OnFailure, Plan, Schedule, Step, StepBackend};
use crate::policy::{CancelToken, Limits, MemoryBudget, Watchdog};

/// The approximate number of bytes that a run needs for each step of its plan, besides its value.
const BYTES_PER_STEP: u64 = 512;

/// One run of a plan that [`check`](crate::plan::check) reported no error for.
pub struct PlanRunner<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The JSON Schema of its input, if it is declared.
    pub input_schema: Option<&'a Value>,
    /// The context of the run it belongs to.
    pub ctx: &'a SkillContext,
    /// The backend that executes its steps.
    pub stage: &'a dyn StepBackend,
    /// The journal that records its steps, if there is one.
    pub journal: Option<&'a Journal>,
    /// The timer for calls that have a timeout of their own.
    pub watchdog: &'a Watchdog,
}

/// The state that the steps of one run share.
pub(in crate::plan) struct PlanRunState<'a> {
    pub(in crate::plan) token: CancelToken,
    pub(in crate::plan) is_read_only: Vec<bool>,
    pub(in crate::plan) is_repeatable: Vec<bool>,
    plan: &'a Plan,
    inputs: &'a Value,
    declared_inputs: BTreeSet<String>,
    pub(in crate::plan) outcomes: Vec<OnceLock<StepOutcome>>,
    pub(in crate::plan) reports: Vec<OnceLock<StepReport>>,
    pub(in crate::plan) max_output_bytes: u64,
    /// The memory budget for the values of steps.
    memory_budget: MemoryBudget,
    /// The memory budget that these values share with those of the plans that called this one, and of the plans that its
    /// steps run.
    run_memory_budget: &'a MemoryBudget,
}

impl PlanRunState<'_> {
    pub(in crate::plan) fn scope<'a>(&'a self, item: Option<(&'a str, &'a Value)>) -> StepScope<'a> {
        let Self {
            plan,
            inputs,
            declared_inputs: declared,
            outcomes: ended,
            max_output_bytes: cap,
            token,
            ..
        } = self;
        StepScope { plan, inputs, declared_inputs: declared, outcomes: ended, item, max_bytes: *cap, token }
    }

    /// Reserves memory for a value that is kept until the run ends.
    pub(in crate::plan) fn reserve_for_value(&self, value: &Value) -> Result<()> {
        self.reserve_bytes(memory_size(value))
    }

    /// Reserves this many bytes for as long as the returned reservation exists.
    pub(in crate::plan) fn reserve_temporarily(&self, bytes: u64) -> Result<MemoryReservation<'_>> {
        self.reserve_bytes(bytes).map(|()| MemoryReservation(self, bytes))
    }

    fn reserve_bytes(&self, bytes: u64) -> Result<()> {
        if !self.memory_budget.try_reserve(bytes) {
            return Err(memory_limit_error("the steps", &self.memory_budget));
        }
        if !self.run_memory_budget.try_reserve(bytes) {
            self.memory_budget.release(bytes);
            return Err(memory_limit_error("all plans under way", self.run_memory_budget));
        }
        Ok(())
    }

    /// Reports and records that the run continues although this failed.
    pub(in crate::plan) fn record_ignored_failure(
        &self,
        drive: &PlanRunner<'_>,
        at: usize,
        item: Option<usize>,
        failed: &ErrorWithInput,
    ) -> Result<()> {
        if failed.is_from_journal {
            return Ok(());
        }
        let step = &self.plan.steps()[at];
        let error = drive.ctx.redaction().error(failed.error.clone()).into_inner();
        let which = item.map_or(String::new(), |item| format!(" (item {item})"));
        drive
            .ctx
            .log(LogLevel::Warn, format!("step {}{which} failed, and the run goes on: {error}", step.id))?;
        match drive.journal {
            Some(journal) => {
                journal.record_outcome((at, item), &step.id, &RecordedOutcome::Failed(error.to_string()))
            }
            None => Ok(()),
        }
    }
}

impl Drop for PlanRunState<'_> {
    fn drop(&mut self) {
        self.run_memory_budget.release(self.memory_budget.reserved());
    }
}

fn memory_limit_error(whose: &str, room: &MemoryBudget) -> SkillError {
    let most = room.capacity();
    let sentence = format!("the values of {whose} need more than the {most} bytes of memory there are");
    SkillError::new(ErrorKind::Memory, sentence)
        .with_help("give the run more with --memory, or let steps answer with less")
}

/// Reserved memory, released on drop.
pub(in crate::plan) struct MemoryReservation<'a>(&'a PlanRunState<'a>, u64);

impl Drop for MemoryReservation<'_> {
    fn drop(&mut self) {
        self.0.memory_budget.release(self.1);
        self.0.run_memory_budget.release(self.1);
    }
}

/// The progress of a run.
#[derive(Default)]
pub(in crate::plan) struct RunProgress {
    /// No further step is started.
    pub(in crate::plan) is_over: bool,
    pub(in crate::plan) failure: Option<(usize, ErrorWithInput)>,
}

impl PlanRunner<'_> {
    /// Runs the plan to its end and returns its value.
    pub fn run(&self, inputs: &Value) -> Result<Value> {
        let steps = self.plan.steps();
        let most = self.ctx.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
        let under = PlanRunState {
            token: self.ctx.cancel().child(),
            is_read_only: self.query_each_call(|call| self.stage.is_read_only(self.ctx, call))?,
            is_repeatable: self.query_each_call(|call| self.stage.is_repeatable(self.ctx, call))?,
            plan: self.plan,
            inputs,
            declared_inputs: declared_input_names(self.input_schema),
            outcomes: steps.iter().map(|_| OnceLock::new()).collect(),
            reports: steps.iter().map(|_| OnceLock::new()).collect(),
            max_output_bytes: self.ctx.limits().output,
            memory_budget: MemoryBudget::new(most),
            run_memory_budget: self.ctx.plan_memory(),
        };
        under.reserve_bytes(BYTES_PER_STEP.saturating_mul(steps.len() as u64))?;
        let failed = self.run_steps(&under);
        let answer = match failed {
            Some(_) => Ok(Value::Null),
            // A cancelled or timed-out run fails, also if its last steps were skipped.
            None => under.token.check().and_then(|()| self.plan_output(&under)),
        };
        self.report(&under, failed.is_some() || answer.is_err(), failed.as_ref());
        match failed {
            Some((at, ErrorWithInput { error, input, .. })) => {
                let plan = (self.plan, self.ctx.redaction());
                Err(StepFailure::run_error(plan, at, error, input, finished_values(self.plan, &under)))
            }
            None => answer,
        }
    }

    /// A property of each step, queried once for all steps with the same call.
    fn query_each_call(&self, is_so: impl Fn(&CallTarget) -> bool) -> Result<Vec<bool>> {
        let mut known = HashMap::new();
        let of = |step: &Step| match known.entry(step.call.clone()) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(new) => self.ctx.cancel().check().map(|()| *new.insert(is_so(&step.call))),
        };
        self.plan.steps().iter().map(of).collect()
    }

    /// Runs all steps. Returns the step that ended the run, if one did.
    fn run_steps(&self, under: &PlanRunState<'_>) -> Option<(usize, ErrorWithInput)> {
        let is_quiet = |step: &Step| self.plan.step_index(&step.id).is_some_and(|at| under.is_read_only[at]);
        StepPool::new(self, under, Schedule::new(self.plan, is_quiet)).run_to_end()
    }

    /// Records the result of a step and acts on it.
    pub(in crate::plan) fn finish_step(
        &self,
        at: usize,
        tried: StepResult,
        under: &PlanRunState<'_>,
        progress: &mut RunProgress,
    ) {
        let step = &self.plan.steps()[at];
        let report = self.reported(at, &tried, progress.failure.is_some());
        self.notify_observer(at, Some(report.status), tried.duration);
        let _ = under.reports[at].set(report);
        let failed = match tried.outcome {
            Ok(ended) => {
                let _ = under.outcomes[at].set(ended);
                return;
            }
            Err(failed) => failed,
        };
        let may_go_on = matches!(step.on_failure, OnFailure::Continue | OnFailure::SkipRest);
        let failed = if may_go_on && under.token.cause().is_none() {
            let _ = under.outcomes[at].set(StepOutcome::Failed);
            match under.record_ignored_failure(self, at, None, &failed) {
                Ok(()) => {
                    progress.is_over |= step.on_failure == OnFailure::SkipRest;
                    return;
                }
                Err(error) => error.into(),
            }
        } else {
            failed
        };
        // Steps that are stopped because of the first failure fail as well.
        if progress.failure.is_none() {
            progress.failure = Some((at, failed));
        }
        progress.is_over = true;
        under.token.cancel();
    }

    fn plan_output(&self, under: &PlanRunState<'_>) -> Result<Value> {
        if let Some(outputs) = self.plan.outputs() {
            return under.scope(None).resolve_outputs(outputs).map_err(|error| self.outputs_error(&error));
        }
        Ok(match under.outcomes.last().and_then(OnceLock::get) {
            Some(StepOutcome::Done(value)) => value.clone(),
            _ => Value::Null,
        })
    }

    /// The error of a plan whose steps succeeded but whose outputs cannot be resolved.
    fn outputs_error(&self, error: &SkillError) -> SkillError {
        let told = SkillError::new(error.kind(), format!("outputs_from: {error}"))
            .with_location(location_in_plan(self.plan, &self.plan.outputs_span));
        match error.help() {
            Some(help) => told.with_help(help),
            None => told,
        }
    }

    pub(in crate::plan) fn notify_start(&self, at: usize) {
        self.notify_observer(at, None, std::time::Duration::ZERO);
    }

    fn notify_observer(&self, at: usize, ended: Option<StepStatus>, duration: std::time::Duration) {
        if !self.ctx.is_observed() {
            return;
        }
        let step = &self.plan.steps()[at];
        let (id, call) = (step.id.clone(), step.call.to_string());
        self.ctx.notify_step(&StepEvent {
            index: at,
            step_count: self.plan.steps().len(),
            id,
            call,
            status: ended,
            duration,
        });
    }
}

fn finished_values(plan: &Plan, under: &PlanRunState<'_>) -> Vec<(String, Value)> {
    let steps = plan.steps().iter().zip(&under.outcomes);
    let done = steps.filter_map(|(step, ended)| match ended.get() {
        Some(StepOutcome::Done(value)) => Some((step.id.clone(), value.clone())),
        _ => None,
    });
    done.collect()
}
