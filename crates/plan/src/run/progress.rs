//! The progress of a run: what becomes of it when a step ends.

use super::scope::StepOutcome;
use super::state::{PlanRunState, StepEnd};
use super::step_reports::step_report;
use super::step_result::{ErrorWithInput, StepResult};
use crate::OnFailure;

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
