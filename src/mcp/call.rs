//! Runs the skill that a call of a tool means: with what a person entered, in turn, and stopped when the client says so.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::backlog::Answer;
use super::call_errors::{cancelled_error, explain};
use super::call_queue::{CallQueue, Waiting};
use super::caller::Caller;
use super::elicitation::Elicitor;
use super::forms::ask_forms;
use super::inventory::ServedTool;
use super::options::McpOptions;
use super::plan_journals::PlanJournals;
use super::request_state::RequestStates;
use super::tool_run::{ProgressListener, ProgressObserver, ToolRun};
use crate::engine::{Engine, Outcome};
use crate::pending::PendingState;
use crate::registry::Skill;
use metier_core::error::{Result, SkillError};
use metier_core::executor::RunOwner;
use metier_core::host::{Approver, Observer, SamplingProvider};
use metier_core::policy::CancelToken;

/// How long the server waits at its end until its calls have ended.
const END_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it looks whether the cleanup after them has ended.
const CLEANUP_INTERVAL: Duration = Duration::from_millis(5);

/// The calls of one server.
pub(super) struct Calls {
    engine: Engine,
    options: McpOptions,
    queue: Arc<CallQueue>,
    request_states: Option<RequestStates>,
    plan_journals: Option<PlanJournals>,
}

/// What a call gives its run.
#[derive(Clone, Default)]
pub(super) struct CallServices {
    pub(super) progress: Option<ProgressListener>,
    /// Decides before anything runs.
    pub(super) approver: Option<Arc<dyn Approver>>,
    pub(super) sampling: Option<Arc<dyn SamplingProvider>>,
    /// Asks a person for what the arguments lack, in a session.
    pub(super) elicitor: Option<Elicitor>,
    /// Whose journal a plan keeps while it runs; `None` if it keeps none.
    pub(super) journal_owner: Option<String>,
    /// The name by which its client calls itself.
    pub(super) client: Option<String>,
    /// The answer to its request, which holds the space of the arguments as long as the run.
    pub(super) answer: Option<Arc<Answer>>,
}

impl Calls {
    /// For callers with the numbers below `callers`.
    pub(super) fn new(engine: Engine, options: McpOptions, callers: usize) -> Self {
        let queue = CallQueue::new(options.max_calls, callers);
        let request_states = RequestStates::new().filter(|_| options.asks_clients);
        let plan_journals = options.plan_journals.clone().map(PlanJournals::new);
        Self { engine, options, queue, request_states, plan_journals }
    }

    /// What questions to clients need; `None` if no client is asked.
    pub(super) fn request_states(&self) -> Option<&RequestStates> {
        self.request_states.as_ref()
    }

    /// A place among the calls that wait, for a request that waits for a person.
    pub(super) fn enter(&self, caller: &Caller) -> Result<Waiting> {
        self.queue.enter(caller.number)
    }

    /// How long a call waits for its result before it becomes a task.
    pub(super) fn task_after(&self) -> Duration {
        self.options.task_after
    }

    /// Whether calls run in a copy of the project.
    pub(super) fn runs_in_copies(&self) -> bool {
        self.options.previews
    }

    /// Whether the program around the server offers a model of its own.
    pub(super) fn has_model(&self) -> bool {
        self.engine.has_model()
    }

    /// Runs the tool to its end. When `cancelled` ends first, the run is told to stop, and still waited for: a call has ended when
    /// its processes have.
    pub(super) async fn run(
        &self,
        caller: &Caller,
        tool: &ServedTool,
        arguments: Map<String, Value>,
        cancelled: impl Future<Output = ()>,
        services: CallServices,
    ) -> Outcome {
        self.explain(tool, self.run_unexplained(caller, tool, arguments, cancelled, services).await)
    }

