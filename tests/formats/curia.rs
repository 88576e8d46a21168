//! The manifest of Curia: its rules, by the numbers of the acceptance cases.

use std::time::Duration;

use metier::skill::contract::{DefinitionFormat, Sensitivity};
use serde_json::{Value, json};

use crate::formats::{contract, refused};

const SAMPLE: &str = include_str!("samples/web-search.json");

/// The sample with this key set, or without it.
fn with(key: &str, value: Option<Value>) -> String {
    let mut manifest: Value = serde_json::from_str(SAMPLE).unwrap();
    let fields = manifest.as_object_mut().unwrap();
    match value {
        Some(value) => fields.insert(key.to_owned(), value),
        None => fields.shift_remove(key),
    };
    manifest.to_string()
}

#[test]
fn the_sample_is_read_field_by_field() {
    let read = contract("skill.json", SAMPLE);
    assert_eq!(read.format, DefinitionFormat::Curia);
    assert_eq!(read.name.as_deref(), Some("web-search"));
    assert_eq!(read.version, Some(semver::Version::new(1, 0, 0)));
    assert!(read.description.as_ref().unwrap().starts_with("Search the web using the Brave Search API."));
    assert_eq!(read.sensitivity, Sensitivity::Normal);
    assert_eq!((read.metadata.risk_level.as_deref(), read.metadata.risk_score), (Some("none"), Some(0)));
    assert_eq!(read.limits.timeout, Some(Duration::from_secs(15)));
    assert_eq!(read.host_needs.secrets, ["brave_api_key"]);
    let inputs = read.inputs.unwrap();
    assert_eq!(inputs.names(), ["query", "count"]);
    assert_eq!(
        *inputs.json(),
        json!({
            "type": "object",
            "properties": {"query": {"type": "string"}, "count": {"type": ["number", "null"]}},
            "required": ["query"],
            "additionalProperties": false,
        })
    );
    let outputs = [("results", "object[]"), ("total", "number")].map(|(key, text)| (key.into(), text.into()));
    assert_eq!(read.host_needs.output_descriptions, outputs);
    let asks: Vec<String> = read.permissions.unwrap().iter().map(|ask| ask.text.clone()).collect();
    assert_eq!(asks, ["net", "secret:brave_api_key"], "the sample lists none, and its handler fetches");
}

#[test]
fn cu_t15_the_inputs_of_the_second_sample_are_read() {
    let read = contract(
        "skill.json",
        &with(
            "inputs",
            Some(json!({
                "calendarId": "string", "title": "string", "start": "timestamp", "end": "timestamp",
                "description": "string?", "attendees": "object[]?", "location": "string?",
            })),
        ),
    );
    assert_eq!(read.host_needs.timestamps, ["start", "end"]);
    let inputs = read.inputs.unwrap();
    for input in [
        json!({"calendarId": "c", "title": "t", "start": "2026-01-01T10:00Z", "end": "2026-01-01"}),
        json!({"calendarId": "c", "title": "t", "start": "x", "end": "y", "location": null, "attendees": [{}]}),
    ] {
        assert!(inputs.validate(&input).is_ok(), "{input}");
    }
    assert!(inputs.validate(&json!({"calendarId": "c", "title": "t", "start": "x"})).is_err());
    for wrong in ["string — the text", "foo[]", "timestamp[]"] {
        refused("skill.json", &with("inputs", Some(json!({"a": wrong}))), "is not a type");
    }
    refused("skill.json", &with("inputs", Some(json!({"a": {"type": "string"}}))), "must be a text");
}

#[test]
fn cu_t19_each_wrong_field_is_an_error_with_its_name() {
    for key in ["name", "description", "version", "action_risk"] {
        refused("skill.json", &with(key, None), &format!("needs `{key}`"));
        refused("skill.json", &with(key, Some(json!(""))), &format!("`{key}`"));
    }
    for risk in [json!("severe"), json!(150), json!(-1), json!(7.5), json!("75"), json!(null), json!(["low"])]
    {
        refused("skill.json", &with("action_risk", Some(risk)), "`action_risk` must be");
    }
    for sensitivity in ["Elevated", "high", ""] {
        refused("skill.json", &with("sensitivity", Some(json!(sensitivity))), "`sensitivity` must be");
    }
    for timeout in [json!(0), json!(-5), json!(1.5), json!("15000"), json!("15s")] {
        refused("skill.json", &with("timeout", Some(timeout)), "`timeout` must be");
    }
    refused("skill.json", &with("sensitivty", Some(json!("elevated"))), "`sensitivty` is not a key");
    refused("skill.json", &with("secrets", Some(json!("key"))), "secrets must be a list");
    refused("skill.json", &with("secrets", Some(json!([1]))), "list of texts");
    refused("skill.json", &with("name", Some(json!("../../x"))), "`name` must be");
    refused("skill.json", &with("entity_enrichment", Some(json!({"default": "caller"}))), "needs `param`");
    refused(
        "skill.json",
        &with("entity_enrichment", Some(json!({"param": "x", "default": "all"}))),
        "caller or agent",
    );
}

#[test]
fn cu_t19_every_level_and_number_is_a_score() {
    // CU-T35
    for (risk, score) in [
        (json!("none"), 0),
        (json!("low"), 60),
        (json!("medium"), 70),
        (json!("high"), 80),
        (json!("critical"), 90),
        (json!(0), 0),
        (json!(75), 75),
        (json!(100), 100),
    ] {
        let read = contract("skill.json", &with("action_risk", Some(risk.clone())));
        assert_eq!(read.metadata.risk_score, Some(score), "{risk}");
    }
}

#[test]
fn cu_t10_an_unknown_capability_is_an_error_that_names_it() {
    let source = with("capabilities", Some(json!(["outboundGateway", "notARealCapability"])));
    refused("skill.json", &source, "`notARealCapability` is not a capability");
    let read = contract("skill.json", &with("capabilities", Some(json!(["bus", "executiveProfileService"]))));
    assert_eq!(read.host_needs.capabilities, ["bus", "executiveProfileService"]);
}

#[test]
fn cu_08_outputs_are_for_readers_and_never_wrong() {
    let outputs = json!({"a": "array of {x}", "b": "string or null", "c": "boolean — true if it is", "d": {"e": [1]}, "f": null});
    let read = contract("skill.json", &with("outputs", Some(outputs)));
    assert_eq!(read.host_needs.output_descriptions.len(), 5);
    assert!(read.outputs.is_none());
}

#[test]
fn what_is_absent_has_the_defaults_of_the_format() {
    let least = r#"{"name": "x", "description": "d", "version": "1.0.0", "action_risk": "low"}"#;
    let read = contract("skill.json", least);
    assert_eq!(read.limits.timeout, Some(Duration::from_secs(30)));
    assert_eq!(read.sensitivity, Sensitivity::Normal);
    assert!(read.inputs.is_none() && read.host_needs.capabilities.is_empty());
}

#[test]
fn permissions_with_a_meaning_are_asked_for_and_others_shown() {
    let permissions =
        json!(["network:https", "filesystem:read", "kubernetes:get", "network:api.example.com"]);
    let read = contract("skill.json", &with("permissions", Some(permissions)));
    let asks: Vec<Option<String>> = read
        .permissions
        .unwrap()
        .iter()
        .map(|ask| ask.permission.as_ref().map(ToString::to_string))
        .collect();
    let expected =
        [Some("net"), Some("read"), None, Some("net:api.example.com"), Some("secret:brave_api_key")];
    assert_eq!(asks, expected.map(|ask| ask.map(str::to_owned)));
}
