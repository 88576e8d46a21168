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
use super::plan_journals::{PlanJournal, PlanJournals};
use super::request_state::RequestStates;
use super::task_store::TaskStore;
use crate::engine::{Engine, Invocation, Outcome};
use crate::error::{ErrorKind, Hint, Result, SkillError};
use crate::host::{Approver, Event, EventKind, Observer, Progress, Providers, SamplingProvider};
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
    tasks: TaskStore,
    plan_journals: Option<PlanJournals>,
}

/// Receives the progress of a call.
pub(super) type ProgressListener = Box<dyn Fn(&Progress) + Send + Sync>;

/// What a call gives its run.
#[derive(Default)]
pub(super) struct CallServices {
    pub(super) progress: Option<ProgressListener>,
    /// Decides before anything runs.
    pub(super) approver: Option<Arc<dyn Approver>>,
    pub(super) sampling: Option<Arc<dyn SamplingProvider>>,
    /// Whether a plan keeps a journal while it runs.
    pub(super) keeps_journal: bool,
}

impl Calls {
    pub(super) fn new(engine: Engine, options: McpOptions, backlog: Arc<Backlog>) -> Self {
        let places = Semaphore::new(options.max_calls);
        let request_states = RequestStates::new().filter(|_| options.asks_clients);
        let plan_journals = options.plan_journals.clone().map(PlanJournals::new);
        Self {
            engine,
            options,
            places,
            waiting: AtomicUsize::new(0),
            backlog,
            request_states,
            tasks: TaskStore::default(),
            plan_journals,
        }
    }

    /// What questions to clients need; `None` if no client is asked.
    pub(super) fn request_states(&self) -> Option<&RequestStates> {
        self.request_states.as_ref()
    }

    /// The tasks of all callers.
    pub(super) fn tasks(&self) -> &TaskStore {
        &self.tasks
    }

    /// Waits until what was written before is read, as far as that is bounded.
    pub(super) async fn writable(&self) {
        self.backlog.writable().await;
    }

    /// How long a call waits for its result before it becomes a task.
    pub(super) fn task_after(&self) -> Duration {
        self.options.task_after
    }

    /// Whether the program around the server offers a model of its own.
    pub(super) fn has_model(&self) -> bool {
        self.engine.has_model()
    }

    /// Runs the tool to its end. When `cancelled` ends first, the run is told to stop, and still waited for: a call has ended when
    /// its processes have.
    pub(super) async fn run(
        self: &Arc<Self>,
        tool: &ServedTool,
        arguments: Map<String, Value>,
        cancelled: impl Future<Output = ()>,
        services: CallServices,
    ) -> Outcome {
        let failed = |error| self.with_help(tool, Outcome::failed(tool.skill.clone(), error));
        let token = self.options.cancel.child();
        let progress = services.progress.map(|listener| Arc::new(ProgressObserver(listener)));
        let (approver, sampling) = (services.approver, services.sampling);
        let invocation = |arguments: Map<String, Value>| -> Result<Invocation> {
            let invocation =
                tool.tool.invocation(&tool.address, arguments)?.for_model().cancel(token.clone());
            let mut invocation = self.with_options(invocation);
            if approver.is_some() || sampling.is_some() {
                let providers = Providers {
                    approver: approver.clone(),
                    sampling: sampling.clone(),
                    ..Providers::default()
                };
                invocation = invocation.providers(providers);
            }
            if approver.is_some() {
                invocation = invocation.ask_first();
            }
            Ok(match &progress {
                Some(progress) => invocation.observer(progress.clone()),
                None => invocation,
            })
        };
        let keeps_journal = services.keeps_journal && tool.tool.runs_plan(&arguments);
        let again = keeps_journal.then(|| arguments.clone());
        let mut first = match invocation(arguments) {
            Ok(invocation) => invocation,
            Err(error) => return failed(error),
        };
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
        let mut run = pin!(async {
            let journal = match &again {
                Some(arguments) => self.open_journal(tool, arguments).await,
                None => None,
            };
            let Some(journal) = journal else { return self.engine.run_async(first).await };
            first = first.journal(journal.folder());
            let mut outcome = self.engine.run_async(first).await;
            if let Some(arguments) = again.filter(|_| is_outdated(&outcome)) {
                // Nothing has run: the plan or a skill that it calls has changed since.
                let journal = journal.clone();
                tokio::task::spawn_blocking(move || journal.discard()).await.ok();
                outcome = match invocation(arguments) {
                    Ok(invocation) => self.engine.run_async(invocation).await,
                    Err(error) => Outcome::failed(tool.skill.clone(), error),
                };
            }
            // What the end of the server interrupted goes on with the next one.
            if !self.options.cancel.is_cancelled() {
                tokio::task::spawn_blocking(move || journal.discard()).await.ok();
            }
            outcome
        });
        let outcome = tokio::select! {
            outcome = &mut run => outcome,
            () = &mut cancelled => {
                token.cancel();
                run.await
            }
        };
        self.with_help(tool, outcome)
    }

    /// The invocation with what the server allows all calls.
    fn with_options(&self, mut invocation: Invocation) -> Invocation {
        for permission in &self.options.grants {
            invocation = invocation.grant(permission.clone());
        }
        if let Some(limits) = &self.options.limits {
            invocation = invocation.limits(limits.clone());
        }
        invocation = invocation.tool_filter(self.options.tool_filter.clone());
        if let Some(mode) = self.options.sandbox_mode {
            invocation = invocation.sandbox_mode(mode);
        }
        match self.options.execution_mode {
            Some(mode) => invocation.execution_mode(mode),
            None => invocation,
        }
    }

    async fn open_journal(
        self: &Arc<Self>,
        tool: &ServedTool,
        arguments: &Map<String, Value>,
    ) -> Option<Arc<PlanJournal>> {
        let (calls, tool, arguments) = (self.clone(), tool.clone(), arguments.clone());
        let open = move || calls.plan_journals.as_ref()?.open(calls.engine.project(), &tool, &arguments);
        tokio::task::spawn_blocking(open).await.ok()?.map(Arc::new)
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
        // With a version, the skill was found, and the error is of one that it calls.
        let is_found = outcome.version.is_some();
        outcome.result = outcome.result.map_err(|error| {
            let error = match error.kind() {
                ErrorKind::UnknownSkill if is_found => error,
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

/// Whether a run did nothing because its journal belongs to the plan as it was before.
fn is_outdated(outcome: &Outcome) -> bool {
    let is_of_journal = |error: &SkillError| matches!(error.hint(), Some(Hint::Journal));
    outcome.steps.is_empty() && outcome.result.as_ref().is_err_and(is_of_journal)
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
