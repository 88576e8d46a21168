//! A call of a tool, from its request to its answer: find → read → ask → admit → run → answer. A call that takes long, or whose run asks a
//! person, is answered with a task and goes on.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CreateTaskResult, ErrorCode, ErrorData, GetMeta,
    JsonObject, ProgressNotification, ProgressNotificationParam, ProgressToken, ServerNotification,
};
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::arguments::has_null_field;
use super::backlog::Answer;
use super::call_queue::{Running, Waiting};
#[cfg(unix)]
use super::change_sets::{self, Proposal, add_to_result};
use super::client::{
    Caller, Handler, ServerState, Session, answer_of, client_name, needs_objects, request_error, set_size,
};
use super::elicitation::{ElicitingApprover, Elicitor, PostponingApprover, TaskApprover};
use super::forms::ask_forms;
use super::inventory::{Inventory, ServedTool, changed_error, gone_error};
use super::plan_journals::{PlanJournal, PlanJournals};
use super::postponed_request::{Filled, FormTrust, PostponedRequest, StateOwner};
#[cfg(unix)]
use super::question;
use super::question::AnswerMemory;
#[cfg(unix)]
use super::refusal_question::{CountedApprover, PersonAsker, RefusalQuestion};
use super::results::{Audience, MAX_TEXT, call_result, content_size, error_result};
use super::skill_content::{shown_line, shown_text};
use super::task::{Task, TaskStore};
use super::task_messages::related_notification;
use super::tools::SkillTool;
#[cfg(unix)]
use super::tools::{DISCARD_CHANGES, is_change_tool};
use super::{client_model, disclosure};
use crate::audit::{AuditClient, AuditFace};
use crate::engine::{Engine, Invocation, Outcome, Preview};
use crate::pending::PendingState;
use crate::registry::Skill;
use metier_core::error::{ErrorContext, ErrorKind, Hint, Result, SkillError};
use metier_core::excerpt::shorten;
use metier_core::host::{
    ApprovalRequest, Approver, Event, EventKind, Observer, Progress, Providers, RunOwner, SamplingProvider,
};
#[cfg(unix)]
use metier_core::policy::Approval;
use metier_core::policy::CancelToken;

/// Reports of progress that wait to be sent; further ones are left out.
const MAX_PROGRESS: usize = 32;
/// How often a task looks whether a person has decided about its call.
const DECISION_INTERVAL: Duration = Duration::from_millis(500);

/// What a request is answered with, or the error of the protocol in its place.
type ProtocolResult<T> = std::result::Result<T, ErrorData>;

/// How a person is asked about a call.
enum QuestionRoute {
    /// Not at all: the client cannot ask one, or the server does not.
    Nobody,
    /// By a request of the server, in a session.
    Session(Elicitor),
    /// By the answer of the call, which the client sends again; or by the state of the task that it has become.
    Answer { postponing: Arc<PostponingApprover>, task: Option<Arc<Task>> },
}

/// What a call gives its run.
#[derive(Clone, Default)]
struct CallServices {
    progress: Option<ProgressListener>,
    /// Decides before anything runs.
    approver: Option<Arc<dyn Approver>>,
    sampling: Option<Arc<dyn SamplingProvider>>,
    /// Asks a person for what the arguments lack, in a session.
    elicitor: Option<Elicitor>,
    /// Asks a person after a run that failed.
    #[cfg(unix)]
    asker: Option<PersonAsker>,
    /// Whose journal a plan keeps while it runs; `None` if it keeps none.
    journal_owner: Option<String>,
    /// The name by which its client calls itself.
    client: Option<String>,
    /// The answer to its request, which holds the space of the arguments as long as the run.
    answer: Option<Arc<Answer>>,
}

/// A call of which everything is decided but when it runs.
struct PreparedCall<'a> {
    tool: &'a ServedTool,
    invocation: Invocation,
    /// Ends the run.
    token: CancelToken,
    follow_up: FollowUp<'a>,
}

/// What follows a run, for which the arguments of its call are needed.
enum FollowUp<'a> {
    Nothing,
    /// The journal of the plan is removed, unless the same call goes on with it later.
    Journal {
        journals: &'a PlanJournals,
        owner: String,
        arguments: JsonObject,
    },
    /// A person is asked whether a run that failed runs again with what it was refused.
    #[cfg(unix)]
    Question {
        asker: PersonAsker,
        approver: Option<Arc<CountedApprover>>,
        arguments: JsonObject,
    },
}

/// What a call whose run goes on by itself is answered with.
enum TaskAnswer {
    /// Its run has ended.
    Ended(Box<Outcome>),
    /// Its run goes on.
    Task(rmcp::model::Task),
}

/// Of what the result of a call is made, besides the outcome.
struct ResultForm {
    caller: Arc<Caller>,
    tool: Arc<SkillTool>,
    needs_objects: bool,
}

