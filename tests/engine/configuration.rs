//! A configuration that a program made by hand: it holds, and no file and no variable is read.

use std::time::Duration;

use metier::config::{Configuration, ValueOrigin};
use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::policy::Limits;
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, value};

fn project(script: &str) -> Project {
    Project::lua_with_tools("write secret:TOKEN", script)
        // Files and variables are for the command.
        .file(".metier/config.toml", "skills.x.enabled = false\nnot TOML")
}

#[test]
fn a_configuration_made_by_hand_holds_and_no_file_is_read() {
    let project = project("return {ctx.config().color, #ctx.secret('TOKEN'), ctx.secret('TOKEN')}");
    // A script could change a secret's file inside the project.
    let outside = Project::new().file("token", "s3cret");
    let configuration = Configuration::new()
        .with("limits.timeout", "5s")
        .and_then(|it| it.with("skills.x.limits.memory", "2MB"))
        .and_then(|it| it.with("skills.x.config.color", "red"))
        .and_then(|it| it.with("skills.x.secrets.TOKEN", json!({"file": outside.path("token")})))
        .and_then(|it| it.with("permissions.deny", json!(["write:out"])))
        .unwrap();
    let engine = project.builder().configuration(configuration.clone()).build().unwrap();
    let run = || granted(Invocation::new("x"), &["write", "secret:TOKEN"]);
    let outcome = engine.run(run());
    assert_eq!(
        (outcome.limits.timeout, outcome.limits.memory_bytes),
        (Duration::from_secs(5), Some(2 << 20))
    );
    assert_eq!(value(outcome), json!(["red", 6, "[secret:TOKEN]"]));
    // The limits of an invocation are stronger than those for all runs, not than those for the skill.
    let given = Limits::default().timeout(Duration::from_secs(9)).memory(4 << 20);
    let outcome = engine.run(run().limits(given));
    assert_eq!(
        (outcome.limits.timeout, outcome.limits.memory_bytes),
        (Duration::from_secs(9), Some(2 << 20))
    );
    let project = project.file(".metier/skills/x/scripts/main.lua", "ctx.write('out/a', '') return 1");
    let denied = project.builder().configuration(configuration).build().unwrap().run(run());
    assert_eq!(kind(&denied), ErrorKind::Denied);
    assert!(sentence(&denied).contains("the configuration denies"), "{}", sentence(&denied));
    assert_eq!(project.read("out/a"), "");
}

#[test]
fn keys_and_values_are_checked_and_name_no_option() {
    for (key, value, expected) in [
        ("limits.timeoot", json!("5s"), "no key"),
        ("limits", json!({}), "section"),
        ("limits.timeout", json!("soon"), "expected a time"),
        ("permissions.deny", json!(["read"]), "every skill reads the project"),
        ("skills.x.secrets.TOKEN", json!("s3cret"), "expected {env"),
    ] {
        let error = Configuration::new().with(key, value).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.message().contains(expected) && !error.message().contains("s3cret"), "{error}");
    }
    let configuration = Configuration::new().with("limits.timeout", "5s").unwrap();
    assert_eq!(configuration.get("limits.timeout").unwrap().origin, ValueOrigin::Program);
}

#[test]
fn grants_of_a_configuration_need_a_trusted_skill_and_a_runtime_is_switched_off_by_name() {
    let project = project("ctx.write('a', '') return 1");
    let with =
        |key: &str, value| project.builder().configuration(Configuration::new().with(key, value).unwrap());
    let engine = with("skills.x.grants", json!(["write"])).build().unwrap();
    // Without a trust store nobody trusted the skill of a project.
    assert_eq!(kind(&engine.run(Invocation::new("x"))), ErrorKind::Denied);
    let engine = with("runtimes.disabled", json!(["lua"])).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &["write"]));
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    assert!(sentence(&outcome).contains("switched off by program"), "{}", sentence(&outcome));
    assert_eq!(project.read("a"), "");
}

/// What the builder says holds where the configuration says nothing, in whatever order they are given.
#[test]
fn a_configuration_sets_its_own_keys_only() {
    let project = project("return 1");
    let configuration = Configuration::new().with("limits.output", "1MB").unwrap();
    let limits = Limits::default().timeout(Duration::from_secs(7)).memory(8 << 20);
    let builder = || project.builder();
    let first = builder().configuration(configuration.clone()).limits(limits.clone()).build().unwrap();
    let last = builder().limits(limits).configuration(configuration).build().unwrap();
    for engine in [first, last] {
        let limits = engine.run(Invocation::new("x")).limits;
        assert_eq!((limits.timeout, limits.memory_bytes), (Duration::from_secs(7), Some(8 << 20)));
        assert_eq!(limits.output_bytes, 1 << 20);
    }
    let unknown = Configuration::new().with("runtimes.disabled", json!(["pyhton"])).unwrap();
    assert!(builder().configuration(unknown).build().is_ok(), "switching off what is not there harms nobody");
}
