//! A definition alone is a skill; beside a `SKILL.md` it is the contract of one.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::skill::Severity;
use serde_json::json;

use crate::support::engine::{Project, kind, sentence, value};

const ARTICLE: &str = "skill:\n  name: double\n  version: \"1.2.0\"\n  description: Doubles a number.\n  inputs:\n    n: {type: number, required: true}\n";

fn double() -> Project {
    Project::new()
        .file(".metier/skills/double/skill.yaml", ARTICLE)
        .file(".metier/skills/double/scripts/main.lua", "return input.n * 2")
}

#[test]
fn ar_01_a_contract_alone_is_a_skill_whose_description_a_model_reads() {
    let project = double();
    let engine = project.engine();
    let skill = engine.registry().find("double").unwrap().clone();
    assert_eq!((skill.description(), skill.version().to_string()), ("Doubles a number.", "1.2.0".to_owned()));
    assert_eq!(skill.body().unwrap(), "Doubles a number.");
    assert!(engine.registry().problems().is_empty() && skill.diagnostics().is_empty());
    assert_eq!(value(engine.run(Invocation::new("double").input(json!({"n": 21})))), 42);
    assert_eq!(
        kind(&engine.run(Invocation::new("double").input(json!({"n": "x"})))),
        ErrorKind::InvalidInput
    );
}

#[test]
fn an_edit_of_a_definition_counts_from_the_next_run() {
    let project = double();
    let engine = project.engine();
    assert_eq!(value(engine.run(Invocation::new("double").input(json!({"n": 1})))), 2);
    let project = project
        .file(".metier/skills/double/skill.yaml", ARTICLE.replace("n: {type: number", "m: {type: number"));
    assert_eq!(kind(&engine.run(Invocation::new("double").input(json!({"n": 1})))), ErrorKind::InvalidInput);
    let project = project.file(".metier/skills/double/skill.yaml", "skill: [");
    assert_eq!(kind(&engine.run(Invocation::new("double"))), ErrorKind::InvalidSkill);
    let _project = project.file(".metier/skills/double/skill.yaml", ARTICLE);
    assert_eq!(value(engine.run(Invocation::new("double").input(json!({"n": 1})))), 2);
}

#[test]
fn a_definition_without_a_name_or_a_description_says_so_and_runs() {
    let project = Project::new()
        .file(".metier/skills/bare/skill.yaml", "inputs: {n: {type: number, default: 4}}")
        .file(".metier/skills/bare/scripts/main.lua", "return input.n");
    let engine = project.engine();
    assert_eq!(value(engine.run(Invocation::new("bare"))), 4);
    let skill = engine.registry().find("bare").unwrap().clone();
    let codes: Vec<&str> = skill.diagnostics().iter().map(|found| found.code).collect();
    assert_eq!(codes, ["name-missing", "description-absent"]);
}

#[test]
fn an_instruction_is_what_a_model_reads() {
    let persona = json!({"name": "critic", "description": "Criticises.", "systemPrompt": "You find faults."});
    let object = json!({"id": "notes", "name": "Notes", "description": "Takes notes.", "category": "general", "config": {}, "instruction": "Write it down."});
    let project = Project::new()
        .file(".metier/skills/critic/skill.json", persona.to_string())
        .file(".metier/skills/any-folder/skill.yml", object.to_string());
    let engine = project.engine();
    let body = |name: &str| engine.registry().find(name).unwrap().body().unwrap();
    assert_eq!((body("critic"), body("notes")), ("You find faults.".to_owned(), "Write it down.".to_owned()));
    assert_eq!(
        kind(&engine.run(Invocation::new("critic"))),
        ErrorKind::Unavailable,
        "nobody calls a persona"
    );
}