impl Handler {
    /// Answers the call of a tool: with its result, a question, or a task.
    pub(super) async fn answer_call(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> ProtocolResult<CallToolResponse> {
        let inventory = self.inventory();
        let Some(tool) = inventory.tool(&request.name) else {
            return self.answer_server_tool(request, &context).await;
        };
        // An answer to a question belongs to the arguments as they were sent.
        let states = self.request_states(&context);
        let sent = states.map(|_| Value::Object(request.arguments.clone().unwrap_or_default()));
        let owner = sent
            .as_ref()
            .map(|sent| StateOwner { name: &request.name, ..self.state_owner(&context, "tools/call", sent) });
        let (arguments, trust) = self.read_arguments(tool, request.arguments, &context).await?;
        let shows_forms = trust.is_trusted;
        let mut postponed = match states.zip(owner) {
            Some((states, owner)) => {
                let (state, responses) = (request.request_state.as_deref(), request.input_responses);
                let opened = PostponedRequest::open(states, owner, state, responses);
                Some(opened.map_err(|error| request_error(&error))?)
            }
            None => None,
        };
        let arguments = match &mut postponed {
            Some(postponed) => match postponed.fill(&tool.tool.forms, trust, arguments) {
                Ok(Filled::Arguments(arguments)) => arguments,
                Ok(Filled::Question(question)) => return Ok((*question).into()),
                Err(error) => return Ok(error_result(&error).into()),
            },
            None => arguments,
        };
        let task = self.possible_task(&context);
        let route = self.question_route(postponed.as_mut(), task.as_ref(), &context);
        let (services, reports) = self.services(&route, shows_forms, task.as_ref(), &context);
        let form = self.result_form(tool, &context);
        let outcome = match &task {
            None => self.run_call(tool, arguments, services, reports, &context).await,
            Some(task) => match self.run_as_task(task, tool, arguments, services, reports, &context).await {
                TaskAnswer::Ended(outcome) => *outcome,
                TaskAnswer::Task(task) => return Ok(CreateTaskResult::new(task).into()),
            },
        };
        if let Some(request) = route.take_question()
            && let Some(postponed) = postponed
            && let Some(question) = postponed.ask_approval(&request, self.caller().answers)
        {
            return Ok(question.into());
        }
        let result = form.result(outcome);
        Ok(set_size(&context, content_size(&result), result).into())
    }

    /// Starts a call as the task that its client wants it to be, in the revision 2025-11-25.
    pub(super) async fn start_task(
        &self,
        task: &Arc<Task>,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> ProtocolResult<()> {
        let inventory = self.inventory();
        let Some(tool) = inventory.tool(&request.name) else {
            return Err(self.no_task_error(&request.name, context).await?);
        };
        let (arguments, trust) = self.read_arguments(tool, request.arguments, context).await?;
        if !self.caller().tasks.add(task) {
            let sentence = "there are too many tasks; call the tool without one, or again later";
            return Err(ErrorData::internal_error(sentence, None));
        }
        let route =
            self.elicitor(context, Some(task.clone())).map_or(QuestionRoute::Nobody, QuestionRoute::Session);
        let (services, reports) = self.services(&route, trust.is_trusted, Some(task), context);
        if let Some(mut reports) = reports {
            let (peer, related) = (context.peer.clone(), related_notification(task.id()));
            tokio::spawn(async move {
                while let Some(report) = reports.recv().await {
                    let mut notice =
                        ServerNotification::ProgressNotification(ProgressNotification::new(report));
                    *notice.get_meta_mut() = related.clone();
                    peer.send_notification(notice).await.ok();
                }
            });
        }
        let run = self.start_run(task, tool, arguments, services);
        tokio::spawn(finish_task(task.clone(), run, self.result_form(tool, context)));
        Ok(())
    }

    /// The outcome of a call that a client makes by itself, so that nobody is asked: it has the grants that it has then.
    pub(super) async fn run_without_questions(
        &self,
        tool: &ServedTool,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Outcome {
        let services = CallServices {
            client: client_name(context),
            answer: answer_of(context).cloned(),
            ..CallServices::default()
        };
        self.server.run(self.caller(), tool, arguments, context.ct.cancelled(), services).await
    }
}

/// Find: tools that are not those of a skill.
impl Handler {
    /// Answers the call of a tool of the server itself, or of one that is not there.
    async fn answer_server_tool(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> ProtocolResult<CallToolResponse> {
        #[cfg(unix)]
        if self.server.options.previews && is_change_tool(&request.name) {
            return self.answer_change_tool(request, context).await;
        }
        let arguments = request.arguments.unwrap_or_default();
        let needs_objects = needs_objects(context);
        let has_session = needs_objects;
        let name = request.name.into_owned();
        let shown = shorten(&shown_line(&name), 80);
        let server = self.server.clone();
        let work = move |engine: &Engine, inventory: &Inventory, session: &Session| {
            let audience = Audience { max_text: MAX_TEXT, needs_objects, store: &session.caller.results };
            let activated = has_session.then_some(&session.activated);
            let result = disclosure::call(&name, &arguments, (engine, inventory), activated, &audience);
            result.or_else(|| {
                let gone = inventory.gone.get(&name)?;
                let error = gone_error((engine, inventory), gone);
                Some(error_result(&server.with_help((&gone.skill, &gone.address), error)))
            })
        };
        let result = self.read(Some(context), work).await?;
        result
            .map(Into::into)
            .ok_or_else(|| ErrorData::invalid_params(format!("there is no tool {shown}"), None))
    }

    /// Why a call of a tool that is not that of a skill is no task.
    async fn no_task_error(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> ProtocolResult<ErrorData> {
        let name = name.to_owned();
        let why = move |engine: &Engine, inventory: &Inventory, _: &Session| {
            inventory.gone.get(&name).map(|gone| gone_error((engine, inventory), gone))
        };
        Ok(match self.read(Some(context), why).await? {
            Some(error) => request_error(&error),
            None => {
                ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "only the tools of skills run as tasks", None)
            }
        })
    }
}

/// Find: tools that apply or discard what calls in a copy of the project would change.
#[cfg(unix)]
impl Handler {
    /// Applies what an earlier call of the same caller would change, after a person has agreed, or discards it.
    async fn answer_change_tool(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> ProtocolResult<CallToolResponse> {
        let arguments = request.arguments.clone().unwrap_or_default();
        if request.name == DISCARD_CHANGES {
            let discarded = self.read(Some(context), move |engine, _, session| {
                change_sets::discard(engine, &session.caller.change_sets.find(&arguments)?)
            });
            return Ok(discarded.await?.unwrap_or_else(|error| error_result(&error)).into());
        }
        let proposal = self.read(Some(context), move |engine, _, session| {
            Proposal::read(engine, session.caller.change_sets.find(&arguments)?)
        });
        let Proposal { made, question, form } = match proposal.await? {
            Ok(proposal) => proposal,
            Err(error) => return Ok(error_result(&error).into()),
        };
        let waiting = match self.server.queue.enter(self.caller().number) {
            Ok(waiting) => waiting,
            Err(error) => return Ok(error_result(&error).into()),
        };
        let values = Value::Object(request.arguments.unwrap_or_default());
        let answer = if let Some(states) = self.request_states(context) {
            let owner =
                StateOwner { name: &request.name, ..self.state_owner(context, "tools/call", &values) };
            let (state, responses) = (request.request_state.as_deref(), request.input_responses);
            let mut postponed = PostponedRequest::open(states, owner, state, responses)
                .map_err(|error| request_error(&error))?;
            match postponed.answer_to(&question) {
                Some(answer) => answer,
                None => match postponed.ask(question, form) {
                    Ok(question) => return Ok(question.into()),
                    Err(error) => return Ok(error_result(&error).into()),
                },
            }
        } else if let Some(elicitor) = self.elicitor(context, None) {
            let answer = elicitor.ask(form, context.ct.cancelled(), change_sets::QUESTION_TIMEOUT).await;
            answer.map_or(Approval::No, |answer| question::approval(&answer, AnswerMemory::Once))
        } else {
            // What waits is the change set itself, also in a server that parks calls.
            let sentence = "the changes take the agreement of a person, and this client cannot ask one; they wait as a change set, not as a pending call";
            let help = format!(
                "a person can apply the change set {} within a week; the call need not be repeated",
                made.id
            );
            return Ok(error_result(&SkillError::new(ErrorKind::Denied, sentence).with_help(help)).into());
        };
        let engine = self.server.engine.clone();
        let client = AuditClient::new(AuditFace::Mcp).with_name(&client_name(context).unwrap_or_default());
        let applied = tokio::task::spawn_blocking(move || {
            if answer != Approval::Once {
                return Err(change_sets::deny(&engine, &made, client).unwrap_or_else(|error| error));
            }
            let applied = change_sets::apply(&engine, &made, client);
            applied.map(|report| change_sets::apply_result(&made, &report))
        });
        let result = applied.await.map_err(|_| ErrorData::internal_error("the request failed", None))?;
        drop(waiting);
        let result = result.unwrap_or_else(|error| error_result(&error));
        Ok(set_size(context, content_size(&result), result).into())
    }
}

/// Read.
impl Handler {
    /// The arguments of a call without those that are null because they are left out, and whether a person may be shown the forms for the
    /// others.
    async fn read_arguments(
        &self,
        tool: &ServedTool,
        arguments: Option<JsonObject>,
        context: &RequestContext<RoleServer>,
    ) -> ProtocolResult<(JsonObject, FormTrust)> {
        let mut arguments = arguments.unwrap_or_default();
        if arguments.values().any(|value| value.is_null() || has_null_field(value)) {
            // To validate a large value takes time.
            let tool = tool.tool.clone();
            arguments = self.read(Some(context), move |_, _, _| tool.without_nulls(arguments)).await?;
        }
        Ok((arguments, self.form_trust(&tool.skill, &tool.tool.forms).await?))
    }
}

/// Ask: find out by whom, before anything runs.
impl Handler {
    /// A call that may be answered with a task: in the revision that has the extension, and if the client knows it.
    fn possible_task(&self, context: &RequestContext<RoleServer>) -> Option<Arc<Task>> {
        let has_extension = context.protocol_version().is_some_and(|version| !version.has_initialize());
        let is_known = context.client_capabilities().is_some_and(|offered| offered.supports_tasks());
        if !has_extension || !is_known {
            return None;
        }
        TaskStore::prepare(self.task_owner(context), self.server.options.cancel.child())
    }

    /// How a person is asked about this call.
    fn question_route(
        &self,
        postponed: Option<&mut PostponedRequest<'_>>,
        task: Option<&Arc<Task>>,
        context: &RequestContext<RoleServer>,
    ) -> QuestionRoute {
        match postponed {
            Some(postponed) => {
                let postponing = Arc::new(postponed.approver(self.caller().answers));
                QuestionRoute::Answer { postponing, task: task.cloned() }
            }
            None => self.elicitor(context, None).map_or(QuestionRoute::Nobody, QuestionRoute::Session),
        }
    }

    /// What the call gives its run, and the progress that the run reports, if the client wants to know it.
    fn services(
        &self,
        route: &QuestionRoute,
        shows_forms: bool,
        task: Option<&Arc<Task>>,
        context: &RequestContext<RoleServer>,
    ) -> (CallServices, Option<mpsc::Receiver<ProgressNotificationParam>>) {
        let (progress, reports) = context.meta.get_progress_token().map(progress_channel).unzip();
        let services = CallServices {
            progress,
            approver: route.approver(self.caller().answers),
            sampling: client_model::for_call(&self.server.engine, context, task),
            elicitor: route.elicitor().filter(|_| shows_forms).cloned(),
            #[cfg(unix)]
            asker: route.asker(),
            journal_owner: task.and_then(|_| self.caller().identity.clone()),
            client: client_name(context),
            answer: answer_of(context).cloned(),
        };
        (services, reports)
    }
}

impl QuestionRoute {
    fn elicitor(&self) -> Option<&Elicitor> {
        match self {
            Self::Session(elicitor) => Some(elicitor),
            Self::Nobody | Self::Answer { .. } => None,
        }
    }

    /// Who decides about what the skill requests and nobody granted.
    fn approver(&self, memory: AnswerMemory) -> Option<Arc<dyn Approver>> {
        match self {
            Self::Nobody => None,
            Self::Session(elicitor) => Some(Arc::new(ElicitingApprover::new(elicitor.clone(), memory))),
            Self::Answer { postponing, task: None } => Some(postponing.clone()),
            Self::Answer { postponing, task: Some(task) } => {
                Some(Arc::new(TaskApprover::new(task.clone(), postponing.clone(), memory)))
            }
        }
    }

    /// By what a person is asked after a run. A call that is no task has no way to that, without a session.
    #[cfg(unix)]
    fn asker(&self) -> Option<PersonAsker> {
        match self {
            Self::Session(elicitor) => Some(PersonAsker::Session(elicitor.clone())),
            Self::Answer { task: Some(task), .. } => Some(PersonAsker::Task(task.clone())),
            Self::Nobody | Self::Answer { task: None, .. } => None,
        }
    }

    /// What is left to be asked by the answer of the call.
    fn take_question(&self) -> Option<ApprovalRequest> {
        match self {
            Self::Answer { postponing, .. } => postponing.take_question(),
            Self::Nobody | Self::Session(_) => None,
        }
    }
}

/// Admit: first among those that wait, then among those that run.
impl ServerState {
    /// Runs the tool to its end. When `cancelled` ends first, the run is told to stop, and still waited for: a call has ended when
    /// its processes have.
    async fn run(
        &self,
        caller: &Caller,
        tool: &ServedTool,
        arguments: JsonObject,
        cancelled: impl Future<Output = ()>,
        services: CallServices,
    ) -> Outcome {
        self.explain(tool, self.run_unexplained(caller, tool, arguments, cancelled, services).await)
    }

    /// The same with errors in the words of the engine.
    async fn run_unexplained(
        &self,
        caller: &Caller,
        tool: &ServedTool,
        arguments: JsonObject,
        cancelled: impl Future<Output = ()>,
        services: CallServices,
    ) -> Outcome {
        let outcome = self.run_in_turn(caller, tool, arguments, cancelled, services).await;
        outcome.unwrap_or_else(|error| Outcome::failed(tool.skill.clone(), error))
    }

    /// The outcome of the run, or why nothing of it has begun.
    async fn run_in_turn(
        &self,
        caller: &Caller,
        tool: &ServedTool,
        mut arguments: JsonObject,
        cancelled: impl Future<Output = ()>,
        mut services: CallServices,
    ) -> Result<Outcome> {
        let _answer = services.answer.take();
        let mut cancelled = pin!(cancelled);
        let waiting = self.queue.enter(caller.number)?;
        if let Some(elicitor) = &services.elicitor {
            arguments = ask_forms(&tool.tool.forms, arguments, elicitor, &mut cancelled).await?;
        }
        let call = self.prepare(caller, tool, arguments, services)?;
        let _place = wait_for_turn(caller, waiting, &mut cancelled).await?;
        Ok(self.execute(call, caller.answers, cancelled).await)
    }

    /// What the engine is to run, and what follows.
    fn prepare<'a>(
        &'a self,
        caller: &Caller,
        tool: &'a ServedTool,
        arguments: JsonObject,
        services: CallServices,
    ) -> Result<PreparedCall<'a>> {
        let token = self.options.cancel.child();
        let journals = self.plan_journals.as_ref().zip(services.journal_owner);
        // What a step did in a copy is not done.
        let journals = journals.filter(|_| tool.tool.keeps_journal(&arguments) && !self.options.previews);
        let follow_up = match journals {
            Some((journals, owner)) => FollowUp::Journal { journals, owner, arguments: arguments.clone() },
            None => FollowUp::Nothing,
        };
        let approver = services.approver;
        #[cfg(unix)]
        let (follow_up, approver) = match (follow_up, services.asker) {
            (FollowUp::Nothing, Some(asker)) => {
                let counted = approver.map(|approver| Arc::new(CountedApprover::new(approver)));
                let approver = counted.clone().map(|counted| counted as Arc<dyn Approver>);
                (FollowUp::Question { asker, approver: counted, arguments: arguments.clone() }, approver)
            }
            (follow_up, _) => (follow_up, approver),
        };
        let client = services.client.unwrap_or_default();
        let invocation = tool.tool.invocation(&tool.address, arguments)?;
        let invocation = self
            .with_options(invocation, &client)
            .with_facts(|facts| facts.owner = Some(RunOwner(caller.number)))
            .extension(AuditClient::new(AuditFace::Mcp).with_name(&client))
            .cancel(token.clone());
        let invocation = match services.progress {
            Some(listener) => invocation.observer(Arc::new(ProgressObserver(listener))),
            None => invocation,
        };
        let invocation = with_providers(invocation, approver, services.sampling);
        Ok(PreparedCall { tool, invocation, token, follow_up })
    }

    /// The invocation of a model's call, with what the server allows all calls.
    fn with_options(&self, invocation: Invocation, client: &str) -> Invocation {
        let options = &self.options;
        let mut invocation = invocation.for_model().tool_filter(options.tool_filter.clone());
        for permission in &options.grants {
            invocation = invocation.grant(permission.clone());
        }
        if let Some(limits) = &options.limits {
            invocation = invocation.limits(limits.clone());
        }
        if let Some(mode) = options.sandbox_mode {
            invocation = invocation.sandbox_mode(mode);
        }
        if let Some(mode) = options.execution_mode {
            invocation = invocation.execution_mode(mode);
        }
        if options.previews {
            invocation = invocation.preview(Preview::Store);
        }
        if options.parks {
            invocation = invocation.park(format!("the client {client:?}"));
        }
        invocation
    }
}

fn with_providers(
    invocation: Invocation,
    approver: Option<Arc<dyn Approver>>,
    sampling: Option<Arc<dyn SamplingProvider>>,
) -> Invocation {
    let asks = approver.is_some();
    if !asks && sampling.is_none() {
        return invocation;
    }
    let mut providers = Providers::default();
    (providers.approver, providers.sampling) = (approver, sampling);
    let invocation = invocation.providers(providers);
    if asks { invocation.ask_first() } else { invocation }
}

/// Waits until the client reads its answers and the call has a place among those that run.
async fn wait_for_turn(
    caller: &Caller,
    waiting: Waiting,
    cancelled: &mut (impl Future<Output = ()> + Unpin),
) -> Result<Running> {
    let turn = async {
        caller.backlog.writable().await;
        waiting.turn().await
    };
    let place = tokio::select! {
        biased;
        () = cancelled => None,
        place = turn => place,
    };
    let sentence = "the call was cancelled before it started";
    place.ok_or_else(|| SkillError::new(ErrorKind::Cancelled, sentence))
}

/// Run.
impl ServerState {
    /// Runs the call, and what follows it.
    async fn execute(
        &self,
        call: PreparedCall<'_>,
        #[cfg_attr(not(unix), expect(unused_variables))] memory: AnswerMemory,
        mut cancelled: impl Future<Output = ()> + Unpin,
    ) -> Outcome {
        let PreparedCall { tool, invocation, token, follow_up } = call;
        match follow_up {
            FollowUp::Nothing => run_until(&mut cancelled, &token, self.engine.run_async(invocation)).await,
            FollowUp::Journal { journals, owner, arguments } => {
                let run = async {
                    match self.open_journal(journals, &owner, (tool, arguments)).await {
                        Some(journal) => self.run_with_journal(invocation, &token, journal).await,
                        None => self.engine.run_async(invocation).await,
                    }
                };
                run_until(&mut cancelled, &token, run).await
            }
            #[cfg(unix)]
            FollowUp::Question { asker, approver, arguments } => {
                let again = Box::new(invocation.clone());
                let run = self.engine.run_async(invocation);
                let outcome = run_until(&mut cancelled, &token, run).await;
                let has_asked = approver.is_some_and(|approver| approver.has_question());
                if outcome.result.is_ok() || has_asked || token.is_cancelled() {
                    return outcome;
                }
                // Few calls come here, and all would hold the space.
                let (call, asker) = ((tool, *again, arguments), (asker, memory));
                Box::pin(self.ask_and_run_again(call, &token, outcome, asker, cancelled)).await
            }
        }
    }

    /// Asks a person whether a run that failed runs again with what it was refused; after a yes, the outcome of that run.
    #[cfg(unix)]
    async fn ask_and_run_again(
        &self,
        (tool, invocation, arguments): (&ServedTool, Invocation, JsonObject),
        token: &CancelToken,
        outcome: Outcome,
        (asker, memory): (PersonAsker, AnswerMemory),
        mut cancelled: impl Future<Output = ()> + Unpin,
    ) -> Outcome {
        let (engine, address) = (self.engine.clone(), tool.address.clone());
        let (first, failed) = (invocation.clone(), outcome.clone());
        // It reads files.
        let find = move || RefusalQuestion::new(&engine, (&address, &first, &arguments), &failed, memory);
        let Some(question) = tokio::task::spawn_blocking(find).await.ok().flatten() else { return outcome };
        let ended = async {
            tokio::select! {
                () = &mut cancelled => {}
                _ = token.cancelled() => {}
            }
        };
        let answer = asker.ask(question.form.clone(), ended).await;
        let approval = answer.map_or(Approval::No, |answer| question::approval(&answer, memory));
        if approval == Approval::No || token.is_cancelled() {
            return outcome;
        }
        let invocation = question.add_to(invocation);
        if matches!(approval, Approval::Always(_)) {
            let (engine, address) = (self.engine.clone(), tool.address.clone());
            tokio::task::spawn_blocking(move || question.remember(&engine, &address)).await.ok();
        }
        run_until(&mut cancelled, token, self.engine.run_async(invocation)).await
    }

    /// Runs a plan to its end with a journal, so that the same call goes on where an interrupted one stopped.
    async fn run_with_journal(
        &self,
        invocation: Invocation,
        token: &CancelToken,
        journal: Arc<PlanJournal>,
    ) -> Outcome {
        let mut outcome = self.engine.run_async(invocation.clone().journal(journal.folder())).await;
        let mut started_over = journal.damage().map(str::to_owned);
        if let Some(error) = outdated_error(&outcome) {
            // Nothing has run: the plan, a skill that it calls, or what they had, has changed since.
            started_over = Some(journal.without_folder(error.message()));
            in_background(&journal, PlanJournal::discard).await;
            outcome = self.engine.run_async(invocation).await;
        }
        outcome.started_over = started_over;
        // What the end of the server interrupted goes on with the next one, and what waits for a person goes on with its decision.
        let is_pending = outcome.result.as_ref().is_err_and(|error| error.kind() == ErrorKind::Pending);
        if !self.options.cancel.is_cancelled() && !is_pending {
            // A call that was refused or answered with a question left the plan where it is.
            let has_run = !outcome.steps.is_empty() || token.is_cancelled();
            in_background(&journal, if has_run { PlanJournal::discard } else { PlanJournal::discard_empty })
                .await;
        }
        outcome
    }

    async fn open_journal(
        &self,
        journals: &PlanJournals,
        owner: &str,
        (tool, arguments): (&ServedTool, JsonObject),
    ) -> Option<Arc<PlanJournal>> {
        let (journals, project) = (journals.clone(), self.engine.project().to_owned());
        let (tool, owner) = (tool.clone(), owner.to_owned());
        let open = move || journals.open(&owner, &project, &tool, &arguments);
        tokio::task::spawn_blocking(open).await.ok()?.map(Arc::new)
    }
}

/// Waits for the end of a run. When `cancelled` ends first, the run is told to stop, and still waited for.
async fn run_until(
    cancelled: &mut (impl Future<Output = ()> + Unpin),
    token: &CancelToken,
    run: impl Future<Output = Outcome>,
) -> Outcome {
    let mut running = pin!(run);
    tokio::select! {
        outcome = &mut running => outcome,
        () = cancelled => {
            token.cancel();
            running.await
        }
    }
}

async fn in_background(journal: &Arc<PlanJournal>, work: fn(&PlanJournal)) {
    let journal = journal.clone();
    tokio::task::spawn_blocking(move || work(&journal)).await.ok();
}

/// The error of a run that did nothing because its journal belongs to the plan as it was before.
fn outdated_error(outcome: &Outcome) -> Option<&SkillError> {
    let error = outcome.result.as_ref().err().filter(|_| outcome.steps.is_empty())?;
    matches!(error.hint(), Some(Hint::Journal)).then_some(error)
}

/// Run: while the request waits, or by itself.
impl Handler {
    /// Runs a call to its end, with its progress on the way.
    async fn run_call(
        &self,
        tool: &ServedTool,
        arguments: JsonObject,
        services: CallServices,
        mut reports: Option<mpsc::Receiver<ProgressNotificationParam>>,
        context: &RequestContext<RoleServer>,
    ) -> Outcome {
        let cancelled = context.ct.cancelled();
        let mut run = Box::pin(self.server.run(self.caller(), tool, arguments, cancelled, services));
        let outcome = loop {
            tokio::select! {
                outcome = &mut run => break outcome,
                Some(report) = next_report(reports.as_mut()) => {
                    context.peer.notify_progress(report).await.ok();
                }
            }
        };
        send_rest(reports, context).await;
        outcome
    }

    /// Starts the run, which goes on by itself, and waits for it; makes it a task when it takes long or has something to ask. If the request
    /// is cancelled or forgotten before that, the run is stopped.
    async fn run_as_task(
        &self,
        task: &Arc<Task>,
        tool: &ServedTool,
        arguments: JsonObject,
        services: CallServices,
        mut reports: Option<mpsc::Receiver<ProgressNotificationParam>>,
        context: &RequestContext<RoleServer>,
    ) -> TaskAnswer {
        let mut run = self.start_run(task, tool, arguments, services);
        let guard = StopGuard(Some(task.clone()));
        let mut waited = pin!(tokio::time::sleep(self.server.options.task_after));
        let (mut is_waiting, mut is_cancelled) = (true, false);
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut run => break outcome,
                () = context.ct.cancelled(), if !is_cancelled => {
                    (is_waiting, is_cancelled) = (false, true);
                    task.stop();
                }
                Some(report) = next_report(reports.as_mut()) => {
                    context.peer.notify_progress(report).await.ok();
                }
                () = task.needs_client(), if is_waiting => {}
                () = &mut waited, if is_waiting => {}
            }
            let is_due = task.is_asking() || waited.is_elapsed();
            if !is_waiting || !is_due {
                continue;
            }
            is_waiting = false;
            if self.caller().tasks.add(task) {
                guard.release();
                tokio::spawn(finish_task(task.clone(), run, self.result_form(tool, context)));
                return TaskAnswer::Task(task.summary());
            }
            // There are too many tasks, so it stays a call that nobody can answer questions for.
            task.stay_call();
        };
        guard.release();
        send_rest(reports, context).await;
        TaskAnswer::Ended(Box::new(outcome.unwrap_or_else(|_| broken_run())))
    }

    /// Starts the run of a call that is a task or may become one: it goes on whoever waits for it.
    fn start_run(
        &self,
        task: &Arc<Task>,
        tool: &ServedTool,
        arguments: JsonObject,
        mut services: CallServices,
    ) -> JoinHandle<Outcome> {
        let (server, caller) = (self.server.clone(), self.caller().clone());
        let (task, tool) = (task.clone(), tool.clone());
        let (listener, reported) = (services.progress.take(), task.clone());
        services.progress = Some(Arc::new(move |progress: &Progress| {
            reported.report(&progress_message(progress));
            // In the extension, the progress of a task is part of its state and of nothing else.
            if let Some(listener) = listener.as_ref().filter(|_| reported.reports_progress()) {
                listener(progress);
            }
        }));
        tokio::spawn(async move {
            let run = || {
                let stopped = async {
                    task.token().cancelled().await;
                };
                server.run_unexplained(&caller, &tool, arguments.clone(), stopped, services.clone())
            };
            let outcome = run().await;
            // Its place among the calls that run is free meanwhile.
            let is_decided = server.waits_for_decision(&task, &outcome).await;
            server.explain(&tool, if is_decided { run().await } else { outcome })
        })
    }
}

impl ServerState {
    /// Whether a call that waits for a person's decision has one now. Its task says which decision that is.
    async fn waits_for_decision(&self, task: &Arc<Task>, outcome: &Outcome) -> bool {
        let Some((error, id)) = outcome.result.as_ref().err().and_then(|error| match error.hint() {
            Some(Hint::Pending(id)) => Some((error, id)),
            _ => None,
        }) else {
            return false;
        };
        while task.wait_for_person(error.message()) {
            tokio::select! {
                () = tokio::time::sleep(DECISION_INTERVAL) => {}
                _ = task.token().cancelled() => return false,
            }
            match self.pending_state(id).await {
                Some(PendingState::Waiting) => {}
                Some(PendingState::Approved | PendingState::Denied) => return true,
                // It has expired, or an equal call was made.
                None => return false,
            }
        }
        false
    }

