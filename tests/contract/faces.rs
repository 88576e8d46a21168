//! What the command shows of a contract: its signature, its faults, and how an input breaks it.
#![cfg(feature = "cli")]

use serde_json::json;

use crate::support::cli::Project;

const CONTRACT: &str = "skill:
  version: 2.0.0
  inputs:
    path: {type: string, required: true, description: Where to look., min_length: 1}
    deep: {type: boolean, default: false, description: Whether to look below.}
  outputs:
    total: {type: integer, required: true}
    rows: {type: array, items: {type: object}}
";

fn project() -> Project {
    Project::new().lua("x", "return {total = #input.path}").file(".metier/skills/x/skill.yaml", CONTRACT)
}

#[test]
fn show_prints_the_signature_and_a_row_for_each_field() {
    let shown = project().metier(&["show", "x"]);
    assert_eq!(shown.code, 0, "{shown:?}");
    for line in [
        "\nx(path: string, deep: boolean = false) -> {total: integer, rows?: [object]}\n",
        "\ninputs\n  path  string   Where to look. (required, min_length 1)\n  deep  boolean  Whether to look below. (default false)\n",
        "\noutputs\n  total  integer   (required)\n  rows   [object]\n",
    ] {
        assert!(shown.stdout.contains(line), "{}", shown.stdout);
    }
}

#[test]
fn show_and_catalog_give_both_schemas_as_json() {
    let record = project().metier(&["show", "x", "--json"]).json();
    assert_eq!(record["version"], json!("2.0.0"));
    assert_eq!(record["input_schema"]["properties"]["path"]["minLength"], json!(1));
    assert_eq!(record["input_schema"]["additionalProperties"], json!(false));
    assert_eq!(record["output_schema"]["required"], json!(["total"]));
    assert_eq!(
        record["signature"],
        json!("x(path: string, deep: boolean = false) -> {total: integer, rows?: [object]}")
    );
    assert_eq!(record["contract"]["metadata"]["idempotent"], json!(null));
    let catalog = project().metier(&["catalog", "--trust", "--json"]).json();
    let entry = catalog.as_array().unwrap().iter().find(|entry| entry["name"] == json!("x")).unwrap();
    assert_eq!(entry["input_schema"], record["input_schema"]);
}

#[test]
fn ar_26_the_catalog_says_what_a_skill_takes_and_gives() {
    // AR-26
    let facts = "  permissions: [write:out]
  metadata: {estimated_duration: 5-30s, cost: 0.02 USD, risk_level: low}
  tools:
    - name: check
      entrypoint: scripts/main.lua
      risk_level: read-only
      outputs: {fine: {type: boolean}}
";
    let project =
        project().file(".metier/skills/x/skill.yaml", CONTRACT.to_owned() + facts).lua("plain", "return 1");
    let catalog = project.metier(&["catalog", "--trust", "--json"]).json();
    let entry =
        |name: &str| catalog.as_array().unwrap().iter().find(|entry| entry["name"] == json!(name)).unwrap();
    let x = entry("x");
    for (key, value) in [
        ("version", json!("2.0.0")),
        ("estimated_duration", json!("5-30s")),
        ("estimated_duration_ms", json!([5_000, 30_000])),
        ("cost", json!("0.02 USD")),
        ("risk_level", json!("low")),
        ("permissions", json!(["read", "write:out"])),
    ] {
        assert_eq!(x[key], value, "{key}: {x}");
    }
    assert_eq!(x["output_schema"]["properties"]["total"]["type"], json!("integer"));
    assert_eq!(x["tools"][0]["risk_level"], json!("read-only"));
    assert_eq!(x["tools"][0]["output_schema"]["properties"]["fine"]["type"], json!("boolean"));
    let plain = entry("plain");
    for key in ["output_schema", "estimated_duration", "estimated_duration_ms", "cost", "risk_level"] {
        assert_eq!(plain[key], json!(null), "{key}: {plain}");
    }
    assert_eq!((&plain["version"], &plain["permissions"]), (&json!("0.0.0"), &json!(["read"])));
}