#[test]
fn an_unread_skill_json_is_an_error_and_never_a_success() {
    let manifest = json!({
        "name": "pay", "description": "Pays.", "version": "1.0.0", "action_risk": "critical", "inputs": {"amount": "number"},
        "timeout": 100,
    });
    // Beside a SKILL.md and without a handler, it once ran nothing and answered that all was well.
    let project = Project::new().skill("pay", "").file(".metier/skills/pay/skill.json", manifest.to_string());
    let engine = project.engine();
    let outcome = engine.run(Invocation::new("pay").input(json!({"amount": 5})));
    assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
    assert!(sentence(&outcome).contains("has no handler.ts or handler.js"), "{}", sentence(&outcome));
    assert_eq!(engine.registry().find("pay").unwrap().contract().unwrap().metadata.risk_score, Some(90));
    for unknown in
        ["{\"name\": \"pay\", \"stars\": 5}", "{}", "[]", "", "{\"name\": ", "// x\n{}", "\u{feff}{}", "null"]
    {
        if !unknown.ends_with('}') || unknown.starts_with('/') {
            let project = Project::lua("return 1").file(".metier/skills/x/skill.json", unknown);
            let outcome = project.run(&[]);
            assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{unknown}");
        }
        let alone = Project::new()
            .file(".metier/skills/y/skill.json", unknown)
            .file(".metier/skills/y/scripts/main.lua", "return 1");
        let engine = alone.engine();
        let registry = engine.registry();
        let [problem] = registry.problems() else { panic!("{unknown}") };
        assert_eq!((problem.severity, problem.skipped), (Severity::Error, true), "{unknown}");
        assert_eq!(problem.path, alone.path(".metier/skills/y/skill.json"), "{unknown}");
        assert_eq!(kind(&engine.run(Invocation::new("y"))), ErrorKind::InvalidSkill, "{unknown}");
    }
}