    /// What was decided about a pending call; `None` if there is no such call, or it cannot be read.
    async fn pending_state(&self, id: &str) -> Option<PendingState> {
        let (store, id) = (self.engine.pending_store()?.clone(), id.to_owned());
        let found = tokio::task::spawn_blocking(move || store.find(&id)).await.ok()?.ok()?;
        Some(found.state)
    }
}

/// Waits for the end of the run of a task, and stops it when its time to live is over.
async fn finish_task(task: Arc<Task>, mut run: JoinHandle<Outcome>, form: ResultForm) {
    let outcome = tokio::select! {
        outcome = &mut run => outcome,
        () = tokio::time::sleep(task.time_left()) => {
            task.stop();
            run.await
        }
    };
    let outcome = outcome.unwrap_or_else(|_| broken_run());
    // A run that was stopped may fail of what it could not ask any more before it learns that it was stopped.
    let has_failed = outcome.result.is_err();
    task.finish(&form.result(outcome), has_failed);
    form.caller.tasks.trim();
}

/// What is left when the code around a run panicked.
fn broken_run() -> Outcome {
    Outcome::failed("", SkillError::new(ErrorKind::Unavailable, "the call failed in the server"))
}

/// Stops the run of a request that is forgotten before it was answered.
struct StopGuard(Option<Arc<Task>>);

impl StopGuard {
    fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.stop();
        }
    }
}

