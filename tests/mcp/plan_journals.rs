//! A plan that may become a task goes on after the server was killed, by the same call.

use std::path::PathBuf;

use metier::plan::{Journal, JournalSummary};
use serde_json::{Value, json};

use crate::cli::Project;
use crate::client::Client;
use crate::processes::wait_until;

pub const ARGS: [&str; 8] =
    ["--task-after", "0", "--allow", "write:out", "--allow", "skill:mark", "--allow", "skill:hold"];

/// A plan that writes a line, waits for the file `out/go`, and returns what both steps returned.
fn project(second_requests: &str) -> Project {
    let skill = |name: &str, requests: &str| {
        let tools = if requests.is_empty() { String::new() } else { format!("allowed-tools: {requests}\n") };
        format!("---\nname: {name}\ndescription: d\n{tools}---\n")
    };
    let steps = json!([
        {"id": "mark", "skill": "mark", "args": {}},
        {"id": "hold", "skill": "hold", "args": {}, "after": ["mark"]},
    ]);
    let hold = "while not pcall(ctx.stat, 'out/go') do end return 'held'";
    Project::new()
        .lua("mark", "ctx.append('out/log', 'run\\n') return 'marked'")
        .file(".metier/skills/mark/SKILL.md", skill("mark", "write:out"))
        .lua("hold", hold)
        .file(".metier/skills/hold/SKILL.md", skill("hold", second_requests))
        .file(".metier/skills/both/SKILL.md", skill("both", "write:out skill:mark skill:hold"))
        .file(".metier/skills/both/scripts/sequence.json", steps.to_string())
        .file("out/keep", "")
        .trusted()
}

fn client(project: &Project) -> Client {
    project.modern_client(&ARGS).with_tasks(&json!({"elicitation": {"form": {}}}))
}

pub fn runs(project: &Project) -> usize {
    std::fs::read_to_string(project.path("out/log")).unwrap_or_default().lines().count()
}

pub fn journal_folder(project: &Project) -> PathBuf {
    project.home().join(".local/share/metier/plan-journals")
}

pub fn journals(project: &Project) -> Vec<JournalSummary> {
    let folders = std::fs::read_dir(journal_folder(project)).into_iter().flatten().flatten();
    folders.flat_map(|folder| Journal::list(&folder.path()).unwrap()).collect()
}

/// Starts the plan, and kills the server when so many of its steps are in the journal: a step that can only read is there when it
/// has ended, another one when it starts.
fn kill_after(project: &Project, steps: usize) {
    let mut client = client(project);
    client.call_task("both", json!({}));
    let recorded =
        |journal: &JournalSummary| Journal::peek(&journal.path).map_or(0, |content| content.steps.len());
    wait_until(|| {
        let journals = journals(project);
        journals.first().is_some_and(|found| found.steps_done == 1 && recorded(found) == steps)
    });
    client.child.kill().unwrap();
    client.child.wait().unwrap();
}

#[track_caller]
fn assert_completed(client: &mut Client, id: &str) -> Value {
    let result = client.task_in_state(id, "completed")["result"].clone();
    assert_eq!(result["isError"], false, "{result}");
    result
}

#[test]
fn a_plan_goes_on_after_a_kill_and_does_no_step_twice() {
    let project = project("");
    kill_after(&project, 1);
    let left = journals(&project);
    let [journal] = left.as_slice() else { panic!("{left:?}") };
    assert!(journal.damage.is_none() && !journal.is_locked && !journal.is_finished, "{journal:?}");
    assert_eq!((journal.steps_done, journal.steps), (1, Some(2)));
    let content = Journal::peek(&journal.path).unwrap();
    assert_eq!(content.steps[0].value(), Some(json!("marked")));
    assert_eq!(runs(&project), 1);
    let mut client = client(&project);
    crate::write(&project, "out/go", "");
    let result = client.call("both", json!({}));
    if let Some(id) = result["taskId"].as_str() {
        assert_completed(&mut client, id);
    } else {
        assert_eq!(result["isError"], false, "{result}");
    }
    assert_eq!(runs(&project), 1, "the first step was not done again");
    assert!(journals(&project).is_empty(), "a plan that ended leaves no journal");
    assert_eq!(std::fs::read_dir(journal_folder(&project)).unwrap().count(), 0);
    client.call("both", json!({}));
    wait_until(|| runs(&project) == 2);
}

