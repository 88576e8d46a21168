//! Answers the call of a skill's tool: with its result, a question, or a task.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CreateTaskResult, ErrorCode, GetMeta, JsonObject,
    ProgressNotification, ProgressNotificationParam, ServerNotification,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio::sync::mpsc;

use super::arguments::has_null_field;
use super::call::CallServices;
use super::call_errors::gone_error;
#[cfg(unix)]
use super::change_results::add_to_result;
use super::client_model;
use super::elicitation::{ElicitingApprover, Elicitor, TaskApprover, can_ask};
use super::handler::{Handler, Session, answer_of, needs_objects, request_error, set_size};
use super::inventory::{Inventory, ServedTool};
use super::postponed_request::{Filled, PostponedRequest};
use super::progress::progress_channel;
use super::question::AnswerMemory;
#[cfg(unix)]
use super::refusal_question::PersonAsker;
use super::request_state::{RequestStates, StateOwner};
use super::results::{Audience, MAX_TEXT, call_result, content_size, error_result};
use super::task::Task;
use super::task_call::{self, ResultMaker, TaskAnswer};
use super::task_messages::related_notification;
use crate::engine::{Engine, Outcome};
use metier_core::host::Approver;

impl Handler {
    pub(super) async fn call_skill(
        &self,
        tool: &ServedTool,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (calls, needs_objects) = (self.calls(), needs_objects(&context));
        let arguments = request.arguments.unwrap_or_default();
        let values = Value::Object(arguments.clone());
        let mut arguments = self.call_arguments(tool, arguments, &context).await?;
        let trust = self.form_trust(&tool.skill, &tool.tool.forms).await?;
        let elicitor = self.elicitor(&context, None);
        let form_elicitor = elicitor.clone().filter(|_| trust.is_trusted);
        let owner = StateOwner { name: &request.name, ..self.state_owner(&context, "tools/call", &values) };
        let mut postponed = match self.request_states(&context) {
            Some(states) => {
                let (state, responses) = (request.request_state.as_deref(), request.input_responses);
                let opened = PostponedRequest::open(states, owner, state, responses);
                Some(opened.map_err(|error| request_error(&error))?)
            }
            None => None,
        };
        if let Some(postponed) = &mut postponed {
            arguments = match postponed.fill(&tool.tool.forms, trust, arguments) {
                Ok(Filled::Arguments(arguments)) => arguments,
                Ok(Filled::Question(question)) => return Ok((*question).into()),
                Err(error) => return Ok(error_result(&error).into()),
            };
        }
        let task = task_call::prepare(calls, &context, self.task_owner(&context));
        let memory = self.caller().answers;
        let postponing = postponed.as_mut().map(|postponed| Arc::new(postponed.approver(memory)));
        // A call that is no task has no way to ask after something has run, without a session.
        #[cfg(unix)]
        let asker = match (&elicitor, &postponing, &task) {
            (Some(elicitor), ..) => Some(PersonAsker::Session(elicitor.clone())),
            (None, Some(_), Some(task)) => Some(PersonAsker::Task(task.clone())),
            _ => None,
        };
        let approver = match (&postponing, &task) {
            (Some(postponing), Some(task)) => {
                Some(Arc::new(TaskApprover::new(task.clone(), postponing.clone(), memory))
                    as Arc<dyn Approver>)
            }
            (Some(postponing), None) => Some(postponing.clone() as Arc<dyn Approver>),
            (None, _) => elicitor.map(|elicitor| eliciting_approver(elicitor, memory)),
        };
        let (progress, reports) = match context.meta.get_progress_token() {
            Some(token) => progress_channel(token),
            None => (None, None),
        };
        let sampling = client_model::for_call(calls, &context, task.as_ref());
        let services = CallServices {
            progress,
            approver,
            sampling,
            elicitor: form_elicitor,
            #[cfg(unix)]
            asker,
            journal_owner: task.as_ref().and_then(|_| self.caller().identity.clone()),
            client: client_name(&context),
            answer: answer_of(&context).cloned(),
        };
        let into_result = self.result_maker(tool, needs_objects);
        let outcome = match &task {
            None => self.run_call(tool, arguments, &context, services, reports).await,
            Some(task) => {
                let run = task_call::start((calls, self.caller()), task, tool.clone(), arguments, services);
                let maker = self.result_maker(tool, needs_objects);
                let waits = (calls.task_after(), self.caller());
                match task_call::answer(waits, task, run, &context, reports, maker).await {
                    TaskAnswer::Ended(outcome) => *outcome,
                    TaskAnswer::Task(task) => return Ok(CreateTaskResult::new(task).into()),
                }
            }
        };
        let question = postponing.and_then(|approver| approver.take_question());
        let question = question.and_then(|question| postponed?.ask_approval(&question, memory));
        if let Some(question) = question {
            return Ok(question.into());
        }
        let result = into_result(outcome);
        Ok(set_size(&context, content_size(&result), result).into())
    }

    /// What questions need that are the answer of a request; `None` in sessions, and if the client cannot ask.
    pub(super) fn request_states(&self, context: &RequestContext<RoleServer>) -> Option<&RequestStates> {
        self.calls().request_states().filter(|_| can_ask(context) && !needs_objects(context))
    }