/// Receives the progress of a call.
type ProgressListener = Arc<dyn Fn(&Progress) + Send + Sync>;

/// Passes on what a run reports about its progress.
struct ProgressObserver(ProgressListener);

impl Observer for ProgressObserver {
    fn on_event(&self, event: &Event) {
        if let EventKind::Progress(progress) = &event.kind {
            (self.0)(progress);
        }
    }
}

/// A listener for the progress of a run, and the notifications that it makes.
fn progress_channel(token: ProgressToken) -> (ProgressListener, mpsc::Receiver<ProgressNotificationParam>) {
    let (sender, receiver) = mpsc::channel(MAX_PROGRESS);
    let last = Mutex::new(0.0_f64);
    let listener = move |progress: &Progress| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        // The protocol demands that it grows. A script may report what it likes, or nothing but texts.
        let done = progress
            .done
            .filter(|done| done.is_finite() && *done > *last)
            .unwrap_or(*last + f64::EPSILON.max(*last * 1e-9));
        let mut report = ProgressNotificationParam::new(token.clone(), done)
            .with_message(shorten(&shown_text(&progress.message), 2_000));
        if let Some(total) = progress.total.filter(|total| total.is_finite()) {
            report = report.with_total(total);
        }
        if sender.try_send(report).is_ok() {
            *last = done;
        }
    };
    (Arc::new(listener), receiver)
}

