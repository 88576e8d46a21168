//! Runs a checked plan to its end and returns its value, or the failure of the step that ended it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::OnceLock;

use serde_json::Value;

use super::backend::StepBackend;
use super::progress::report_steps;
use super::schedule::Schedule;
use super::scope::StepOutcome;
use super::state::{ErrorWithInput, PlanRunState};
use super::step_failure::{StepFailure, location_in_plan};
use super::step_pool::StepPool;
use crate::check::declared_input_names;
use crate::journal::Journal;
use crate::{CallTarget, Plan, Step};
use metier_core::error::{ErrorContext, Result, SkillError};
use metier_core::host::{RunContext, RunMessages, SkillContext};
use metier_core::policy::{Limits, MemoryBudget, Watchdog};

/// The approximate number of bytes that a run needs for each step of its plan, besides its value.
const BYTES_PER_STEP: u64 = 512;

/// One run of a plan that `check` reported no error for.
pub struct PlanRunner<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The JSON Schema of its input, if it is declared.
    pub input_schema: Option<&'a Value>,
    /// The context of the run it belongs to.
    pub ctx: &'a SkillContext,
    /// The backend that executes its steps.
    pub backend: &'a dyn StepBackend,
    /// The journal that records its steps, if there is one.
    pub journal: Option<&'a Journal>,
    /// The timer for calls that have a timeout of their own.
    pub watchdog: &'a Watchdog,
}

impl PlanRunner<'_> {
    /// Runs the plan to its end and returns its value.
    pub fn run(&self, inputs: &Value) -> Result<Value> {
        let steps = self.plan.steps();
        let max_memory = self.ctx.limits().memory.unwrap_or(Limits::DEFAULT_MEMORY_IN_PROCESS);
        let run = PlanRunState {
            plan: self.plan,
            inputs,
            declared_inputs: declared_input_names(self.input_schema),
            ctx: self.ctx,
            backend: self.backend,
            journal: self.journal,
            watchdog: self.watchdog,
            token: self.ctx.cancel().child(),
            is_read_only: self.query_each_call(|call| self.backend.is_read_only(self.ctx, call))?,
            is_repeatable: self.query_each_call(|call| self.backend.is_repeatable(self.ctx, call))?,
            outcomes: steps.iter().map(|_| OnceLock::new()).collect(),
            reports: steps.iter().map(|_| OnceLock::new()).collect(),
            max_output_bytes: self.ctx.limits().output,
            memory_budget: MemoryBudget::new(max_memory),
            run_memory_budget: self.ctx.plan_memory(),
        };
        run.reserve_bytes(BYTES_PER_STEP.saturating_mul(steps.len() as u64))?;
        let is_quiet = |step: &Step| self.plan.step_index(&step.id).is_some_and(|at| run.is_read_only[at]);
        let failed = StepPool::new(&run, Schedule::new(self.plan, is_quiet)).run_to_end();
        let answer = match failed {
            Some(_) => Ok(Value::Null),
            // A cancelled or timed-out run fails, also if its last steps were skipped.
            None => run.token.check().and_then(|()| plan_output(&run)),
        };
        let answer = answer.and_then(|value| match self.journal {
            Some(journal) if failed.is_none() => journal.record_finish().map(|()| value),
            _ => Ok(value),
        });
        report_steps(&run, failed.is_some() || answer.is_err(), failed.as_ref());
        match failed {
            Some((at, ErrorWithInput { error, input, .. })) => {
                let plan = (self.plan, self.ctx.redaction());
                Err(StepFailure::run_error(plan, at, error, input, finished_values(&run)))
            }
            None => answer,
        }
    }

    /// A property of each step, queried once for all steps with the same call.
    fn query_each_call(&self, has_property: impl Fn(&CallTarget) -> bool) -> Result<Vec<bool>> {
        let mut answers = HashMap::new();
        let query = |step: &Step| match answers.entry(step.call.clone()) {
            Entry::Occupied(answer) => Ok(*answer.get()),
            Entry::Vacant(unknown) => {
                self.ctx.cancel().check().map(|()| *unknown.insert(has_property(&step.call)))
            }
        };
        self.plan.steps().iter().map(query).collect()
    }
}

fn plan_output(run: &PlanRunState<'_>) -> Result<Value> {
    if let Some(outputs) = run.plan.outputs() {
        return run.scope(None).resolve_outputs(outputs).map_err(|error| outputs_error(run.plan, &error));
    }
    Ok(match run.outcomes.last().and_then(OnceLock::get) {
        Some(StepOutcome::Done(value)) => value.clone(),
        _ => Value::Null,
    })
}

/// The error of a plan whose steps succeeded but whose outputs cannot be resolved.
fn outputs_error(plan: &Plan, error: &SkillError) -> SkillError {
    let location = location_in_plan(plan, plan.outputs_span());
    error.with_message(format!("outputs_from: {error}")).with_location(location)
}

fn finished_values(run: &PlanRunState<'_>) -> Vec<(String, Value)> {
    let steps = run.plan.steps().iter().zip(&run.outcomes);
    let done = steps.filter_map(|(step, outcome)| match outcome.get() {
        Some(StepOutcome::Done(value)) => Some((step.id.clone(), value.clone())),
        _ => None,
    });
    done.collect()
}
