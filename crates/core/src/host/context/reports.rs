//! What a run recorded for its outcome: its process, its sandbox and the steps of its plan.

use std::sync::{Arc, PoisonError};

use super::SkillContext;
use crate::host::leftovers::Leftover;
use crate::host::read_record::ReadRecord;
use crate::host::redaction::Redacted;
use crate::host::refused_access::RefusedAccess;
use crate::host::report::{ProcessReport, SandboxReport};
use crate::host::steps::StepReport;
use crate::host::{RunMessages, weaker_report};

/// Of what a run and the skills that it calls were refused, the most that is listed.
const MAX_REFUSED: usize = 1000;

/// Counts what is in the list, and adds what is not. Returns false if it is full.
fn count_or_add(known: &mut Vec<RefusedAccess>, refused: &RefusedAccess) -> bool {
    let is_same = |known: &&mut RefusedAccess| {
        (&known.permission, &known.target, &known.reason)
            == (&refused.permission, &refused.target, &refused.reason)
    };
    if let Some(known) = known.iter_mut().find(is_same) {
        known.count = known.count.saturating_add(refused.count);
        return true;
    }
    let has_room = known.len() < MAX_REFUSED;
    if has_room {
        known.push(refused.clone());
    }
    has_room
}

/// What a run reports besides its value.
///
/// For metier's packages: programs that embed metier do not see it.
pub trait RunReporting: Sized {
    /// Records the reports of the plan's steps, also when the run fails; without secrets, and with each error truncated to the
    /// length that a report repeats.
    fn report_steps(&self, steps: Vec<StepReport>);

    /// The recorded step reports of the run's plan; empty afterwards.
    fn take_redacted_steps(&self) -> Redacted<Vec<StepReport>>;

    /// Records how the run's process ended, also when the run fails.
    fn report_process(&self, report: ProcessReport);

    /// Records what the sandbox refused the run, or a skill that it called, also when it ends well. What was refused before is counted.
    fn report_refused_accesses(&self, refused: Vec<RefusedAccess>);

    /// What was refused so far, without secrets; empty afterwards.
    fn take_redacted_refused_accesses(&self) -> Redacted<Vec<RefusedAccess>>;

    /// Adds to the report of the run's process what that left.
    fn report_leftovers(&self, left: Vec<Leftover>);

    /// From now on, records what the run reads through the host API.
    fn record_reads(&self);

    /// What the run read, if that is recorded.
    fn reads(&self) -> Option<&Arc<ReadRecord>>;

    /// Records which sandbox was in force. Of several reports the weaker counts: a skill that calls one without a sandbox has
    /// none.
    fn report_sandbox(&self, report: SandboxReport);

    /// Records that a protected path was not protected until the end of the run. Returns whether the sandbox protected them before.
    fn report_lost_protection(&self) -> bool;

    /// The sandbox report recorded so far; empty afterwards.
    fn take_reports(&self) -> (Option<ProcessReport>, Option<SandboxReport>);
}

#[doc(hidden)]
impl RunReporting for SkillContext {
    fn report_steps(&self, steps: Vec<StepReport>) {
        *self.inner.steps.lock().unwrap_or_else(PoisonError::into_inner) = steps;
    }

    fn take_redacted_steps(&self) -> Redacted<Vec<StepReport>> {
        let steps = std::mem::take(&mut *self.inner.steps.lock().unwrap_or_else(PoisonError::into_inner));
        self.redaction().steps(steps)
    }

    fn report_process(&self, report: ProcessReport) {
        self.inner.reports.lock().unwrap_or_else(PoisonError::into_inner).process = Some(Box::new(report));
    }

    fn report_refused_accesses(&self, refused: Vec<RefusedAccess>) {
        if refused.is_empty() {
            return;
        }
        let mut reports = self.inner.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let known = reports.refused.get_or_insert_default();
        let was_full = known.len() >= MAX_REFUSED;
        let left_out = refused.into_iter().filter(|refused| !count_or_add(known, refused)).count();
        drop(reports);
        if left_out > 0 && !was_full {
            self.warn(format!("of what the sandbox refused, only {MAX_REFUSED} accesses are listed"));
        }
    }

    fn take_redacted_refused_accesses(&self) -> Redacted<Vec<RefusedAccess>> {
        let refused = self.inner.reports.lock().unwrap_or_else(PoisonError::into_inner).refused.take();
        self.redaction().refused_accesses(refused.map(|refused| *refused).unwrap_or_default())
    }

    fn report_leftovers(&self, left: Vec<Leftover>) {
        if let Some(report) = &mut self.inner.reports.lock().unwrap_or_else(PoisonError::into_inner).process {
            report.left = left;
        }
    }

    fn record_reads(&self) {
        self.inner.reads.get_or_init(Arc::default);
    }

    fn reads(&self) -> Option<&Arc<ReadRecord>> {
        self.inner.reads.get()
    }

    fn report_sandbox(&self, report: SandboxReport) {
        let mut reports = self.inner.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.sandbox = Some(reports.sandbox.map_or(report, |earlier| weaker_report(earlier, report)));
    }

    fn report_lost_protection(&self) -> bool {
        let mut reports = self.inner.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(report) = &mut reports.sandbox else { return false };
        std::mem::take(&mut report.protected_paths)
    }

    fn take_reports(&self) -> (Option<ProcessReport>, Option<SandboxReport>) {
        let mut reports = self.inner.reports.lock().unwrap_or_else(PoisonError::into_inner);
        (reports.process.take().map(|report| *report), reports.sandbox.take())
    }
}

impl SkillContext {
    /// The same context, whose calls log nothing.
    pub(in crate::host) fn without_log(self) -> Self {
        Self { is_silent: true, ..self }
    }
}