async fn next_report(
    reports: Option<&mut mpsc::Receiver<ProgressNotificationParam>>,
) -> Option<ProgressNotificationParam> {
    reports?.recv().await
}

/// Sends what a run that has ended reported last.
async fn send_rest(
    mut reports: Option<mpsc::Receiver<ProgressNotificationParam>>,
    context: &RequestContext<RoleServer>,
) {
    while let Some(report) = reports.as_mut().and_then(|reports| reports.try_recv().ok()) {
        context.peer.notify_progress(report).await.ok();
    }
}

/// Progress as a text: how much of how much, and the message.
fn progress_message(progress: &Progress) -> String {
    let message = shown_line(&progress.message);
    match (progress.done, progress.total) {
        (Some(done), Some(total)) => format!("{done} of {total}: {message}"),
        (Some(done), None) => format!("{done}: {message}"),
        _ => message,
    }
}

/// Answer.
impl ResultForm {
    fn result(&self, outcome: Outcome) -> CallToolResult {
        let tool = &self.tool;
        let max_text = tool.max_result_size.unwrap_or(MAX_TEXT);
        let audience = Audience { max_text, needs_objects: self.needs_objects, store: &self.caller.results };
        let schema = tool.output_schema.as_ref();
        #[cfg(unix)]
        if let Some(changes) = outcome.changes.clone() {
            self.caller.change_sets.add(&changes);
            let mut result = call_result(outcome, schema, &audience);
            add_to_result(&mut result, &changes, schema.is_some(), &audience);
            return result;
        }
        call_result(outcome, schema, &audience)
    }
}

