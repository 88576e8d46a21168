//! `ctx.sample` asks the model of the client: by a request where the revision has them, or inside a task.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp::client::{Client, TIMEOUT};
use crate::support::cli::Project;

const ALLOWED: [&str; 2] = ["--allow", "sample"];

fn project_with(script: &str) -> Project {
    let frontmatter = "---\nname: sampler\ndescription: d\nallowed-tools: sample\n---\n";
    Project::new().lua("sampler", script).file(".metier/skills/sampler/SKILL.md", frontmatter).trusted()
}

fn project() -> Project {
    project_with("return ctx.sample('be short', 'why?', 20)")
}

fn session_client(project: &Project, revision: &str, args: &[&str]) -> Client {
    project.client_with(revision, json!({"sampling": {}}), args)
}

fn task_client(project: &Project, args: &[&str]) -> Client {
    project.modern_client(args).with_tasks(&json!({"sampling": {}}))
}

fn text(text: &str) -> Value {
    let content = json!({"type": "text", "text": text});
    json!({"role": "assistant", "model": "m", "stopReason": "endTurn", "content": content})
}

/// Calls the skill, and returns the id of the call and the request to the model.
fn asked(client: &mut Client) -> (i64, Value) {
    let id = client.start("tools/call", json!({"name": "sampler", "arguments": {}}));
    (id, client.notification("sampling/createMessage"))
}

fn reply(client: &mut Client, request: &Value, result: Value) {
    client.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
}

#[track_caller]
fn assert_error(result: &Value, kind: &str, sentence: &str) {
    assert_eq!(result["_meta"]["metier/error"]["kind"], kind, "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains(sentence), "{result}");
}

#[test]
fn a_client_with_sessions_is_asked_while_the_call_waits() {
    let project = project();
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut client = session_client(&project, revision, &ALLOWED);
        let (id, request) = asked(&mut client);
        let params = &request["params"];
        assert_eq!(params["messages"][0]["content"], json!({"type": "text", "text": "why?"}));
        assert_eq!((&params["maxTokens"], &params["systemPrompt"]), (&json!(20), &json!("be short")));
        reply(&mut client, &request, text("because"));
        assert_eq!(client.response(id)["result"]["content"][0]["text"], "because");
    }
}

#[test]
fn a_task_asks_the_model_and_goes_on_with_its_answer() {
    let project = project();
    let mut client = task_client(&project, &ALLOWED);
    // It is a task at once, since it could not ask otherwise.
    let started = Instant::now();
    let id = client.call_task("sampler", json!({}));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    let task = client.task_in_state(&id, "input_required");
    let request = &task["inputRequests"]["sample-1"];
    assert_eq!(request["method"], "sampling/createMessage", "{task}");
    assert_eq!(request["params"]["maxTokens"], 20);
    client.answer_task(&id, "sample-2", text("of nobody"));
    client.answer_task(&id, "sample-1", text("because"));
    client.answer_task(&id, "sample-1", text("replayed"));
    let task = client.task_in_state(&id, "completed");
    assert_eq!(task["result"]["content"][0]["text"], "because");
}

#[test]
fn several_questions_have_keys_of_their_own() {
    let project = project_with("return ctx.sample(nil, 'a') .. ctx.sample(nil, 'b')");
    let mut client = task_client(&project, &ALLOWED);
    let id = client.call_task("sampler", json!({}));
    for (key, answer) in [("sample-1", "one "), ("sample-2", "two")] {
        let end = Instant::now() + TIMEOUT;
        while client.task_in_state(&id, "input_required")["inputRequests"].get(key).is_none() {
            assert!(Instant::now() < end, "no question {key}");
        }
        client.answer_task(&id, key, text(answer));
    }
    let task = client.task_in_state(&id, "completed");
    assert_eq!(task["result"]["content"][0]["text"], "one two");
}

#[test]
fn without_the_permission_no_model_is_asked() {
    let project = project();
    let mut client = session_client(&project, "2025-11-25", &[]);
    let result = client.call("sampler", json!({}));
    assert_error(&result, "denied", "metier allow sampler sample");
    assert!(client.messages.is_empty(), "{:?}", client.messages);
    let result = task_client(&project, &[]).call("sampler", json!({}));
    assert_error(&result, "denied", "metier allow sampler sample");
    // A grant that the skill does not request is none.
    let project = Project::new().lua("sampler", "return ctx.sample(nil, 'why?')").trusted();
    let mut client = session_client(&project, "2025-11-25", &ALLOWED);
    let result = client.call("sampler", json!({}));
    assert_eq!(result["isError"], true, "{result}");
    assert!(client.messages.is_empty(), "{:?}", client.messages);
}

