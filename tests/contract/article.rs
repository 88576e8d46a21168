//! The acceptance cases of the article's form, by their numbers.

use metier::engine::Outcome;
use metier::error::ErrorKind;
use metier::skill::contract::{Contract, parse};
use serde_json::{Value, json};

use crate::contract::violations;
use crate::support::engine::{Project, kind, sentence, value};

const HELM: &str = include_str!("helm.yaml");

fn helm() -> Contract {
    let parsed = parse(HELM.as_bytes());
    parsed.contract.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics))
}

/// The skill of the article without what it depends on, with this Lua.
fn skill(script: &str) -> Project {
    let (before, rest) = HELM.split_once("  dependencies:").unwrap();
    let (_, after) = rest.split_once("  metadata:").unwrap();
    Project::new()
        .skill("validate-helm-chart", "")
        .file(".metier/skills/validate-helm-chart/scripts/main.lua", script)
        .contract("validate-helm-chart", &format!("{before}  metadata:{after}"))
}

fn run(project: &Project, input: Value) -> metier::engine::Outcome {
    project.engine().run(metier::engine::Invocation::new("validate-helm-chart").input(input))
}

#[test]
fn ar_t01_the_example_is_read() {
    let helm = helm();
    assert_eq!(
        helm.inputs.as_ref().unwrap().names(),
        ["chart_path", "values_file", "target_namespace", "dry_run"]
    );
    assert_eq!(helm.outputs.as_ref().unwrap().names(), ["valid", "errors", "rendered_manifests"]);
    assert_eq!(helm.dependencies.tools.len(), 2);
    assert_eq!(helm.dependencies.skills.len(), 1);
    assert_eq!(helm.examples.len(), 2);
    assert_eq!(helm.version, Some(semver::Version::new(1, 2, 0)));
    let tool = &helm.dependencies.tools[0];
    assert!(tool.required && !tool.version.as_ref().unwrap().matches(&semver::Version::new(3, 11, 9)));
    assert_eq!(helm.metadata.cache_ttl, Some(std::time::Duration::from_mins(5)));
    let asks = helm.permissions.unwrap();
    assert!(asks.iter().all(|ask| ask.permission.is_none()), "words of another system grant nothing");
    assert_eq!(asks[1].when.as_deref(), Some("when dry_run=true"));
}

#[test]
fn ar_t02_defaults_are_filled_in_before_the_script_sees_the_input() {
    let project = skill("return {valid = true, seen = input}");
    let answer = value(run(&project, json!({"chart_path": "./charts/my-app"})));
    assert_eq!(
        answer["seen"],
        json!({"chart_path": "./charts/my-app", "dry_run": false, "target_namespace": "default"})
    );
}

#[test]
fn ar_t03_a_pattern_is_enforced_before_anything_runs() {
    let outcome = run(&skill("this is not even Lua"), json!({"chart_path": "a;b"}));
    assert_eq!(
        (kind(&outcome), violations(&outcome)),
        (ErrorKind::InvalidInput, vec!["/chart_path pattern".into()])
    );
    assert_eq!(
        sentence(&outcome),
        "the input breaks the contract of validate-helm-chart:\n\
         /chart_path: expected a match of ^[a-zA-Z0-9/_.-]+$, found \"a;b\" (pattern)"
    );
    assert!(outcome.log.is_empty() && outcome.sandbox.is_none());
}

#[test]
fn ar_t04_a_missing_input_is_named() {
    let outcome = run(&skill("return 1"), json!({}));
    assert_eq!(violations(&outcome), ["/chart_path required"]);
    assert!(sentence(&outcome).ends_with("/chart_path: expected a string, found nothing (required)"));
    let without_any = skill("return 1").engine().run(metier::engine::Invocation::new("validate-helm-chart"));
    assert_eq!(violations(&without_any), ["/chart_path required"]);
}

#[test]
fn ar_t05_a_type_is_enforced() {
    let outcome = run(&skill("return 1"), json!({"chart_path": "x", "dry_run": "yes"}));
    assert_eq!(
        (kind(&outcome), violations(&outcome)),
        (ErrorKind::InvalidInput, vec!["/dry_run type".into()])
    );
}