impl Handler {
    fn result_form(&self, tool: &ServedTool, context: &RequestContext<RoleServer>) -> ResultForm {
        let (caller, tool) = (self.caller().clone(), tool.tool.clone());
        ResultForm { caller, tool, needs_objects: needs_objects(context) }
    }
}

impl ServerState {
    /// The outcome of a call of this tool with an error that a model may read, and that says how a person can allow what was missing, in the
    /// words of the program around the server.
    fn explain(&self, tool: &ServedTool, mut outcome: Outcome) -> Outcome {
        // With a version, the skill was found, and the error is of one that it calls.
        let is_found = outcome.version.is_some();
        let is_changed = |error: &SkillError| match error.kind() {
            ErrorKind::UnknownSkill => !is_found,
            kind => matches!(kind, ErrorKind::InvalidSkill | ErrorKind::Untrusted),
        };
        if outcome.result.as_ref().is_err_and(is_changed) {
            // What a broken or untrusted file says is not text for a model, also where a script repeats it.
            outcome.process = None;
            outcome.log.clear();
        }
        outcome.result = outcome.result.map_err(|error| {
            let error = match error.hint() {
                _ if is_changed(&error) => changed_error(&tool.skill, &error),
                // The model has the contract: the schemas of the tool.
                Some(Hint::ShowSkill(_)) => error.without_help(),
                _ => error,
            };
            self.with_help((&tool.skill, &tool.address), error)
        });
        outcome
    }

    /// The error of a skill with this name and address, in the words of the program around the server.
    fn with_help(&self, skill: (&str, &str), error: SkillError) -> SkillError {
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
}
