//! A call that takes long is answered with a task, which its caller polls, answers and cancels.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::mcp::client::Client;
use crate::mcp::processes::wait_until;
use crate::support::cli::Project;

/// Waits until the file `out/go` is there.
const WAIT: &str = "while #ctx.list_dir('out') < 2 do end return {went = true}";
const WRITER: &str = "---\nname: writer\ndescription: d\nallowed-tools: write:out\n---\n";

/// A project with a skill that waits for a file, and one that does not.
fn project() -> Project {
    Project::new().lua("wait", WAIT).lua("quick", "return 'quick'").file("out/keep", "")
}

fn with_tasks(project: &Project, args: &[&str]) -> Client {
    project.modern_client(args).with_tasks(&json!({}))
}

fn go(project: &Project) {
    crate::mcp::write(project, "out/go", "");
}

fn answer(choice: &str) -> Value {
    json!({"action": "accept", "content": {"answer": choice}})
}

#[track_caller]
fn assert_no_task(answer: &Value) {
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("there is no task with this id"),
        "{answer}"
    );
}

#[test]
fn a_call_that_takes_long_becomes_a_task_with_the_result_of_a_call() {
    let project = project().trusted();
    let mut client = with_tasks(&project, &["--task-after", "1"]);
    let created = client.call("wait", json!({}));
    assert_eq!(
        (&created["resultType"], &created["status"]),
        (&json!("task"), &json!("working")),
        "{created}"
    );
    assert!(created["ttlMs"].as_u64().unwrap() > 0 && created["pollIntervalMs"].as_u64().unwrap() > 0);
    let id = created["taskId"].as_str().unwrap();
    assert_eq!(client.task(id)["status"], "working");
    go(&project);
    let ended = client.task_in_state(id, "completed");
    let plain = project.modern_client(&[]).call("wait", json!({}));
    assert_eq!(ended["result"]["structuredContent"], json!({"went": true}));
    assert_eq!(ended["result"]["content"], plain["content"]);
    // Whoever comes back later finds it again.
    assert_eq!(client.task(id)["result"], ended["result"]);
}

#[test]
fn a_short_call_and_a_client_without_tasks_get_the_result() {
    let project = project().trusted();
    assert_eq!(with_tasks(&project, &[]).text("quick", json!({})), "quick");
    let mut client = project.modern_client(&["--task-after", "0"]);
    let waiting = client.start("tools/call", json!({"name": "wait", "arguments": {}}));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let answer = client.request(method, json!({"taskId": "x", "inputResponses": {}}));
        assert_eq!(answer["error"]["code"], -32021, "{answer}");
    }
    go(&project);
    assert_eq!(client.response(waiting)["result"]["structuredContent"], json!({"went": true}));
}

