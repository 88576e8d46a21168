//! A client is told of the states of its own tasks, if it subscribes to them.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::mcp::http_client::{Events, HttpServer};
use crate::support::cli::Project;

const TOKENS: [&str; 2] = ["first-token-of-the-test", "second-token-of-the-test"];
const WAIT: &str = "ctx.progress('waiting', 1, 2) while #ctx.list_dir('out') < 2 do end return {went = true}";
/// Long enough that its call is answered with a task.
const HELLO: &str = "local n = 0 for i = 1, 3000000 do n = n + i end return 'hello'";

fn project() -> Project {
    Project::new().lua("wait", WAIT).lua("hello", HELLO).file("out/keep", "").trusted()
}

fn tasks() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn call(server: &HttpServer, token: &str, tool: &str) -> String {
    let params = json!({"name": tool, "arguments": {}});
    let headers = [("authorization", bearer(token))];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let created = server.start_with("tools/call", params, &tasks(), &headers).answer().result();
    assert_eq!(created["resultType"], "task", "{created}");
    created["taskId"].as_str().unwrap().to_owned()
}

fn subscribe(server: &HttpServer, token: &str, ids: &[&str]) -> Events {
    let params = json!({"notifications": {"taskIds": ids, "toolsListChanged": true}});
    let bearer = bearer(token);
    server
        .start_with("subscriptions/listen", params, &tasks(), &[("authorization", bearer.as_str())])
        .events()
}

#[test]
fn a_subscription_over_http_is_to_the_callers_own_tasks() {
    let project = project();
    crate::mcp::write(&project, "tokens", &TOKENS.join("\n"));
    std::fs::set_permissions(project.path("tokens"), std::fs::Permissions::from_mode(0o600)).unwrap();
    let server = project.http_server(&["--token-file", "tokens", "--task-after", "0"]);
    let id = call(&server, TOKENS[0], "wait");
    let mut own = subscribe(&server, TOKENS[0], &[&id, "unknown", &id]);
    let acknowledged = own.next().unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
    let expected = json!({"taskIds": [id], "toolsListChanged": true});
    assert_eq!(acknowledged["params"]["notifications"], expected, "{acknowledged}");
    assert_eq!(acknowledged["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);

    let others = call(&server, TOKENS[1], "hello");
    let mut stranger = subscribe(&server, TOKENS[1], &[&id, &others]);
    let expected = json!({"taskIds": [others], "toolsListChanged": true});
    assert_eq!(stranger.next().unwrap()["params"]["notifications"], expected);

    let mut last = own.next().unwrap();
    while last["params"]["statusMessage"] != "1 of 2: waiting" {
        assert_eq!(
            (&last["method"], &last["params"]["status"]),
            (&json!("notifications/tasks"), &json!("working"))
        );
        last = own.next().unwrap();
    }
    crate::mcp::write(&project, "out/go", "");
    let ended = own.next().unwrap();
    assert_eq!(ended["method"], "notifications/tasks");
    assert_eq!(ended["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    let headers = [("authorization", bearer(TOKENS[0])), ("mcp-name", id.clone())];
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    let polled = server.start_with("tasks/get", json!({"taskId": id}), &tasks(), &headers).answer().result();
    for key in ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "result"] {
        assert_eq!(ended["params"][key], polled[key], "{key} of {ended}");
    }
    assert_eq!(ended["params"]["result"]["structuredContent"], json!({"went": true}), "{ended}");
    loop {
        let message = stranger.next().unwrap();
        assert_eq!(message["params"]["taskId"], others.as_str(), "{message}");
        if message["params"]["status"] == "completed" {
            break;
        }
    }
}

#[test]
fn a_subscription_begins_with_the_state_so_that_no_end_is_missed() {
    let project = project();
    let mut client = project.modern_client(&["--task-after", "0"]).with_tasks(&json!({}));
    let id = client.call_task("hello", json!({}));
    client.task_in_state(&id, "completed");
    let subscription = client.start("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    let acknowledged = client.notification("notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({"taskIds": [id]}));
    let state = client.notification("notifications/tasks");
    assert_eq!(state["params"]["status"], "completed", "{state}");
    assert_eq!(state["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], subscription);
    client.rename("other");
    client.start("subscriptions/listen", json!({"notifications": {"taskIds": [id]}}));
    let acknowledged = client.notification("notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"], json!({"taskIds": []}));
}

#[test]
fn a_subscription_to_tasks_needs_the_extension_and_ids() {
    let project = project();
    let listen = |filter: Value| json!({"notifications": filter});
    let mut client = project.modern_client(&[]);
    let answer = client.request("subscriptions/listen", listen(json!({"taskIds": ["x"]})));
    assert_eq!(answer["error"]["code"], -32021, "{answer}");
    let required = &answer["error"]["data"]["requiredCapabilities"]["extensions"];
    assert_eq!(*required, json!({"io.modelcontextprotocol/tasks": {}}));
    let mut client = project.modern_client(&[]).with_tasks(&json!({}));
    for ids in [json!("x"), json!([1]), json!({"x": 1}), many()] {
        let answer = client.request("subscriptions/listen", listen(json!({"taskIds": ids})));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let answer = client.request("subscriptions/listen", json!({"notifications": 5}));
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    let mut older = project.client(&[]);
    let answer = older.request("subscriptions/listen", listen(json!({"taskIds": ["x"]})));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

/// More ids than a subscription may have.
fn many() -> Value {
    (0..1_001).map(|number| number.to_string()).collect()
}
