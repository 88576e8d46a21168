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
#[cfg(unix)]
use super::question::{self, AnswerMemory};
#[cfg(unix)]
use super::refusal_question::{CountedApprover, PersonAsker, RefusalQuestion};
use super::request_state::RequestStates;
use super::tool_run::{ProgressListener, ProgressObserver, ToolRun};
#[cfg(unix)]
use crate::engine::Invocation;
use crate::engine::{Engine, Outcome};
use crate::pending::PendingState;
use crate::registry::Skill;
use metier_core::error::{Result, SkillError};
use metier_core::host::{Approver, Observer, RunOwner, SamplingProvider};
#[cfg(unix)]
use metier_core::policy::Approval;
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
    /// Asks a person after a run that failed.
    #[cfg(unix)]
    pub(super) asker: Option<PersonAsker>,
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
        let journals = journals.filter(|_| tool.tool.keeps_journal(&arguments) && !self.options.previews);
        #[cfg(unix)]
        let asker = services.asker.filter(|_| journals.is_none());
        #[cfg(unix)]
        let (approver, counted) = match services.approver {
            Some(approver) => {
                let counted = Arc::new(CountedApprover::new(approver));
                (Some(counted.clone() as Arc<dyn Approver>), Some(counted))
            }
            None => (None, None),
        };
        #[cfg(not(unix))]
        let approver = services.approver;
        let observe = |listener| Arc::new(ProgressObserver(listener)) as Arc<dyn Observer>;
        let run = ToolRun {
            engine: &self.engine,
            options: &self.options,
            tool,
            arguments,
            token: self.options.cancel.child(),
            observer: services.progress.map(observe),
            approver,
            sampling: services.sampling,
            owner: RunOwner(caller.number),
            client: services.client.unwrap_or_default(),
        };
        let invocation = run.invocation()?;
        #[cfg(unix)]
        let again = asker.map(|asker| (asker, Box::new(invocation.clone())));
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
        let outcome = tokio::select! {
            outcome = &mut running => outcome,
            () = &mut cancelled => {
                run.token.cancel();
                return Ok(running.await);
            }
        };
        #[cfg(unix)]
        if let Some((asker, invocation)) = again
            && outcome.result.is_err()
            && !counted.is_some_and(|counted| counted.has_question())
        {
            let memory = caller.answers;
            let again = self.ask_and_run_again((&run, *invocation), outcome, (asker, memory), cancelled);
            // Few calls come here, and all would hold the space.
            return Ok(Box::pin(again).await);
        }
        Ok(outcome)
    }

    /// Asks a person whether a run that failed runs again with what it was refused; after a yes, the outcome of that run.
    #[cfg(unix)]
    async fn ask_and_run_again(
        &self,
        (run, invocation): (&ToolRun<'_>, Invocation),
        outcome: Outcome,
        (asker, memory): (PersonAsker, AnswerMemory),
        mut cancelled: impl Future<Output = ()> + Unpin,
    ) -> Outcome {
        let address = &run.tool.address;
        let (engine, called) = (self.engine.clone(), address.clone());
        let (arguments, first, failed) = (run.arguments.clone(), invocation.clone(), outcome.clone());
        // It reads files.
        let find = move || RefusalQuestion::new(&engine, (&called, &first, &arguments), &failed, memory);
        let Some(question) = tokio::task::spawn_blocking(find).await.ok().flatten() else { return outcome };
        let ended = async {
            tokio::select! {
                () = &mut cancelled => {}
                _ = run.token.cancelled() => {}
            }
        };
        let answer = asker.ask(question.form.clone(), ended).await;
        let approval = answer.map_or(Approval::No, |answer| question::approval(&answer, memory));
        if approval == Approval::No || run.token.is_cancelled() {
            return outcome;
        }
        let invocation = question.add_to(invocation);
        if matches!(approval, Approval::Always(_)) {
            let (engine, address) = (self.engine.clone(), address.clone());
            tokio::task::spawn_blocking(move || question.remember(&engine, &address)).await.ok();
        }
        let mut running = pin!(run.run(invocation));
        tokio::select! {
            outcome = &mut running => outcome,
            () = &mut cancelled => {
                run.token.cancel();
                running.await
            }
        }
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
