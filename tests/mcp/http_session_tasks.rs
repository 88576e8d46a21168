//! Tasks of the revision 2025-11-25 over HTTP: they outlive their session, and belong to whoever has the token.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp::http_client::{Events, HttpServer, Session, TIMEOUT};
use crate::support::cli::Project;

const TOKENS: [&str; 2] = ["first-token-of-the-test", "second-token-of-the-test"];
const WAIT: &str = "ctx.progress('waiting', 1, 2) while #ctx.list_dir('out') < 2 do end return {went = true}";
const LATE: &str =
    "while #ctx.list_dir('out') < 2 do ctx.progress('waiting') end return ctx.sample(nil, 'why?')";
const REVISION: &str = "2025-11-25";

fn project() -> Project {
    let skill = |name: &str| format!("---\nname: {name}\ndescription: d\nallowed-tools: sample\n---\n");
    Project::new()
        .lua("wait", WAIT)
        .lua("hello", "return 'hello'")
        .lua("sampler", "return ctx.sample(nil, 'why?')")
        .lua("late", LATE)
        .file(".metier/skills/sampler/SKILL.md", skill("sampler"))
        .file(".metier/skills/late/SKILL.md", skill("late"))
        .file("out/keep", "")
        .trusted()
}

fn go(project: &Project) {
    crate::mcp::write(project, "out/go", "");
}

fn server(project: &Project) -> HttpServer {
    crate::mcp::write(project, "tokens", &TOKENS.join("\n"));
    let own = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(project.path("tokens"), own).unwrap();
    project.http_server(&["--token-file", "tokens", "--allow", "sample"])
}

fn session<'a>(server: &'a HttpServer, token: &str, capabilities: Value) -> Session<'a> {
    let mut headers = server.headers();
    headers.push(("authorization".to_owned(), format!("Bearer {token}")));
    server.session_with(REVISION, capabilities, &headers)
}

fn start(session: &mut Session<'_>, tool: &str) -> String {
    let params =
        json!({"name": tool, "arguments": {}, "task": {"ttl": 60000}, "_meta": {"progressToken": 7}});
    let task = session.result("tools/call", params)["task"].clone();
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60000)), "{task}");
    task["taskId"].as_str().unwrap().to_owned()
}

#[track_caller]
fn in_state(session: &mut Session<'_>, id: &str, status: &str) -> Value {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let task = session.result("tasks/get", json!({"taskId": id}));
        if task["status"] == status {
            return task;
        }
        assert!(Instant::now() < end, "not {status}: {task}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// What a server answers to `initialize`.
fn capabilities(server: &HttpServer, revision: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let answer = server.send("POST", &server.headers(), message.to_string().as_bytes()).answer();
    answer.result()["capabilities"].clone()
}

#[test]
fn tasks_are_declared_in_their_revision_and_listed_where_callers_have_tokens() {
    let project = project();
    let with_token = project.http_server(&[]);
    let expected = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(capabilities(&with_token, REVISION)["tasks"], expected);
    assert_eq!(capabilities(&with_token, "2025-06-18").get("tasks"), None);
    let without = project.http_server(&["--no-token"]);
    let expected = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(capabilities(&without, REVISION)["tasks"], expected);
    let mut session = without.session(REVISION);
    let answer = session.start("tasks/list", json!({})).1.answer().message();
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
    let tools = session.result("tools/list", json!({}))["tools"].clone();
    let support = |name: &str| {
        let tool = tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap();
        tool["execution"]["taskSupport"].clone()
    };
    assert_eq!((support("wait"), support("skills_list")), (json!("optional"), Value::Null));
    let mut older = with_token.session("2025-06-18");
    let params = json!({"name": "hello", "arguments": {}, "task": {}});
    let result = older.result("tools/call", params);
    assert_eq!(result["content"][0]["text"], "hello", "{result}");
}

#[test]
fn a_task_outlives_its_session_and_belongs_to_its_token_and_client() {
    let project = project();
    let server = server(&project);
    let mut first = session(&server, TOKENS[0], json!({}));
    let id = start(&mut first, "wait");
    let polled = in_state(&mut first, &id, "working");
    assert_eq!(polled["taskId"], id.as_str());
    assert_eq!(first.end().status, 204);

    let mut stranger = session(&server, TOKENS[1], json!({}));
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let answer = stranger.start(method, json!({"taskId": id})).1.answer().message();
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    assert_eq!(stranger.result("tasks/list", json!({})), json!({"tasks": []}));

    let mut again = session(&server, TOKENS[0], json!({}));
    assert_eq!(again.result("tasks/list", json!({}))["tasks"][0]["taskId"], id.as_str());
    let (_, waiting) = again.start("tasks/result", json!({"taskId": id}));
    go(&project);
    let result = waiting.answer().result();
    assert_eq!(result["structuredContent"], json!({"went": true}), "{result}");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], id.as_str(), "{result}");
    in_state(&mut again, &id, "completed");
    let cancelled = again.start("tasks/cancel", json!({"taskId": id})).1.answer().message();
    assert_eq!(cancelled["error"]["code"], -32602, "{cancelled}");
}

