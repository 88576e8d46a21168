//! A plan that may become a task goes on after the server was killed, by the same call.

use std::path::PathBuf;

use metier::plan::{Journal, JournalSummary};
use serde_json::{Value, json};

use crate::mcp::client::Client;
use crate::mcp::processes::wait_until;
use crate::support::cli::Project;

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
    crate::mcp::write(&project, "out/go", "");
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
    crate::mcp::write(&project, "out/go", "");
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
        crate::mcp::write(&project, "out/go", "");
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
    crate::mcp::write(&project, path, &plan.replace("\"hold\",\"skill\"", "\"held\",\"skill\""));
    let project = project.trusted();
    crate::mcp::write(&project, "out/go", "");
    let result = result_of(&mut client(&project), "both");
    let reason = "the journal was begun before the plan of both changed, so the run is not taken up again";
    assert_started_over(&result, reason);
    assert_eq!(runs(&project), 2);
    assert!(journals(&project).is_empty());
    let result = result_of(&mut client(&project), "both");
    assert!(!result.to_string().contains("started over"), "{result}");
}

/// The last text of the result says that the plan started over, and why, without a path.
#[track_caller]
fn assert_started_over(result: &Value, reason: &str) {
    let texts = result["content"].as_array().unwrap();
    let expected = format!("The plan started over, from its first step: {reason}.");
    assert_eq!((texts.len(), texts[1]["text"].as_str()), (2, Some(expected.as_str())), "{result}");
}

#[test]
fn a_plan_whose_secret_changed_or_whose_journal_is_damaged_starts_over_and_says_why() {
    let project = || {
        let steps = json!([
            {"id": "mark", "skill": "mark", "args": {}},
            {"id": "hold", "skill": "hold", "args": {}, "after": ["mark"]},
        ]);
        let skill = |name: &str, requests: &str| {
            format!("---\nname: {name}\ndescription: d\nallowed-tools: {requests}\n---\n")
        };
        Project::new()
            .lua("mark", "ctx.append('out/log', #ctx.secret('KEY') .. '\\n') return 'marked'")
            .file(".metier/skills/mark/SKILL.md", skill("mark", "write:out secret:KEY"))
            .lua("hold", "while not pcall(ctx.stat, 'out/go') do end return 'held'")
            .file(".metier/skills/both/SKILL.md", skill("both", "write:out secret:KEY skill:mark skill:hold"))
            .file(".metier/skills/both/scripts/sequence.json", steps.to_string())
            .file("out/keep", "")
            .trusted()
    };
    let client = |project: &Project, secret: &str| {
        let config = project.home().join(".config/metier/config.toml");
        std::fs::create_dir_all(config.parent().unwrap()).unwrap();
        let key = project.home().join("key");
        std::fs::write(&key, secret).unwrap();
        std::fs::write(config, format!("skills.mark.secrets.KEY = {{file = '{}'}}", key.display())).unwrap();
        let args = [&ARGS[..], &["--allow", "secret:KEY"]].concat();
        project.modern_client(&args).with_tasks(&json!({}))
    };
    let changed = "the run of both does not go on where an earlier one ended: in step mark, the secret KEY that mark was given is \
         another one now";
    for (secret, is_damaged, reason) in [
        ("another-secret", false, Some(changed)),
        ("first-secret", true, Some("its journal is damaged")),
        ("first-secret", false, None),
    ] {
        let project = project();
        let mut first = client(&project, "first-secret");
        first.call_task("both", json!({}));
        wait_for_first_step(&project);
        first.child.kill().unwrap();
        first.child.wait().unwrap();
        if is_damaged {
            let path = &journals(&project)[0].path;
            let text = std::fs::read_to_string(path).unwrap();
            let (head, rest) = text.split_once('\n').unwrap();
            std::fs::write(path, format!("{}x\n{rest}", &head[..head.len() - 1])).unwrap();
        }
        crate::mcp::write(&project, "out/go", "");
        let result = result_of(&mut client(&project, secret), "both");
        assert_eq!(result["isError"], false, "{result}");
        match reason {
            Some(reason) => assert_started_over(&result, reason),
            None => assert!(!result.to_string().contains("started over"), "{result}"),
        }
        assert_eq!(runs(&project), if reason.is_some() { 2 } else { 1 });
    }
}

