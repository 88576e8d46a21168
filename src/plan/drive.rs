//! A checked plan taken to its end: what is ready is started, what ended makes room, a failure stops the rest.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

use serde_json::Value;

use super::attempt::{Failed, Tried};
use super::check::declared_inputs;
use super::failure::{StepFailure, location};
use super::hands::Hands;
use super::journal::{Finished, Journal};
use super::scope::{Ended, Scope};
use super::{Call, OnFailure, Plan, Schedule, Stage, Step};
use crate::error::{ErrorKind, Result, SkillError};
use crate::host::{LogLevel, SkillContext, StepEvent, StepReport, StepStatus, weight};
use crate::policy::{CancelToken, Limits, Room, Watchdog};

/// About the bytes that a run takes for each step of its plan, beside its value.
const STEP: u64 = 512;

/// One run of a plan that [`check`](super::check) found no fault with.
pub struct Drive<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// What its input may hold, as a JSON Schema, where that is declared.
    pub input_schema: Option<&'a Value>,
    /// The run it belongs to.
    pub ctx: &'a SkillContext,
    /// Where its steps run.
    pub stage: &'a dyn Stage,
    /// What remembers them, where something does.
    pub journal: Option<&'a Journal>,
    /// The clock of calls that have a time limit of their own.
    pub watchdog: &'a Watchdog,
}

/// What the steps of one run have in common.
pub(super) struct Under<'a> {
    pub(super) token: CancelToken,
    pub(super) is_quiet: Vec<bool>,
    pub(super) is_repeatable: Vec<bool>,
    plan: &'a Plan,
    inputs: &'a Value,
    declared: BTreeSet<String>,
    pub(super) ended: Vec<OnceLock<Ended>>,
    pub(super) reports: Vec<OnceLock<StepReport>>,
    pub(super) cap: u64,
    /// What values of steps may take.
    room: Room,
    /// What they may take together with those of the plans that called this one, and that its steps run.
    shared: &'a Room,
}

impl Under<'_> {
    pub(super) fn scope<'a>(&'a self, item: Option<(&'a str, &'a Value)>) -> Scope<'a> {
        let Self { plan, inputs, declared, ended, cap, token, .. } = self;
        Scope { plan, inputs, declared, ended, item, cap: *cap, token }
    }

    /// Makes room for a value that is kept to the end of the run.
    pub(super) fn hold(&self, value: &Value) -> Result<()> {
        self.take(weight(value))
    }

    /// Makes room for so many bytes, as long as what this answers with is there.
    pub(super) fn need(&self, bytes: u64) -> Result<Needed<'_>> {
        self.take(bytes).map(|()| Needed(self, bytes))
    }

    fn take(&self, bytes: u64) -> Result<()> {
        if !self.room.take(bytes) {
            return Err(no_room("the steps", &self.room));
        }
        if !self.shared.take(bytes) {
            self.room.give(bytes);
            return Err(no_room("all plans under way", self.shared));
        }
        Ok(())
    }

    /// Says that the run goes on although this failed, and remembers it.
    pub(super) fn go_on(
        &self,
        drive: &Drive<'_>,
        at: usize,
        item: Option<usize>,
        failed: &Failed,
    ) -> Result<()> {
        if failed.is_known {
            return Ok(());
        }
        let step = &self.plan.steps()[at];
        let error = drive.ctx.redaction().error(failed.error.clone()).into_shown();
        let which = item.map_or(String::new(), |item| format!(" (item {item})"));
        drive
            .ctx
            .log(LogLevel::Warn, format!("step {}{which} failed, and the run goes on: {error}", step.id))?;
        match drive.journal {
            Some(journal) => journal.finish((at, item), &step.id, &Finished::Failed(error.to_string())),
            None => Ok(()),
        }
    }
}

impl Drop for Under<'_> {
    fn drop(&mut self) {
        self.shared.give(self.room.taken());
    }
}

fn no_room(whose: &str, room: &Room) -> SkillError {
    let most = room.most();
    let sentence = format!("the values of {whose} need more than the {most} bytes of memory there are");
    SkillError::new(ErrorKind::Memory, sentence)
        .with_help("give the run more with --memory, or let steps answer with less")
}

/// Room that is given back when this is dropped.
pub(super) struct Needed<'a>(&'a Under<'a>, u64);

impl Drop for Needed<'_> {
    fn drop(&mut self) {
        self.0.room.give(self.1);
        self.0.shared.give(self.1);
    }
}

/// How far a run is.
#[derive(Default)]
pub(super) struct Progress {
    /// No step is started any more.
    pub(super) is_over: bool,
    pub(super) failed: Option<(usize, Failed)>,
}

