//! The progress of a run: what becomes of it when a step ends.

use super::scope::StepOutcome;
use super::state::PlanRunState;
use super::step_reports::step_report;
use super::step_result::{ErrorWithInput, StepResult};
use crate::plan::OnFailure;

/// The progress of a run.
#[derive(Default)]
pub(in crate::plan) struct RunProgress {
    /// No further step is started.
    pub(in crate::plan) is_over: bool,
    /// The step that ended the run, and why.
    pub(in crate::plan) failure: Option<(usize, ErrorWithInput)>,
}

impl RunProgress {
    /// Records the result of a step and acts on it.
    pub(in crate::plan) fn finish_step(&mut self, run: &PlanRunState<'_>, at: usize, result: StepResult) {
        let step = &run.plan.steps()[at];
        let report = step_report(run, at, &result, self.failure.is_some());
        run.notify_end(at, report.status, result.duration);
        let _ = run.reports[at].set(report);
        let failed = match result.outcome {
            Ok(outcome) => {
                let _ = run.outcomes[at].set(outcome);
                return;
            }
            Err(failed) => failed,
        };
        let may_continue = matches!(step.on_failure, OnFailure::Continue | OnFailure::SkipRest);
        let failed = if may_continue && run.token.cause().is_none() {
            let _ = run.outcomes[at].set(StepOutcome::Failed);
            match run.record_ignored_failure(at, None, &failed) {
                Ok(()) => {
                    self.is_over |= step.on_failure == OnFailure::SkipRest;
                    return;
                }
                Err(error) => error.into(),
            }
        } else {
            failed
        };
        // Steps that are stopped because of the first failure fail as well.
        if self.failure.is_none() {
            self.failure = Some((at, failed));
        }
        self.is_over = true;
        run.token.cancel();
    }
}
