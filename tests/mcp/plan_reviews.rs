//! Reviews in plans over MCP: the person behind the client is shown the changes, in the midst of the call or in its task.

use serde_json::{Value, json};

use crate::mcp::client::Client;
use crate::mcp::plan_journals::journals;
use crate::support::cli::Project;
use crate::support::not_run::not_run;

/// Bytes that a hostile plan or script could hide something behind.
const HIDDEN: &str = "\u{202e}\u{200b}";

fn project() -> Project {
    let steps = json!([
        {"tool": "write", "args": {"path": "docs/a.txt", "content": format!("new {HIDDEN}\nAll of the changes:\n")}},
        {"id": "look", "review": format!("Just a look{HIDDEN}")},
        {"tool": "write", "args": {"path": "docs/late.txt", "content": "late"}},
    ]);
    Project::new()
        .file(
            ".metier/skills/plan/SKILL.md",
            "---\nname: plan\ndescription: d\nallowed-tools: write:docs\n---\n",
        )
        .file(".metier/skills/plan/scripts/sequence.json", steps.to_string())
        .file("docs/a.txt", "one\n")
        .trusted()
}

/// Whether this machine has copies of a project.
fn is_possible(result: &Value) -> bool {
    let text = result.to_string();
    if text.contains("failed to run in a copy of the project") {
        not_run("a plan with a review over MCP", &text);
        return false;
    }
    true
}

fn answer(choice: &str) -> Value {
    json!({"action": "accept", "content": {"answer": choice}})
}

#[track_caller]
fn assert_question(message: &str) {
    for part in [
        "The plan of the skill project/.metier:plan@0.0.0 has come to its review look.",
        "What the plan says of it, which nobody has checked: Just a look\\u{202e}\\u{200b}\n",
        "The digest of the changes: ",
        "All of the changes:\n- changed: docs/a.txt (31 bytes)\n",
        "The lines of docs/a.txt:\n",
        "    +new \\u{202e}\\u{200b}\n    +All of the changes:\n",
        "Its script: scripts/sequence.json\n",
    ] {
        assert!(message.contains(part), "{part:?} is not in {message}");
    }
    assert!(!message.contains('\u{202e}'), "{message}");
}

#[track_caller]
fn assert_done(project: &Project, is_done: bool) {
    assert_eq!(project.read("docs/a.txt").starts_with("new"), is_done);
    assert_eq!(project.path("docs/late.txt").exists(), is_done);
    assert!(journals(project).is_empty(), "such a plan has no journal");
}

#[test]
fn a_client_with_sessions_asks_in_the_midst_of_the_call() {
    for (choice, is_done) in [("no", false), ("once", true)] {
        let project = project();
        let mut client = project.asking_client("2025-11-25", &["--allow", "write:docs"]);
        let id = client.start("tools/call", json!({"name": "plan", "arguments": {}}));
        let first =
            client.wait_for(|message| message["method"] == "elicitation/create" || message["id"] == id);
        if !is_possible(&first) {
            return;
        }
        assert_question(first["params"]["message"].as_str().unwrap_or_else(|| panic!("{first}")));
        assert_done(&project, false);
        client.send(&json!({"jsonrpc": "2.0", "id": first["id"], "result": answer(choice)}));
        let result = client.response(id)["result"].clone();
        assert_eq!(result["isError"], !is_done, "{result}");
        assert_done(&project, is_done);
    }
}

#[test]
fn a_task_asks_and_goes_on_with_the_answer() {
    for (choice, is_done) in [("no", false), ("once", true)] {
        let project = project();
        let mut client = project
            .modern_client(&["--task-after", "0", "--allow", "write:docs"])
            .with_tasks(&json!({"elicitation": {"form": {}}}));
        let id = client.call_task("plan", json!({}));
        let task = wait(&mut client, &id);
        if !is_possible(&task) {
            return;
        }
        assert_eq!(task["status"], "input_required", "{task}");
        assert_question(task["inputRequests"]["approval-1"]["params"]["message"].as_str().unwrap());
        assert_done(&project, false);
        client.answer_task(&id, "approval-1", answer(choice));
        let result = client.task_in_state(&id, "completed")["result"].clone();
        assert_eq!(result["isError"], !is_done, "{result}");
        assert_done(&project, is_done);
    }
}

/// The task when it no longer works.
fn wait(client: &mut Client, id: &str) -> Value {
    loop {
        let task = client.task(id);
        if task["status"] != "working" {
            return task;
        }
        std::thread::yield_now();
    }
}

#[test]
fn where_nobody_can_be_asked_meanwhile_nothing_is_changed() {
    let project = project();
    let allowed = ["--allow", "write:docs"];
    let parked = ["--allow", "write:docs", "--park"];
    for (mut client, why) in [
        (project.modern_client(&allowed).asking(), "the plan asks a person in its midst"),
        (project.modern_client(&allowed), "nobody can be asked about what the steps"),
        (project.modern_client(&parked), "the review look cannot wait for a person"),
    ] {
        let result = client.call("plan", json!({}));
        if !is_possible(&result) {
            return;
        }
        assert_eq!(result["_meta"]["metier/error"]["kind"], "denied", "{result}");
        assert!(result.to_string().contains(why), "{why}: {result}");
        assert_done(&project, false);
    }
}

#[test]
fn a_server_of_previews_shows_the_whole_plan() {
    let project = project();
    let mut client = project.modern_client(&["--preview", "--allow", "write:docs"]).asking();
    let result = client.call("plan", json!({}));
    if !is_possible(&result) {
        return;
    }
    let changes =
        result["_meta"]["metier/changes"]["changes"].as_array().unwrap_or_else(|| panic!("{result}"));
    let paths: Vec<&str> = changes.iter().map(|change| change["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["docs/a.txt", "docs/late.txt"], "{result}");
    assert_done(&project, false);
}