#[test]
fn a_failure_of_the_skill_completes_its_task_with_the_error() {
    let project = project().lua("fails", "while #ctx.list_dir('out') < 2 do end error('broken')").trusted();
    let mut client = with_tasks(&project, &["--task-after", "0"]);
    let id = client.call_task("fails", json!({}));
    go(&project);
    let result = client.task_in_state(&id, "completed")["result"].clone();
    assert_eq!(result["isError"], true, "{result}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("broken"), "{result}");
}

#[test]
fn a_task_belongs_to_its_caller_and_cannot_be_guessed() {
    let project = project().trusted();
    let mut client = with_tasks(&project, &["--task-after", "0"]);
    let id = client.call_task("wait", json!({}));
    let other = client.call_task("wait", json!({}));
    assert!(id.len() >= 32 && other.len() >= 32 && id[..16] != other[..16], "{id} {other}");
    let mut guesses: Vec<String> = vec![String::new(), "0".repeat(32), id.to_uppercase(), format!("{id} ")];
    guesses.push("x".repeat(1 << 20));
    guesses.extend((0..200).map(|number| format!("{number:032x}")));
    for guess in guesses.iter().filter(|guess| **guess != id) {
        assert_no_task(&client.request("tasks/get", json!({"taskId": guess})));
    }
    client.rename("somebody else");
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        assert_no_task(&client.request(method, json!({"taskId": id, "inputResponses": {}})));
    }
    client.rename("test");
    assert_eq!(client.task(&id)["status"], "working");
    for wrong in [json!({}), json!({"taskId": 1}), json!({"taskId": null}), json!({"taskId": [id]})] {
        assert_eq!(client.request("tasks/get", wrong.clone())["error"]["code"], -32602, "{wrong}");
    }
    for wrong in [json!(1), json!([]), json!("x")] {
        let answer = client.request("tasks/update", json!({"taskId": id, "inputResponses": wrong}));
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_cancelled_task_ends_its_whole_process_tree() {
    let project =
        Project::new().shell("tree", "sleep 4321.651 & (sleep 4321.652 & sleep 4321.653) & wait").trusted();
    let mut client = with_tasks(&project, &["--task-after", "0"]);
    let id = client.call_task("tree", json!({}));
    wait_until(|| crate::mcp::processes::processes("4321.65") == 3);
    for _ in 0..3 {
        assert_eq!(client.result("tasks/cancel", json!({"taskId": id})), json!({"resultType": "complete"}));
    }
    let task = client.task_in_state(&id, "cancelled");
    assert!(task.get("result").is_none(), "{task}");
    wait_until(|| crate::mcp::processes::processes("4321.65") == 0);
    client.result("tasks/cancel", json!({"taskId": id}));
    assert_eq!(client.task(&id)["status"], "cancelled");
}

#[test]
fn cancelling_races_with_the_end_and_leaves_one_of_both() {
    let project = project().trusted();
    let mut client = with_tasks(&project, &["--task-after", "0"]);
    go(&project);
    for _ in 0..50 {
        let result = client.call("wait", json!({}));
        let Some(id) = result["taskId"].as_str() else { continue };
        client.result("tasks/cancel", json!({"taskId": id}));
        let end = std::time::Instant::now() + Duration::from_secs(20);
        let task = loop {
            let task = client.task(id);
            if task["status"] != "working" {
                break task;
            }
            assert!(std::time::Instant::now() < end, "{task}");
        };
        match task["status"].as_str() {
            Some("cancelled") => assert!(task.get("result").is_none(), "{task}"),
            Some("completed") => assert_eq!(task["result"]["isError"], false, "{task}"),
            _ => panic!("{task}"),
        }
        assert_eq!(client.task(id), task, "an end stays");
    }
}

#[test]
fn the_cancelled_request_of_a_task_goes_on() {
    let project = project().trusted();
    let mut client = with_tasks(&project, &["--task-after", "0"]);
    let request = client.start("tools/call", json!({"name": "wait", "arguments": {}}));
    let id = client.response(request)["result"]["taskId"].as_str().unwrap().to_owned();
    client.notify("notifications/cancelled", json!({"requestId": request}));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(client.task(&id)["status"], "working");
    go(&project);
    client.task_in_state(&id, "completed");
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_request_that_is_cancelled_before_it_is_a_task_stops() {
    let project = Project::new().shell("tree", "sleep 4321.751 & wait").trusted();
    let mut client = with_tasks(&project, &["--task-after", "60"]);
    let request = client.start("tools/call", json!({"name": "tree", "arguments": {}}));
    wait_until(|| crate::mcp::processes::processes("4321.75") == 1);
    client.notify("notifications/cancelled", json!({"requestId": request}));
    wait_until(|| crate::mcp::processes::processes("4321.75") == 0);
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn the_end_of_the_server_ends_its_tasks() {
    let project = Project::new().shell("tree", "sleep 4321.851 & wait").trusted();
    let mut client = with_tasks(&project, &["--task-after", "0"]);
    client.call_task("tree", json!({}));
    wait_until(|| crate::mcp::processes::processes("4321.85") == 1);
    client.close();
    assert_eq!(client.wait().0, Some(0));
    assert_eq!(crate::mcp::processes::processes("4321.85"), 0);
}

#[test]
fn progress_is_the_message_of_a_task() {
    let script = "ctx.progress('read\u{202e} it', 3, 10) while #ctx.list_dir('out') < 2 do end return 1";
    let project = project().lua("steps", script).trusted();
    let mut client = with_tasks(&project, &["--task-after", "0"]);
    let id = client.call_task("steps", json!({}));
    let mut message = json!(null);
    wait_until_some(|| {
        message = client.task(&id)["statusMessage"].clone();
        !message.is_null()
    });
    assert_eq!(message, "3 of 10: read\\u{202e} it");
    go(&project);
    client.task_in_state(&id, "completed");
}

#[track_caller]
fn wait_until_some(mut holds: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(std::time::Instant::now() < end, "it does not come true");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_thousand_tasks_are_kept_and_further_calls_wait_for_their_result() {
    const CALLS: usize = 1_100;
    let project = project().trusted();
    let mut client = with_tasks(&project, &["--task-after", "0", "--max-calls", "1"]);
    let ids: Vec<i64> =
        (0..CALLS).map(|_| client.start("tools/call", json!({"name": "wait", "arguments": {}}))).collect();
    let mut tasks = BTreeSet::new();
    for id in &ids[..1_000] {
        let result = client.response(*id)["result"].clone();
        assert!(tasks.insert(result["taskId"].as_str().unwrap().to_owned()), "{result}");
    }
    go(&project);
    for id in &ids[1_000..] {
        let result = client.response(*id)["result"].clone();
        let is_task = result["taskId"].as_str().is_some();
        assert!(is_task || result["structuredContent"] == json!({"went": true}), "{result}");
    }
    // The last of them ended last, since calls wait in their order.
    client.task_in_state(tasks.last().unwrap(), "completed");
}

#[test]
fn what_is_asked_before_the_start_is_asked_before_the_task() {
    let project = Project::new()
        .lua("writer", "ctx.write('out/a', 'x') return 'written'")
        .file(".metier/skills/writer/SKILL.md", WRITER)
        .file("out/keep", "")
        .trusted();
    let mut client = project.modern_client(&[]).with_tasks(&json!({"elicitation": {"form": {}}}));
    let question = client.call("writer", json!({}));
    assert_eq!(question["resultType"], "input_required", "{question}");
    assert!(!project.path("out/a").exists());
    let mut params = json!({"name": "writer", "arguments": {}});
    params["requestState"] = question["requestState"].clone();
    params["inputResponses"] = json!({"approval": answer("once")});
    let result = client.result("tools/call", params.clone());
    assert_eq!(result["content"][0]["text"], "written", "{result}");
    let replayed = client.request("tools/call", params);
    assert_eq!(replayed["error"]["code"], -32602, "{replayed}");
}

/// A client whose only place is taken, and a task that waits for it and then asks.
fn waiting_writer(project: &Project) -> (Client, String, String) {
    let args = ["--task-after", "0", "--max-calls", "1", "--timeout", "20s"];
    let mut client = project.modern_client(&args).with_tasks(&json!({"elicitation": {"form": {}}}));
    let blocker = client.call_task("wait", json!({}));
    let writer = client.call_task("writer", json!({}));
    assert_eq!(client.task(&writer)["status"], "working");
    (client, blocker, writer)
}

fn writer_project() -> Project {
    project()
        .lua("writer", "ctx.write('out/a', 'x') return 'written'")
        .file(".metier/skills/writer/SKILL.md", WRITER)
        .trusted()
}

#[test]
fn a_task_that_waited_asks_before_it_starts() {
    for (reply, runs) in [
        (answer("once"), true),
        (answer("no"), false),
        (json!({"action": "decline"}), false),
        (json!("once"), false),
        (json!([1, 2]), false),
        (Value::Null, false),
    ] {
        let project = writer_project();
        let (mut client, blocker, id) = waiting_writer(&project);
        client.result("tasks/cancel", json!({"taskId": blocker}));
        let task = client.task_in_state(&id, "input_required");
        let (key, request) = task["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(request["method"], "elicitation/create");
        let message = request["params"]["message"].as_str().unwrap();
        assert!(message.contains("- write:out: change files at or below out"), "{message}");
        client.answer_task(&id, "approval-99", answer("once"));
        client.answer_task(&id, "approval", answer("once"));
        assert_eq!(client.task(&id)["status"], "input_required", "nobody asked that");
        assert!(!project.path("out/a").exists());
        client.answer_task(&id, key, reply.clone());
        let result = client.task_in_state(&id, "completed")["result"].clone();
        assert_eq!(result["isError"], !runs, "{reply}: {result}");
        assert_eq!(project.path("out/a").exists(), runs);
        client.answer_task(&id, key, answer("once"));
        assert_eq!(client.task(&id)["result"], result, "a replayed answer changes nothing");
    }
}

#[test]
fn a_skill_that_changes_between_the_answer_and_the_run_does_not_run() {
    let project = writer_project();
    let (mut client, blocker, id) = waiting_writer(&project);
    client.result("tasks/cancel", json!({"taskId": blocker}));
    let task = client.task_in_state(&id, "input_required");
    let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let evil = "ctx.write('out/a', 'evil') return 1";
    crate::mcp::write(&project, ".metier/skills/writer/scripts/main.lua", evil);
    client.answer_task(&id, &key, answer("once"));
    let result = client.task_in_state(&id, "completed")["result"].clone();
    assert_eq!(result["isError"], true, "{result}");
    assert!(!project.path("out/a").exists(), "{result}");
}

#[test]
fn a_cancelled_task_asks_no_more() {
    let project = writer_project();
    let (mut client, blocker, id) = waiting_writer(&project);
    client.result("tasks/cancel", json!({"taskId": blocker}));
    let task = client.task_in_state(&id, "input_required");
    let key = task["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    client.result("tasks/cancel", json!({"taskId": id}));
    client.answer_task(&id, &key, answer("always"));
    client.task_in_state(&id, "cancelled");
    assert!(!project.path("out/a").exists());
    assert!(project.metier(&["allow", "--list"]).stdout.is_empty() || !has_grant(&project));
}

fn has_grant(project: &Project) -> bool {
    project.metier(&["allow", "--list"]).stdout.contains("write:out")
}

/// A process that asks for nothing in its skill may use any grant, so it is asked about when it does.
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn what_turns_out_while_it_runs_is_asked_in_a_task_and_the_deadline_stands_still() {
    let script = "metier ctx write out/a hello > /dev/null && echo written";
    let project = Project::new().shell("late", script).file("out/keep", "").trusted();
    let args = ["--timeout", "3s"];
    let mut client = project.modern_client(&args).with_tasks(&json!({"elicitation": {"form": {}}}));
    // It becomes a task at once, not after the usual time.
    let started = std::time::Instant::now();
    let id = client.call_task("late", json!({}));
    assert!(started.elapsed() < Duration::from_secs(4), "{:?}", started.elapsed());
    let task = client.task_in_state(&id, "input_required");
    let message = task["inputRequests"]["approval-1"]["params"]["message"].as_str().unwrap();
    assert!(message.contains("It would use it now for: out/a"), "{message}");
    std::thread::sleep(Duration::from_secs(4));
    client.answer_task(&id, "approval-1", answer("once"));
    let result = client.task_in_state(&id, "completed")["result"].clone();
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(std::fs::read_to_string(project.path("out/a")).unwrap(), "hello");
    // Without tasks nobody can be asked then.
    let mut client = project.modern_client(&args).asking();
    let result = client.call("late", json!({}));
    assert_eq!(result["isError"], true, "{result}");
}
