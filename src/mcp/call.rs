//! Runs the skill that a call of a tool means: in turn, stopped when the client says so, with its progress.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use super::backlog::Backlog;
use super::inventory::ServedTool;
use super::options::McpOptions;
use super::request_state::RequestStates;
use crate::engine::{Engine, Outcome};
use crate::error::{ErrorKind, SkillError};
use crate::host::{Approver, Event, EventKind, Observer, Progress, Providers};
use crate::policy::CancelToken;

/// Calls that may wait for others; of more, each is refused.
const MAX_WAITING: usize = 10_000;
/// How long the server waits at its end until its calls have ended.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it looks whether the cleanup after them has ended.
const CLEANUP_INTERVAL: Duration = Duration::from_millis(5);

/// The calls of one server.
pub(super) struct Calls {
    engine: Engine,
    options: McpOptions,
    places: Semaphore,
    waiting: AtomicUsize,
    backlog: Arc<Backlog>,
    request_states: Option<RequestStates>,
}

/// Receives the progress of a call.
pub(super) type ProgressListener = Box<dyn Fn(&Progress) + Send + Sync>;

impl Calls {
    pub(super) fn new(engine: Engine, options: McpOptions, backlog: Arc<Backlog>) -> Self {
        let places = Semaphore::new(options.max_calls);
        let request_states = RequestStates::new().filter(|_| options.asks_clients);
        Self { engine, options, places, waiting: AtomicUsize::new(0), backlog, request_states }
    }

    /// What questions to clients need; `None` if no client is asked.
    pub(super) fn request_states(&self) -> Option<&RequestStates> {
        self.request_states.as_ref()
    }

    /// Runs the tool to its end. When `cancelled` ends first, the run is told to stop, and still waited for: a call has ended when
    /// its processes have. The approver decides before anything runs.
    pub(super) async fn run(
        &self,
        tool: &ServedTool,
        arguments: Map<String, Value>,
        cancelled: impl Future<Output = ()>,
        progress: Option<ProgressListener>,
        approver: Option<Arc<dyn Approver>>,
    ) -> Outcome {
        let failed = |error| self.with_help(tool, Outcome::failed(tool.skill.clone(), error));
        let mut invocation = match tool.tool.invocation(&tool.address, arguments) {
            Ok(invocation) => invocation.for_model(),
            Err(error) => return failed(error),
        };
        let token = self.options.cancel.child();
        invocation = invocation.cancel(token.clone());
        for permission in &self.options.grants {
            invocation = invocation.grant(permission.clone());
        }
        if let Some(limits) = &self.options.limits {
            invocation = invocation.limits(limits.clone());
        }
        if let Some(mode) = self.options.sandbox_mode {
            invocation = invocation.sandbox_mode(mode);
        }
        if let Some(mode) = self.options.execution_mode {
            invocation = invocation.execution_mode(mode);
        }
        if approver.is_some() {
            invocation = invocation.providers(Providers { approver, ..Providers::default() }).ask_first();
        }
        if let Some(listener) = progress {
            invocation = invocation.observer(Arc::new(ProgressObserver(listener)));
        }
        let mut cancelled = pin!(cancelled);
        let Some(waiting) = Waiting::enter(&self.waiting) else { return failed(busy_error()) };
        let place = tokio::select! {
            biased;
            () = &mut cancelled => return failed(cancelled_error()),
            place = async {
                self.backlog.writable().await;
                self.places.acquire().await
            } => place,
        };
        let Ok(_place) = place else { return failed(cancelled_error()) };
        drop(waiting);
        let mut run = pin!(self.engine.run_async(invocation));
        let outcome = tokio::select! {
            outcome = &mut run => outcome,
            () = &mut cancelled => {
                token.cancel();
                run.await
            }
        };
        self.with_help(tool, outcome)
    }

    /// Waits until no call is in progress, and lets none begin.
    pub(super) async fn finish(&self) {
        let max = u32::try_from(self.options.max_calls).unwrap_or(u32::MAX);
        let ended = async {
            let places = self.places.acquire_many(max).await;
            // What processes leave behind is removed after their runs have ended.
            while self.engine.runs_processes() {
                tokio::time::sleep(CLEANUP_INTERVAL).await;
            }
            drop(places);
        };
        tokio::time::timeout(END_TIMEOUT, ended).await.ok();
        self.places.close();
    }

    /// The token that stops all calls.
    pub(super) fn cancel(&self) -> &CancelToken {
        &self.options.cancel
    }

    /// The outcome with an error that a model may read, and that says how a person can allow what was missing.
    fn with_help(&self, tool: &ServedTool, mut outcome: Outcome) -> Outcome {
        outcome.result = outcome.result.map_err(|error| {
            let error = match error.kind() {
                // What a broken or untrusted file says is no text for a model.
                ErrorKind::InvalidSkill | ErrorKind::UnknownSkill | ErrorKind::Untrusted => {
                    changed_error(tool, &error)
                }
                _ => error,
            };
            match &self.options.error_help {
                Some(change) => change(&tool.skill, error),
                None => error,
            }
        });
        outcome
    }
}

fn changed_error(tool: &ServedTool, error: &SkillError) -> SkillError {
    let sentence = match error.kind() {
        ErrorKind::InvalidSkill => {
            format!("the skill {} cannot be loaded at present: its files have an error", tool.skill)
        }
        ErrorKind::UnknownSkill => format!("the skill {} is not there any more", tool.skill),
        _ => format!(
            "the skill {} is not trusted any more: its files changed, or its trust was revoked",
            tool.skill
        ),
    };
    let help = match error.kind() {
        ErrorKind::InvalidSkill => "a person can validate it to see where",
        ErrorKind::UnknownSkill => "list the tools again",
        _ => "a person can look at it and trust it again",
    };
    SkillError::new(error.kind(), sentence).with_help(help).with_hint(error.hint().cloned())
}

fn cancelled_error() -> SkillError {
    SkillError::new(ErrorKind::Cancelled, "the call was cancelled before it started")
}

fn busy_error() -> SkillError {
    let sentence = format!("the call is refused because {MAX_WAITING} others are waiting");
    SkillError::new(ErrorKind::Unavailable, sentence).with_help("call it again later")
}

/// The place of a call among those that wait.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(count: &'a AtomicUsize) -> Option<Self> {
        if count.fetch_add(1, Ordering::AcqRel) < MAX_WAITING {
            return Some(Self(count));
        }
        count.fetch_sub(1, Ordering::AcqRel);
        None
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

struct ProgressObserver(ProgressListener);

impl Observer for ProgressObserver {
    fn on_event(&self, event: &Event) {
        if let EventKind::Progress(progress) = &event.kind {
            (self.0)(progress);
        }
    }
}