#[test]
fn the_catalog_spells_out_what_cannot_be_seen_in_its_facts() {
    let contract = "skill: {outputs: {\"a\\u202eb\": {type: string}}, metadata: {risk_level: \"low\", cost: \"1 U\\u202eSD\"}, permissions: [\"write:a\\u202eb\"]}";
    let project = Project::new().lua("x", "return {}").file(".metier/skills/x/skill.yaml", contract);
    let text = project.metier(&["catalog", "--trust", "--json"]);
    let entry =
        text.json().as_array().unwrap().iter().find(|entry| entry["name"] == json!("x")).unwrap().clone();
    assert!(entry["output_schema"]["properties"].get("a\\u{202e}b").is_some(), "{entry}");
    assert_eq!(entry["cost"], json!("1 U\\u{202e}SD"));
    assert_eq!(entry["permissions"], json!(["read", "write:a\\u{202e}b"]));
}

#[test]
fn a_skill_without_a_contract_has_neither() {
    let project = Project::new().lua("x", "return 1");
    let record = project.metier(&["show", "x", "--json"]).json();
    for key in ["signature", "input_schema", "output_schema", "contract"] {
        assert_eq!(record[key], json!(null), "{key}");
    }
    assert!(!project.metier(&["show", "x"]).stdout.contains("inputs"));
}

