//! Tasks as messages have them where the library of the protocol does not know them: it has no tasks of the revision 2025-11-25,
//! where the client asks for them and they have other keys, and no subscriptions to tasks. There they are JSON.

use std::time::Duration;

use rmcp::model::{
    CustomRequest, DetailedTask, GetMeta, JsonRpcMessage, NotificationMetaObject, RequestMetaObject,
    TaskPayload,
};
use rmcp::service::TxJsonRpcMessage;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Map, Value, json};

/// Where a call keeps what it says about its task, since the library drops it.
const REQUEST_KEY: &str = "metier/task-request";
/// Where a subscription to tasks keeps what it is to. Without its own key, the library passes it on as a request that it does not
/// know.
const FILTER_KEY: &str = "metier/notifications";
/// What a message that belongs to a task has among its metadata.
const RELATED_KEY: &str = "io.modelcontextprotocol/related-task";
/// The bounds of a time to live. A client may ask for any number.
const MIN_LIFETIME: Duration = Duration::from_secs(1);
const MAX_LIFETIME: Duration = Duration::from_hours(24);

/// Moves what a message of a client says about tasks to where the library leaves it. Whether the message has changed.
pub(super) fn keep_task_parts(message: &mut Value) -> bool {
    let method = message.get("method").and_then(Value::as_str);
    let keep = match method {
        Some("tools/call") => keep_task_request,
        Some("subscriptions/listen") => keep_task_filter,
        _ => return false,
    };
    message.get_mut("params").and_then(Value::as_object_mut).is_some_and(keep)
}

fn keep_task_request(params: &mut Map<String, Value>) -> bool {
    let request = params.shift_remove("task");
    let is_task = request.is_some();
    let meta = match params.get_mut("_meta") {
        None if is_task => params.entry("_meta").or_insert_with(|| json!({})),
        Some(meta) => meta,
        None => return false,
    };
    let Value::Object(meta) = meta else { return is_task };
    // Only the parameter of the call asks for a task.
    let is_forged = meta.shift_remove(REQUEST_KEY).is_some();
    meta.extend(request.map(|request| (REQUEST_KEY.to_owned(), request)));
    is_task || is_forged
}

fn keep_task_filter(params: &mut Map<String, Value>) -> bool {
    let is_forged = params.shift_remove(FILTER_KEY).is_some();
    let ids = params.get("notifications").and_then(|filter| filter.get("taskIds"));
    if ids.is_none_or(Value::is_null) {
        return is_forged;
    }
    let filter = params.shift_remove("notifications");
    params.extend(filter.map(|filter| (FILTER_KEY.to_owned(), filter)));
    true
}

/// What a subscription to tasks is to; `None` for every other request.
pub(super) fn task_filter(request: &CustomRequest) -> Option<&Value> {
    request.params.as_ref()?.get(FILTER_KEY).filter(|_| request.method == "subscriptions/listen")
}

/// The time to live that a call asks for; `None` if it asks for no task.
pub(super) fn requested_lifetime(meta: &RequestMetaObject) -> Option<Result<Duration, ErrorData>> {
    let request = meta.get(REQUEST_KEY)?;
    let invalid = || Err(ErrorData::invalid_params("the ttl of a task is a number of milliseconds", None));
    let Value::Object(request) = request else { return Some(invalid()) };
    Some(match request.get("ttl") {
        None | Some(Value::Null) => Ok(MAX_LIFETIME),
        Some(ttl) => match ttl.as_f64().filter(|ttl| *ttl >= 0.0) {
            Some(ttl) => {
                let lifetime = Duration::try_from_secs_f64(ttl / 1000.0).unwrap_or(MAX_LIFETIME);
                Ok(lifetime.clamp(MIN_LIFETIME, MAX_LIFETIME))
            }
            None => invalid(),
        },
    })
}

/// The metadata of a message that belongs to this task.
pub(super) fn related(id: &str) -> Map<String, Value> {
    Map::from_iter([(RELATED_KEY.to_owned(), json!({"taskId": id}))])
}

/// The same for a notification.
pub(super) fn related_notification(id: &str) -> NotificationMetaObject {
    let mut meta = NotificationMetaObject::new();
    for (key, value) in related(id) {
        meta.insert(key, value);
    }
    meta
}

