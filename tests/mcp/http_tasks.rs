//! Tasks over HTTP: they outlive the connection that started them, and belong to whoever has the token.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp::http_client::{Answer, HttpServer};
use crate::mcp::processes::{processes, wait_until};
use crate::support::cli::Project;

const TOKENS: [&str; 2] = ["first-token-of-the-test", "second-token-of-the-test"];

/// Sends a request of a client with tasks, which has this token.
fn ask(server: &HttpServer, token: &str, method: &str, params: Value) -> Answer {
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}, "sampling": {}});
    let bearer = format!("Bearer {token}");
    let name =
        params.get("taskId").or_else(|| params.get("name")).and_then(Value::as_str).unwrap_or_default();
    let headers = [("authorization", bearer.as_str()), ("mcp-name", name)];
    server.start_with(method, params.clone(), &capabilities, &headers).answer()
}

fn task(server: &HttpServer, id: &str) -> Value {
    ask(server, TOKENS[0], "tasks/get", json!({"taskId": id})).result()
}

#[track_caller]
fn in_state(server: &HttpServer, id: &str, status: &str) -> Value {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let task = task(server, id);
        if task["status"] == status {
            return task;
        }
        assert!(Instant::now() < end, "not {status}: {task}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn server(project: &Project, args: &[&str]) -> HttpServer {
    crate::mcp::write(project, "tokens", &TOKENS.join("\n"));
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(project.path("tokens"), own).unwrap();
    project.http_server(&[&["--token-file", "tokens"], args].concat())
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_task_outlives_its_connection_and_belongs_to_its_token() {
    let project = Project::new().shell("tree", "sleep 4321.951 & wait").trusted();
    let server = server(&project, &["--task-after", "0"]);
    let created = ask(&server, TOKENS[0], "tools/call", json!({"name": "tree", "arguments": {}})).result();
    assert_eq!(created["resultType"], "task", "{created}");
    let id = created["taskId"].as_str().unwrap();
    wait_until(|| processes("4321.95") == 1);
    // Every request has a connection of its own, and all of them were closed by now.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((&task(&server, id)["status"], processes("4321.95")), (&json!("working"), 1));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let params = json!({"taskId": id, "inputResponses": {}});
        let answer = ask(&server, TOKENS[1], method, params);
        assert!(answer.body.contains("-32602"), "{method}: {answer:?}");
    }
    ask(&server, TOKENS[0], "tasks/cancel", json!({"taskId": id})).result();
    in_state(&server, id, "cancelled");
    wait_until(|| processes("4321.95") == 0);
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_connection_that_closes_before_the_task_stops_the_call() {
    let project = Project::new().shell("tree", "sleep 4321.961 & wait").trusted();
    let server = server(&project, &["--task-after", "60"]);
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let bearer = format!("Bearer {}", TOKENS[0]);
    let headers = [("authorization", bearer.as_str())];
    let params = json!({"name": "tree", "arguments": {}});
    let pending = server.start_with("tools/call", params, &capabilities, &headers);
    wait_until(|| processes("4321.96") == 1);
    pending.close();
    wait_until(|| processes("4321.96") == 0);
}

#[test]
fn a_task_asks_the_model_over_several_connections() {
    let text = "---\nname: sampler\ndescription: d\nallowed-tools: sample\n---\n";
    let project = Project::new()
        .lua("sampler", "return ctx.sample(nil, 'why?')")
        .file(".metier/skills/sampler/SKILL.md", text)
        .trusted();
    let server = server(&project, &["--allow", "sample"]);
    let created = ask(&server, TOKENS[0], "tools/call", json!({"name": "sampler", "arguments": {}})).result();
    let id = created["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    in_state(&server, id, "input_required");
    let answer = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "because"}});
    let params = json!({"taskId": id, "inputResponses": {"sample-1": answer}});
    ask(&server, TOKENS[0], "tasks/update", params).result();
    let task = in_state(&server, id, "completed");
    assert_eq!(task["result"]["content"][0]["text"], "because");
}

#[test]
fn an_answer_of_one_token_is_remembered_for_no_other() {
    let project = Project::new()
        .lua("marks", "ctx.write('out/a', 'a') return 'written'")
        .file(
            ".metier/skills/marks/SKILL.md",
            "---\nname: marks\ndescription: d\nallowed-tools: write:out\n---\n",
        )
        .trusted();
    let server = server(&project, &[]);
    let call = |token: &str, params: Value| {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("mcp-name", "marks")];
        let capabilities = json!({"elicitation": {"form": {}}});
        server.start_with("tools/call", params, &capabilities, &headers).answer().result()
    };
    let question = call(TOKENS[0], json!({"name": "marks", "arguments": {}}));
    let schema = question["inputRequests"]["approval"]["params"]["requestedSchema"].to_string();
    assert!(schema.contains("once") && !schema.contains("always"), "{question}");
    let answer = |answer: &str, question: &Value| {
        let answer = json!({"action": "accept", "content": {"answer": answer}});
        json!({
            "name": "marks",
            "arguments": {},
            "requestState": question["requestState"],
            "inputResponses": {"approval": answer},
        })
    };
    let refused = call(TOKENS[0], answer("always", &question));
    assert_eq!(refused["isError"], true, "it was not offered: {refused}");
    let question = call(TOKENS[0], json!({"name": "marks", "arguments": {}}));
    let written = call(TOKENS[0], answer("once", &question));
    assert_eq!(written["isError"], false, "{written}");
    for token in TOKENS {
        let question = call(token, json!({"name": "marks", "arguments": {}}));
        assert!(question["inputRequests"]["approval"].is_object(), "{token} is asked: {question}");
    }
}