#[test]
fn run_tells_every_violation_to_people_and_to_programs() {
    let run = |more: &[&str]| {
        let args: Vec<&str> = [&["run", "x", "--input", r#"{"pth": 1, "deep": "yes"}"#], more].concat();
        project().metier(&args)
    };
    let told = run(&[]);
    assert_eq!((told.code, told.stdout.as_str()), (2, ""));
    let expected = "error: the input breaks the contract of x:
    /deep: expected true or false, found \"yes\" (type)
    /pth: expected no such field; did you mean `path`?, found 1 (additionalProperties)
    /path: expected a string, found nothing (required)
  help: did you mean `path`?
";
    assert_eq!(told.stderr, expected);
    let json = run(&["--json"]).json();
    assert_eq!(json["error"]["kind"], json!("invalid-input"));
    assert_eq!(
        json["error"]["violations"][0],
        json!({"path": "/deep", "keyword": "type", "expected": "true or false", "found": "\"yes\""})
    );
    assert_eq!(json["error"]["violations"].as_array().unwrap().len(), 3);
}

#[test]
fn a_value_that_breaks_the_contract_exits_with_one() {
    let project = project().file(".metier/skills/x/scripts/main.lua", "return {total = 'many'}");
    let answer = project.metier(&["run", "x", "--input", r#"{"path": "a"}"#]);
    assert_eq!(answer.code, 1);
    assert!(
        answer.stderr.contains("/total: expected a whole number, found \"many\" (type)"),
        "{}",
        answer.stderr
    );
}

#[test]
fn validate_shows_a_fault_of_the_contract_in_its_line() {
    let project = Project::new()
        .skill("x")
        .file("x/skill.yaml", "skill:\n  inputs:\n    a: {type: string, required: true, min_lenght: 1}\n");
    let answer = project.metier(&["validate", "x"]);
    let expected = "\
error[constraint-unknown]: `min_lenght` of `a` is not a constraint
 --> x/skill.yaml:3:39
  |
3 |     a: {type: string, required: true, min_lenght: 1}
  |                                       ^^^^^^^^^^
  |
  = help: did you mean `min_length`?

1 skill checked: 0 valid, 1 invalid
";
    assert_eq!((answer.code, answer.stdout.as_str()), (1, expected));
    let json = project.metier(&["validate", "x", "--json"]).json();
    assert_eq!(json[0]["contract"]["file"], json!("skill.yaml"));
    assert_eq!(json[0]["contract"]["diagnostics"][0]["code"], json!("constraint-unknown"));
    assert_eq!((&json[0]["valid"], &json[0]["loads"]), (&json!(false), &json!(true)));
}

#[test]
fn validate_holds_the_folder_against_the_contract() {
    let with = |contract: &str| {
        let project = Project::new().skill("x").file("x/scripts/a.lua", "").file("x/skill.yaml", contract);
        let json = project.metier(&["validate", "x", "--json"]).json();
        let found = json[0]["contract"]["diagnostics"].as_array().unwrap().clone();
        found.iter().map(|found| found["code"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(with("entrypoint: scripts/a.lua\nruntime: lua"), [""; 0]);
    assert_eq!(with("entrypoint: scripts/b.lua"), ["entrypoint-missing"]);
    assert_eq!(with("entrypoints: {b: scripts/none.lua}"), ["entrypoint-missing"]);
    assert_eq!(with("runtime: cobol"), ["runtime-unknown"]);
    assert_eq!(with("entrypoint: {path: scripts/a.lua, runtime: cobol}"), ["runtime-unknown"]);
    assert_eq!(
        with("entrypoint: {path: scripts/a.lua, function: go, runtime: external}"),
        ["entrypoint-function"]
    );
    assert_eq!(with("entrypoint: {path: scripts/a.lua, function: go}"), [""; 0]);
    assert_eq!(with("entrypoints: {b: {path: scripts/a.lua, function: go, runtime: wasm}}"), [""; 0]);
    assert_eq!(with("runtime: wasm\nentrypoint: {path: scripts/a.lua, function: go}"), ["entrypoint-unfit"]);
    for refused in ["runtime: cobol", "entrypoint: {path: scripts/a.lua, function: go, runtime: external}"] {
        let project = Project::new().skill("x").file("x/scripts/a.lua", "").file("x/skill.yaml", refused);
        assert_eq!(project.metier(&["validate", "x"]).code, 1, "{refused}");
    }
    assert_eq!(with("name: y"), ["contract-disagrees"]);
    let twice = Project::new().skill("x").file("x/skill.yaml", "").file("x/skill.yml", "");
    assert!(twice.metier(&["validate", "x"]).stdout.contains("error[contract-twice]"));
}

#[test]
fn what_a_contract_says_reaches_a_terminal_spelled_out() {
    let contract = "inputs:\n  a: {type: string, required: true, description: \"a\u{202e}b\"}\n  \"\u{202e}c\": {type: string, required: false}\n";
    let project = Project::new().lua("x", "return 1").file(".metier/skills/x/skill.yaml", contract);
    let shown = project.metier(&["show", "x"]);
    assert!(!shown.stdout.contains('\u{202e}') && shown.stdout.contains("\\u{202e}c"), "{}", shown.stdout);
    let run = project.metier(&["run", "x", "--input", "{\"\u{202e}d\": 1}"]);
    assert!(!run.stderr.contains('\u{202e}'), "{}", run.stderr);
}

#[test]
fn list_and_show_say_that_a_contract_does_not_stand() {
    let contract = "inputs: {a: {type: number, required: true, multiple_of: 0}}";
    let project = Project::new().lua("x", "return 1").file(".metier/skills/x/skill.yaml", contract);
    for command in [&["list"][..], &["show", "x"]] {
        let told = project.metier(command).stdout;
        assert!(told.contains("the skill `x` does not run: ") && !told.contains("yes, in"), "{told}");
    }
}

#[test]
fn list_warns_of_what_is_missing_and_not_required() {
    let contract = "dependencies: {tools: [{name: no-such-tool, required: false, reason: colours}]}";
    let project = Project::new().lua("x", "return 1").file(".metier/skills/x/skill.yaml", contract);
    let rows = project.metier(&["list", "--json"]).json();
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == json!("x")).unwrap().clone();
    assert_eq!(
        (&row["runnable"], &row["warnings"]),
        (&json!(true), &json!(["no-such-tool is not on PATH (colours)"]))
    );
    assert!(
        project.metier(&["show", "x"]).stdout.contains("missing      no-such-tool is not on PATH (colours)")
    );
}