#[test]
fn a_plan_goes_on_after_the_end_of_the_client() {
    let project = project("");
    let mut first = client(&project);
    first.call_task("both", json!({}));
    wait_until(|| journals(&project).first().is_some_and(|journal| journal.steps_done == 1));
    first.close();
    assert_eq!(first.wait().0, Some(0));
    assert_eq!(journals(&project).len(), 1);
    crate::write(&project, "out/go", "");
    let mut second = client(&project);
    let result = second.call("both", json!({}));
    if let Some(id) = result["taskId"].as_str() {
        assert_completed(&mut second, id);
    }
    assert_eq!(runs(&project), 1);
}

#[test]
fn a_person_is_asked_before_an_interrupted_step_is_done_again() {
    for (choice, succeeds) in [("once", true), ("no", false)] {
        let project = project("write:out");
        kill_after(&project, 2);
        crate::write(&project, "out/go", "");
        let mut client = client(&project);
        let id = client.call_task("both", json!({}));
        let task = client.task_in_state(&id, "input_required");
        let message = task["inputRequests"]["approval-1"]["params"]["message"].as_str().unwrap();
        assert!(message.contains("was interrupted in the step hold, which calls skill hold"), "{message}");
        let answer = json!({"action": "accept", "content": {"answer": choice}});
        client.answer_task(&id, "approval-1", answer);
        let result = client.task_in_state(&id, "completed")["result"].clone();
        assert_eq!(result["isError"], !succeeds, "{result}");
        assert_eq!(runs(&project), 1);
    }
}

#[test]
fn a_plan_that_changed_starts_over() {
    let project = project("");
    kill_after(&project, 1);
    let path = ".metier/skills/both/scripts/sequence.json";
    let plan = std::fs::read_to_string(project.path(path)).unwrap();
    crate::write(&project, path, &plan.replace("\"hold\",\"skill\"", "\"held\",\"skill\""));
    let project = project.trusted();
    crate::write(&project, "out/go", "");
    let mut client = client(&project);
    let result = client.call("both", json!({}));
    if let Some(id) = result["taskId"].as_str() {
        assert_completed(&mut client, id);
    }
    assert_eq!(runs(&project), 2);
    assert!(journals(&project).is_empty());
}

#[test]
fn the_same_call_at_the_same_time_runs_without_a_journal() {
    let project = project("");
    let mut client = client(&project);
    let ids = [client.call_task("both", json!({})), client.call_task("both", json!({}))];
    wait_until(|| runs(&project) == 2);
    assert_eq!(journals(&project).len(), 1);
    crate::write(&project, "out/go", "");
    for id in &ids {
        assert_completed(&mut client, id);
    }
    assert_eq!(runs(&project), 2);
}

#[test]
fn a_cancelled_plan_starts_over_and_a_client_without_tasks_keeps_no_journal() {
    let project = project("");
    let mut first = client(&project);
    let id = first.call_task("both", json!({}));
    wait_until(|| journals(&project).first().is_some_and(|journal| journal.steps_done == 1));
    first.result("tasks/cancel", json!({"taskId": id}));
    first.task_in_state(&id, "cancelled");
    assert!(journals(&project).is_empty());
    let mut plain = project.modern_client(&ARGS);
    plain.start("tools/call", json!({"name": "both", "arguments": {}}));
    wait_until(|| runs(&project) == 2);
    assert!(journals(&project).is_empty());
}

#[test]
fn no_script_reaches_the_journals() {
    let script = "local ok, e = pcall(ctx.write, input.path, 'x') return {ok = ok, error = tostring(e)}";
    let project = Project::new()
        .lua("forger", script)
        .file(
            ".metier/skills/forger/SKILL.md",
            "---\nname: forger\ndescription: d\nallowed-tools: write\n---\n",
        )
        .file("metier/plan-journals/keep", "")
        .trusted();
    let mut client = project.modern_client(&["--allow", "write"]);
    let result = client.call("forger", json!({"input": {"path": "metier/plan-journals/a"}}));
    assert_eq!(result["structuredContent"]["ok"], false, "{result}");
}
