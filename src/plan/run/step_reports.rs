//! The report of each step when a run ends.

use serde_json::{Map, Value};

use super::scope::{StepOutcome, charge_size};
use crate::error::ErrorKind;
use crate::host::{StepReport, StepStatus};
use crate::plan::run::runner::{PlanRunState, PlanRunner};
use crate::plan::run::step_runner::{ErrorWithInput, StepResult};

impl PlanRunner<'_> {
    /// The report of a step that ended; whether another step had failed before decides how its error is reported.
    pub(in crate::plan) fn reported(
        &self,
        at: usize,
        tried: &StepResult,
        is_after_failure: bool,
    ) -> StepReport {
        let error = tried.outcome.as_ref().err().map(|failed| &failed.error);
        let is_stop =
            |kind: ErrorKind| is_after_failure && matches!(kind, ErrorKind::Cancelled | ErrorKind::Timeout);
        let was_stopped = error.is_some_and(|error| is_stop(error.kind()));
        StepReport {
            status: if was_stopped { StepStatus::Stopped } else { tried.status },
            attempts: tried.attempts,
            duration_ms: u64::try_from(tried.duration.as_millis()).unwrap_or(u64::MAX),
            // Redacted, then shortened, when it leaves the run.
            error: error.filter(|_| !was_stopped).map(|error| error.message().to_owned()),
            ..self.not_started(at)
        }
    }

    /// The report of a step that never began.
    fn not_started(&self, at: usize) -> StepReport {
        let step = &self.plan.steps()[at];
        StepReport {
            index: at,
            id: step.id.clone(),
            call: step.call.to_string(),
            status: StepStatus::Skipped,
            attempts: 0,
            duration_ms: 0,
            input: Value::Null,
            error: None,
            value: Value::Null,
        }
    }

    /// Passes the reports of all steps to the run. If the run failed, they contain the values of the steps, as far as the
    /// output limit allows, and the input of the step that ended the run.
    pub(in crate::plan) fn report(
        &self,
        under: &PlanRunState<'_>,
        has_failed: bool,
        failed: Option<&(usize, ErrorWithInput)>,
    ) {
        let mut room = under.max_output_bytes;
        let mut kept = |value: &Value| {
            let fits = charge_size(value, &mut room, 0).is_ok();
            room = if fits { room } else { 0 };
            if fits { value.clone() } else { Value::Null }
        };
        let given = failed.and_then(|(at, failed)| Some((*at, input_value(failed.input.as_ref()?))));
        let given = given.map(|(at, input)| (at, kept(&input)));
        let steps = 0..self.plan.steps().len();
        let reports = steps.map(|at| {
            let mut report = under.reports[at].get().cloned().unwrap_or_else(|| self.not_started(at));
            if let (true, Some(StepOutcome::Done(value))) = (has_failed, under.outcomes[at].get()) {
                report.value = kept(value);
            }
            if let Some((_, input)) = given.as_ref().filter(|(failed, _)| *failed == at) {
                report.input = input.clone();
            }
            report
        });
        self.ctx.report_steps(reports.collect());
    }
}

fn input_value(input: &Map<String, Value>) -> Value {
    Value::Object(input.clone())
}
