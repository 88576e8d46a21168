//! What happens in a run, as it happens: one type of event, and the observer that receives them.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::duration::as_milliseconds;
use super::extensions::Extensions;
use super::log::{LogLine, Progress};
use super::outcome::Outcome;
use super::run_id::RunId;
use super::steps::StepStatus;
use crate::error::ErrorKind;
use crate::policy::StopCause;

/// Something that happened in a run, or in a run that it called. It contains no secret that the run received: secrets are replaced
/// as in the outcome.
///
/// The first event of each run is [`EventKind::Started`], the last one [`EventKind::Finished`]. The events that one thread makes
/// arrive in their order.
///
/// In JSON: `{run, caller, skill, event, …}`, where `event` is the name of the kind, such as `host_call`, and the parts of the
/// kind follow.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Event {
    /// The run in which it happened.
    pub run: RunId,
    /// The run that called this one; `None` for the run that was invoked.
    pub caller: Option<RunId>,
    /// The name of the run's skill, as in its outcome.
    #[serde(serialize_with = "as_shared")]
    pub skill: Arc<str>,
    /// What happened.
    #[serde(flatten)]
    pub kind: EventKind,
    #[serde(skip)]
    pub(super) extensions: Extensions,
}

impl Event {
    /// The value of that type that the embedder attached to the invocation with
    /// `Invocation::extension`.
    pub fn extension<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.extensions.get()
    }
}

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum EventKind {
    /// The run began.
    #[non_exhaustive]
    Started {
        /// The skill's qualified name; `None` if no skill was found. So are the four below.
        qualified_name: Option<String>,
        /// The skill's version.
        version: Option<String>,
        /// The runtime of the script, by the name it has in contracts; `None` too if no script was selected.
        runtime: Option<&'static str>,
        /// The script's path in the skill's folder.
        script: Option<String>,
        /// The folder of the engine that the run works on; `None` too if the invocation names another one.
        #[serde(serialize_with = "as_displayed")]
        project: Option<PathBuf>,
        /// The index of the step that calls this run, from 0, if its caller runs a plan.
        step: Option<usize>,
    },
    /// A call of a host function ended, for a script or for a step of a plan.
    #[non_exhaustive]
    HostCall {
        /// The function's name.
        function: &'static str,
        /// The permission that the call needs, such as `read:docs/a.md`; `None` if it needs none, or if its arguments are invalid.
        permission: Option<String>,
        /// The index of the step that made the call, if the run is that of a plan.
        step: Option<usize>,
        /// Why it failed; `None` if it returned a value.
        error: Option<ErrorKind>,
        /// How long it took.
        #[serde(rename = "duration_us", serialize_with = "as_microseconds")]
        duration: Duration,
    },
    /// A line was added to the log of the invoked run: as there, the line of a skill that another one called has its name in front,
    /// `name: message`.
    Log(LogLine),
    /// The skill reported progress; with the names in front, as in the log.
    Progress(Progress),
    /// A model handed on a part of its answer, as it came. The parts of one answer are in order, and no part is one of a secret.
    #[non_exhaustive]
    SampleText {
        /// The text, at most 8 KiB.
        text: String,
        /// The index of the step that asked, if the run is that of a plan.
        step: Option<usize>,
    },
    /// The process of an external script wrote a line.
    #[non_exhaustive]
    Output {
        /// The stream it wrote to.
        stream: OutputStream,
        /// The line without its end; bytes that are not UTF-8 are replaced.
        line: String,
        /// Whether the line is so long that the next event of this stream continues it.
        continues: bool,
    },
    /// A step of the run's plan started, or one item of a step that is a loop.
    #[non_exhaustive]
    StepStarted {
        /// The step.
        step: PlanStep,
    },
    /// A step of the run's plan ended, or one item of a step that is a loop.
    #[non_exhaustive]
    StepFinished {
        /// The step.
        step: PlanStep,
        /// How it ended.
        status: StepStatus,
        /// The number of attempts, over all items of a loop; 0 when it was not tried.
        attempts: u32,
        /// How long it took.
        #[serde(rename = "duration_ms", serialize_with = "as_milliseconds")]
        duration: Duration,
        /// Its value; `None` if it has none or if the value is larger than the output limit.
        value: Option<Value>,
        /// Why it failed, at most 2,000 characters.
        error: Option<String>,
    },
    /// The run was told to stop, by its caller or at its deadline. Code that still runs a moment later ignores the signal.
    #[non_exhaustive]
    Stopping {
        /// By what.
        cause: StopCause,
    },
    /// The reader of an `EventStream` was too slow, so events before this one were left out.
    #[non_exhaustive]
    Dropped {
        /// How many.
        count: u64,
    },
    /// The run ended; its last event.
    #[non_exhaustive]
    Finished {
        /// Its outcome.
        #[serde(serialize_with = "as_shared")]
        outcome: Arc<Outcome>,
    },
}