    /// By what a person is asked in a session; `None` without one, and if the client cannot ask.
    pub(super) fn elicitor(
        &self,
        context: &RequestContext<RoleServer>,
        task: Option<Arc<Task>>,
    ) -> Option<Elicitor> {
        let asks = self.calls().request_states().is_some() && can_ask(context) && needs_objects(context);
        asks.then(|| Elicitor::new(context, task))
    }

    /// Whose the state of a request with these arguments is, without the name of what it is about.
    pub(super) fn state_owner<'a>(
        &self,
        context: &RequestContext<RoleServer>,
        method: &'static str,
        arguments: &'a Value,
    ) -> StateOwner<'a> {
        let client = client_name(context).unwrap_or_default();
        StateOwner { caller: self.caller().number, client, method, name: "", arguments }
    }

    fn result_maker(&self, tool: &ServedTool, needs_objects: bool) -> ResultMaker {
        let (caller, tool) = (self.caller().clone(), tool.tool.clone());
        Box::new(move |outcome| {
            let max_text = tool.max_result_size.unwrap_or(MAX_TEXT);
            let audience = Audience { max_text, needs_objects, store: &caller.results };
            let schema = tool.output_schema.as_ref();
            #[cfg(unix)]
            if let Some(changes) = outcome.changes.clone() {
                caller.change_sets.add(&changes);
                let mut result = call_result(outcome, schema, &audience);
                add_to_result(&mut result, &changes, schema.is_some(), &audience);
                return result;
            }
            call_result(outcome, schema, &audience)
        })
    }

    /// Runs a call to its end, with its progress on the way.
    async fn run_call(
        &self,
        tool: &ServedTool,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
        services: CallServices,
        mut reports: Option<mpsc::Receiver<ProgressNotificationParam>>,
    ) -> Outcome {
        let mut run =
            Box::pin(self.calls().run(self.caller(), tool, arguments, context.ct.cancelled(), services));
        let Some(reports) = &mut reports else { return run.await };
        let outcome = loop {
            tokio::select! {
                outcome = &mut run => break outcome,
                Some(report) = reports.recv() => drop(context.peer.notify_progress(report).await),
            }
        };
        while let Ok(report) = reports.try_recv() {
            context.peer.notify_progress(report).await.ok();
        }
        outcome
    }

    /// Starts a call as the task that its client wants it to be.
    pub(super) async fn start_task(
        &self,
        task: &Arc<Task>,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (calls, inventory) = (self.calls(), self.inventory());
        let Some(tool) = inventory.tool(&request.name) else {
            return Err(self.no_task_error(&request.name, context).await?);
        };
        let arguments = request.arguments.unwrap_or_default();
        let arguments = self.call_arguments(tool, arguments, context).await?;
        let trust = self.form_trust(&tool.skill, &tool.tool.forms).await?;
        if !self.caller().tasks.add(task) {
            let sentence = "there are too many tasks; call the tool without one, or again later";
            return Err(ErrorData::internal_error(sentence, None));
        }
        let (progress, reports) = match context.meta.get_progress_token() {
            Some(token) => progress_channel(token),
            None => (None, None),
        };
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
        let elicitor = self.elicitor(context, Some(task.clone()));
        let services = CallServices {
            progress,
            approver: elicitor.clone().map(|elicitor| eliciting_approver(elicitor, self.caller().answers)),
            sampling: client_model::for_call(calls, context, Some(task)),
            #[cfg(unix)]
            asker: elicitor.clone().map(PersonAsker::Session),
            elicitor: elicitor.filter(|_| trust.is_trusted),
            journal_owner: self.caller().identity.clone(),
            client: client_name(context),
            answer: answer_of(context).cloned(),
        };
        let run = task_call::start((calls, self.caller()), task, tool.clone(), arguments, services);
        let into_result = self.result_maker(tool, needs_objects(context));
        tokio::spawn(task_call::finish(self.caller().clone(), task.clone(), run, into_result));
        Ok(())
    }

    /// The arguments that a call gives.
    async fn call_arguments(
        &self,
        tool: &ServedTool,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<JsonObject, ErrorData> {
        if !arguments.values().any(|value| value.is_null() || has_null_field(value)) {
            return Ok(arguments);
        }
        // To validate a large value takes time.
        let tool = tool.tool.clone();
        self.read(Some(context), move |_, _, _| tool.without_nulls(arguments)).await
    }

    /// Why a call of a tool that is not that of a skill is no task.
    async fn no_task_error(
        &self,
        name: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<ErrorData, ErrorData> {
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

    /// The task that a caller means.
    pub(super) fn task(
        &self,
        id: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Arc<Task>, ErrorData> {
        self.caller().tasks.find(&self.task_owner(context), id).ok_or_else(|| {
            let sentence = "there is no task with this id: it has expired, or was of an earlier server; call the tool again";
            ErrorData::invalid_params(sentence, None)
        })
    }

    /// Whose the tasks of a request are, where there are no sessions: the caller's, from the client of this name.
    pub(super) fn task_owner(&self, context: &RequestContext<RoleServer>) -> String {
        format!("{} {}", self.caller().number, client_name(context).unwrap_or_default())
    }
}

/// The name by which the client of a request calls itself.
pub(super) fn client_name(context: &RequestContext<RoleServer>) -> Option<String> {
    context.client_info().map(|client| client.name)
}

fn eliciting_approver(elicitor: Elicitor, memory: AnswerMemory) -> Arc<dyn Approver> {
    Arc::new(ElicitingApprover::new(elicitor, memory))
}