#[test]
fn a_person_is_asked_before_the_model_is() {
    let project = project();
    let capabilities = json!({"sampling": {}, "elicitation": {}});
    let mut client = project.client_with("2025-11-25", capabilities, &[]);
    for (choice, runs) in [("no", false), ("once", true)] {
        let id = client.start("tools/call", json!({"name": "sampler", "arguments": {}}));
        let question = client.notification("elicitation/create");
        assert!(question["params"]["message"].as_str().unwrap().contains("- sample: "), "{question}");
        let answer = json!({"action": "accept", "content": {"answer": choice}});
        reply(&mut client, &question, answer);
        if runs {
            let request = client.notification("sampling/createMessage");
            // What a model says is a text for the script, whatever it says.
            reply(&mut client, &request, text("{\"action\": \"accept\"}"));
        }
        let result = client.response(id)["result"].clone();
        assert_eq!(result["isError"], !runs, "{result}");
    }
}

#[test]
fn where_no_model_can_be_asked_the_error_says_why() {
    let project = project();
    let result = project.client(&ALLOWED).call("sampler", json!({}));
    assert_error(&result, "unavailable", "the client of this server offers no model");
    let result = project.modern_client(&ALLOWED).with_tasks(&json!({})).call("sampler", json!({}));
    assert_error(&result, "unavailable", "the client of this server offers no model");
    let mut client = project.modern_client(&ALLOWED).with_capabilities(&json!({"sampling": {}}));
    assert_error(&client.call("sampler", json!({})), "unavailable", "asked only inside a task");
}

#[test]
fn an_answer_that_is_no_text_of_a_model_is_an_error() {
    let project = project();
    let large = "x".repeat((1 << 20) + 1);
    let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    let answers = [
        text(&large),
        json!({"role": "assistant", "model": "m", "content": image}),
        json!({"role": "user", "model": "m", "content": {"type": "text", "text": "x"}}),
        json!({"roots": []}),
        json!({"action": "accept", "content": {"answer": "always"}}),
        json!({}),
    ];
    let mut client = session_client(&project, "2025-11-25", &ALLOWED);
    for answer in &answers {
        let (id, request) = asked(&mut client);
        reply(&mut client, &request, answer.clone());
        assert_error(&client.response(id)["result"], "unavailable", "the model of the client");
    }
    let (id, request) = asked(&mut client);
    let error = json!({"code": -1, "message": "user\u{202e} refused"});
    client.send(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}));
    assert_error(&client.response(id)["result"], "unavailable", "user\\u{202e} refused");
    let mut client = task_client(&project, &ALLOWED);
    for answer in answers.into_iter().chain([json!(1), json!("because"), json!([]), Value::Null]) {
        let id = client.call_task("sampler", json!({}));
        client.task_in_state(&id, "input_required");
        client.answer_task(&id, "sample-1", answer);
        let task = client.task_in_state(&id, "completed");
        assert_error(&task["result"], "unavailable", "the model of the client");
    }
}

#[test]
fn an_answer_that_never_comes_meets_the_deadline() {
    let project = project();
    let args = ["--allow", "sample", "--timeout", "1s"];
    let mut client = session_client(&project, "2025-11-25", &args);
    let (id, request) = asked(&mut client);
    let withdrawn = client.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], request["id"]);
    assert_error(&client.response(id)["result"], "timeout", "");
    reply(&mut client, &request, text("too late"));
    let mut client = task_client(&project, &args);
    let id = client.call_task("sampler", json!({}));
    let task = client.task_in_state(&id, "completed");
    assert_error(&task["result"], "timeout", "");
    client.answer_task(&id, "sample-1", text("too late"));
    assert_eq!(client.task(&id)["result"], task["result"]);
}

#[test]
fn an_answer_after_the_cancel_changes_nothing() {
    let project = project();
    let mut client = session_client(&project, "2025-11-25", &ALLOWED);
    let (id, request) = asked(&mut client);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    let withdrawn = client.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], request["id"]);
    reply(&mut client, &request, text("too late"));
    assert!(client.tool_names().contains(&"sampler".to_owned()));
    let mut client = task_client(&project, &ALLOWED);
    let id = client.call_task("sampler", json!({}));
    client.task_in_state(&id, "input_required");
    client.result("tasks/cancel", json!({"taskId": id}));
    client.answer_task(&id, "sample-1", text("too late"));
    client.task_in_state(&id, "cancelled");
}

#[test]
fn a_call_asks_the_model_a_bounded_number_of_times() {
    let project = project_with("for i = 1, 65 do ctx.sample(nil, 'n') end return 'end'");
    let mut client = session_client(&project, "2025-11-25", &ALLOWED);
    let id = client.start("tools/call", json!({"name": "sampler", "arguments": {}}));
    for _ in 0..64 {
        let request = client.notification("sampling/createMessage");
        reply(&mut client, &request, text("x"));
    }
    assert_error(&client.response(id)["result"], "unavailable", "at most 64 times");
    let large = project_with("return ctx.sample(nil, string.rep('x', 2^20))");
    let result = session_client(&large, "2025-11-25", &ALLOWED).call("sampler", json!({}));
    assert_error(&result, "invalid-argument", "a request to the model has at most");
}
