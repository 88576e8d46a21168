//! Secrets and violations: what a script was told in confidence does not leave by way of an error.

use metier::engine::{Invocation, Outcome};
use metier::error::{ErrorKind, Result};
use metier::host::{SecretProvider, SkillContext};
use serde_json::json;

use crate::project::{Project, granted, kind};

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
