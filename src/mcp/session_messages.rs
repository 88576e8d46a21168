//! The messages of a session of the revision 2025-11-25, in which tasks are part of the protocol. The library of the protocol does
//! not know these tasks, so the requests about them become requests that it passes on as they are.

use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::RoleServer;
use rmcp::model::{
    ClientRequest, CustomRequest, CustomResult, GetExtensions, GetMeta, JsonRpcMessage, ProtocolVersion,
    ServerResult,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use serde_json::{Value, json};

use super::task_messages::requested_lifetime;

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
    use super::*;
    use rmcp::model::{InitializeResult, RequestId, ServerCapabilities};

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
