//! `metier mcp --preview`: calls run in a copy of the project, and what they would change is applied when a person agrees to exactly that.

use serde_json::{Value, json};

use crate::mcp::client::Client;
use crate::support::cli::Project;
use crate::support::not_run::not_run;

const WRITER: &str = "#!/bin/sh\necho \"$1\" > docs/a.txt; rm -f gone.txt; echo done";

fn project() -> Project {
    Project::new()
        .shell("writer", WRITER)
        .lua("reader", "return ctx.read_file('docs/a.txt')")
        .file("docs/a.txt", "one\n")
        .file("gone.txt", "gone\n")
        .trusted()
}

fn tree(project: &Project) -> Vec<(String, String)> {
    ["docs/a.txt", "gone.txt", "n.txt"].map(|path| (path.to_owned(), project.read(path))).to_vec()
}

/// The change set of a call that writes this; `None` where this machine has no copies.
fn write(client: &mut Client, text: &str) -> Option<Value> {
    let result = client.call("writer", json!({"args": [text]}));
    let first = result["content"][0]["text"].as_str().unwrap();
    if first.contains("failed to run in a copy of the project") {
        not_run("a call in a copy of the project", first);
        return None;
    }
    assert_eq!(result["isError"], false, "{result}");
    Some(result)
}

fn by_digest(result: &Value) -> Value {
    let changes = &result["structuredContent"]["changes"];
    json!({"id": changes["id"], "digest": changes["digest"]})
}

fn answer(choice: &str) -> Value {
    json!({"action": "accept", "content": {"answer": choice}})
}

