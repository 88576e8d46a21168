//! The progress of a run: what becomes of it when a step ends, and the report of each step.

use metier_core::error::ErrorKind;
use metier_core::host::{RunReporting, StepReport, StepStatus, skipped_step};
use serde_json::Value;

use super::scope::{StepOutcome, charge_size};
use super::state::{ErrorWithInput, PlanRunState, StepEnd, StepResult};
use crate::{OnFailure, Plan};

/// The progress of a run.
#[derive(Default)]
pub(crate) struct RunProgress {
    /// No further step is started.
    pub(crate) is_over: bool,
    /// The step that ended the run, and why.
    pub(crate) failure: Option<(usize, ErrorWithInput)>,
}

/// Records the result of a step and notifies the observer, without a lock. Returns whether further steps may start, or the error
/// that ends the run.
pub(crate) fn finish_step(
    run: &PlanRunState<'_>,
    at: usize,
    result: StepResult,
    is_after_failure: bool,
) -> Result<bool, ErrorWithInput> {
    let step = &run.plan.steps()[at];
    let report = step_report(run, at, &result, is_after_failure);
    let value = match &result.outcome {
        Ok(StepOutcome::Done(value)) => Some(value),
        _ => None,
    };
    let (status, attempts, duration) = (report.status, report.attempts, result.duration);
    run.notify_end(at, None, StepEnd { status, attempts, duration, value, error: report.error.clone() });
    let _ = run.reports[at].set(report);
    let failed = match result.outcome {
        Ok(outcome) => {
            let _ = run.outcomes[at].set(outcome);
            return Ok(true);
        }
        Err(failed) => failed,
    };
    let may_continue = matches!(step.on_failure, OnFailure::Continue | OnFailure::SkipRest);
    let may_continue = may_continue && !run.waits_for_person(&failed.error);
    if !may_continue || run.token.cause().is_some() {
        return Err(failed);
    }
    let _ = run.outcomes[at].set(StepOutcome::Failed);
    run.record_ignored_failure(at, None, &failed)?;
    Ok(step.on_failure != OnFailure::SkipRest)
}

impl RunProgress {
    /// Acts on the end of a step. Returns whether the other steps must be stopped.
    pub(crate) fn end_step(&mut self, at: usize, end: Result<bool, ErrorWithInput>) -> bool {
        match end {
            Ok(may_continue) => {
                self.is_over |= !may_continue;
                false
            }
            Err(failed) => {
                // Steps that are stopped because of the first failure fail as well.
                self.failure.get_or_insert((at, failed));
                self.is_over = true;
                true
            }
        }
    }
}

/// The report of a step that ended; whether another step had failed before decides how its error is reported.
fn step_report(run: &PlanRunState<'_>, at: usize, result: &StepResult, is_after_failure: bool) -> StepReport {
    let error = result.outcome.as_ref().err().map(|failed| &failed.error);
    let is_stop =
        |kind: ErrorKind| is_after_failure && matches!(kind, ErrorKind::Cancelled | ErrorKind::Timeout);
    let was_stopped = error.is_some_and(|error| is_stop(error.kind()));
    let mut report = skipped_step_report(run.plan, at);
    report.status = if was_stopped { StepStatus::Stopped } else { result.status };
    report.attempts = result.attempts;
    report.duration = result.duration;
    // Redacted, then shortened, when it leaves the run.
    report.error = error.filter(|_| !was_stopped).map(|error| error.message().to_owned());
    report
}

/// The report of a step that never began.
fn skipped_step_report(plan: &Plan, at: usize) -> StepReport {
    let step = &plan.steps()[at];
    skipped_step(at, step.id.clone(), step.call.to_string())
}

/// Passes the reports of all steps to the run. If the run failed, they contain the values of the steps, as far as the output
/// limit allows, and the input of the step that ended the run.
pub(crate) fn report_steps(
    run: &PlanRunState<'_>,
    has_failed: bool,
    failed: Option<&(usize, ErrorWithInput)>,
) {
    let mut bytes_left = run.max_output_bytes;
    let mut value_if_it_fits = |value: &Value| {
        let fits = charge_size(value, &mut bytes_left, 0).is_ok();
        bytes_left = if fits { bytes_left } else { 0 };
        if fits { value.clone() } else { Value::Null }
    };
    let input = failed.and_then(|(at, failed)| Some((*at, Value::Object(failed.input.clone()?))));
    let input = input.map(|(at, input)| (at, value_if_it_fits(&input)));
    let reports = (0..run.plan.steps().len()).map(|at| {
        let mut report = run.reports[at].get().cloned().unwrap_or_else(|| skipped_step_report(run.plan, at));
        if let (true, Some(StepOutcome::Done(value))) = (has_failed, run.outcomes[at].get()) {
            report.value = value_if_it_fits(value);
        }
        if let Some((_, input)) = input.as_ref().filter(|(failed, _)| *failed == at) {
            report.input = input.clone();
        }
        report
    });
    run.ctx.report_steps(reports.collect());
}
