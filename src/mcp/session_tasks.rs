//! Tasks of the revision 2025-11-25, which a client starts itself. The library of the protocol does not know them, so the requests about them
//! become requests that it passes on as they are, and are answered here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{
    CallToolRequestParams, ClientRequest, CustomNotification, CustomRequest, CustomResult, GetExtensions,
    GetMeta, JsonRpcMessage, PaginatedRequestParams, ProtocolVersion, ServerNotification, ServerResult,
    TaskPayload,
};
use rmcp::service::{RequestContext, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::client::{Handler, reserve};
use super::paging::page;
use super::task::{Task, follow};
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
        let token = self.server.options.cancel.child();
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
            if tool["name"].as_str().is_some_and(|name| self.inventory().tool(name).is_some()) {
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

/// What passes between one client and the library.
pub(super) struct SessionMessages {
    /// Whether the session is of that revision, once it has begun.
    has_tasks: AtomicBool,
    /// Whether a client may list its tasks: nobody else may be taken for it.
    lists_tasks: bool,
}

impl SessionMessages {
    pub(super) fn new(lists_tasks: bool) -> Self {
        Self { has_tasks: AtomicBool::new(false), lists_tasks }
    }

    /// A message of the server. The answer to `initialize` says that calls of tools can be tasks.
    pub(super) fn outgoing(&self, message: TxJsonRpcMessage<RoleServer>) -> TxJsonRpcMessage<RoleServer> {
        let JsonRpcMessage::Response(response) = &message else { return message };
        let ServerResult::InitializeResult(result) = &response.result else { return message };
        let has_tasks = result.protocol_version == ProtocolVersion::V_2025_11_25;
        self.has_tasks.store(has_tasks, Ordering::Release);
        let Ok(mut result) = serde_json::to_value(result) else { return message };
        let Some(Value::Object(capabilities)) = result.get_mut("capabilities").filter(|_| has_tasks) else {
            return message;
        };
        let mut tasks = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
        if self.lists_tasks {
            tasks["list"] = json!({});
        }
        capabilities.insert("tasks".to_owned(), tasks);
        let result = ServerResult::CustomResult(CustomResult::new(result));
        JsonRpcMessage::response(result, response.id.clone())
    }

    /// A message of the client.
    pub(super) fn incoming(&self, message: RxJsonRpcMessage<RoleServer>) -> RxJsonRpcMessage<RoleServer> {
        match message {
            JsonRpcMessage::Request(mut request) if self.has_tasks.load(Ordering::Acquire) => {
                request.request = without_type(request.request);
                JsonRpcMessage::Request(request)
            }
            message => message,
        }
    }
}

/// A request that this revision understands differently, as one that the library does not know.
fn without_type(mut request: ClientRequest) -> ClientRequest {
    let is_meant = match &request {
        ClientRequest::CallToolRequest(_) => requested_lifetime(request.get_meta()).is_some(),
        ClientRequest::GetTaskRequest(_)
        | ClientRequest::UpdateTaskRequest(_)
        | ClientRequest::CancelTaskRequest(_)
        | ClientRequest::ListToolsRequest(_) => true,
        _ => false,
    };
    if !is_meant || request.get_meta().protocol_version().is_some() {
        return request;
    }
    // They hold the metadata, which would be written among the parameters.
    let extensions = std::mem::take(request.extensions_mut());
    let params = serde_json::to_value(&request).ok().and_then(|mut request| {
        let params = request.get_mut("params")?.take();
        Some(params).filter(|params| !params.is_null())
    });
    let mut custom = CustomRequest::new(request.method(), params);
    custom.extensions = extensions;
    ClientRequest::CustomRequest(custom)
}

#[cfg(test)]
mod tests {
    use rmcp::model::{InitializeResult, RequestId, ServerCapabilities};

    use super::*;

    fn begin(revision: ProtocolVersion, lists_tasks: bool) -> (SessionMessages, Value) {
        let messages = SessionMessages::new(lists_tasks);
        let mut result = InitializeResult::new(ServerCapabilities::builder().enable_tools().build());
        result.protocol_version = revision;
        let result = ServerResult::InitializeResult(result);
        let answer = messages.outgoing(JsonRpcMessage::response(result, RequestId::Number(1)));
        let answer = serde_json::to_value(answer).unwrap();
        (messages, answer["result"]["capabilities"].clone())
    }

    /// Whether the library passes the request on as it is, with its metadata.
    fn is_passed_on(messages: &SessionMessages, method: &str, params: &Value) -> bool {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let message = messages.incoming(serde_json::from_value(message).unwrap());
        let JsonRpcMessage::Request(request) = message else { panic!("a request") };
        let ClientRequest::CustomRequest(custom) = &request.request else { return false };
        assert_eq!(custom.method, method);
        assert_eq!(request.request.get_meta().get("a"), params["_meta"].get("a"));
        assert_eq!(custom.params.as_ref().and_then(|own| own.get("taskId")), params.get("taskId"));
        true
    }

    #[test]
    fn only_a_session_of_the_revision_has_tasks() {
        let (messages, capabilities) = begin(ProtocolVersion::V_2025_11_25, true);
        let expected = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        assert_eq!(capabilities["tasks"], expected);
        assert!(is_passed_on(&messages, "tasks/get", &json!({"taskId": "x", "_meta": {"a": 1}})));
        assert!(is_passed_on(&messages, "tools/list", &json!({})));
        assert!(!is_passed_on(&messages, "tools/call", &json!({"name": "x"})));
        let asking = json!({"name": "x", "_meta": {"a": 1, "metier/task-request": {}}});
        assert!(is_passed_on(&messages, "tools/call", &asking));
        let newer =
            json!({"taskId": "x", "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}});
        assert!(!is_passed_on(&messages, "tasks/get", &newer));

        let (_, capabilities) = begin(ProtocolVersion::V_2025_11_25, false);
        assert_eq!(capabilities["tasks"], json!({"cancel": {}, "requests": {"tools": {"call": {}}}}));
        let (older, capabilities) = begin(ProtocolVersion::V_2025_06_18, true);
        assert_eq!(capabilities.get("tasks"), None);
        assert!(!is_passed_on(&older, "tools/call", &asking));
        assert!(!is_passed_on(&SessionMessages::new(true), "tasks/get", &json!({"taskId": "x"})));
    }
}
