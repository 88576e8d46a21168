//! Plans on the command line: steps as they run, the journal, the outcome.

use serde_json::{Value, json};

use crate::support::cli::Project;

fn sequence(steps: &Value) -> Project {
    let asks = "---\nname: x\ndescription: d\nallowed-tools: write\n---\n";
    Project::new()
        .file(".metier/skills/x/SKILL.md", asks)
        .file(".metier/skills/x/scripts/sequence.json", steps.to_string())
}

#[test]
fn each_step_has_a_line_on_standard_error_and_the_value_is_alone_on_standard_output() {
    let project = sequence(&json!([
        {"tool": "glob", "args": {"pattern": "*"}},
        {"id": "never", "tool": "tree", "when": "false"},
        {"id": "last", "tool": "read_file", "args": {"path": "f"}},
    ]));
    let answer = project.file("f", "text").metier(&["run", "x"]);
    assert_eq!(answer.stdout, "text\n");
    let lines: Vec<String> =
        answer.stderr.lines().map(|line| line.split(", ").next().unwrap().to_owned()).collect();
    assert_eq!(
        lines,
        ["step 1/3 glob: ok", "step 2/3 never (tree): skipped", "step 3/3 last (read_file): ok"]
    );
    assert!(answer.stderr.ends_with(" ms\n"), "{answer:?}");
}

#[test]
fn a_failed_step_is_reported_with_its_location() {
    let answer = sequence(&json!([{"tool": "read_file", "args": {"path": "gone"}}])).metier(&["run", "x"]);
    assert_eq!(answer.code, 1);
    assert!(answer.stderr.contains("step 1/1 read_file: failed"), "{answer:?}");
    assert!(
        answer.stderr.contains("error: step 1 of 1 (id read_file, read_file) failed: failed to read gone"),
        "{answer:?}"
    );
    assert!(answer.stderr.contains("--> scripts/sequence.json:1"), "{answer:?}");
}

#[test]
fn the_outcome_in_json_lists_the_steps() {
    let answer = sequence(&json!([{"id": "a", "tool": "tree"}])).metier(&["run", "x", "--json"]);
    let mut record = answer.json();
    record["steps"][0]["duration_ms"].take();
    let step = json!({"index": 0, "id": "a", "call": "tree", "status": "ok", "attempts": 1, "duration_ms": null, "input": null, "error": null, "value": null});
    assert_eq!(record["steps"], json!([step]));
    assert_eq!(answer.stderr, "");
    let script = Project::new().lua("y", "return 1").metier(&["run", "y", "--json"]).json();
    assert_eq!(script["steps"], Value::Null);
}

#[test]
fn a_journal_lets_a_run_resume() {
    let steps = json!([
        {"tool": "append", "args": {"path": "trace", "content": "a"}},
        {"tool": "read_file", "args": {"path": "later"}},
    ]);
    let project = sequence(&steps);
    let run = ["run", "x", "--allow", "write", "--journal", "../state"];
    let project = project.file("in/here", "");
    let answer = project.metier_in("in", &run);
    assert_eq!(answer.code, 1, "{answer:?}");
    let project = project.file("later", "now");
    let answer = project.metier_in("in", &run);
    assert_eq!((answer.code, answer.stdout.as_str()), (0, "now\n"), "{answer:?}");
    assert!(answer.stderr.starts_with("step 1/2 append: resumed\n"), "{answer:?}");
    assert_eq!(std::fs::read_to_string(project.path("trace")).unwrap(), "a");
    assert!(project.path("state/x.journal").exists(), "a relative folder is the caller's");
    let other = project.metier_in("in", &[&run[..], &["--input", "[1]"]].concat());
    assert_eq!(other.code, 2, "{other:?}");
    assert!(other.stderr.contains("another input"), "{other:?}");
}

