//! Plans on the command line: steps as they run, the journal, the outcome.

use serde_json::{Value, json};

use super::cli::Project;

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
fn a_failed_step_is_told_with_its_place() {
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
    let step = json!({"index": 0, "id": "a", "call": "tree", "status": "ok", "attempts": 1, "duration_ms": null, "value": null});
    assert_eq!(record["steps"], json!([step]));
    assert_eq!(answer.stderr, "");
    let script = Project::new().lua("y", "return 1").metier(&["run", "y", "--json"]).json();
    assert_eq!(script["steps"], Value::Null);
}

#[test]
fn a_journal_lets_a_run_go_on() {
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
fn show_prints_the_plan_as_a_tree_and_says_why_one_does_not_run() {
    let steps = json!({"steps": [
        {"id": "hits", "tool": "grep", "args": {"pattern": "TODO", "path": "$inputs.path"}, "on_failure": "retry(2, 1s)"},
        {"id": "first", "tool": "read_file", "args": {"path": "$steps.hits.outputs[0].file"}, "when": "$steps.hits.outputs"},
    ], "outputs_from": {"text": "$result[1]"}});
    let answer = sequence(&steps).metier(&["show", "x"]);
    let tree = "\
scripts/sequence.json (2 steps, one after another)
├─ 1 hits: grep
│    path = $inputs.path
│    pattern = \"TODO\"
│    on failure retry(2, 1000ms)
├─ 2 first: read_file
│    when $steps.hits.outputs
│    path = $steps.hits.outputs[0].file
└─ answers {\"text\": $result[1]}
";
    assert!(answer.stdout.contains(tree), "{}", answer.stdout);
    assert!(answer.stdout.contains("yes, in tool-sequence"), "{}", answer.stdout);
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
        codes(&checked[0]["sequence"]["diagnostics"]),
        ["parameter-missing", "parameter-unknown", "reference-forward"]
    );
    assert_eq!(codes(&checked[1]["contract"]["diagnostics"]), ["reference-input"]);
    assert_eq!(checked[1]["contract"]["diagnostics"][0]["line"], 4);
    let shown = project.metier(&["validate", ".metier"]).stdout;
    assert!(shown.contains("scripts/sequence.json:1:"), "{shown}");
    assert!(shown.contains("did you mean pattern?"), "{shown}");
}
