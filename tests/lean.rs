//! What a build without the features `http` and `json-schema` still does, and how it refuses the rest.
#![cfg(all(unix, feature = "lua-runtime", not(feature = "http"), not(feature = "json-schema")))]
#![allow(missing_docs)]

mod support;

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::{ErrorKind, Result};
use metier::host::{HttpClient, HttpRequest, HttpResponse, SkillContext};
use serde_json::{Value, json};
use support::engine::{Project, granted, kind, value};

const REQUEST: &str = r#"return ctx.http("https://example.com/").status"#;

/// A client of the embedder's own.
struct Teapot;

impl HttpClient for Teapot {
    fn send(&self, _: &SkillContext, request: HttpRequest) -> Result<HttpResponse> {
        Ok(HttpResponse::new(418, request.url, ""))
    }
}

fn run_with_contract(inputs: &str, input: Value) -> Outcome {
    let project = Project::lua("return input").file(".metier/skills/x/skill.yaml", inputs);
    project.engine().run(Invocation::new("x").input(input))
}

#[track_caller]
fn refused(outcome: &Outcome, feature: &str) {
    assert_eq!(kind(outcome), ErrorKind::Unavailable, "{outcome:?}");
    let help = outcome.result.as_ref().unwrap_err().help().unwrap_or_default().to_owned();
    assert!(help.contains(&format!("Cargo feature `{feature}`")), "{help}");
}

#[test]
fn the_web_is_refused_with_the_name_of_the_feature() {
    refused(&Project::lua_with_tools("net:example.com", REQUEST).run(&["net:example.com"]), "http");
}

#[test]
fn a_missing_permission_is_reported_before_a_missing_feature() {
    let outcome = Project::lua_with_tools("net:example.com", REQUEST).run(&[]);
    assert_eq!(kind(&outcome), ErrorKind::Denied, "{outcome:?}");
}

#[test]
fn an_embedder_may_pass_a_client_of_its_own() {
    let project = Project::lua_with_tools("net:example.com", REQUEST);
    let engine = project.builder().http(Teapot).build().unwrap();
    assert_eq!(value(engine.run(granted(Invocation::new("x"), &["net:example.com"]))), json!(418));
}

#[test]
fn parameters_are_checked() {
    const CONTRACT: &str = "inputs: {width: {type: integer, minimum: 1, default: 800}}";
    assert_eq!(value(run_with_contract(CONTRACT, json!({}))), json!({"width": 800}));
    for input in [json!({"width": 0}), json!({"width": "1"}), json!({"wdith": 1})] {
        assert_eq!(kind(&run_with_contract(CONTRACT, input.clone())), ErrorKind::InvalidInput, "{input}");
    }
}

#[test]
fn a_builtin_skill_with_a_contract_runs() {
    let project = Project::new();
    let engine = Engine::builder(project.root()).build().unwrap();
    let outcome = engine.run(Invocation::new("word-count").input(json!({"text": "one two three"})));
    assert_eq!(value(outcome)["total"]["words"], 3);
}

#[test]
fn a_contract_that_needs_more_does_not_run() {
    for inputs in [
        "inputs: {name: {type: string, pattern: '^a$', required: true}}",
        "inputs: {names: {type: array, unique_items: true, required: true}}",
        "inputs: {size: {type: number, multiple_of: 0.5, required: true}}",
        "inputs: {type: object, anyOf: [{required: [name]}]}",
        "outputs: {name: {type: string, pattern: '^a$'}}",
    ] {
        refused(&run_with_contract(inputs, json!({"name": "a"})), "json-schema");
    }
}

#[test]
fn the_report_names_the_missing_features() {
    let diagnosis = Project::new().engine().diagnosis();
    for feature in ["http", "json-schema"] {
        assert!(diagnosis.features.iter().any(|known| known.name == feature && !known.built_in), "{feature}");
    }
}