#[test]
fn who_leaves_the_result_leaves_the_task_and_a_cancel_ends_it() {
    let project = project();
    let server = server(&project);
    let mut session = session(&server, TOKENS[0], json!({}));
    let id = start(&mut session, "wait");
    session.start("tasks/result", json!({"taskId": id})).1.close();
    std::thread::sleep(Duration::from_millis(200));
    in_state(&mut session, &id, "working");
    let cancelled = session.result("tasks/cancel", json!({"taskId": id}));
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    let answer = session.start("tasks/result", json!({"taskId": id})).1.answer().message();
    assert!(answer["error"]["message"].as_str().unwrap().contains("was cancelled"), "{answer}");
}

#[test]
fn a_question_of_a_task_comes_with_its_result() {
    let project = project();
    let server = server(&project);
    let mut session = session(&server, TOKENS[0], json!({"sampling": {}}));
    let id = start(&mut session, "sampler");
    in_state(&mut session, &id, "input_required");
    let mut result = session.start("tasks/result", json!({"taskId": id})).1.events();
    answer_question(&session, &id, &result.next().unwrap());
    is_answered(&mut result);
}

#[test]
fn a_question_of_a_task_comes_where_the_client_listens_if_nobody_waits_for_the_result() {
    let project = project();
    let server = server(&project);
    let mut session = session(&server, TOKENS[0], json!({"sampling": {}}));
    let mut standalone = session.listen().events();
    let id = start(&mut session, "sampler");
    let question = next_of(&mut standalone, "sampling/createMessage");
    in_state(&mut session, &id, "input_required");
    let mut result = session.start("tasks/result", json!({"taskId": id})).1.events();
    answer_question(&session, &id, &question);
    is_answered(&mut result);
}

#[test]
fn a_question_of_a_task_comes_with_its_result_also_to_a_client_that_listens() {
    let project = project();
    let server = server(&project);
    let mut session = session(&server, TOKENS[0], json!({"sampling": {}}));
    let _standalone = session.listen().events();
    let id = start(&mut session, "late");
    let mut result = session.start("tasks/result", json!({"taskId": id})).1.events();
    // What comes here shows that the server knows who waits, so the question is not on its way elsewhere.
    next_of(&mut result, "notifications/progress");
    go(&project);
    answer_question(&session, &id, &next_of(&mut result, "sampling/createMessage"));
    is_answered(&mut result);
}

/// The next message of this method.
#[track_caller]
fn next_of(events: &mut Events, method: &str) -> Value {
    let end = Instant::now() + TIMEOUT;
    loop {
        let message = events.next().unwrap();
        if message["method"] == method {
            return message;
        }
        assert!(Instant::now() < end, "no {method}: {message}");
    }
}

#[track_caller]
fn answer_question(session: &Session<'_>, id: &str, question: &Value) {
    assert_eq!(question["method"], "sampling/createMessage", "{question}");
    let related = &question["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], id, "{question}");
    let answer = json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": "because"}});
    let message = json!({"jsonrpc": "2.0", "id": question["id"], "result": answer});
    assert_eq!(session.post(&message).answer().status, 202);
}

#[track_caller]
fn is_answered(result: &mut Events) {
    let end = Instant::now() + TIMEOUT;
    let mut last = result.next().unwrap();
    while last["method"] == "notifications/progress" {
        assert!(Instant::now() < end, "no response: {last}");
        last = result.next().unwrap();
    }
    assert_eq!(last["result"]["content"][0]["text"], "because", "{last}");
    assert!(result.next().is_none());
}

#[test]
fn a_session_is_notified_of_its_own_tasks_alone() {
    let project = project();
    let server = server(&project);
    let (mut own, mut other) =
        (session(&server, TOKENS[0], json!({})), session(&server, TOKENS[0], json!({})));
    let (mut own_events, mut other_events) = (own.listen().events(), other.listen().events());
    let id = start(&mut own, "wait");
    let (mut is_reported, mut said) = (false, None);
    while !is_reported || said.is_none() {
        let message = own_events.next().unwrap();
        match message["method"].as_str() {
            Some("notifications/progress") => {
                assert_eq!(message["params"]["progressToken"], 7, "{message}");
                let related = &message["params"]["_meta"]["io.modelcontextprotocol/related-task"];
                assert_eq!(related["taskId"], id.as_str(), "{message}");
                is_reported = true;
            }
            Some("notifications/tasks/status") => said = Some(message["params"].clone()),
            _ => panic!("{message}"),
        }
    }
    let said = said.unwrap();
    let found = [&said["status"], &said["statusMessage"], &said["taskId"]].map(|part| part.as_str().unwrap());
    assert_eq!(found, ["working", "1 of 2: waiting", &id]);
    go(&project);
    let last = own_events.next().unwrap();
    assert_eq!((&last["params"]["status"], &last["params"]["taskId"]), (&json!("completed"), &json!(id)));
    let others = start(&mut other, "hello");
    let first = other_events.next().unwrap();
    assert_eq!(
        (&first["params"]["taskId"], &first["params"]["status"]),
        (&json!(others), &json!("completed"))
    );
}