#[test]
fn a_foreign_file_beside_a_skill_file_is_left_out_with_a_warning() {
    for (file, text) in [
        ("skill.json", r#"{"name": "s1", "version": "1.0.0"}"#),
        ("skill.json", "\u{feff}{}"),
        ("skill.json", r#"{"name": "y", "author": "z", "tags": ["a"], "stars": 5}"#),
        ("skill.json", r#"{"mcpServers": {"a": {"command": "b"}}}"#),
        ("skill.yaml", "name: CI\non: push\njobs: {test: {}}\n"),
        ("skill.yml", "openapi: 3.1.0\ninfo: {title: x}\npaths: {}\n"),
    ] {
        let path = format!(".metier/skills/x/{file}");
        let project = Project::lua("return 1").file(&path, text);
        let engine = project.engine();
        let registry = engine.registry();
        let [problem] = registry.problems() else { panic!("{text}: {:?}", registry.problems()) };
        assert_eq!((problem.severity, problem.skipped), (Severity::Warning, false), "{text}");
        assert_eq!(problem.path, project.path(&path), "{text}");
        assert!(
            problem.message.ends_with("so it is left out, and the skill runs by its SKILL.md"),
            "{problem}"
        );
        assert_eq!(value(engine.run(Invocation::new("x"))), 1, "{text}");
        assert_eq!(registry.skills()[0].contract_file(), None, "{text}");
    }
}

#[test]
fn what_could_restrict_a_run_is_never_left_out() {
    for key in [
        "permissions",
        "permission",
        "inputs",
        "entrypoint",
        "limits",
        "timeout_ms",
        "env",
        "secrets",
        "metadata",
        "skill",
    ] {
        let text = format!(r#"{{"name": "x", "version": "1.0.0", "{key}": {{}}}}"#);
        let project = Project::lua("return 1").file(".metier/skills/x/skill.json", text);
        assert_eq!(kind(&project.run(&[])), ErrorKind::InvalidSkill, "{key}");
    }
    let narrowing = "name: CI\non: push\njobs: {}\npermissions: {contents: read}\n";
    let project = Project::lua("return 1").file(".metier/skills/x/skill.yaml", narrowing);
    assert_eq!(kind(&project.run(&[])), ErrorKind::InvalidSkill);
}

#[test]
fn an_edit_that_makes_a_foreign_file_a_contract_counts_from_the_next_run() {
    let project = Project::lua("return 1").file(".metier/skills/x/skill.json", "{}");
    let engine = project.engine();
    assert_eq!(value(engine.run(Invocation::new("x"))), 1);
    let _project = project.file(".metier/skills/x/skill.json", r#"{"permissions": []}"#);
    assert_eq!(kind(&engine.run(Invocation::new("x"))), ErrorKind::InvalidSkill);
}

#[test]
fn a_word_of_another_client_under_metadata_is_no_runtime() {
    let run = |frontmatter: &str| {
        let project =
            Project::new().skill("x", frontmatter).file(".metier/skills/x/scripts/main.lua", "return 1");
        project.run(&[])
    };
    for foreign in ["node20", "20", "{engine: node}", "[a, b]", "python", ""] {
        assert_eq!(value(run(&format!("metadata: {{runtime: {foreign}}}\n"))), 1, "{foreign}");
    }
    let outcome = run("runtime: node20\n");
    assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
    assert!(sentence(&outcome).contains("no runtime is called `node20`"), "{}", sentence(&outcome));
    // What is known still decides.
    assert_eq!(kind(&run("metadata: {runtime: rhai}\n")), ErrorKind::InvalidSkill);
    let beside_contract = Project::new()
        .skill("x", "metadata: {runtime: node20}\n")
        .file(".metier/skills/x/skill.yaml", "runtime: lua\n")
        .file(".metier/skills/x/scripts/main.lua", "return 1");
    assert_eq!(value(beside_contract.run(&[])), 1);
}

#[test]
fn files_of_one_folder_that_disagree_are_named_with_both_places() {
    let manifest = |name: &str, version: &str| {
        json!({"name": name, "description": "d", "version": version, "action_risk": "low"}).to_string()
    };
    for (json, words) in [
        (manifest("y", "1.0.0"), "name is `y` here, and `x` in SKILL.md:2"),
        (manifest("x", "2.0.0"), "version is 2.0.0 here, and 1.0.0 in SKILL.md:4"),
    ] {
        let project = Project::new()
            .skill("x", "metadata: {version: 1.0.0}\n")
            .file(".metier/skills/x/handler.js", "export default {execute: () => ({success: true})}")
            .file(".metier/skills/x/skill.json", json);
        let outcome = project.run(&[]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
        assert!(sentence(&outcome).contains(words), "{}", sentence(&outcome));
    }
}

#[test]
fn a_file_at_the_root_of_all_skills_is_none() {
    let project = double().file(".metier/skills/skill.json", "{\"stars\": 5}");
    let engine = project.engine();
    assert!(engine.registry().problems().is_empty(), "{:?}", engine.registry().problems());
    assert_eq!(engine.registry().skills().len(), 1);
}

#[test]
fn cu_t07_a_model_does_not_run_a_sensitive_skill_by_itself() {
    let manifest = |sensitivity: &str| json!({"name": "x", "description": "d", "version": "1.0.0", "action_risk": "none", "sensitivity": sensitivity, "permissions": ["x:y"]});
    let project = |sensitivity: &str| {
        Project::new()
            .file(".metier/skills/x/skill.json", manifest(sensitivity).to_string())
            .file(".metier/skills/x/handler.js", "export default {execute: () => ({success: true, data: 1})}")
    };
    let elevated = project("elevated");
    let outcome = elevated.engine().run(Invocation::new("x").for_model());
    assert_eq!(kind(&outcome), ErrorKind::Denied, "{}", sentence(&outcome));
    assert!(sentence(&outcome).contains("sensitivity elevated"), "{}", sentence(&outcome));
    for (project, is_for_model) in [(elevated, false), (project("normal"), true)] {
        let invocation = Invocation::new("x");
        let invocation = if is_for_model { invocation.for_model() } else { invocation };
        let outcome = project.engine().run(invocation);
        assert!(
            outcome.result.as_ref().err().is_none_or(|error| error.kind() != ErrorKind::Denied),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_definition_inside_of_a_skill_is_a_file_of_that_skill() {
    // SY-14
    let project = double()
        .file(".metier/skills/double/assets/template/skill.json", "{\"stars\": 5}")
        .skill("x", "")
        .file(".metier/skills/x/references/example/skill.yaml", ARTICLE)
        .file(".metier/skills/group/inner/skill.yaml", "skill: {name: inner, description: d}");
    let engine = project.engine();
    let mut names: Vec<String> =
        engine.registry().skills().iter().map(|skill| skill.name().to_owned()).collect();
    names.sort();
    assert_eq!(names, ["double", "inner", "x"]);
    assert!(engine.registry().problems().is_empty(), "{:?}", engine.registry().problems());
}
