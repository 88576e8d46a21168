//! Runs one step as often as needed: its condition, loop items and retries, and the results in the journal.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::scope::{StepOutcome, StepScope, is_too_deep};
use super::state::{ErrorWithInput, PlanRunState, StepEnd, StepResult};
use crate::journal::{Journal, RecordedOutcome, StepKey, nested_journal_path};
use crate::{ForEach, OnFailure, Step};
use metier_core::error::{ErrorContext, ErrorKind, Hint, Result, SkillError};
use metier_core::host::{
    CallAccess, CallRecorder, CallRecords, LogLevel, RunContext, RunMessages, StepStatus, ask_to_repeat,
    catch_panic, memory_size,
};
use metier_core::policy::CancelToken;

/// A running step.
struct StepRunner<'a> {
    run: &'a PlanRunState<'a>,
    index: usize,
    step: &'a Step,
    is_repeatable: bool,
    attempts: u32,
    /// Whether something ran that has no result in the journal.
    has_executed: bool,
}

/// Runs the step at this index to its end.
pub(crate) fn run_step(run: &PlanRunState<'_>, at: usize) -> StepResult {
    let started = Instant::now();
    let step = &run.plan.steps()[at];
    let mut runner = StepRunner {
        run,
        index: at,
        step,
        is_repeatable: run.is_repeatable[at],
        attempts: 0,
        has_executed: false,
    };
    let result = catch_step_panic(|| runner.run_step_or_skip());
    if let (Ok(outcome), Some(journal)) = (&result, run.journal) {
        runner.record_end(journal, outcome);
    }
    let status = match &result {
        Ok(StepOutcome::Skipped) => StepStatus::Skipped,
        Ok(_) if runner.has_executed || run.journal.is_none() => StepStatus::Ok,
        Ok(_) => StepStatus::Resumed,
        Err(_) => StepStatus::Failed,
    };
    StepResult { outcome: result, status, attempts: runner.attempts, duration: started.elapsed() }
}

/// Catches the panic of a step, which must not leave other threads waiting for the end of the step.
fn catch_step_panic(
    work: impl FnOnce() -> Result<StepOutcome, ErrorWithInput>,
) -> Result<StepOutcome, ErrorWithInput> {
    catch_panic("the step", ErrorKind::Script, || Ok(work())).unwrap_or_else(|error| Err(error.into()))
}

