//! One step, as often as it takes: its condition, its items, its tries, and what the journal knows of them.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::drive::{Drive, Under};
use super::journal::{Finished, Part, file_below};
use super::scope::{Ended, Scope, is_too_deep};
use super::{ForEach, OnFailure, Step};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{LogLevel, StepStatus, guarded, weight};
use crate::policy::CancelToken;

/// What a step came to.
pub(super) struct Tried {
    pub(super) result: Result<Ended, Failed>,
    pub(super) status: StepStatus,
    pub(super) attempts: u32,
    pub(super) duration: Duration,
}

/// An error, and what the step was given.
pub(super) struct Failed {
    pub(super) error: SkillError,
    pub(super) input: Option<Map<String, Value>>,
    /// What it came to in an earlier run, from the journal.
    pub(super) is_known: bool,
}

impl From<SkillError> for Failed {
    fn from(error: SkillError) -> Self {
        Self { error, input: None, is_known: false }
    }
}

/// A step under way.
struct Attempt<'a> {
    drive: &'a Drive<'a>,
    under: &'a Under<'a>,
    at: usize,
    step: &'a Step,
    is_repeatable: bool,
    attempts: u32,
    /// Whether something ran that the journal did not know.
    is_fresh: bool,
}

/// Runs the step at that place to its end.
pub(super) fn tried(drive: &Drive<'_>, under: &Under<'_>, at: usize) -> Tried {
    let started = Instant::now();
    let step = &drive.plan.steps()[at];
    let mut attempt = Attempt {
        drive,
        under,
        at,
        step,
        is_repeatable: under.is_repeatable[at],
        attempts: 0,
        is_fresh: false,
    };
    let result = guarded_failure(|| attempt.run());
    let status = match &result {
        Ok(Ended::Skipped) => StepStatus::Skipped,
        Ok(_) if attempt.is_fresh || drive.journal.is_none() => StepStatus::Ok,
        Ok(_) => StepStatus::Resumed,
        Err(_) => StepStatus::Failed,
    };
    Tried { result, status, attempts: attempt.attempts, duration: started.elapsed() }
}

/// A panic in a step must not leave the others waiting for its end.
fn guarded_failure(work: impl FnOnce() -> Result<Ended, Failed>) -> Result<Ended, Failed> {
    guarded("the step", ErrorKind::Script, || Ok(work())).unwrap_or_else(|error| Err(error.into()))
}