/// The task that a request or a notification of the server belongs to.
pub(super) fn related_task(message: &TxJsonRpcMessage<RoleServer>) -> Option<String> {
    let related = match message {
        JsonRpcMessage::Request(request) => {
            // Some requests have their metadata among the parameters, and some beside them; they are written in one way.
            let request = serde_json::to_value(&request.request).ok()?;
            request.get("params")?.get("_meta")?.get(RELATED_KEY)?.clone()
        }
        JsonRpcMessage::Notification(notification) => {
            notification.notification.get_meta().get(RELATED_KEY)?.clone()
        }
        _ => return None,
    };
    related.get("taskId")?.as_str().map(str::to_owned)
}

/// The state of a task. A tool that failed is a failed task here.
pub(super) fn state(details: &DetailedTask) -> Value {
    let task = &details.task;
    let is_error = matches!(&details.payload, TaskPayload::Completed { result } if result.get("isError") == Some(&json!(true)));
    let mut state = json!({
        "taskId": task.task_id,
        "status": if is_error { json!("failed") } else { json!(task.status) },
        "createdAt": task.created_at,
        "lastUpdatedAt": task.last_updated_at,
        "ttl": task.ttl_ms,
        "pollInterval": task.poll_interval_ms,
    });
    if let Some(message) = &task.status_message {
        state["statusMessage"] = json!(message);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In milliseconds, or why there is none.
    fn lifetime(message: &mut Value) -> Result<u128, &'static str> {
        keep_task_parts(message);
        let meta = message["params"]["_meta"].as_object().cloned().unwrap_or_default();
        let requested = requested_lifetime(&meta.into()).ok_or("no task")?;
        requested.map(|lifetime| lifetime.as_millis()).map_err(|_| "no number")
    }

    #[test]
    fn a_time_to_live_is_bounded_and_a_number() {
        for (ttl, expected) in [
            (json!(60_000), Ok(60_000)),
            (json!(0), Ok(1_000)),
            (json!(u64::MAX), Ok(86_400_000)),
            (json!(1e300), Ok(86_400_000)),
            (Value::Null, Ok(86_400_000)),
            (json!(-1), Err("no number")),
            (json!("60000"), Err("no number")),
            (json!([1]), Err("no number")),
        ] {
            let params = json!({"name": "x", "task": {"ttl": ttl}});
            let mut message = json!({"method": "tools/call", "params": params});
            assert_eq!(lifetime(&mut message), expected, "{ttl}");
            assert!(message["params"].get("task").is_none());
        }
        let mut task = json!({"method": "tools/call", "params": {"task": 1, "_meta": {"progressToken": 1}}});
        assert_eq!(lifetime(&mut task), Err("no number"));
    }

    #[test]
    fn only_a_call_asks_for_a_task() {
        for mut message in [
            json!({"method": "tools/list", "params": {"task": {}}}),
            json!({"method": "tools/call", "params": {"name": "x", "_meta": {REQUEST_KEY: {}}}}),
            json!({"method": "tools/call", "params": [1]}),
            json!({"method": "tools/call"}),
            json!([1]),
            json!("x"),
        ] {
            assert_eq!(lifetime(&mut message), Err("no task"), "{message}");
        }
    }

    #[test]
    fn only_a_subscription_to_tasks_is_kept_from_the_library() {
        let listen = |params: Value| json!({"method": "subscriptions/listen", "params": params});
        let filter = json!({"taskIds": ["x"], "toolsListChanged": true});
        for (mut message, expected, is_changed) in [
            (listen(json!({"notifications": filter})), Some(filter.clone()), true),
            (listen(json!({"notifications": {"toolsListChanged": true}})), None, false),
            (listen(json!({"notifications": {"taskIds": null}})), None, false),
            (listen(json!({FILTER_KEY: filter, "notifications": {}})), None, true),
            (listen(json!({FILTER_KEY: filter})), None, true),
            (json!({"method": "tasks/get", "params": {"notifications": filter}}), None, false),
        ] {
            assert_eq!(keep_task_parts(&mut message), is_changed, "{message}");
            let method = message["method"].as_str().unwrap().to_owned();
            let request = CustomRequest::new(method, message.get("params").cloned());
            assert_eq!(task_filter(&request), expected.as_ref(), "{message}");
        }
    }
}
