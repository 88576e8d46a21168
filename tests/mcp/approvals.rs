//! What nobody granted is asked of the person behind the client, before anything of the skill has run.

use serde_json::{Value, json};

use crate::mcp::client::Client;
use crate::support::cli::Project;

const FRONTMATTER: &str = "---\nname: writer\ndescription: d\nallowed-tools: write:out\n---\n";

/// A skill that writes `out/a.txt` and changes a file at its start, so that one sees whether it ran.
fn project() -> Project {
    Project::new()
        .lua("writer", "ctx.write('out/a.txt', input.text or 'x') return 'written'")
        .file(".metier/skills/writer/SKILL.md", FRONTMATTER)
        .file("out/keep", "")
        .trusted()
}

fn has_run(project: &Project) -> bool {
    project.path("out/a.txt").exists()
}

/// Calls the skill with this input, after a question with its answer.
fn call(client: &mut Client, input: &Value, answer: Option<(&Value, Value)>) -> Value {
    let mut params = json!({"name": "writer", "arguments": {"input": input}});
    if let Some((question, answer)) = answer {
        params["requestState"] = question["requestState"].clone();
        params["inputResponses"] = json!({"approval": answer});
    }
    client.result("tools/call", params)
}

fn answer(choice: &str) -> Value {
    json!({"action": "accept", "content": {"answer": choice}})
}

#[track_caller]
fn assert_question(result: &Value) {
    assert_eq!(result["resultType"], "input_required", "{result}");
    let request = &result["inputRequests"]["approval"];
    assert_eq!(request["method"], "elicitation/create");
    let message = request["params"]["message"].as_str().unwrap();
    assert!(message.contains("- write:out: change files at or below out"), "{message}");
    assert!(message.contains("project/.metier:writer") && message.contains("sha256:"), "{message}");
}