fn error_kind(result: &Value) -> &str {
    result["_meta"]["metier/error"]["kind"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// Calls the tool that applies, after a question with its answer.
fn apply_params(arguments: &Value, answered: Option<(&Value, Value)>) -> Value {
    let mut params = json!({"name": "apply_changes", "arguments": arguments});
    if let Some((question, answer)) = answered {
        params["requestState"] = question["requestState"].clone();
        params["inputResponses"] = json!({"approval": answer});
    }
    params
}

#[test]
fn a_call_answers_with_its_changes_and_a_person_applies_exactly_them() {
    let project = project();
    let before = tree(&project);
    let mut client = project.modern_client(&["--preview"]).asking();
    let Some(result) = write(&mut client, "new") else { return };
    assert_eq!(tree(&project), before, "the project is as it was");
    let changes = &result["structuredContent"]["changes"];
    assert_eq!(changes, &result["_meta"]["metier/changes"]);
    let listed: Vec<(&str, &str)> = changes["changes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|change| (change["kind"].as_str().unwrap(), change["path"].as_str().unwrap()))
        .collect();
    assert_eq!(listed, [("deleted", "gone.txt"), ("changed", "docs/a.txt")]);
    assert_eq!(changes["changes"][1]["before"].get("identity"), None);
    let texts = result["content"].as_array().unwrap();
    assert_eq!(texts[0]["text"], "done\n");
    assert!(texts[1]["text"].as_str().unwrap().contains("-one\n+new\n"), "{result}");
    let sentence = texts.last().unwrap()["text"].as_str().unwrap();
    assert!(
        sentence.contains("apply_changes with") && sentence.contains(changes["digest"].as_str().unwrap())
    );
    // The next call sees the project, and not the copy.
    assert_eq!(client.text("reader", json!({})), "one\n");
    let arguments = by_digest(&result);
    let question = client.result("tools/call", apply_params(&arguments, None));
    assert_eq!(question["resultType"], "input_required", "{question}");
    let message = question["inputRequests"]["approval"]["params"]["message"].as_str().unwrap();
    for part in [
        "deleted   gone.txt",
        "changed   docs/a.txt",
        "    -one\n    +new",
        arguments["digest"].as_str().unwrap(),
    ] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(tree(&project), before);
    let applied = client.result("tools/call", apply_params(&arguments, Some((&question, answer("once")))));
    assert_eq!(
        (&applied["isError"], &applied["structuredContent"]["applied"]),
        (&json!(false), &json!(2)),
        "{applied}"
    );
    assert_eq!((project.read("docs/a.txt"), project.path("gone.txt").exists()), ("new\n".to_owned(), false));
    let undone = project.metier(&["undo", arguments["id"].as_str().unwrap()]);
    assert_eq!((undone.code, tree(&project)), (0, before), "{undone:?}");
}

#[test]
fn an_agreement_is_for_one_change_set_and_for_one_time() {
    let project = project();
    let mut client = project.modern_client(&["--preview"]).asking();
    let Some(first) = write(&mut client, "first") else { return };
    let second = write(&mut client, "second").unwrap();
    let (first, second) = (by_digest(&first), by_digest(&second));
    let before = tree(&project);
    let question = client.result("tools/call", apply_params(&first, None));
    // The model sends the agreement to the first with the second.
    for other in [
        second.clone(),
        json!({"id": first["id"], "digest": second["digest"]}),
        json!({"id": second["id"], "digest": first["digest"]}),
    ] {
        let answered = client.request("tools/call", apply_params(&other, Some((&question, answer("once")))));
        assert!(
            answered["error"]["data"]["kind"] == "denied" || error_kind(&answered["result"]) == "denied",
            "{answered}"
        );
        assert_eq!(tree(&project), before, "{other}");
    }
    for no in [answer("no"), answer("always"), json!({"action": "decline"}), json!("once"), Value::Null] {
        let question = client.result("tools/call", apply_params(&first, None));
        let refused = client.result("tools/call", apply_params(&first, Some((&question, no))));
        assert_eq!(error_kind(&refused), "denied");
        let again = client.request("tools/call", apply_params(&first, Some((&question, answer("once")))));
        assert!(again["error"]["message"].as_str().unwrap().contains("used before"), "{again}");
        assert_eq!(tree(&project), before);
    }
    // An answer without its state is no answer.
    let mut params = apply_params(&first, None);
    params["inputResponses"] = json!({"approval": answer("once")});
    assert_eq!(client.result("tools/call", params)["resultType"], "input_required");
    assert_eq!(tree(&project), before);
}

#[test]
fn only_change_sets_of_the_same_client_and_project_are_applied() {
    let project = project();
    let mut client = project.modern_client(&["--preview"]).asking();
    let Some(result) = write(&mut client, "x") else { return };
    let own = by_digest(&result);
    // One that a person made here, and one of another project.
    let other = Project::new().file("docs/a.txt", "one\n");
    let folder = other.root().to_str().unwrap();
    for args in [vec![], vec!["--project", folder]] {
        let run = ["exec", "--preview", "--keep-changes", "--json"];
        let command = ["--", "sh", "-c", "echo stolen > docs/a.txt"];
        let made = project.metier(&[&run[..], &args, &command].concat()).json();
        let arguments = json!({"id": made["changes"]["id"], "digest": made["changes"]["digest"]});
        assert!(arguments["digest"].is_string(), "{made}");
        let refused = client.result("tools/call", apply_params(&arguments, None));
        assert_eq!(error_kind(&refused), "denied", "{refused}");
        let discarded = client.call("discard_changes", arguments.clone());
        assert_eq!(error_kind(&discarded), "denied");
    }
    assert_eq!(project.metier(&["changes", "list", "--json"]).json().as_array().unwrap().len(), 3);
    // Another server knows nothing of it.
    let mut second = project.modern_client(&["--preview"]).asking();
    assert_eq!(error_kind(&second.result("tools/call", apply_params(&own, None))), "denied");
    for arguments in
        [json!({}), json!({"id": 1, "digest": own["digest"]}), json!({"id": "../x", "digest": "y"})]
    {
        let refused = client.result("tools/call", apply_params(&arguments, None));
        assert!(["denied", "invalid-input"].contains(&error_kind(&refused)), "{refused}");
    }
    assert_eq!((project.read("docs/a.txt"), other.read("docs/a.txt")), ("one\n".into(), "one\n".into()));
}

#[test]
fn what_the_project_has_changed_since_the_question_stays() {
    let project = project();
    let mut client = project.modern_client(&["--preview"]).asking();
    let Some(result) = write(&mut client, "model") else { return };
    let arguments = by_digest(&result);
    let question = client.result("tools/call", apply_params(&arguments, None));
    crate::mcp::write(&project, "docs/a.txt", "person\n");
    let applied = client.result("tools/call", apply_params(&arguments, Some((&question, answer("once")))));
    assert_eq!(applied["isError"], true, "{applied}");
    assert_eq!(applied["structuredContent"]["conflicts"], json!(["docs/a.txt"]));
    assert_eq!(project.read("docs/a.txt"), "person\n");
    // Another folder at the same path is another project.
    let mut client = project.modern_client(&["--preview"]).asking();
    let result = write(&mut client, "again").unwrap();
    let arguments = by_digest(&result);
    let question = client.result("tools/call", apply_params(&arguments, None));
    project.replace();
    let refused = client.result("tools/call", apply_params(&arguments, Some((&question, answer("once")))));
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(project.read("docs/a.txt"), "person\n");
}

#[test]
fn a_session_asks_its_client_and_a_client_that_cannot_ask_applies_nothing() {
    let project = project();
    for (choice, text) in [("no", "one\n"), ("once", "new\n")] {
        let mut client = project.asking_client("2025-11-25", &["--preview"]);
        let Some(result) = write(&mut client, "new") else { return };
        let id =
            client.start("tools/call", json!({"name": "apply_changes", "arguments": by_digest(&result)}));
        let question = client.notification("elicitation/create");
        let message = question["params"]["message"].as_str().unwrap();
        assert!(message.contains("changed   docs/a.txt"), "{message}");
        client.send(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer(choice)}));
        let result = client.response(id)["result"].clone();
        assert_eq!(result["isError"], choice == "no", "{result}");
        assert_eq!(project.read("docs/a.txt"), text);
    }
    let mut client = project.client(&["--preview"]);
    let result = write(&mut client, "other").unwrap();
    let refused = client.call("apply_changes", by_digest(&result));
    let text = refused["content"][0]["text"].as_str().unwrap();
    assert!(
        text.contains("this client cannot ask one") && text.contains("a person can apply the change set "),
        "{text}"
    );
    assert_eq!(project.read("docs/a.txt"), "new\n");
    let discarded = client.call("discard_changes", by_digest(&result));
    assert_eq!(discarded["isError"], false, "{discarded}");
    assert_eq!(error_kind(&client.call("discard_changes", by_digest(&result))), "usage");
}

#[test]
fn the_tools_are_there_with_the_option_alone() {
    let project = project();
    let own = ["apply_changes", "discard_changes"].map(str::to_owned);
    let names = project.client(&["--preview"]).tool_names();
    assert!(own.iter().all(|name| names.contains(name)), "{names:?}");
    let mut without = project.client(&[]);
    assert!(!without.tool_names().iter().any(|name| own.contains(name)));
    let message = without.request("tools/call", json!({"name": "apply_changes", "arguments": {}}));
    assert!(message["error"]["message"].as_str().unwrap().contains("there is no tool"), "{message}");
}

#[test]
fn changes_that_nobody_can_be_shown_whole_are_not_asked_about() {
    let many = "#!/bin/sh\ni=0; while [ $i -lt 600 ]; do echo x > \"a-file-with-a-long-name-$i\"; i=$((i + 1)); done";
    let project = Project::new().shell("many", many).trusted();
    let mut client = project.modern_client(&["--preview"]).asking();
    let result = client.call("many", json!({}));
    if result["content"][0]["text"].as_str().unwrap().contains("failed to run in a copy of the project") {
        return not_run("a call in a copy of the project", "see the other tests");
    }
    let changes = &result["structuredContent"]["changes"];
    let listed = changes["changes"].as_array().unwrap().len();
    assert_eq!(listed + usize::try_from(changes["omitted"].as_u64().unwrap()).unwrap(), 600);
    assert!(result.to_string().len() < 80_000);
    let refused = client.result("tools/call", apply_params(&by_digest(&result), None));
    assert_eq!(error_kind(&refused), "denied");
    assert!(
        refused["content"][0]["text"].as_str().unwrap().contains("too large to be shown whole"),
        "{refused}"
    );
}

#[test]
fn without_overlays_calls_of_languages_inside_the_program_are_previewed_and_applied() {
    let project = project()
        .lua("changer", "ctx.write('docs/a.txt', 'new\\n') ctx.remove('gone.txt') return 'done'")
        .file(
            ".metier/skills/changer/SKILL.md",
            "---\nname: changer\ndescription: d\nallowed-tools: write\n---\n",
        )
        .trusted();
    // This level has no mounts.
    crate::support::cli::write(
        &project.home().join(".config/metier/config.toml"),
        "sandbox.level = \"landlock\"",
    );
    let before = tree(&project);
    let mut client = project.modern_client(&["--preview"]).asking();
    let refused = client.call("writer", json!({"args": ["x"]}));
    assert_eq!(error_kind(&refused), "sandbox-unavailable", "{refused}");
    let result = client.call("changer", json!({}));
    assert_eq!((&result["isError"], tree(&project)), (&json!(false), before), "{result}");
    let arguments = by_digest(&result);
    let question = client.result("tools/call", apply_params(&arguments, None));
    let applied = client.result("tools/call", apply_params(&arguments, Some((&question, answer("once")))));
    assert_eq!(applied["structuredContent"]["applied"], 2, "{applied}");
    assert_eq!((project.read("docs/a.txt"), project.path("gone.txt").exists()), ("new\n".to_owned(), false));
}

#[test]
fn each_answer_about_changes_is_recorded_before_it_has_an_effect() {
    let project = project();
    crate::support::cli::write(&project.home().join(".config/metier/config.toml"), "audit.enabled = true");
    let mut client = project.modern_client(&["--preview"]).asking();
    let Some(result) = write(&mut client, "new") else { return };
    let arguments = by_digest(&result);
    for choice in ["no", "once"] {
        let question = client.result("tools/call", apply_params(&arguments, None));
        let params = apply_params(&arguments, Some((&question, answer(choice))));
        assert_eq!(client.result("tools/call", params)["isError"], choice == "no");
    }
    assert_eq!(project.read("docs/a.txt"), "new\n");
    assert_eq!(project.metier(&["undo"]).code, 0);
    assert_eq!(project.metier(&["changes", "apply", arguments["id"].as_str().unwrap()]).code, 0);
    let shown = project.metier(&["audit", "show", "--kind", "changes_decided", "--json"]).json();
    let records: Vec<&Value> = shown.as_array().unwrap().iter().map(|line| &line["record"]).collect();
    let facts = |record: &Value| (record["outcome"].clone(), record["who"].clone());
    let client = json!({"actor": "person", "face": "mcp", "client": "test"});
    let command = json!({"actor": "person", "face": "cli"});
    let expected = [("denied", &client), ("applied", &client), ("undone", &command), ("applied", &command)];
    let expected = expected.map(|(outcome, who)| (json!(outcome), who.clone()));
    assert_eq!(records.iter().map(|record| facts(record)).collect::<Vec<_>>(), expected);
    for record in records {
        assert_eq!((&record["target"], &record["change_set"]), (&arguments["id"], &arguments["digest"]));
        assert!(record["skill"].as_str().unwrap().contains("writer"), "{record}");
    }
    assert_eq!(project.metier(&["audit", "verify"]).code, 0);
}

#[test]
fn what_cannot_be_recorded_is_not_applied_where_that_is_required() {
    let project = project();
    let mut client = project.modern_client(&["--preview"]).asking();
    let Some(result) = write(&mut client, "new") else { return };
    let arguments = by_digest(&result);
    drop(client);
    crate::support::cli::write(&project.home().join(".config/metier/config.toml"), "audit.required = true");
    // A file is where the folder of the log would be.
    let folder = project.home().join(".local/share/metier/audit");
    std::fs::remove_dir_all(&folder).ok();
    crate::support::cli::write(&folder, "");
    let before = tree(&project);
    let answer = project.metier(&["changes", "apply", arguments["id"].as_str().unwrap()]);
    assert!(answer.code != 0 && answer.stderr.contains("it is required, so nothing was done"), "{answer:?}");
    assert_eq!(tree(&project), before);
}

#[test]
fn changes_wait_as_a_change_set_and_not_as_a_pending_call() {
    let project = project();
    let mut client = project.modern_client(&["--preview", "--park"]);
    let Some(result) = write(&mut client, "new") else { return };
    let refused = client.result("tools/call", apply_params(&by_digest(&result), None));
    assert_eq!(error_kind(&refused), "denied");
    assert!(refused.to_string().contains("they wait as a change set, not as a pending call"), "{refused}");
    assert_eq!(project.metier(&["pending", "--json"]).json(), json!([]));
    let id = result["structuredContent"]["changes"]["id"].as_str().unwrap().to_owned();
    assert_eq!(project.metier(&["changes", "apply", &id]).code, 0);
    assert_eq!(project.read("docs/a.txt"), "new\n");
}
