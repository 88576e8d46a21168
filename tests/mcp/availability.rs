//! What is offered can run: by the interpreters that runs for a model take, and with the skills that plans call.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::mcp::client::Client;
use crate::support::cli::Project;

/// A skill in Python of which this version is nowhere but in the environment of the project.
fn with_python_of_project() -> Project {
    let folder = ".metier/skills/probe";
    let project = Project::new()
        .skill(folder)
        .file(&format!("{folder}/scripts/main.py"), "# /// script\n# requires-python = \"==9.9.*\"\n# ///\n")
        .file(".venv/pyvenv.cfg", "home = /usr/bin\n")
        .file(
            ".venv/bin/python3",
            "#!/bin/sh\n[ \"$1\" = --version ] && echo Python 9.9.1 && exit\necho project\n",
        );
    let program = project.path(".venv/bin/python3");
    std::fs::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    project
}

/// What the server says about a skill: whether it has its tool, and its line in the list.
fn offered(client: &mut Client, name: &str) -> (bool, String) {
    let listed = client.text("skills_list", json!({}));
    let line = listed.lines().find(|line| line.starts_with(&format!("- {name}:")));
    let line = line.unwrap_or_else(|| panic!("{listed}")).to_owned();
    (client.tool_names().contains(&name.to_owned()), line)
}

#[test]
fn a_skill_whose_interpreter_only_the_project_has_is_offered_where_the_project_is_trusted() {
    let project = with_python_of_project();
    assert_eq!(project.metier(&["trust", "--yes"]).code, 0);
    // A person runs it.
    assert_eq!(project.metier(&["show", "probe", "--json"]).json()["runnable"], true);
    assert_eq!(project.metier(&["run", "probe"]).stdout, "project\n");
    let reason = "scripts/main.py needs Python ==9.9.*";
    let (has_tool, why) = offered(&mut project.client(&[]), "probe");
    assert!(!has_tool && why.contains(reason), "{why}");
    let refused = project.metier(&["run", "probe", "--for-model"]);
    assert!(refused.code != 0 && refused.stderr.contains(reason), "{refused:?}");
    let catalog = |args: &[&str]| project.metier(&[&["catalog", "--json"], args].concat()).stdout;
    assert!(
        !catalog(&[]).contains("\"probe\"") && catalog(&["--all"]).contains(reason),
        "{}",
        catalog(&["--all"])
    );

    let project = project.trusted();
    assert_eq!(offered(&mut project.client(&[]), "probe"), (true, "- probe: d".to_owned()));
    assert_eq!(project.client(&[]).text("probe", json!({})), "project\n");
    assert!(project.metier(&["catalog", "--json"]).stdout.contains("\"probe\""));
}

fn with_plan(steps: &Value) -> Project {
    let broken = ".metier/skills/broken";
    Project::new()
        .lua("fine", "return 'fine'")
        .skill(broken)
        .file(&format!("{broken}/scripts/main.sh"), "")
        .file(&format!("{broken}/skill.yaml"), "dependencies: {tools: [no-such-program]}\n")
        .skill(".metier/skills/plan")
        .file(".metier/skills/plan/scripts/sequence.json", steps.to_string())
        .trusted()
}

#[test]
fn a_plan_that_calls_what_cannot_run_is_not_offered() {
    let project = with_plan(&json!([
        {"id": "one", "skill": "fine", "args": {}},
        {"id": "two", "skill": "broken", "args": {}},
    ]));
    let (has_tool, why) = offered(&mut project.client(&[]), "plan");
    let reason = "broken is here and cannot run itself: no-such-program is not on PATH (step two calls it)";
    assert!(!has_tool && why.contains("cannot run at present: skill plan cannot run: broken"), "{why}");
    let shown = project.metier(&["show", "plan", "--json"]).json();
    assert_eq!(shown["runnable"], false, "{shown}");
    assert!(shown["reason"].as_str().unwrap().contains(reason), "{shown}");
    assert!(!project.metier(&["catalog"]).stdout.contains("plan"));
}

#[test]
fn a_plan_is_offered_where_the_call_may_be_left_out_or_fail() {
    for key in [
        json!({"when": "$inputs.more"}),
        json!({"on_failure": "continue"}),
        json!({"for_each": "$inputs.list"}),
    ] {
        let mut step = json!({"id": "two", "skill": "broken", "args": {}});
        step.as_object_mut().unwrap().extend(key.as_object().unwrap().clone());
        let project = with_plan(&json!([step]));
        let (has_tool, why) = offered(&mut project.client(&[]), "plan");
        assert!(has_tool && why == "- plan: d", "{key}: {why}");
        let warnings = project.metier(&["show", "plan", "--json"]).json()["warnings"].to_string();
        assert!(warnings.contains("no-such-program is not on PATH (step two calls it)"), "{warnings}");
    }
}

#[test]
fn a_plan_that_calls_a_plan_or_a_tool_that_cannot_run_is_not_offered() {
    let project = with_plan(&json!([{"id": "one", "skill": "broken", "args": {}}]))
        .skill(".metier/skills/outer")
        .file(".metier/skills/outer/scripts/sequence.json", r#"[{"id": "all", "skill": "plan", "args": {}}]"#)
        .file(
            ".metier/skills/broken/skill.yaml",
            "dependencies: {tools: [no-such-program]}\ntools:\n  - name: now\n    description: d\n    entrypoint: scripts/now.sh\n",
        )
        .file(".metier/skills/broken/scripts/now.sh", "")
        .skill(".metier/skills/caller")
        .file(
            ".metier/skills/caller/scripts/sequence.json",
            r#"[{"id": "all", "tool": "broken.now", "args": {}}]"#,
        );
    for name in ["outer", "caller"] {
        let (has_tool, why) = offered(&mut project.client(&[]), name);
        assert!(!has_tool && why.contains("cannot run at present"), "{name}: {why}");
        let shown = project.metier(&["show", name, "--json"]).json()["reason"].to_string();
        assert!(shown.contains("no-such-program is not on PATH"), "{name}: {shown}");
    }
}