#[test]
fn a_call_that_needs_an_answer_returns_the_question_and_runs_with_the_answer() {
    let project = project();
    let mut client = project.modern_client(&[]).asking();
    let arguments = json!({"text": "seen"});
    let question = call(&mut client, &arguments, None);
    assert_question(&question);
    let message = question["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    assert!(message.contains(r#"{"text":"seen"}"#), "{message}");
    assert!(!has_run(&project));
    let result = call(&mut client, &arguments, Some((&question, answer("once"))));
    assert_eq!(result["content"][0]["text"], "written", "{result}");
    assert_eq!(std::fs::read_to_string(project.path("out/a.txt")).unwrap(), "seen");
    // A yes for one call is none for the next.
    assert_question(&call(&mut client, &arguments, None));
}

/// The error of a call whose state is not accepted: one of the protocol, since no client sends such a state by itself.
#[track_caller]
fn state_error(client: &mut Client, input: &Value, question: &Value, answer: &Value) -> String {
    let mut params = json!({"name": "writer", "arguments": {"input": input}});
    params["requestState"] = question["requestState"].clone();
    params["inputResponses"] = json!({"approval": answer});
    let message = client.request("tools/call", params);
    assert_eq!(
        (&message["error"]["code"], &message["error"]["data"]["kind"]),
        (&json!(-32602), &json!("denied"))
    );
    message["error"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn an_answer_is_for_one_call_and_opens_once() {
    let project = project();
    let mut client = project.modern_client(&[]).asking();
    let question = call(&mut client, &json!({"text": "a"}), None);
    let other = state_error(&mut client, &json!({"text": "b"}), &question, &answer("always"));
    assert!(other.contains("does not belong to this call"), "{other}");
    let mut altered = question.clone();
    let state = question["requestState"].as_str().unwrap();
    altered["requestState"] = json!(format!("{}x", &state[..state.len() - 1]));
    let refused = state_error(&mut client, &json!({"text": "a"}), &altered, &answer("once"));
    assert!(refused.contains("does not belong"), "{refused}");
    // Another server has another key.
    let mut second = project.modern_client(&[]).asking();
    let refused = state_error(&mut second, &json!({"text": "a"}), &question, &answer("once"));
    assert!(refused.contains("does not belong"), "{refused}");
    for no in [
        answer("no"),
        answer("maybe"),
        json!({"action": "accept"}),
        json!({"action": "decline", "content": {"answer": "once"}}),
        json!({"action": "cancel"}),
        json!("once"),
        Value::Null,
    ] {
        let question = call(&mut client, &json!({"text": "a"}), None);
        let result = call(&mut client, &json!({"text": "a"}), Some((&question, no)));
        assert_eq!(result["_meta"]["metier/error"]["kind"], "denied", "{result}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains("was not approved"), "{result}");
        let refused = state_error(&mut client, &json!({"text": "a"}), &question, &answer("once"));
        assert!(refused.contains("used before"), "{refused}");
        assert!(!has_run(&project));
    }
    let result = call(&mut client, &json!({"text": "a"}), Some((&question, answer("once"))));
    assert_eq!(result["content"][0]["text"], "written", "{result}");
}

#[test]
fn an_answer_without_its_state_is_no_answer() {
    let project = project();
    let mut client = project.modern_client(&[]).asking();
    let mut question = call(&mut client, &json!({}), None);
    question["requestState"].take();
    let mut params = json!({"name": "writer", "arguments": {}});
    params["inputResponses"] = json!({"approval": answer("once")});
    assert_question(&client.result("tools/call", params));
    assert!(!has_run(&project));
}

#[test]
fn a_yes_for_good_is_remembered_until_a_file_of_the_skill_changes() {
    let project = project();
    let mut client = project.modern_client(&[]).asking();
    let question = call(&mut client, &json!({}), None);
    let result = call(&mut client, &json!({}), Some((&question, answer("always"))));
    assert_eq!(result["isError"], false, "{result}");
    assert_eq!(call(&mut client, &json!({"text": "again"}), None)["content"][0]["text"], "written");
    let grants = project.metier(&["allow", "--list"]);
    assert!(grants.stdout.contains("write:out"), "{grants:?}");
    crate::mcp::write(&project, ".metier/skills/writer/SKILL.md", &format!("{FRONTMATTER}changed\n"));
    assert_question(&call(&mut client, &json!({}), None));
}

#[test]
fn a_skill_that_changes_before_the_answer_is_asked_about_again() {
    let project = project();
    let mut client = project.modern_client(&[]).asking();
    let question = call(&mut client, &json!({}), None);
    crate::mcp::write(
        &project,
        ".metier/skills/writer/scripts/main.lua",
        "ctx.write('out/a.txt', 'evil') return 1",
    );
    let result = call(&mut client, &json!({}), Some((&question, answer("once"))));
    assert_question(&result);
    assert!(!has_run(&project));
    assert_ne!(question["inputRequests"], result["inputRequests"]);
}

#[test]
fn no_process_has_started_before_the_answer() {
    let project = Project::new()
        .file(".metier/skills/writer/SKILL.md", FRONTMATTER)
        .file(".metier/skills/writer/scripts/main.sh", "echo run > out/a.txt && echo written\n")
        .file("out/keep", "")
        .trusted();
    let mut client = project.modern_client(&[]).asking();
    let question = call(&mut client, &json!({}), None);
    assert_question(&question);
    assert!(!has_run(&project));
    let result = call(&mut client, &json!({}), Some((&question, answer("once"))));
    assert_eq!(result["isError"], false, "{result}");
    assert!(has_run(&project));
}

#[test]
fn clients_with_sessions_are_asked_while_the_call_waits() {
    let project = project();
    for revision in ["2025-06-18", "2025-11-25"] {
        let mut client = project.asking_client(revision, &[]);
        for (reply, runs) in
            [(answer("no"), false), (json!({"action": "decline"}), false), (answer("once"), true)]
        {
            let id = client.start("tools/call", json!({"name": "writer", "arguments": {}}));
            let question = client.notification("elicitation/create");
            let message = question["params"]["message"].as_str().unwrap();
            assert!(message.contains("- write:out: change files at or below out"), "{message}");
            assert!(!has_run(&project));
            client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": reply}));
            let result = client.response(id)["result"].clone();
            assert_eq!(result["isError"], !runs, "{result}");
            assert_eq!(has_run(&project), runs);
        }
        std::fs::remove_file(project.path("out/a.txt")).unwrap();
    }
}

#[test]
fn a_question_is_withdrawn_when_its_call_is_cancelled() {
    let project = project();
    let mut client = project.asking_client("2025-11-25", &[]);
    let id = client.start("tools/call", json!({"name": "writer", "arguments": {}}));
    let question = client.notification("elicitation/create");
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"}));
    let withdrawn = client.notification("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], question["id"]);
    // An answer that comes too late changes nothing.
    client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer("once")}));
    assert!(client.tool_names().contains(&"writer".to_owned()));
    assert!(!has_run(&project));
}

#[test]
fn a_client_that_fails_to_ask_has_not_said_yes() {
    let project = project();
    let mut client = project.asking_client("2025-11-25", &[]);
    for reply in [json!({"error": {"code": -1, "message": "no"}}), json!({"result": {"roots": []}})] {
        let id = client.start("tools/call", json!({"name": "writer", "arguments": {}}));
        let question = client.notification("elicitation/create");
        let mut message = json!({"jsonrpc": "2.0", "id": question["id"]});
        message.as_object_mut().unwrap().extend(reply.as_object().unwrap().clone());
        client.send(&message);
        let result = client.response(id)["result"].clone();
        assert_eq!(result["_meta"]["metier/error"]["kind"], "denied", "{result}");
    }
    assert!(!has_run(&project));
}

#[test]
fn who_cannot_or_may_not_be_asked_gets_the_command_that_allows_it() {
    let project = project();
    let cannot = json!({"elicitation": {"url": {}}});
    for mut client in [
        project.client(&[]),
        project.modern_client(&[]),
        project.modern_client(&["--no-input"]).asking(),
        project.modern_client(&[]).with_capabilities(&cannot),
    ] {
        let result = call(&mut client, &json!({}), None);
        assert_eq!(result["_meta"]["metier/error"]["kind"], "denied", "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("metier allow writer write:out"), "{text}");
    }
    assert!(!has_run(&project));
}

#[test]
fn a_question_shows_all_of_the_input_escaped_or_nobody_is_asked() {
    let project = project();
    let mut client = project.modern_client(&[]).asking();
    for length in [0, 100, 300, 2_100, 10_000] {
        let text = format!("\u{1b}[2J\n- write:out: nothing\u{202e}\u{2028}  {}THE END", "x".repeat(length));
        let question = call(&mut client, &json!({"text": text}), None);
        assert_question(&question);
        let message = question["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
        assert!(!message.contains(['\u{1b}', '\u{202e}', '\u{2028}', '…']), "{message}");
        // Two blanks are not one.
        let shown = format!(" \\u{{20}}{}THE END", "x".repeat(length));
        assert!(message.contains(&shown), "{message}");
        assert_eq!(message.lines().filter(|line| line.starts_with("- ")).count(), 1, "{message}");
    }
    for length in [20_000, 100_000] {
        let result = call(&mut client, &json!({"text": "x".repeat(length)}), None);
        assert_eq!(result["_meta"]["metier/error"]["kind"], "denied", "{result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("too large to be shown whole") && text.contains("help: "), "{text}");
    }
    assert!(!has_run(&project));
    // In a session too.
    let mut session = project.asking_client("2025-11-25", &[]);
    let input = json!({"input": {"text": "x".repeat(20_000)}});
    let id = session.start("tools/call", json!({"name": "writer", "arguments": input}));
    let refused = session.response(id);
    assert_eq!(refused["result"]["_meta"]["metier/error"]["kind"], "denied", "{refused}");
    assert!(!has_run(&project));
}

/// A trusted skill that writes and states this risk, and the canary that says whether it ran.
fn risky_project(risk: &str, config: &str) -> Project {
    let project = project()
        .file(".metier/skills/writer/skill.yaml", format!("metadata: {{risk_level: {risk}}}"))
        .file(".metier/config.toml", config);
    project.trusted()
}

#[test]
fn a_critical_skill_asks_before_each_call_whatever_is_granted_and_offers_no_answer_for_good() {
    let project = risky_project("critical", "");
    let mut client = project.modern_client(&["--allow", "write:out"]).asking();
    for count in 1..=2 {
        let question = call(&mut client, &json!({}), None);
        let params = &question["inputRequests"]["approval"]["params"];
        let message = params["message"].as_str().unwrap_or_else(|| panic!("{question}"));
        assert!(message.contains("has a critical risk. It wants to run."), "{message}");
        assert!(!params.to_string().contains("always"), "{params}");
        assert_eq!(has_run(&project), count > 1, "{question}");
        let result = call(&mut client, &json!({}), Some((&question, answer("once"))));
        assert_eq!(result["content"][0]["text"], "written", "{result}");
    }
    // What was not offered is no more than a yes to this call.
    let question = call(&mut client, &json!({}), None);
    call(&mut client, &json!({}), Some((&question, answer("always"))));
    assert_eq!(call(&mut client, &json!({}), None)["resultType"], "input_required");
    let mut silent = project.modern_client(&["--allow", "write:out"]);
    let refused = call(&mut silent, &json!({}), None);
    assert!(refused["content"][0]["text"].as_str().unwrap().contains("nobody can be asked"), "{refused}");
}

#[test]
fn a_call_that_takes_more_autonomy_is_refused_with_both_numbers() {
    for (risk, config, passes) in [
        ("high", "autonomy = 79", false),
        ("high", "autonomy = 80", true),
        ("low", "autonomy = 0", false),
        ("none", "autonomy = 0", true),
        ("destructive", "", true),
    ] {
        let project = risky_project(risk, config);
        let mut client = project.modern_client(&["--allow", "write:out"]).asking();
        let result = call(&mut client, &json!({}), None);
        let is_refused = result["_meta"]["metier/error"]["kind"] == "autonomy";
        assert_eq!(is_refused, !passes, "{risk} {config}: {result}");
        if is_refused {
            let text = result["content"][0]["text"].as_str().unwrap();
            let score = config.rsplit(' ').next().unwrap();
            assert!(
                text.contains("needs an autonomy of") && text.contains(&format!("has {score}")),
                "{text}"
            );
            assert!(!has_run(&project));
        }
    }
}

#[test]
fn where_the_client_asks_nobody_the_call_waits_for_a_person() {
    let project = risky_project("critical", "");
    let store = metier::pending::PendingStore::new(project.home().join(".local/share/metier/pending"));
    let mut client = project.modern_client(&["--allow", "write:out", "--park"]);
    let refused = call(&mut client, &json!({"text": "a"}), None);
    assert_eq!(refused["_meta"]["metier/error"]["kind"], "pending", "{refused}");
    let waiting = store.list().unwrap().remove(0);
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&waiting.id) && text.contains("nothing of it has run"), "{text}");
    assert!(waiting.caller.starts_with("the client "), "{waiting:?}");
    assert!(!has_run(&project));
    store.approve(&waiting).unwrap();
    call(&mut client, &json!({"text": "b"}), None);
    assert!(!has_run(&project), "another input");
    let result = call(&mut client, &json!({"text": "a"}), None);
    assert_eq!(result["content"][0]["text"], "written", "{result}");
    let again = call(&mut client, &json!({"text": "a"}), None);
    assert_eq!(again["_meta"]["metier/error"]["kind"], "pending", "{again}");
    // A client that can ask is asked.
    let mut asking = project.modern_client(&["--allow", "write:out", "--park"]).asking();
    assert_eq!(call(&mut asking, &json!({"text": "c"}), None)["resultType"], "input_required");
}

/// What a call of the skill of the risky project has as its result.
fn text_of(task: &Value) -> &str {
    task["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{task}"))
}

#[test]
fn a_task_waits_for_a_person_and_goes_on_by_itself() {
    let project = risky_project("critical", "");
    let store = metier::pending::PendingStore::new(project.home().join(".local/share/metier/pending"));
    let args = ["--allow", "write:out", "--park", "--max-calls", "1"];
    let mut client = project.modern_client(&args).with_tasks(&json!({}));
    let arguments = |text: &str| json!({"input": {"text": text}});
    let [approved, denied, cancelled] =
        ["a", "b", "c"].map(|text| client.call_task("writer", arguments(text)));
    let mut calls = store.list().unwrap();
    calls.sort_by_key(|call| call.input.as_ref().unwrap()["text"].to_string());
    let [first, second, third] = calls.try_into().unwrap();
    for (task, call) in [(&approved, &first), (&denied, &second), (&cancelled, &third)] {
        let task = client.task(task);
        assert_eq!(task["status"], "working", "{task}");
        assert!(task["statusMessage"].as_str().unwrap().contains(&call.id), "{task}");
    }
    // None of them keeps the only place among the calls that run.
    assert!(!has_run(&project));
    store.deny(&second.id).unwrap();
    let task = client.task_in_state(&denied, "completed");
    assert!(text_of(&task).contains("a person has refused this call"), "{task}");
    store.approve(&first).unwrap();
    assert_eq!(text_of(&client.task_in_state(&approved, "completed")), "written");
    assert!(has_run(&project));
    client.result("tasks/cancel", json!({"taskId": cancelled}));
    client.task_in_state(&cancelled, "cancelled");
    // What is approved now is for whoever makes the call again.
    store.approve(&third).unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(store.list().unwrap().len(), 2, "the approval was not used");
}