#[test]
fn the_same_call_at_the_same_time_runs_without_a_journal() {
    let project = project("");
    let mut client = client(&project);
    let ids = [client.call_task("both", json!({})), client.call_task("both", json!({}))];
    wait_until(|| runs(&project) == 2);
    assert_eq!(journals(&project).len(), 1);
    crate::mcp::write(&project, "out/go", "");
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

/// A plan whose first step reads a protected file, and whose second waits for the file `go`.
fn reading_project() -> Project {
    let skill = |name: &str| format!("---\nname: {name}\ndescription: d\nallowed-tools: read:.env\n---\n");
    let steps = json!({"steps": [
        {"id": "secret", "skill": "secret", "args": {}},
        {"id": "hold", "skill": "hold", "args": {}, "after": ["secret"]},
    ], "outputs_from": "secret"});
    let hold = "while not pcall(ctx.stat, 'go') do end return 'held'";
    Project::new()
        .file(".env", "PASSWORD=hunter2")
        .lua("secret", "return ctx.read_file('.env')")
        .file(".metier/skills/secret/SKILL.md", skill("secret"))
        .lua("hold", hold)
        .file(".metier/skills/both/SKILL.md", skill("both"))
        .file(".metier/skills/both/scripts/sequence.json", steps.to_string())
        .trusted()
}

const READS: [&str; 4] = ["--task-after", "0", "--allow", "read:.env"];
const READS_NOTHING: [&str; 2] = ["--task-after", "0"];

/// Waits until the first step of the plan is in a journal.
fn wait_for_first_step(project: &Project) {
    wait_until(|| journals(project).iter().any(|journal| journal.steps_done == 1));
}

/// The result of a call, which may be a task.
#[track_caller]
fn result_of(client: &mut Client, tool: &str) -> Value {
    let result = client.call(tool, json!({}));
    match result["taskId"].as_str() {
        Some(id) => client.task_in_state(id, "completed")["result"].clone(),
        None => result,
    }
}

#[test]
fn a_server_that_grants_less_does_not_go_on_and_one_that_grants_it_again_does() {
    let project = reading_project();
    let mut first = project.modern_client(&READS).with_tasks(&json!({}));
    first.call_task("both", json!({}));
    wait_for_first_step(&project);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    crate::mcp::write(&project, "go", "");
    for _ in 0..2 {
        let mut less = project.modern_client(&READS_NOTHING).with_tasks(&json!({}));
        let refused = result_of(&mut less, "both").to_string();
        assert!(refused.contains("read:.env") && !refused.contains("hunter2"), "{refused}");
        assert_eq!(journals(&project).len(), 1, "the journal is kept for a server that grants it again");
        less.close();
        less.wait();
    }
    let mut again = project.modern_client(&READS).with_tasks(&json!({}));
    let result = result_of(&mut again, "both").to_string();
    assert!(result.contains("hunter2"), "{result}");
    assert!(journals(&project).is_empty());
}

#[test]
fn a_revoked_grant_is_missing_and_a_person_is_asked_again_for_what_was_approved_once() {
    let project = reading_project();
    let remembered = project.metier(&["allow", "both", "read:.env"]);
    assert_eq!(remembered.code, 0, "{remembered:?}");
    let mut first = project.modern_client(&READS_NOTHING).with_tasks(&json!({}));
    first.call_task("both", json!({}));
    wait_for_first_step(&project);
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let revoked = project.metier(&["allow", "--revoke", "both"]);
    assert_eq!(revoked.code, 0, "{revoked:?}");
    crate::mcp::write(&project, "go", "");
    let mut silent = project.modern_client(&READS_NOTHING).with_tasks(&json!({}));
    let refused = result_of(&mut silent, "both").to_string();
    assert!(refused.contains("read:.env") && !refused.contains("hunter2"), "{refused}");
    // Its call becomes no task before the question is there.
    let mut asking = client_with(&project, &["--task-after", "60"]);
    let question = asking.call("both", json!({}));
    assert!(
        question.to_string().contains("read:.env") && !question.to_string().contains("hunter2"),
        "{question}"
    );
    assert_eq!(journals(&project).len(), 1, "a question leaves the plan where it is");
}

fn client_with(project: &Project, args: &[&str]) -> Client {
    project.modern_client(args).with_tasks(&json!({"elicitation": {"form": {}}}))
}

#[cfg(unix)]
#[test]
fn a_journal_is_of_no_use_to_another_caller() {
    use std::os::unix::fs::PermissionsExt;
    let tokens = ["first-token-of-the-test", "second-token-of-the-test"];
    let project = reading_project();
    let write_tokens = |texts: &[&str]| {
        crate::mcp::write(&project, "tokens", &texts.join("\n"));
        let own = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(project.path("tokens"), own).unwrap();
    };
    let call = |server: &crate::mcp::http_client::HttpServer, token: &str| {
        let capabilities = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("mcp-name", "both")];
        let params = json!({"name": "both", "arguments": {}});
        server.start_with("tools/call", params, &capabilities, &headers).answer().result()
    };
    let args = [&["--token-file", "tokens"][..], &READS].concat();
    write_tokens(&tokens);
    let server = project.http_server(&args);
    call(&server, tokens[0]);
    wait_for_first_step(&project);
    server.stop();
    assert_eq!(journals(&project).len(), 1);
    // In another order, the place of a token says nothing.
    write_tokens(&[tokens[1], tokens[0]]);
    crate::mcp::write(&project, ".env", "PASSWORD=changed");
    let server = project.http_server(&args);
    call(&server, tokens[1]);
    wait_until(|| journals(&project).len() == 2);
    call(&server, tokens[0]);
    let mut stdio = project.modern_client(&READS).with_tasks(&json!({}));
    stdio.call_task("both", json!({}));
    wait_until(|| journals(&project).iter().filter(|journal| journal.steps_done == 1).count() == 3);
    let values: Vec<String> = std::fs::read_dir(journal_folder(&project))
        .unwrap()
        .flatten()
        .flat_map(|folder| Journal::list(&folder.path()).unwrap())
        .map(|journal| Journal::peek(&journal.path).unwrap().steps[0].value().unwrap().to_string())
        .collect();
    let old = values.iter().filter(|value| value.contains("hunter2")).count();
    assert_eq!((old, values.len()), (1, 3), "only its own caller goes on with it: {values:?}");
    stdio.child.kill().unwrap();
    server.stop();
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