#[test]
fn show_prints_the_plan_as_a_tree_and_why_one_cannot_run() {
    let steps = json!({"steps": [
        {"id": "hits", "tool": "grep", "args": {"pattern": "TODO", "path": "$inputs.path"}, "on_failure": "retry(2, 1s)"},
        {"id": "first", "tool": "read_file", "args": {"path": "$steps.hits.outputs[0].file"}, "when": "$steps.hits.outputs"},
    ], "outputs_from": {"text": "$result[1]"}});
    let answer = sequence(&steps).metier(&["show", "x"]);
    let tree = "\
scripts/sequence.json (2 steps, one after another)
├─ 1 hits: grep
│    pattern = \"TODO\"
│    path = $inputs.path
│    on failure retry(2, 1000ms)
├─ 2 first: read_file
│    when $steps.hits.outputs
│    path = $steps.hits.outputs[0].file
└─ answers {\"text\": $result[1]}
";
    assert!(answer.stdout.contains(tree), "{}", answer.stdout);
    assert!(answer.stdout.contains("yes, in tool-sequence"), "{}", answer.stdout);
    let plan = sequence(&steps).metier(&["show", "x", "--json"]).json()["plan"].take();
    assert_eq!(plan["steps"][0]["args"], json!({"pattern": "TODO", "path": "$inputs.path"}));
    assert_eq!(plan["steps"][0]["on_failure"], "retry(2, 1000ms)");
    assert_eq!((&plan["form"], &plan["outputs_from"]), (&json!("sequence"), &steps["outputs_from"]));
    let broken = sequence(&json!([{"tool": "tree", "args": {"path": "$result[3]"}}]));
    let answer = broken.metier(&["show", "x"]);
    assert!(answer.stdout.contains("no: $result[3] names no step"), "{}", answer.stdout);
}

#[test]
fn validate_checks_plans_in_both_files() {
    let broken = json!([{"tool": "tree"}, {"tool": "grep", "args": {"patern": "x", "path": "$result[1]"}}]);
    let project =
        sequence(&broken).file(".metier/skills/y/SKILL.md", "---\nname: y\ndescription: d\n---\n").file(
            ".metier/skills/y/skill.yaml",
            "inputs:\n  a: {type: string, required: true}\nsteps:\n- {tool: tree, args: {path: $inputs.b}}\n",
        );
    let answer = project.metier(&["validate", ".metier", "--json"]);
    assert_eq!(answer.code, 1);
    let checked = answer.json();
    let codes = |found: &Value| {
        found.as_array().unwrap().iter().map(|found| found["code"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        codes(&checked[0]["sequences"][0]["diagnostics"]),
        ["parameter-missing", "parameter-unknown", "reference-forward"]
    );
    assert_eq!(codes(&checked[1]["contract"]["diagnostics"]), ["reference-input"]);
    assert_eq!(checked[1]["contract"]["diagnostics"][0]["line"], 4);
    let shown = project.metier(&["validate", ".metier"]).stdout;
    assert!(shown.contains("scripts/sequence.json:1:"), "{shown}");
    assert!(shown.contains("did you mean `pattern`?"), "{shown}");
}

/// A project in which `x` has this contract, and a checked skill beside it.
fn planned_project(contract: &str) -> Project {
    let head = |name: &str| format!("---\nname: {name}\ndescription: d\n---\n");
    Project::new()
        .file(".metier/skills/x/SKILL.md", head("x"))
        .file(".metier/skills/x/skill.yaml", contract)
        .lua("y", "return {}")
        .file(
            ".metier/skills/y/skill.yaml",
            "inputs:\n  a: {type: string, required: true}\noutputs:\n  b: {type: string}\n",
        )
}

/// `code severity line` of all that is wrong in the contract and the sequences of `x`.
#[track_caller]
fn diagnostics(project: &Project) -> (bool, Vec<String>) {
    let checked = project.metier(&["validate", ".metier/skills/x", "--json"]).json()[0].take();
    let lists = std::iter::once(&checked["contract"]).chain(checked["sequences"].as_array().unwrap());
    let found = lists.filter_map(|list| list["diagnostics"].as_array()).flatten();
    let line = |found: &Value| {
        format!(
            "{} {} {}",
            found["code"].as_str().unwrap(),
            found["severity"].as_str().unwrap(),
            found["line"]
        )
    };
    (checked["valid"] == true, found.map(line).collect())
}

#[test]
fn validate_checks_a_plan_against_the_skills_of_its_project() {
    for (steps, found) in [
        ("- {skill: y, args: {a: x}}", None),
        ("- {skill: nobody}", Some("skill-unknown error 2")),
        ("- {skill: y}", Some("parameter-missing error 2")),
        ("- {skill: y, args: {a: x, c: x}}", Some("parameter-unknown error 2")),
        ("- {skill: y, args: {a: 1}}", Some("parameter-value error 2")),
        (
            "- {skill: y, args: {a: x}}\n- {tool: tree, args: {path: $steps.y.outputs.c}}",
            Some("reference-output error 3"),
        ),
        ("- {skill: x}", Some("skill-circle error 2")),
        ("- {tool: skill, args: {name: x}}", Some("skill-circle error 2")),
        ("- {tool: skill, args: {name: nobody}}", None),
        ("- {tool: read_fiel}", Some("tool-slip error 2")),
        ("- {tool: search}", Some("tool-untold warning 2")),
    ] {
        let (is_valid, all) = diagnostics(&planned_project(&format!("steps:\n{steps}\n")));
        assert_eq!(all, found.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{steps}");
        assert_eq!(is_valid, found.is_none_or(|found| found.contains("warning")), "{steps}");
    }
    for back in ["{skill: x}", "{tool: skill, args: {name: x}}"] {
        let circle = planned_project("steps:\n- {skill: cy2}\n")
            .file(".metier/skills/cy2/SKILL.md", "---\nname: cy2\ndescription: d\n---\n")
            .file(".metier/skills/cy2/skill.yaml", format!("steps:\n- {back}\n"));
        assert_eq!(diagnostics(&circle).1, ["skill-circle error 2"], "{back}");
    }
}

#[test]
fn validate_checks_what_it_can_of_a_plan_outside_of_a_project() {
    let project = Project::new()
        .skill("lib/x")
        .file("lib/x/skill.yaml", "inputs:\n  a: {type: string, required: true}\nsteps:\n- {skill: nobody}\n- {tool: tree, args: {path: $inputs.b}}\n");
    let answer = project.metier(&["validate", "lib/x", "--json"]).json();
    let codes: Vec<&Value> =
        answer[0]["contract"]["diagnostics"].as_array().unwrap().iter().map(|found| &found["code"]).collect();
    assert_eq!(codes, ["reference-input"]);
}

#[test]
fn validate_reads_every_sequence_and_knows_the_inputs_of_its_contract() {
    let project = planned_project("inputs:\n  a: {type: string, required: true}\nentrypoints:\n  main: scripts/sequence.json\n  first: {path: scripts/first.json, runtime: tool-sequence}\n")
        .file(".metier/skills/x/scripts/sequence.json", r#"[{"tool": "tree", "args": {"path": "$inputs.b"}}]"#)
        .file(".metier/skills/x/scripts/first.json", "[{\"tool\":");
    assert_eq!(
        diagnostics(&project),
        (false, vec!["reference-input error 1".into(), "plan-syntax error 1".into()])
    );
}

#[test]
fn validate_reports_plans_that_do_not_run() {
    let steps = "steps:\n- {tool: tree}\n";
    let sequence = |project: Project| project.file(".metier/skills/x/scripts/sequence.json", "[]");
    let script = |project: Project| project.file(".metier/skills/x/scripts/main.lua", "return 1");
    for (project, found, is_valid) in [
        (script(planned_project(&format!("runtime: lua\n{steps}"))), "steps-unfit error 2", false),
        (
            script(planned_project(&format!("entrypoint: scripts/main.lua\n{steps}"))),
            "steps-unused warning 2",
            true,
        ),
        (sequence(planned_project(steps)), "steps-unused warning 1", true),
        (sequence(planned_project("outputs_from: x\n")), "contract-value error 1", false),
        (sequence(planned_project("concurrency: 2\n")), "contract-value error 1", false),
    ] {
        assert_eq!(diagnostics(&project), (is_valid, vec![found.to_owned()]));
        let answer = project.metier(&["run", "x"]);
        assert_eq!(answer.code == 3, !is_valid, "{found}: {answer:?}");
    }
    let declared = script(planned_project(steps))
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nruntime: lua\n---\n");
    assert_eq!(diagnostics(&declared), (false, vec!["steps-unfit error 1".to_owned()]));
    assert_eq!(declared.metier(&["run", "x"]).code, 3);
}

#[test]
fn a_denied_step_says_once_which_grant_is_missing() {
    let answer =
        sequence(&json!([{"tool": "write", "args": {"path": "a", "content": "b"}}])).metier(&["run", "x"]);
    assert_eq!(answer.code, 4, "{answer:?}");
    let error = &answer.stderr[answer.stderr.find("error: ").unwrap()..];
    assert_eq!(error.matches("run with --allow write").count(), 1, "{answer:?}");
}
