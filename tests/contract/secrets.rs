//! Secrets and violations: what a script was told in confidence does not leave by way of an error.

use metier::engine::{Invocation, Outcome};
use metier::error::{ErrorKind, Result};
use metier::host::{SecretProvider, SkillContext};
use serde_json::json;

use crate::support::engine::{Project, granted, kind};

struct FixedSecret(&'static str);

impl SecretProvider for FixedSecret {
    fn secret(&self, _: &SkillContext, name: &str) -> Result<Option<String>> {
        Ok((name == "TOKEN").then(|| self.0.to_owned()))
    }
}

const LONG: &str = "s3cr3t-0123456789-0123456789-0123456789-0123456789-0123456789-0123456789-end";

fn run(project: &Project, secret: &'static str) -> Outcome {
    let engine = project.builder().secrets(FixedSecret(secret)).build().unwrap();
    engine.run(granted(Invocation::new("x"), &["secret:TOKEN", "skill:y"]))
}

fn leaks(outcome: &Outcome) -> bool {
    serde_json::to_string(outcome).unwrap().contains("s3cr3t")
        || format!("{:?}", outcome.result).contains("s3cr3t")
}

#[test]
fn a_value_that_breaks_its_contract_does_not_tell_a_secret() {
    for secret in ["s3cr3t", LONG] {
        for script in [
            "return {n = ctx.secret('TOKEN')}",
            "return {[ctx.secret('TOKEN')] = 1}",
            "return {n = 1, o = {[ctx.secret('TOKEN')] = 'x'}}",
        ] {
            let contract = "permissions: ['secret:TOKEN']\noutputs: {type: object, properties: {n: {type: integer}, o: {additionalProperties: {type: integer}}}, additionalProperties: false}";
            let outcome = run(&Project::with_contract(contract, script), secret);
            assert_eq!(kind(&outcome), ErrorKind::InvalidOutput, "{script}");
            assert!(!leaks(&outcome), "{script}: {:?}", outcome.result);
        }
    }
}

#[test]
fn an_input_that_breaks_a_callees_contract_does_not_tell_its_callers_secret() {
    for secret in ["s3cr3t", LONG] {
        let project = Project::lua_with_tools(
            "skill:y secret:TOKEN",
            "return ctx.skill('y', {n = ctx.secret('TOKEN')})",
        )
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return 1")
        .contract("y", "inputs: {n: {type: integer, required: true}}");
        let outcome = run(&project, secret);
        assert_eq!(kind(&outcome), ErrorKind::InvalidInput);
        assert!(!leaks(&outcome), "{:?}", outcome.result);
    }
}

#[test]
fn a_value_is_validated_as_it_was_before_secrets_were_taken_out() {
    let contract =
        "permissions: ['secret:TOKEN']\noutputs: {n: {type: string, pattern: '^s3', max_length: 6}}";
    let outcome = run(&Project::with_contract(contract, "return {n = ctx.secret('TOKEN')}"), "s3cr3t");
    assert_eq!(outcome.result.unwrap(), json!({"n": "[secret:TOKEN]"}));
}

const WITH_HOSTS: &str = "secrets:
- {name: TOKEN, host: api.example.com, description: reads issues, required: true}
- {name: KEY, host: [API.example.com, \"localhost:8443\"]}";

#[test]
fn a_secret_with_a_host_asks_for_its_use_there_and_for_the_host() {
    let project = Project::with_contract(WITH_HOSTS, "return {#ctx.secret('TOKEN'), ctx.secret('TOKEN')}");
    let engine = project.builder().secrets(FixedSecret(LONG)).build().unwrap();
    let skill = engine.registry().find("x").unwrap().clone();
    let asked: Vec<String> =
        engine.requested_permissions(&skill).into_iter().map(|asked| asked.permission.to_string()).collect();
    let expected = [
        "read",
        "secret:TOKEN@api.example.com",
        "net:api.example.com",
        "secret:KEY@api.example.com",
        "secret:KEY@localhost:8443",
        "net:localhost:8443",
    ];
    assert_eq!(asked, expected);
    // Whoever grants the reading of it grants its use, and the skill does not request more.
    for grant in ["secret:TOKEN@api.example.com", "secret:TOKEN"] {
        let outcome = engine.run(granted(Invocation::new("x"), &[grant]));
        assert_eq!(outcome.result.unwrap(), json!([LONG.len(), "[secret:TOKEN]"]), "{grant}");
    }
    for grants in [&[][..], &["secret:TOKEN@other.example.com"], &["secret:KEY@api.example.com"]] {
        let error = engine.run(granted(Invocation::new("x"), grants)).result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert_eq!(error.help(), Some("grant secret:TOKEN@api.example.com"), "{grants:?}");
    }
    // A skill that requests to read one may be granted its use alone.
    let project =
        Project::with_contract("permissions: ['secret:TOKEN']", "return ctx.secret('TOKEN') == 'LONG'");
    let engine = project.builder().secrets(FixedSecret(LONG)).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &["secret:TOKEN@api.example.com"]));
    assert_eq!(outcome.result.unwrap(), json!(false));
}

#[test]
fn what_is_no_secret_with_a_host_is_reported_with_its_line() {
    for (contract, reason) in [
        ("secrets: [TOKEN]", "a secret must be a map"),
        ("secrets: [{name: TOKEN}]", "a secret has a `name` and the `host` that it is for"),
        ("secrets: [{host: a.example}]", "a secret has a `name` and the `host` that it is for"),
        ("secrets: [{name: T, host: 'a.example/x'}]", "without a scheme or a path"),
        ("secrets: [{name: T, host: '*.example.com'}]", "for one host"),
        ("secrets: [{name: T, host: a.example}, {name: T, host: b.example}]", "T is declared twice"),
        ("config: {T: {secret: true}}\nsecrets: [{name: T, host: a.example}]", "T is declared twice"),
    ] {
        let outcome = Project::with_contract(contract, "return 1").run(&[]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{contract}");
        let error = outcome.result.unwrap_err();
        assert!(error.message().contains(reason), "{contract}: {error}");
    }
}