impl Drive<'_> {
    /// Runs the plan to its end and answers with its value.
    pub fn run(&self, inputs: &Value) -> Result<Value> {
        let steps = self.plan.steps();
        let most = self.ctx.limits().memory.unwrap_or(Limits::MEMORY_IN_PROCESS);
        let under = Under {
            token: self.ctx.cancel().child(),
            is_quiet: self.of_each_call(|call| self.stage.is_quiet(self.ctx, call))?,
            is_repeatable: self.of_each_call(|call| self.stage.is_repeatable(self.ctx, call))?,
            plan: self.plan,
            inputs,
            declared: declared_inputs(self.input_schema),
            ended: steps.iter().map(|_| OnceLock::new()).collect(),
            reports: steps.iter().map(|_| OnceLock::new()).collect(),
            cap: self.ctx.limits().output,
            room: Room::new(most),
            shared: self.ctx.kept(),
        };
        under.take(STEP.saturating_mul(steps.len() as u64))?;
        let failed = self.steps(&under);
        let answer = match failed {
            Some(_) => Ok(Value::Null),
            // The token has the last word, also of a plan whose last steps were skipped.
            None => under.token.check().and_then(|()| self.answer(&under)),
        };
        self.report(&under, failed.is_some() || answer.is_err(), failed.as_ref());
        match failed {
            Some((at, Failed { error, input, .. })) => {
                let plan = (self.plan, self.ctx.redaction());
                Err(StepFailure::error(plan, at, error, input, finished(self.plan, &under)))
            }
            None => answer,
        }
    }

    /// What is so of each step, asked once for all that call the same.
    fn of_each_call(&self, is_so: impl Fn(&Call) -> bool) -> Result<Vec<bool>> {
        let mut known = HashMap::new();
        let of = |step: &Step| match known.entry(step.call.clone()) {
            Entry::Occupied(known) => Ok(*known.get()),
            Entry::Vacant(new) => self.ctx.cancel().check().map(|()| *new.insert(is_so(&step.call))),
        };
        self.plan.steps().iter().map(of).collect()
    }

    /// The step that ended the run, where one did.
    fn steps(&self, under: &Under<'_>) -> Option<(usize, Failed)> {
        let is_quiet = |step: &Step| self.plan.position(&step.id).is_some_and(|at| under.is_quiet[at]);
        Hands::new(self, under, Schedule::new(self.plan, is_quiet)).work()
    }

    /// Takes down what a step came to, and what comes of it.
    pub(super) fn end(&self, at: usize, tried: Tried, under: &Under<'_>, progress: &mut Progress) {
        let step = &self.plan.steps()[at];
        let report = self.reported(at, &tried, progress.failed.is_some());
        self.tell(at, Some(report.status), tried.duration);
        let _ = under.reports[at].set(report);
        let failed = match tried.result {
            Ok(ended) => {
                let _ = under.ended[at].set(ended);
                return;
            }
            Err(failed) => failed,
        };
        let may_go_on = matches!(step.on_failure, OnFailure::Continue | OnFailure::SkipRest);
        let failed = if may_go_on && under.token.cause().is_none() {
            let _ = under.ended[at].set(Ended::Failed);
            match under.go_on(self, at, None, &failed) {
                Ok(()) => {
                    progress.is_over |= step.on_failure == OnFailure::SkipRest;
                    return;
                }
                Err(error) => error.into(),
            }
        } else {
            failed
        };
        // Those that are stopped because of the first failure fail as well.
        if progress.failed.is_none() {
            progress.failed = Some((at, failed));
        }
        progress.is_over = true;
        under.token.cancel();
    }

    fn answer(&self, under: &Under<'_>) -> Result<Value> {
        if let Some(outputs) = self.plan.outputs() {
            return under.scope(None).outputs(outputs).map_err(|error| self.of_outputs(&error));
        }
        Ok(match under.ended.last().and_then(OnceLock::get) {
            Some(Ended::Done(value)) => value.clone(),
            _ => Value::Null,
        })
    }

    /// The error of a plan whose steps ended well and whose outputs cannot be put together.
    fn of_outputs(&self, error: &SkillError) -> SkillError {
        let told = SkillError::new(error.kind(), format!("outputs_from: {error}"))
            .with_location(location(self.plan, &self.plan.outputs_at));
        match error.help() {
            Some(help) => told.with_help(help),
            None => told,
        }
    }

    pub(super) fn tell_start(&self, at: usize) {
        self.tell(at, None, std::time::Duration::ZERO);
    }

    fn tell(&self, at: usize, ended: Option<StepStatus>, duration: std::time::Duration) {
        if !self.ctx.is_observed() {
            return;
        }
        let step = &self.plan.steps()[at];
        let (id, call) = (step.id.clone(), step.call.to_string());
        self.ctx.stepped(&StepEvent { index: at, of: self.plan.steps().len(), id, call, ended, duration });
    }
}

fn finished(plan: &Plan, under: &Under<'_>) -> Vec<(String, Value)> {
    let steps = plan.steps().iter().zip(&under.ended);
    let done = steps.filter_map(|(step, ended)| match ended.get() {
        Some(Ended::Done(value)) => Some((step.id.clone(), value.clone())),
        _ => None,
    });
    done.collect()
}
