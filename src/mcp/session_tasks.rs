//! Answers what a client of the revision 2025-11-25 asks about tasks, which it starts itself there: as requests that the library of
//! the protocol passes on as they are.

use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CustomNotification, CustomRequest, PaginatedRequestParams, ProtocolVersion,
    ServerNotification, TaskPayload,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::handler::{Handler, reserve};
use super::paging::page;
use super::task::Task;
use super::task_changes::follow;
use super::task_messages::{related, requested_lifetime, state};

impl Handler {
    /// The answer, if the revision has this request and the library does not know it.
    pub(super) async fn session_request(
        &self,
        request: &CustomRequest,
        context: &RequestContext<RoleServer>,
    ) -> Option<Result<Value, ErrorData>> {
        let has_tasks =
            context.protocol_version().is_some_and(|version| version == ProtocolVersion::V_2025_11_25);
        if !has_tasks {
            return None;
        }
        let owner = self.session_owner(context);
        Some(match request.method.as_str() {
            "tools/list" => self.list_session_tools(request, context).await,
            "tools/call" => {
                self.start_session_task(request, context, owner, requested_lifetime(&context.meta)?).await
            }
            "tasks/get" => self.session_task(request, &owner).map(|task| state(&task.details())),
            "tasks/cancel" => self.cancel_session_task(request, &owner),
            "tasks/result" => tokio::select! {
                result = self.session_task_result(request, &owner, context) => result,
                () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
            },
            // Where callers cannot be told apart, a list would show the tasks of others.
            "tasks/list" if self.caller().is_identified => self.list_session_tasks(request, &owner),
            _ => return None,
        })
    }

    async fn start_session_task(
        &self,
        request: &CustomRequest,
        context: &RequestContext<RoleServer>,
        owner: String,
        lifetime: Result<std::time::Duration, ErrorData>,
    ) -> Result<Value, ErrorData> {
        let call: CallToolRequestParams = params(request)?;
        let token = self.calls().cancel().child();
        let Some(task) = Task::for_session(owner, token, lifetime?) else {
            return Err(ErrorData::internal_error("the system has no random numbers", None));
        };
        self.start_task(&task, call, context).await?;
        let started = task.details();
        let answer = json!({"task": state(&started)});
        let (caller, peer) = (self.caller().clone(), context.peer.clone());
        // Where the session has ended, nobody is told. The task goes on.
        let of_state = |_| std::future::ready(());
        tokio::spawn(follow(task, Some(started), of_state, move |details| {
            let notice = CustomNotification::new("notifications/tasks/status", Some(state(&details)));
            let (caller, peer) = (caller.clone(), peer.clone());
            async move {
                caller.backlog.writable().await;
                peer.send_notification(ServerNotification::CustomNotification(notice)).await.is_ok()
            }
        }));
        Ok(answer)
    }

    fn session_task(&self, request: &CustomRequest, owner: &str) -> Result<Arc<Task>, ErrorData> {
        let id = request.params.as_ref().and_then(|params| params.get("taskId")?.as_str());
        let id = id.ok_or_else(|| ErrorData::invalid_params("the parameter taskId is a text", None))?;
        self.caller().tasks.find(owner, id).ok_or_else(|| {
            let sentence = "there is no task with this id, or it has expired; call the tool again";
            ErrorData::invalid_params(sentence, None)
        })
    }

    fn cancel_session_task(&self, request: &CustomRequest, owner: &str) -> Result<Value, ErrorData> {
        let task = self.session_task(request, owner)?;
        if !task.cancel() {
            return Err(ErrorData::invalid_params("the task has ended, so it cannot be cancelled", None));
        }
        Ok(state(&task.details()))
    }

    /// The result of a call, once its task has ended.
    async fn session_task_result(
        &self,
        request: &CustomRequest,
        owner: &str,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let task = self.session_task(request, owner)?;
        task.ended().await;
        reserve(context, task.result_size()).await?;
        let TaskPayload::Completed { mut result } = task.details().payload else {
            return Err(ErrorData::internal_error("the task was cancelled, so it has no result", None));
        };
        if let Value::Object(meta) = result.entry("_meta").or_insert_with(|| json!({})) {
            meta.extend(related(task.id()));
        }
        Ok(Value::Object(result))
    }

    fn list_session_tasks(&self, request: &CustomRequest, owner: &str) -> Result<Value, ErrorData> {
        // The state of a task is small; its result is no part of the list.
        let tasks = self.caller().tasks.all(owner);
        let (tasks, next) = page(&tasks, page_params(request)?, |task| Some(task.clone()), |_| 0)?;
        let states: Vec<Value> = tasks.iter().map(|task| state(&task.details())).collect();
        Ok(match next {
            Some(next) => json!({"tasks": states, "nextCursor": next}),
            None => json!({"tasks": states}),
        })
    }

    /// A list of tools which says that those of skills can be tasks.
    async fn list_session_tools(
        &self,
        request: &CustomRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let tools = self.list_tools(page_params(request)?, context.clone()).await?;
        let mut tools = serde_json::to_value(tools)
            .map_err(|_| ErrorData::internal_error("the tools cannot be listed", None))?;
        if let Value::Object(result) = &mut tools {
            // Only later revisions have it.
            result.shift_remove("resultType");
        }
        for tool in tools["tools"].as_array_mut().into_iter().flatten() {
            if tool["name"].as_str().is_some_and(|name| self.is_skill_tool(name)) {
                tool["execution"] = json!({"taskSupport": "optional"});
            }
        }
        Ok(tools)
    }

    /// Whose the tasks are that clients start: the caller's, from the client of this name, in all of its sessions.
    fn session_owner(&self, context: &RequestContext<RoleServer>) -> String {
        format!("session {}", self.task_owner(context))
    }
}

fn params<T: DeserializeOwned>(request: &CustomRequest) -> Result<T, ErrorData> {
    let params = request.params_as().ok().flatten();
    params.ok_or_else(|| {
        ErrorData::invalid_params(format!("the parameters do not fit {}", request.method), None)
    })
}

fn page_params(request: &CustomRequest) -> Result<Option<PaginatedRequestParams>, ErrorData> {
    request.params_as().map_err(|_| ErrorData::invalid_params("the cursor is a text", None))
}
