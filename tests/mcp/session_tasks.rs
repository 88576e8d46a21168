//! Tasks of the revision 2025-11-25, which the client asks for.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::mcp::client::Client;
use crate::support::cli::Project;

const WAIT: &str = "ctx.progress('waiting', 1, 2) while #ctx.list_dir('out') < 2 do end return {went = true}";

fn project() -> Project {
    Project::new().lua("wait", WAIT).lua("fails", "error('broken')").file("out/keep", "")
}

fn go(project: &Project) {
    crate::mcp::write(project, "out/go", "");
}

fn start(client: &mut Client, tool: &str, task: Value) -> Value {
    client.result("tools/call", json!({"name": tool, "arguments": {}, "task": task}))["task"].clone()
}

fn id(task: &Value) -> &str {
    task["taskId"].as_str().unwrap()
}

#[track_caller]
fn in_state(client: &mut Client, id: &str, status: &str) -> Value {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let task = client.result("tasks/get", json!({"taskId": id}));
        if task["status"] == status {
            return task;
        }
        assert!(Instant::now() < end, "not {status}: {task}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn tasks_are_declared_in_their_revision_alone() {
    let project = project().trusted();
    for (revision, is_declared) in [("2025-11-25", true), ("2025-06-18", false)] {
        let mut client = project.silent_client(&[]);
        let answer = client.initialize(revision);
        let tasks = answer["result"]["capabilities"].get("tasks").cloned();
        let expected = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        assert_eq!(tasks, is_declared.then_some(expected), "{answer}");
        let support = client.tool("wait").get("execution").cloned();
        assert_eq!(support, is_declared.then_some(json!({"taskSupport": "optional"})));
        assert_eq!(client.tool("skills_list").get("execution"), None);
        if !is_declared {
            go(&project);
            let params = json!({"name": "wait", "arguments": {}, "task": {}});
            let result = client.result("tools/call", params);
            assert_eq!(result["structuredContent"], json!({"went": true}), "{result}");
            for method in ["tasks/result", "tasks/list"] {
                assert_eq!(client.request(method, json!({"taskId": "x"}))["error"]["code"], -32601);
            }
        }
    }
}

#[test]
fn a_task_is_polled_listed_and_its_result_waited_for() {
    let project = project().trusted();
    let mut client = project.client(&[]);
    let params =
        json!({"name": "wait", "arguments": {}, "task": {"ttl": 60000}, "_meta": {"progressToken": 7}});
    let created = client.result("tools/call", params)["task"].clone();
    assert_eq!((&created["status"], &created["ttl"]), (&json!("working"), &json!(60000)), "{created}");
    let report = client.notification("notifications/progress");
    assert_eq!((&report["params"]["progressToken"], &report["params"]["progress"]), (&json!(7), &json!(1.0)));
    let polled = in_state(&mut client, id(&created), "working");
    assert_eq!(polled["statusMessage"], "1 of 2: waiting", "{polled}");
    let told = client.notification("notifications/tasks/status");
    assert_eq!(told["params"], polled, "{told}");
    let listed = client.result("tasks/list", json!({}));
    assert_eq!(listed["tasks"][0]["taskId"], created["taskId"], "{listed}");
    let waiting = client.start("tasks/result", json!({"taskId": id(&created)}));
    assert!(client.next(Duration::from_millis(200)).is_none(), "it waits");
    go(&project);
    let result = client.response(waiting)["result"].clone();
    assert_eq!(result["structuredContent"], json!({"went": true}), "{result}");
    let related = &result["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(related["taskId"], created["taskId"], "{result}");
    in_state(&mut client, id(&created), "completed");
    let failing = start(&mut client, "fails", json!({}));
    let result = client.result("tasks/result", json!({"taskId": id(&failing)}));
    assert_eq!(result["isError"], true, "{result}");
    in_state(&mut client, id(&failing), "failed");
}

#[test]
fn a_cancelled_task_is_cancelled_at_once_and_for_good() {
    let project = project().trusted();
    let mut client = project.client(&[]);
    let created = start(&mut client, "wait", json!({}));
    let waiting = client.start("tasks/result", json!({"taskId": id(&created)}));
    let cancelled = client.result("tasks/cancel", json!({"taskId": id(&created)}));
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    assert!(client.response(waiting)["error"]["message"].as_str().unwrap().contains("was cancelled"));
    let again = client.request("tasks/cancel", json!({"taskId": id(&created)}));
    assert_eq!(again["error"]["code"], -32602, "{again}");
    go(&project);
    std::thread::sleep(Duration::from_millis(200));
    in_state(&mut client, id(&created), "cancelled");
}

#[test]
fn a_time_to_live_is_checked_and_ends_the_task() {
    let project = project().trusted();
    let mut client = project.client(&[]);
    for wrong in [json!({"ttl": -1}), json!({"ttl": "1000"}), json!(5), json!([])] {
        let params = json!({"name": "wait", "arguments": {}, "task": wrong});
        assert_eq!(client.request("tools/call", params)["error"]["code"], -32602, "{wrong}");
    }
    let huge = start(&mut client, "wait", json!({"ttl": u64::MAX}));
    assert_eq!(huge["ttl"], 24 * 60 * 60 * 1000, "{huge}");
    let short = start(&mut client, "wait", json!({"ttl": 0}));
    assert_eq!(short["ttl"], 1000, "{short}");
    let waiting = client.start("tasks/result", json!({"taskId": id(&short)}));
    assert!(client.response(waiting)["error"]["message"].as_str().unwrap().contains("was cancelled"));
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        let answer = client.request(method, json!({"taskId": id(&short)}));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    in_state(&mut client, id(&huge), "working");
}

#[test]
fn questions_of_a_task_say_which_one_it_is() {
    let text = "---\nname: both\ndescription: d\nallowed-tools: sample\n---\n";
    let project = project()
        .lua("both", "return ctx.sample(nil, 'why?')")
        .file(".metier/skills/both/SKILL.md", text)
        .trusted();
    let capabilities = json!({"elicitation": {}, "sampling": {}});
    let mut client = project.client_with("2025-11-25", capabilities, &[]);
    let task = start(&mut client, "both", json!({}));
    let content = json!({"type": "text", "text": "because"});
    for (method, answer) in [
        ("elicitation/create", json!({"action": "accept", "content": {"answer": "once"}})),
        ("sampling/createMessage", json!({"role": "assistant", "model": "m", "content": content})),
    ] {
        let request = client.notification(method);
        let related = &request["params"]["_meta"]["io.modelcontextprotocol/related-task"];
        assert_eq!(related["taskId"], task["taskId"], "{request}");
        in_state(&mut client, id(&task), "input_required");
        client.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": answer}));
    }
    let result = client.result("tasks/result", json!({"taskId": id(&task)}));
    assert_eq!(result["content"][0]["text"], "because", "{result}");
}

#[test]
fn only_skills_are_tasks_and_other_parameters_are_refused() {
    let project = project().trusted();
    let mut client = project.client(&[]);
    let listing = json!({"name": "skills_list", "arguments": {}, "task": {}});
    assert_eq!(client.request("tools/call", listing)["error"]["code"], -32601);
    for (method, params) in [
        ("tasks/result", json!({})),
        ("tasks/result", json!({"taskId": 1})),
        ("tasks/result", json!({"taskId": "0".repeat(32)})),
        ("tasks/get", json!({"taskId": "0".repeat(32)})),
        ("tasks/list", json!({"cursor": "7x"})),
        ("tasks/list", json!({"cursor": 1})),
    ] {
        let answer = client.request(method, params);
        assert_eq!(answer["error"]["code"], -32602, "{method}: {answer}");
    }
    let answer = client.request("tasks/update", json!({"taskId": "x", "inputResponses": {}}));
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}