/// The start of a run: the qualified name and the version of its skill, the runtime and the path of its script, its project, and
/// the step that calls it.
pub fn run_started(
    skill: Option<(String, String)>,
    script: Option<(&'static str, String)>,
    project: Option<PathBuf>,
    step: Option<usize>,
) -> EventKind {
    let (qualified_name, version) = skill.unzip();
    let (runtime, script) = script.unzip();
    EventKind::Started { qualified_name, version, runtime, script, project, step }
}

/// A run has to stop.
pub fn run_stopping(cause: StopCause) -> EventKind {
    EventKind::Stopping { cause }
}

/// The start of a step.
pub fn step_started(step: PlanStep) -> EventKind {
    EventKind::StepStarted { step }
}

/// The end of a step: how, after how many attempts and how long, and with which value or error.
pub fn step_finished(
    step: PlanStep,
    (status, attempts, duration): (StepStatus, u32, Duration),
    value: Option<Value>,
    error: Option<String>,
) -> EventKind {
    EventKind::StepFinished { step, status, attempts, duration, value, error }
}

/// So many events were left out.
pub fn events_dropped(count: u64) -> EventKind {
    EventKind::Dropped { count }
}

/// A step of a plan, or one item of a loop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlanStep {
    /// Its index, from 0.
    pub index: usize,
    /// How many steps the plan has.
    pub count: usize,
    /// Its id.
    pub id: String,
    /// What it calls: `grep`, `tool search`, `skill word-count`.
    pub call: String,
    /// The index of the item, from 0; `None` for the step itself.
    pub item: Option<usize>,
}

/// The step at that index of so many, or an item of it: its id, and what it calls.
pub fn plan_step((index, count): (usize, usize), id: &str, call: String, item: Option<usize>) -> PlanStep {
    PlanStep { index, count, id: id.to_owned(), call, item }
}

/// A stream that a process writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// Standard output: unless the process is a worker, the value of the script.
    Stdout,
    /// Standard error.
    Stderr,
}

impl fmt::Display for OutputStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stdout => "standard output",
            Self::Stderr => "standard error",
        })
    }
}

/// Receives the events of a run and of the runs that it calls, while they happen: a closure, or a type of your own.
///
/// It is called on the threads of these runs, and for [`EventKind::Stopping`] on the thread that stops them, possibly on several
/// at a time: return quickly and do not block. It may run other skills. If it panics, the runs go on, and it is not called again
/// for them.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn on_event(&self, event: &Event);
}

impl<F: Fn(&Event) + Send + Sync> Observer for F {
    fn on_event(&self, event: &Event) {
        self(event);
    }
}

fn as_microseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

/// A path as people see it: JSON has no bytes that are not Unicode.
#[allow(clippy::ref_option, reason = "serde passes the field so")]
fn as_displayed<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_ref().map(|path| path.display().to_string()).serialize(serializer)
}

fn as_shared<T: Serialize + ?Sized, S: Serializer>(
    shared: &Arc<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    shared.as_ref().serialize(serializer)
}
