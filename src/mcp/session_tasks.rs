//! Serves a client of the revision 2025-11-25, in which tasks are part of the protocol and the client asks for them. Everything
//! else is served as it is.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, ClientNotification, ClientRequest, CustomResult, ErrorCode, ProtocolVersion,
    ServerConfig, ServerResult, TaskPayload,
};
use rmcp::service::{NotificationContext, RequestContext};
use rmcp::{ErrorData, RoleServer, Service};
use serde_json::{Value, json};

use super::handler::{Handler, page};
use super::task::Task;
use super::task_messages::{self, related, state};

/// A client of a session, whose tasks nobody else finds.
pub(super) struct SessionTasks {
    handler: Handler,
    /// Differs for every session.
    owner: String,
}

impl SessionTasks {
    /// Without random numbers there are no tasks either.
    pub(super) fn new(handler: Handler) -> Self {
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok();
        Self { handler, owner: format!("session {:032x}", u128::from_be_bytes(random)) }
    }

    fn start(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let lifetime = task_messages::requested_lifetime(&context.meta);
        let lifetime =
            lifetime.unwrap_or_else(|| Err(ErrorData::invalid_params("no task was asked for", None)))?;
        let token = self.handler.calls().cancel().child();
        let Some(task) = Task::for_session(self.owner.clone(), token, lifetime) else {
            return Err(ErrorData::internal_error("the system has no random numbers", None));
        };
        self.handler.start_task(&task, request, context)?;
        Ok(json!({"task": state(&task.details())}))
    }

    fn find(&self, id: &str) -> Result<Arc<Task>, ErrorData> {
        let task = self.handler.calls().tasks().find(&self.owner, id);
        task.ok_or_else(|| {
            let sentence = "there is no task with this id, or it has expired; call the tool again";
            ErrorData::invalid_params(sentence, None)
        })
    }

    fn cancel(&self, id: &str) -> Result<Value, ErrorData> {
        let task = self.find(id)?;
        if !task.cancel() {
            return Err(ErrorData::invalid_params("the task has ended, so it cannot be cancelled", None));
        }
        Ok(state(&task.details()))
    }

    /// The result of a call, once its task has ended.
    async fn result(&self, params: Option<Value>) -> Result<Value, ErrorData> {
        let id = params.as_ref().and_then(|params| params["taskId"].as_str());
        let id = id.ok_or_else(|| ErrorData::invalid_params("the parameter taskId is a text", None))?;
        let task = self.find(id)?;
        task.ended().await;
        let TaskPayload::Completed { mut result } = task.details().payload else {
            return Err(ErrorData::internal_error("the task was cancelled, so it has no result", None));
        };
        if let Value::Object(meta) = result.entry("_meta").or_insert_with(|| json!({})) {
            meta.extend(related(id));
        }
        Ok(Value::Object(result))
    }

    fn list(&self, params: Option<Value>) -> Result<Value, ErrorData> {
        let request = params.map(serde_json::from_value).transpose();
        let request = request.map_err(|_| ErrorData::invalid_params("the cursor is a text", None))?;
        let (tasks, next) = page(self.handler.calls().tasks().all(&self.owner), request)?;
        let states: Vec<Value> = tasks.iter().map(|task| state(&task.details())).collect();
        Ok(match next {
            Some(next) => json!({"tasks": states, "nextCursor": next}),
            None => json!({"tasks": states}),
        })
    }

    /// A list of tools which says that those of skills can be tasks.
    fn with_task_support(&self, tools: &ServerResult) -> Result<Value, ErrorData> {
        let mut tools = serde_json::to_value(tools)
            .map_err(|_| ErrorData::internal_error("the tools cannot be listed", None))?;
        for tool in tools["tools"].as_array_mut().into_iter().flatten() {
            if tool["name"].as_str().is_some_and(|name| self.handler.is_skill_tool(name)) {
                tool["execution"] = json!({"taskSupport": "optional"});
            }
        }
        Ok(tools)
    }
}

impl Service<RoleServer> for SessionTasks {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let is_of_revision =
            context.protocol_version().is_some_and(|version| version == ProtocolVersion::V_2025_11_25);
        if !is_of_revision {
            return self.handler.handle_request(request, context).await;
        }
        let value = match request {
            ClientRequest::CallToolRequest(request)
                if task_messages::requested_lifetime(&context.meta).is_some() =>
            {
                self.start(request.params, &context)
            }
            ClientRequest::GetTaskRequest(request) => {
                self.find(&request.params.task_id).map(|task| state(&task.details()))
            }
            ClientRequest::CancelTaskRequest(request) => self.cancel(&request.params.task_id),
            ClientRequest::UpdateTaskRequest(_) => {
                Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "there is no method tasks/update", None))
            }
            ClientRequest::CustomRequest(request) if request.method == "tasks/list" => {
                self.list(request.params)
            }
            ClientRequest::CustomRequest(request) if request.method == "tasks/result" => tokio::select! {
                result = self.result(request.params) => result,
                () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
            },
            request @ ClientRequest::ListToolsRequest(_) => {
                let tools = self.handler.handle_request(request, context).await?;
                self.with_task_support(&tools)
            }
            request => return self.handler.handle_request(request, context).await,
        };
        value.map(|value| ServerResult::CustomResult(CustomResult::new(value)))
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.handler.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.handler)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Service::supported_protocol_versions(&self.handler)
    }
}
