//! Contracts that cannot be kept are their author's fault, and everybody is told so before anything runs.

use metier::error::ErrorKind;
use serde_json::json;

use crate::contract::violations;
use crate::support::engine::{Project, kind, sentence, value};

#[test]
fn a_skill_whose_schemas_do_not_stand_is_not_called_runnable() {
    for (contract, told) in [
        (
            "inputs: {a: {type: number, required: true, multiple_of: 0}}",
            "skill.yaml:1: the inputs are not valid: ",
        ),
        ("\noutputs: {a: {type: string, pattern: '(?=x)'}}", "skill.yaml:2: the outputs are not valid: "),
        (
            "inputs: {a: {type: string, default: 5}}",
            "are not valid: a default does not fit: /a: expected a string",
        ),
    ] {
        let project = Project::with_contract(contract, "return 1");
        let engine = project.engine();
        let availability = engine.availability(&engine.registry().skills()[0]);
        let reason = availability.reason.expect("a reason");
        assert_eq!(reason.kind(), ErrorKind::InvalidSkill, "{contract}");
        assert!(reason.message().contains(told), "{reason}");
        let outcome = project.run(&[]);
        assert_eq!(sentence(&outcome), reason.message(), "a run says the same");
        assert!(outcome.result.unwrap_err().location().unwrap().line.is_some());
    }
}

#[test]
fn a_pattern_that_is_not_taken_is_reported_with_what_patterns_can_be() {
    for pattern in ["(?=x)", "(a)\\1"] {
        let contract = format!("inputs: {{a: {{type: string, pattern: '{pattern}'}}}}");
        let outcome = Project::with_contract(&contract, "return 1").run(&[]);
        let said = sentence(&outcome);
        assert!(said.contains("in linear time, without look-around and back-references"), "{said}");
        assert!(!said.contains("is not a \"regex\""), "{said}");
    }
}

#[test]
fn a_default_that_does_not_fit_is_no_fault_of_the_caller() {
    let inner = "inputs: {a: {type: object, default: {b: 5}, required: [z], properties: {b: {}, z: {}}}}";
    for input in [json!({}), json!({"a": {"z": 1}})] {
        let outcome = Project::with_contract(inner, "return 1").run_with(input, &[]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
        assert!(
            sentence(&outcome).contains("/a/z: expected a value, found nothing (required)"),
            "{outcome:?}"
        );
    }
}

#[test]
fn what_a_default_holds_is_filled_in_as_well() {
    let contract =
        "inputs: {a: {type: object, default: {}, properties: {b: {default: 1}, c: {type: string}}}}";
    let project = Project::with_contract(contract, "return input");
    assert_eq!(value(project.run(&[])), json!({"a": {"b": 1}}));
    assert_eq!(value(project.run_with(json!({"a": {"b": 2}}), &[])), json!({"a": {"b": 2}}));
}

#[test]
fn an_input_nobody_declared_is_reported_by_its_name_where_none_is_declared() {
    for contract in ["inputs: {type: object, additionalProperties: false}", "inputs: {}"] {
        let project = Project::with_contract(contract, "return 1");
        let outcome = project.run_with(json!({"a": 1, "b": []}), &[]);
        assert_eq!(
            violations(&outcome),
            ["/a additionalProperties", "/b additionalProperties"],
            "{contract}"
        );
        assert!(sentence(&outcome).contains("/a: expected no such field, found 1"), "{}", sentence(&outcome));
    }
    let named = "inputs: {type: object, properties: {additionalProperties: false}}";
    let outcome =
        Project::with_contract(named, "return 1").run_with(json!({"additionalProperties": {"a": 1}}), &[]);
    assert_eq!(violations(&outcome), ["/additionalProperties falseSchema"]);
    let below = "inputs: {o: {type: object, required: true, additional_properties: false}}";
    let outcome = Project::with_contract(below, "return 1").run_with(json!({"o": {"x/y": 1}}), &[]);
    assert_eq!(violations(&outcome), ["/o/x~1y additionalProperties"]);
}

#[test]
fn an_input_nobody_declared_is_reported_with_the_name_that_was_meant_at_any_depth() {
    let deep = "inputs: {a: {type: object, required: true, additional_properties: false, properties: {name: {type: string}, size: {}}}}";
    let raw = "inputs: {type: object, properties: {a: {$ref: '#/$defs/o'}}, $defs: {o: {type: object, additionalProperties: false, properties: {name: {}, size: {}}}}}";
    for contract in [deep, raw] {
        let outcome = Project::with_contract(contract, "return 1").run_with(json!({"a": {"nmae": 1}}), &[]);
        let told = sentence(&outcome);
        assert!(told.contains("/a/nmae: expected no such field; did you mean `name`?"), "{told}");
    }
    let other = Project::with_contract(deep, "return 1").run_with(json!({"a": {"colour": 1}}), &[]);
    assert!(sentence(&other).contains("/a/colour: expected no such field, found 1"), "{}", sentence(&other));
}

#[test]
fn keys_of_every_part_are_refused_in_another_spelling() {
    for (contract, meant) in [
        ("limits: {max_memory: 1MB}", "memory"),
        ("limits: {timeoutMs: 5}", "timeout"),
        ("limits: {Memory: 1MB}", "memory"),
        ("composedOf: []", "composed_of"),
        ("baseUrl: https://a.test", "base_url"),
        ("entry-points: {}", "entrypoints"),
        ("settings: {a: d}", "config"),
        ("environment: [A]", "env"),
        ("config: {a: {isSecret: true}}", "secret"),
        ("config: {a: {sensitive: true}}", "secret"),
        ("config: {a: {is_required: true}}", "required"),
        ("dependencies: {tool: [git]}", "tools"),
        ("dependencies: {tools: [{name: git, versions: '>=1'}]}", "version"),
        ("metadata: {riskLevel: critical}", "risk_level"),
        ("metadata: {cacheTTL: 5s}", "cache_ttl"),
        ("entrypoint: {path: scripts/main.lua, functions: f}", "function"),
        ("outputsFrom: a", "outputs_from"),
    ] {
        let project = Project::with_contract(contract, "return 1");
        let outcome = project.run(&[]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{contract}");
        let help = outcome.result.unwrap_err().help().unwrap_or_default().to_owned();
        assert_eq!(help, format!("did you mean `{meant}`?"), "{contract}");
    }
}