    /// The same with errors in the words of the engine.
    pub(super) async fn run_unexplained(
        &self,
        caller: &Caller,
        tool: &ServedTool,
        arguments: Map<String, Value>,
        cancelled: impl Future<Output = ()>,
        services: CallServices,
    ) -> Outcome {
        let outcome = self.run_in_turn(caller, tool, arguments, cancelled, services).await;
        outcome.unwrap_or_else(|error| Outcome::failed(tool.skill.clone(), error))
    }

    /// The outcome of a call of this tool, with errors in the words of the program around the server.
    pub(super) fn explain(&self, tool: &ServedTool, outcome: Outcome) -> Outcome {
        explain(tool, outcome, |error| self.with_help((&tool.skill, &tool.address), error))
    }

    /// The error of a skill with this name and address, in the words of the program around the server.
    pub(super) fn with_help(&self, skill: (&str, &str), error: SkillError) -> SkillError {
        match &self.options.error_help {
            Some(change) => change(self.findable_name(skill), error),
            None => error,
        }
    }

    /// The name by which a person finds a skill: where another skill has its name, its address.
    fn findable_name<'a>(&self, (name, address): (&'a str, &'a str)) -> &'a str {
        let registry = self.engine.registry();
        let found = |name: &str| registry.find(name).ok().map(Skill::qualified_name);
        let is_enough = found(address).is_none_or(|own| found(name) == Some(own));
        if is_enough { name } else { address }
    }

    /// The outcome of the run, or why nothing of it has begun.
    async fn run_in_turn(
        &self,
        caller: &Caller,
        tool: &ServedTool,
        mut arguments: Map<String, Value>,
        cancelled: impl Future<Output = ()>,
        services: CallServices,
    ) -> Result<Outcome> {
        let _held = services.answer;
        let mut cancelled = pin!(cancelled);
        let waiting = self.enter(caller)?;
        if let Some(elicitor) = &services.elicitor {
            arguments = ask_forms(&tool.tool.forms, arguments, elicitor, &mut cancelled).await?;
        }
        let journals = self.plan_journals.as_ref().zip(services.journal_owner);
        // What a step did in a copy is not done.
        let journals = journals.filter(|_| tool.tool.runs_plan(&arguments) && !self.options.previews);
        let observe = |listener| Arc::new(ProgressObserver(listener)) as Arc<dyn Observer>;
        let run = ToolRun {
            engine: &self.engine,
            options: &self.options,
            tool,
            arguments,
            token: self.options.cancel.child(),
            observer: services.progress.map(observe),
            approver: services.approver,
            sampling: services.sampling,
            owner: RunOwner(caller.number),
            client: services.client.unwrap_or_default(),
        };
        let invocation = run.invocation()?;
        let place = tokio::select! {
            biased;
            () = &mut cancelled => None,
            place = async {
                caller.backlog.writable().await;
                waiting.turn().await
            } => place,
        };
        let _place = place.ok_or_else(cancelled_error)?;
        let mut running = pin!(async {
            match journals {
                Some((journals, owner)) => run.run_with_journal(invocation, journals, &owner).await,
                None => run.run(invocation).await,
            }
        });
        Ok(tokio::select! {
            outcome = &mut running => outcome,
            () = &mut cancelled => {
                run.token.cancel();
                running.await
            }
        })
    }

    /// Waits until no call is in progress, and lets none begin.
    pub(super) async fn finish(&self) {
        let cleaned_up = async {
            // What processes leave behind is removed after their runs have ended.
            while self.engine.runs_processes() {
                tokio::time::sleep(CLEANUP_INTERVAL).await;
            }
        };
        self.queue.close(cleaned_up, END_TIMEOUT).await;
    }

    /// What was decided about a pending call; `None` if there is no such call, or it cannot be read.
    pub(super) async fn pending_state(&self, id: &str) -> Option<PendingState> {
        let (store, id) = (self.engine.pending_store()?.clone(), id.to_owned());
        let found = tokio::task::spawn_blocking(move || store.find(&id)).await.ok()?.ok()?;
        Some(found.state)
    }

    /// The token that stops all calls.
    pub(super) fn cancel(&self) -> &CancelToken {
        &self.options.cancel
    }
}