#[test]
fn ar_t06_an_output_is_validated_too() {
    let project = skill("return {valid = true, errors = {{severity = 'fatal'}}}");
    let outcome = run(&project, json!({"chart_path": "x"}));
    assert_eq!(kind(&outcome), ErrorKind::InvalidOutput);
    assert_eq!(violations(&outcome), ["/errors/0/severity enum"]);
    assert!(sentence(&outcome).contains(r#"expected one of "error", "warning", "info", found "fatal""#));
    let more = skill("return {valid = true, errors = array {}, a_field_of_its_own = 1}");
    assert_eq!(value(run(&more, json!({"chart_path": "x"})))["a_field_of_its_own"], json!(1));
}

#[test]
fn ar_t07_the_examples_fit_and_the_first_holds() {
    assert!(parse(HELM.as_bytes()).diagnostics.iter().all(|found| found.code == "permission-unknown"));
    let project = skill("return {valid = true, errors = array {}}");
    let helm = helm();
    for example in &helm.examples {
        let answer = value(run(&project, example.inputs.clone()));
        let Some(expected) = &example.expected_output else { continue };
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(&answer[field], value, "{field}");
        }
    }
}

#[test]
fn ar_t08_what_is_missing_is_named_with_its_reason() {
    let tools = |tools: &str| {
        let yaml = format!("dependencies:\n  tools:\n{tools}");
        Project::with_contract(&yaml, "return 1")
    };
    let required = tools("    - {name: no-such-helm, version: '>=3.12.0', reason: Renders the chart}");
    let outcome = required.run(&[]);
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    let missing = "skill x cannot run: no-such-helm >=3.12.0 is not on PATH (Renders the chart)";
    assert_eq!(sentence(&outcome), missing);
    let engine = required.engine();
    let availability = engine.availability(&engine.registry().skills()[0]);
    assert_eq!(availability.reason.unwrap().message(), missing);
    let optional =
        tools("    - {name: no-such-kubectl, required: false, reason: Asks the cluster}\n    - sh");
    assert_eq!(value(optional.run(&[])), json!(1));
    let engine = optional.engine();
    let availability = engine.availability(&engine.registry().skills()[0]);
    assert!(availability.is_runnable());
    assert_eq!(availability.warnings, ["no-such-kubectl is not on PATH (Asks the cluster)"]);
}

#[test]
fn a_skill_that_needs_another_says_so() {
    let needs = |range: &str| {
        let yaml = format!("dependencies: {{skills: [{{name: y, version: '{range}', reason: Signs in}}]}}");
        Project::with_contract(&yaml, "return 1").skill("y", "metadata:\n  version: \"1.5.0\"\n")
    };
    assert_eq!(value(needs("^1.2").run(&[])), json!(1));
    let outcome = needs("^2").run(&[]);
    assert_eq!(sentence(&outcome), "skill x cannot run: y ^2 is here as 1.5.0 (Signs in)");
    let gone = Project::with_contract("dependencies: {skills: [z]}", "return 1").run(&[]);
    assert_eq!(sentence(&gone), "skill x cannot run: z is not a skill here");
    let help = |outcome: &Outcome| outcome.result.as_ref().unwrap_err().help().unwrap_or_default().to_owned();
    assert!(help(&gone).starts_with("add the skill, in a version that fits"), "{}", help(&gone));
    let both = "dependencies: {tools: [no-such-helm], skills: [z]}";
    let both = help(&Project::with_contract(both, "return 1").run(&[]));
    assert!(both.contains("PATH") && both.contains("add the skill"), "{both}");
    let tool = help(&Project::with_contract("dependencies: {tools: [no-such-helm]}", "return 1").run(&[]));
    assert_eq!(tool, "install the program, and see that it is on PATH");
}

#[test]
fn ar_t16_a_misspelt_constraint_is_an_error_and_nothing_runs_by_it() {
    let yaml = "skill:\n  inputs:\n    name: {type: string, required: true, min_lenght: 3}\n";
    let parsed = parse(yaml.as_bytes());
    assert!(parsed.contract.is_none());
    let cause = parsed.blocking_diagnostic().unwrap();
    assert_eq!((cause.code, cause.line, cause.column), ("constraint-unknown", 3, 42));
    assert_eq!(cause.help.as_deref(), Some("did you mean `min_length`?"));
    let project = Project::with_contract(yaml, "return 1");
    let outcome = project.run(&[]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
    assert!(sentence(&outcome).contains("skill.yaml:3:42: `min_lenght` of `name` is not a constraint"));
    let error = outcome.result.unwrap_err();
    let place = error.location().unwrap();
    assert_eq!((place.file.as_str(), place.line, place.column), ("skill.yaml", Some(3), Some(42)));
    let engine = project.engine();
    assert_eq!(engine.registry().skills().len(), 1, "its instructions are still good for a model");
    assert_eq!(engine.registry().catalog().skills().len(), 1);
    assert!(
        engine.registry().problems().iter().any(|problem| problem.to_string().contains("skill.yaml:3:42"))
    );
}
