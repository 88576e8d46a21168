//! Tasks as the revision 2025-11-25 writes them: there the client asks for a task, and a task has other keys. The library of the
//! protocol knows the later form only, so here they are JSON.

use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{DetailedTask, RequestMetaObject, TaskPayload};
use serde_json::{Map, Value, json};

/// The revision.
pub(super) const REVISION: &str = "2025-11-25";
/// Where a call keeps what it says about its task, since the library drops it.
const REQUEST_KEY: &str = "metier/task-request";
/// What a message that belongs to a task has among its metadata.
const RELATED_KEY: &str = "io.modelcontextprotocol/related-task";
/// The bounds of a time to live. A client may ask for any number.
const MIN_LIFETIME: Duration = Duration::from_secs(1);
const MAX_LIFETIME: Duration = Duration::from_hours(24);

/// Moves what a call says about its task to where the library leaves it.
pub(super) fn keep_task_request(message: &mut Value) {
    if message.get("method").is_none_or(|method| method != "tools/call") {
        return;
    }
    let Some(params) = message.get_mut("params").and_then(Value::as_object_mut) else { return };
    let request = params.remove("task");
    let meta = match params.get_mut("_meta") {
        None if request.is_some() => params.entry("_meta").or_insert_with(|| json!({})),
        Some(meta) => meta,
        None => return,
    };
    let Value::Object(meta) = meta else { return };
    meta.remove(REQUEST_KEY);
    meta.extend(request.map(|request| (REQUEST_KEY.to_owned(), request)));
}

/// Adds to an answer to `initialize` that calls of tools can be tasks.
pub(super) fn declare_tasks(message: &mut Value) {
    let Some(result) = message.get_mut("result").filter(|result| result["protocolVersion"] == REVISION)
    else {
        return;
    };
    if let Some(Value::Object(capabilities)) = result.get_mut("capabilities") {
        let tasks = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        capabilities.insert("tasks".to_owned(), tasks);
    }
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
        keep_task_request(message);
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
}