impl StepRunner<'_> {
    fn run_step_or_skip(&mut self) -> Result<StepOutcome, ErrorWithInput> {
        let scope = self.run.scope(None);
        if let Some(when) = &self.step.when
            && !scope.evaluate(when)?
        {
            return Ok(StepOutcome::Skipped);
        }
        match &self.step.for_each {
            None => self.run_once(&scope, None).map(StepOutcome::Done),
            Some(each) => self.run_loop(each, &scope),
        }
    }

    fn run_loop(&mut self, each: &ForEach, scope: &StepScope<'_>) -> Result<StepOutcome, ErrorWithInput> {
        if let Some(Err(failed)) = self.recorded_result((self.index, None))? {
            return Err(failed);
        }
        let Value::Array(items) = scope.resolve_argument(&each.list)? else {
            return Err(
                SkillError::new(ErrorKind::Script, "the value that the loop names is not a list").into()
            );
        };
        if items.len() > each.max_items {
            let sentence = format!("the loop is for {} items, more than its {}", items.len(), each.max_items);
            return Err(SkillError::new(ErrorKind::Script, sentence)
                .with_help("raise max under for_each")
                .into());
        }
        let _items = self.run.reserve_temporarily(items.iter().map(memory_size).sum())?;
        let mut values = Vec::with_capacity(items.len());
        self.has_executed |= items.is_empty();
        for (number, item) in items.iter().enumerate() {
            let scope = self.run.scope(Some((&each.variable, item)));
            values.push(match self.run_item(&scope, number) {
                Ok(value) => value,
                Err(failed)
                    if self.step.on_failure == OnFailure::Continue
                        && self.run.token.cause().is_none()
                        && !self.run.waits_for_person(&failed.error) =>
                {
                    self.record_ignored_failure(Some(number), &failed)?;
                    Value::Null
                }
                Err(failed) => {
                    let error = failed.error.with_message(format!("item {number}: {}", failed.error));
                    return Err(ErrorWithInput { error, ..failed });
                }
            });
        }
        Ok(StepOutcome::Done(Value::Array(values)))
    }

    /// Makes the call for one item, and notifies the observer of it.
    fn run_item(&mut self, scope: &StepScope<'_>, number: usize) -> Result<Value, ErrorWithInput> {
        if !self.run.ctx.is_observed() {
            return self.run_once(scope, Some(number));
        }
        self.run.notify_start(self.index, Some(number));
        let (started, attempts) = (Instant::now(), self.attempts);
        let result = self.run_once(scope, Some(number));
        let attempts = self.attempts - attempts;
        // Unless the whole run was stopped, another step has ended it.
        let is_stopped = || self.run.token.cause().is_some() && self.run.ctx.cancel().cause().is_none();
        let status = match &result {
            Ok(_) if attempts == 0 => StepStatus::Resumed,
            Ok(_) => StepStatus::Ok,
            Err(_) if is_stopped() => StepStatus::Stopped,
            Err(_) => StepStatus::Failed,
        };
        let error = result.as_ref().err().filter(|_| status == StepStatus::Failed);
        let end = StepEnd {
            status,
            attempts,
            duration: started.elapsed(),
            value: result.as_ref().ok(),
            error: error.map(|failed| failed.error.message().to_owned()),
        };
        self.run.notify_end(self.index, Some(number), end);
        result
    }

    /// Makes one call with its retries, unless the journal has its result.
    fn run_once(&mut self, scope: &StepScope<'_>, item: Option<usize>) -> Result<Value, ErrorWithInput> {
        self.run.token.check()?;
        if let Some(known) = self.recorded_result((self.index, item))? {
            return known;
        }
        self.has_executed = true;
        let arguments = scope.resolve_arguments(&self.step.args)?;
        // The arguments are copied for the call.
        let _arguments =
            self.run.reserve_temporarily(2 * arguments.values().map(memory_size).sum::<u64>())?;
        self.record_start((self.index, item))?;
        let recorder = self.run.journal.map(|_| Arc::<CallRecorder>::default());
        let result = self.call_with_retries(&arguments, item, recorder.as_ref());
        let run = self.run.ctx.run_id();
        let access = recorder.map(|recorder| recorder.take_calls(run)).unwrap_or_default();
        self.report_access(&access);
        let value = match result {
            Ok(value) => value,
            Err(error) => {
                self.record_abort((self.index, item));
                return Err(ErrorWithInput { error, input: Some(arguments), access, is_from_journal: false });
            }
        };
        self.run.reserve_for_value(&value)?;
        self.record_value((self.index, item), &value, access)?;
        Ok(value)
    }

    /// What the calls of a step had belongs to the step that runs this plan as well.
    fn report_access(&self, access: &[CallAccess]) {
        for call in access {
            self.run.ctx.record_call(call.clone());
        }
    }

    /// The result of a part of the plan in the journal, if any.
    fn recorded_result(
        &self,
        part: StepKey,
    ) -> Result<Option<Result<Value, ErrorWithInput>>, ErrorWithInput> {
        let Some(journal) = self.run.journal else { return Ok(None) };
        match journal.recorded_outcome(part) {
            None => Ok(None),
            Some(RecordedOutcome::Done(value)) => {
                self.run.reserve_for_value(value)?;
                self.report_access(journal.recorded_access(part));
                Ok(Some(Ok(value.clone())))
            }
            Some(RecordedOutcome::Failed(why)) => {
                let error = SkillError::new(ErrorKind::Script, why.as_str());
                let access = journal.recorded_access(part).to_vec();
                self.report_access(&access);
                Ok(Some(Err(ErrorWithInput { error, input: None, access, is_from_journal: true })))
            }
            Some(RecordedOutcome::Withheld) if self.is_repeatable => Ok(None),
            Some(RecordedOutcome::Withheld) => {
                let sentence = "it finished in an earlier run with a value that held a secret, which is not written down, \
                                and it is not repeated, since it can do more than read";
                Err(SkillError::new(ErrorKind::Unavailable, sentence)
                    .with_help("start over with a journal in another folder")
                    .with_hint(Hint::Journal)
                    .into())
            }
        }
    }

    fn record_start(&self, part: StepKey) -> Result<()> {
        let Some(journal) = self.run.journal.filter(|_| !self.is_repeatable) else { return Ok(()) };
        if journal.was_interrupted(part) {
            let item = part.1.map_or(String::new(), |item| format!(" (item {item})"));
            let warning = format!(
                "step {}{item} was interrupted in an earlier run and is run again; what it did before is done twice",
                self.step.id
            );
            ask_to_repeat(self.run.ctx, &self.step.id, part.1, self.step.call.to_string())?;
            self.run.ctx.log(LogLevel::Warn, warning)?;
        }
        journal.record_start(part, &self.step.id)
    }

    /// Records that a part failed by itself and was not interrupted. If this cannot be written, the only cost is a later
    /// warning.
    fn record_abort(&self, part: StepKey) {
        if let Some(journal) = self.run.journal.filter(|_| !self.is_repeatable)
            && self.run.token.cause().is_none()
        {
            let _ = journal.record_abort(part, &self.step.id);
        }
    }

    /// Records the end of a step that has no outcome of its own. If this cannot be written, a list of journals shows less.
    fn record_end(&self, journal: &Journal, outcome: &StepOutcome) {
        let was_skipped = matches!(outcome, StepOutcome::Skipped);
        if was_skipped || self.step.for_each.is_some() {
            let _ = journal.record_end(self.index, &self.step.id, was_skipped);
        }
    }

    fn record_value(&self, part: StepKey, value: &Value, access: Vec<CallAccess>) -> Result<()> {
        let Some(journal) = self.run.journal else { return Ok(()) };
        let holds_secret = self.run.ctx.redaction().holds_secret(value);
        let how = if holds_secret { RecordedOutcome::Withheld } else { RecordedOutcome::Done(value.clone()) };
        journal.record_outcome(part, &self.step.id, &how, access)
    }

    fn record_ignored_failure(&self, item: Option<usize>, failed: &ErrorWithInput) -> Result<()> {
        self.run.record_ignored_failure(self.index, item, failed)
    }

    fn call_with_retries(
        &mut self,
        arguments: &Map<String, Value>,
        item: Option<usize>,
        recorder: Option<&Arc<CallRecorder>>,
    ) -> Result<Value> {
        let (times, mut wait) = match self.step.on_failure {
            OnFailure::Retry { times, backoff } => (times, backoff),
            _ => (0, Duration::ZERO),
        };
        let mut left = times;
        loop {
            self.attempts = self.attempts.saturating_add(1);
            let error = match self.call(arguments.clone(), item, recorder) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if left == 0 || !is_retryable(error.kind()) || self.run.token.cause().is_some() {
                return Err(error);
            }
            left -= 1;
            sleep(wait, &self.run.token)?;
            wait = (wait * 2).min(OnFailure::MAX_BACKOFF);
        }
    }

    /// Makes one call, with a token of its own if it has a timeout of its own.
    fn call(
        &self,
        arguments: Map<String, Value>,
        item: Option<usize>,
        recorder: Option<&Arc<CallRecorder>>,
    ) -> Result<Value> {
        let token = self.step.timeout.map_or_else(|| self.run.token.clone(), |_| self.run.token.child());
        let _armed = self.step.timeout.map(|limit| self.run.watchdog.arm(Instant::now() + limit, &token));
        let below = self.run.ctx.journal_file().filter(|_| self.run.journal.is_some());
        let below = below.map(|own| nested_journal_path(own, (self.index, item)));
        let ctx = self.run.ctx.with_cancel(token.clone()).with_callee_journal(below).in_step(self.index);
        let ctx = ctx.with_call_recorder(recorder.cloned());
        let answer = self.run.backend.call(&ctx, &self.step.call, arguments);
        self.run.token.check()?;
        if let (Some(limit), Err(_)) = (self.step.timeout, token.check()) {
            let sentence = format!("it did not end within its {} ms", limit.as_millis());
            return Err(SkillError::new(ErrorKind::Timeout, sentence)
                .with_help("raise its timeout, or let it do less"));
        }
        let value = answer?;
        if is_too_deep(&value) { Err(too_deep_error()) } else { Ok(value) }
    }
}

fn too_deep_error() -> SkillError {
    SkillError::new(ErrorKind::InvalidOutput, "its value is nested deeper than 127 levels")
}

/// Whether a retry may help.
fn is_retryable(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::Denied
            | ErrorKind::OutsideProject
            | ErrorKind::Untrusted
            | ErrorKind::Autonomy
            | ErrorKind::Pending
            | ErrorKind::Usage
            | ErrorKind::InvalidArgument
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidSkill
            | ErrorKind::UnknownSkill
            | ErrorKind::SandboxUnavailable
            | ErrorKind::Cancelled
    )
}

/// Waits this long, or until the token is cancelled.
fn sleep(time: Duration, token: &CancelToken) -> Result<()> {
    let (sender, receiver) = mpsc::channel();
    let _guard = token.on_stop(move |_| {
        let _ = sender.send(());
    });
    let _ = receiver.recv_timeout(time);
    token.check()
}