impl Attempt<'_> {
    fn run(&mut self) -> Result<Ended, Failed> {
        let scope = self.under.scope(None);
        if let Some(when) = &self.step.when
            && !scope.holds(when)?
        {
            return Ok(Ended::Skipped);
        }
        match &self.step.for_each {
            None => self.once(&scope, None).map(Ended::Done),
            Some(each) => self.for_each(each, &scope),
        }
    }

    fn for_each(&mut self, each: &ForEach, scope: &Scope<'_>) -> Result<Ended, Failed> {
        if let Some(Err(failed)) = self.known((self.at, None))? {
            return Err(failed);
        }
        let Value::Array(items) = scope.value(&each.list)? else {
            return Err(SkillError::new(ErrorKind::Script, "what the loop is for is no list").into());
        };
        if items.len() > each.max {
            let sentence = format!("the loop is for {} items, more than its {}", items.len(), each.max);
            return Err(SkillError::new(ErrorKind::Script, sentence)
                .with_help("raise max under for_each")
                .into());
        }
        let _items = self.under.need(items.iter().map(weight).sum())?;
        let mut values = Vec::with_capacity(items.len());
        self.is_fresh |= items.is_empty();
        for (number, item) in items.iter().enumerate() {
            let scope = self.under.scope(Some((&each.variable, item)));
            values.push(match self.once(&scope, Some(number)) {
                Ok(value) => value,
                Err(failed)
                    if self.step.on_failure == OnFailure::Continue && self.under.token.cause().is_none() =>
                {
                    self.remember_failure(Some(number), &failed)?;
                    Value::Null
                }
                Err(Failed { error, input, is_known }) => {
                    let told = SkillError::new(error.kind(), format!("item {number}: {error}"))
                        .with_violations(error.violations().to_vec());
                    let error = match error.help() {
                        Some(help) => told.with_help(help),
                        None => told,
                    };
                    return Err(Failed { error, input, is_known });
                }
            });
        }
        Ok(Ended::Done(Value::Array(values)))
    }

    /// One call with its tries, unless the journal knows what it came to.
    fn once(&mut self, scope: &Scope<'_>, item: Option<usize>) -> Result<Value, Failed> {
        self.under.token.check()?;
        if let Some(known) = self.known((self.at, item))? {
            return known;
        }
        self.is_fresh = true;
        let arguments = scope.arguments(&self.step.args)?;
        // They are copied for the call.
        let _arguments = self.under.need(2 * arguments.values().map(weight).sum::<u64>())?;
        self.begin((self.at, item))?;
        let value = self.with_tries(&arguments, item).map_err(|error| {
            self.ended((self.at, item));
            Failed { error, input: Some(arguments), is_known: false }
        })?;
        self.under.hold(&value)?;
        self.remember((self.at, item), &value)?;
        Ok(value)
    }

    /// What the journal says a part came to.
    fn known(&self, part: Part) -> Result<Option<Result<Value, Failed>>, Failed> {
        let Some(journal) = self.drive.journal else { return Ok(None) };
        match journal.finished(part) {
            None => Ok(None),
            Some(Finished::Done(value)) => {
                self.under.hold(value)?;
                Ok(Some(Ok(value.clone())))
            }
            Some(Finished::Failed(why)) => {
                let error = SkillError::new(ErrorKind::Script, why.as_str());
                Ok(Some(Err(Failed { error, input: None, is_known: true })))
            }
            Some(Finished::Withheld) if self.is_repeatable => Ok(None),
            Some(Finished::Withheld) => {
                let sentence = "it finished in an earlier run with a value that held a secret, which is not written down, \
                                and it is not repeated, since it can do more than read";
                Err(SkillError::new(ErrorKind::Unavailable, sentence)
                    .with_help("start over with another --journal folder")
                    .into())
            }
        }
    }

    fn begin(&self, part: Part) -> Result<()> {
        let Some(journal) = self.drive.journal.filter(|_| !self.is_repeatable) else { return Ok(()) };
        if journal.was_interrupted(part) {
            let item = part.1.map_or(String::new(), |item| format!(" (item {item})"));
            let warning = format!(
                "step {}{item} was interrupted in an earlier run and is run again; what it did by then is done twice",
                self.step.id
            );
            self.drive.ctx.log(LogLevel::Warn, warning)?;
        }
        journal.start(part, &self.step.id)
    }

    /// Tells a part that failed by itself from one that was interrupted. That this cannot be written down costs a warning later.
    fn ended(&self, part: Part) {
        if let Some(journal) = self.drive.journal.filter(|_| !self.is_repeatable)
            && self.under.token.cause().is_none()
        {
            let _ = journal.end(part, &self.step.id);
        }
    }

    fn remember(&self, part: Part, value: &Value) -> Result<()> {
        let Some(journal) = self.drive.journal else { return Ok(()) };
        let holds_secret = *self.drive.ctx.redaction().value(value.clone()).shown() != *value;
        let how = if holds_secret { Finished::Withheld } else { Finished::Done(value.clone()) };
        journal.finish(part, &self.step.id, &how)
    }

    fn remember_failure(&self, item: Option<usize>, failed: &Failed) -> Result<()> {
        self.under.go_on(self.drive, self.at, item, failed)
    }

    fn with_tries(&mut self, arguments: &Map<String, Value>, item: Option<usize>) -> Result<Value> {
        let (times, mut wait) = match self.step.on_failure {
            OnFailure::Retry { times, backoff } => (times, backoff),
            _ => (0, Duration::ZERO),
        };
        let mut left = times;
        loop {
            self.attempts = self.attempts.saturating_add(1);
            let error = match self.call(arguments.clone(), item) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            if left == 0 || !is_passing(error.kind()) || self.under.token.cause().is_some() {
                return Err(error);
            }
            left -= 1;
            sleep(wait, &self.under.token)?;
            wait = (wait * 2).min(OnFailure::LONGEST_WAIT);
        }
    }

    /// One call, under a token of its own where it has a time limit of its own.
    fn call(&self, arguments: Map<String, Value>, item: Option<usize>) -> Result<Value> {
        let token = self.step.timeout.map_or_else(|| self.under.token.clone(), |_| self.under.token.child());
        let _armed = self.step.timeout.map(|limit| self.drive.watchdog.arm(Instant::now() + limit, &token));
        let below = self.drive.ctx.journal_file().filter(|_| self.drive.journal.is_some());
        let below = below.map(|own| file_below(own, (self.at, item)));
        let ctx = self.drive.ctx.under(token.clone()).remembered_in(below).in_step(self.at);
        let answer = self.drive.stage.call(&ctx, &self.step.call, arguments);
        self.under.token.check()?;
        if let (Some(limit), Err(_)) = (self.step.timeout, token.check()) {
            let sentence = format!("it did not end within its {} ms", limit.as_millis());
            return Err(SkillError::new(ErrorKind::Deadline, sentence)
                .with_help("raise its timeout, or let it do less"));
        }
        let value = answer?;
        if is_too_deep(&value) { Err(too_deep()) } else { Ok(value) }
    }
}

fn too_deep() -> SkillError {
    SkillError::new(ErrorKind::InvalidOutput, "its value is nested deeper than 127 levels")
}

/// Whether trying again may help.
fn is_passing(kind: ErrorKind) -> bool {
    !matches!(
        kind,
        ErrorKind::Denied
            | ErrorKind::Usage
            | ErrorKind::InvalidArgument
            | ErrorKind::InvalidInput
            | ErrorKind::InvalidSkill
            | ErrorKind::UnknownSkill
            | ErrorKind::SandboxUnavailable
            | ErrorKind::Cancelled
    )
}

/// Waits that long, or until the token stops.
fn sleep(time: Duration, token: &CancelToken) -> Result<()> {
    let (sender, receiver) = mpsc::channel();
    let _guard = token.on_stop(move |_| {
        let _ = sender.send(());
    });
    let _ = receiver.recv_timeout(time);
    token.check()
}
