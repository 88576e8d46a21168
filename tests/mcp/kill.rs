//! A server that is killed in the middle of its calls leaves nothing behind that the next one would meet.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metier::plan::Journal;
use serde_json::{Value, json};

use crate::mcp::http_client::HttpServer;
use crate::mcp::plan_journals::{ARGS, journal_folder, journals, runs};
use crate::mcp::processes::{processes, wait_until};
use crate::support::cli::Project;

/// What lies in a folder, by name.
fn names_in(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).collect()
}

fn mounts() -> usize {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count()
}

#[test]
fn a_server_that_is_killed_mid_call_leaves_no_process_folder_or_mount() {
    let temp = tempfile::TempDir::new().unwrap();
    let project = Project::new()
        .shell("tree", "touch $TMPDIR/mine; sleep 3987.651 & (sleep 3987.652) & wait")
        .lua("hello", "return 'hello'")
        .trusted();
    let environment = [("TMPDIR", temp.path().to_str().unwrap())];
    let mounted = mounts();
    for _ in 0..3 {
        let mut server = project.http_server_with(&[], &environment);
        let mut session = server.session("2025-11-25");
        let _calls: Vec<_> = (0..3)
            .map(|_| server.start("tools/call", json!({"name": "tree", "arguments": {}})))
            .chain([session.start("tools/call", json!({"name": "tree", "arguments": {}})).1])
            .collect();
        wait_until(|| processes("3987.65") == 8);
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        wait_until(|| processes("3987.65") == 0);
    }
    wait_until(|| names_in(temp.path()).is_empty());
    assert_eq!(mounts(), mounted);
    let server = project.http_server_with(&[], &environment);
    assert_eq!(server.text("hello", json!({})), "hello");
    assert_eq!(server.stop().0, Some(0));
}

/// A plan whose first step writes a line, and whose second one is a process with another one below it, until `out/go` is there.
fn plan() -> Project {
    let steps = json!([
        {"id": "mark", "skill": "mark", "args": {}},
        {"id": "hold", "skill": "hold", "args": {}, "after": ["mark"]},
    ]);
    let hold = "touch $TMPDIR/mine; sleep 3987.671 & while ! test -e out/go; do sleep 0.05; done; kill $!; echo held";
    let text = |name: &str, requests: &str| {
        format!("---\nname: {name}\ndescription: d\nallowed-tools: {requests}\n---\n")
    };
    Project::new()
        .lua("mark", "ctx.append('out/log', 'run\\n') return 'marked'")
        .file(".metier/skills/mark/SKILL.md", text("mark", "write:out"))
        .shell("hold", hold)
        .file(".metier/skills/both/SKILL.md", text("both", "write:out skill:mark skill:hold"))
        .file(".metier/skills/both/scripts/sequence.json", steps.to_string())
        .file("out/keep", "")
        .trusted()
}

fn ask(server: &HttpServer, method: &str, params: &Value) -> Value {
    let name =
        params.get("taskId").or_else(|| params.get("name")).and_then(Value::as_str).unwrap_or_default();
    let headers = [("mcp-name", name)];
    let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    server.start_with(method, params.clone(), &capabilities, &headers).answer().result()
}

/// Calls the plan, which is answered with a task.
fn call(server: &HttpServer) -> String {
    let created = ask(server, "tools/call", &json!({"name": "both", "arguments": {}}));
    assert_eq!(created["resultType"], "task", "{created}");
    created["taskId"].as_str().unwrap().to_owned()
}

#[test]
fn a_plan_that_is_a_task_keeps_its_journal_over_kills_and_does_no_step_twice() {
    let temp = tempfile::TempDir::new().unwrap();
    let project = plan();
    // The same token is the same caller.
    let token = "0123456789abcdef0123456789abcdef";
    let environment = [("TMPDIR", temp.path().to_str().unwrap()), ("METIER_MCP_TOKEN", token)];
    let start = |project: &Project| {
        let mut server = project.http_server_with(&ARGS, &environment);
        server.token = Some(token.to_owned());
        server
    };
    let mounted = mounts();
    let recorded = |project: &Project| {
        let left = journals(project);
        let [journal] = left.as_slice() else { panic!("one journal: {left:?}") };
        assert!(journal.damage.is_none() && !journal.is_finished, "{journal:?}");
        assert_eq!((journal.steps_done, journal.steps), (1, Some(2)), "{journal:?}");
        let content = Journal::peek(&journal.path).unwrap();
        assert_eq!(content.steps[0].value(), Some(json!("marked")));
        journal.is_locked
    };
    for _ in 0..3 {
        let mut server = start(&project);
        call(&server);
        wait_until(|| processes("3987.67") == 1);
        assert!(recorded(&project), "the server has the journal of what it runs");
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        wait_until(|| processes("3987.67") == 0);
        wait_until(|| !recorded(&project));
        assert_eq!(runs(&project), 1, "the first step was not done again");
    }
    wait_until(|| names_in(temp.path()).is_empty());
    assert_eq!(mounts(), mounted);
    let server = start(&project);
    let id = call(&server);
    wait_until(|| processes("3987.67") == 1);
    crate::mcp::write(&project, "out/go", "");
    let end = Instant::now() + Duration::from_secs(20);
    let task = loop {
        let task = ask(&server, "tasks/get", &json!({"taskId": id}));
        if task["status"] == "completed" {
            break task;
        }
        assert!(Instant::now() < end, "{task}");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(task["result"]["isError"], false, "{task}");
    assert_eq!(runs(&project), 1, "the first step was not done again");
    assert!(journals(&project).is_empty(), "a plan that ended leaves no journal");
    assert_eq!(std::fs::read_dir(journal_folder(&project)).unwrap().count(), 0);
    assert_eq!(server.stop().0, Some(0));
    wait_until(|| names_in(temp.path()).is_empty());
}
