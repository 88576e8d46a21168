//! Remembered grants: for exactly these files, this skill, this project.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::policy::GrantOrigin;
use serde_json::json;

use crate::support::engine::{Project, kind, value, write};
use crate::trust::{Stage, parsed, trust};

const WRITES: &str = "return (pcall(ctx.write, 'out.txt', 'x'))";
const SKILL: &str = ".metier/skills/x";

fn writes(stage: &Stage, invocation: Invocation) -> bool {
    value(stage.engine().run(invocation)) == json!(true)
}

#[test]
fn a_remembered_grant_applies_to_the_trusted_skill_and_says_where_it_comes_from() {
    let stage = Stage::lua("write", WRITES);
    stage.remember("x", &["write:out.txt"]);
    assert!(!writes(&stage, Invocation::new("x")), "it is not trusted");
    assert!(writes(&stage, Invocation::new("x").trust_once()));
    stage.trust("x");
    assert!(writes(&stage, Invocation::new("x")));
    assert!(writes(&stage, Invocation::new("x").for_model()));
    assert!(!writes(&stage, Invocation::new("x").without_remembered_grants()));
    let outcome = stage.engine().run(Invocation::new("x").grant("net:a.example".parse().unwrap()));
    let since = stage.store().records().unwrap().grants[0].since.to_string();
    assert_eq!(
        json!(outcome)["grants"],
        json!([
            {"permission": "net:a.example", "origin": "caller"},
            {"permission": "write:out.txt", "origin": "remembered", "since": since, "everywhere": false, "by": "a test"},
        ])
    );
    let explained = stage.engine().explain(&Invocation::new("x")).unwrap();
    assert_eq!(explained.permissions, parsed(&["read", "write:out.txt"]));
    assert!(matches!(explained.grants[0].origin, GrantOrigin::Remembered { everywhere: false, .. }));
    assert_eq!(json!(explained)["trust"], json!({"state": "trusted", "by": "digest"}));
    assert_eq!(stage.store().revoke_grants(|grant| grant.skill == "x").unwrap(), 1);
    assert!(!writes(&stage, Invocation::new("x")));
}

#[test]
fn a_grant_is_bound_to_the_files() {
    let stage = Stage::lua("write", WRITES);
    stage.trust("x");
    stage.remember("x", &["write"]);
    assert!(writes(&stage, Invocation::new("x")));
    write(&stage.project.path(SKILL).join("other.txt"), "");
    assert!(!writes(&stage, Invocation::new("x").trust_once()), "other files, trusted or not");
    stage.trust("x");
    assert!(!writes(&stage, Invocation::new("x")));
}

#[test]
fn a_grant_is_bound_to_the_name_and_to_the_project() {
    let skill = |name: &str| {
        let path = format!(".metier/skills/{name}/scripts/main.lua");
        Project::new().skill(name, "allowed-tools: write\n").file(&path, WRITES)
    };
    let stage = Stage::with(skill("x"));
    stage.remember("x", &["write"]);
    let elsewhere = skill("x");
    let engine = elsewhere.builder().trust(stage.store()).build().unwrap();
    let run = || value(engine.run(Invocation::new("x").trust_once()));
    assert_eq!(run(), json!(false), "the same skill in another project");
    let digest = engine.skill_files(engine.registry().find("x").unwrap()).unwrap().digest;
    stage.store().grant(("y", digest), None, &parsed(&["write"]), "a test").unwrap();
    assert_eq!(run(), json!(false), "the grant of a skill of another name");
    stage.store().grant(("x", digest), None, &parsed(&["write"]), "a test").unwrap();
    assert_eq!(run(), json!(true), "everywhere");
    let outcome = engine.run(Invocation::new("x"));
    assert_eq!(value(outcome), json!(false), "but not for a skill that is not trusted there");
}

#[test]
fn a_grant_for_some_arguments_is_none_for_all() {
    let stage = Stage::lua("write", WRITES);
    stage.trust("x");
    let engine = stage.engine();
    let digest = engine.skill_files(engine.registry().find("x").unwrap()).unwrap().digest;
    let pattern = json!({"path": "out"});
    stage.store().grant_with_arguments(("x", digest), None, &parsed(&["write"]), &pattern, "a test").unwrap();
    assert!(!writes(&stage, Invocation::new("x")));
}

#[test]
fn grants_of_the_configuration_are_for_trusted_skills() {
    let stage = Stage::lua("write", WRITES);
    let configured = || {
        let origin = GrantOrigin::Configuration { file: "/home/me/config.toml".into() };
        Invocation::new("x").grant_from("write".parse().unwrap(), origin)
    };
    assert!(!writes(&stage, configured()));
    assert!(writes(&stage, configured().trust_once()));
    stage.trust("x");
    assert!(writes(&stage, configured()));
    let plain = stage.project.engine().run(configured());
    assert_eq!(value(plain), json!(true), "an engine without a store");
}

#[test]
fn a_callee_that_the_digest_does_not_count_gets_no_remembered_grant() {
    let script = "return ctx.skill('y')";
    // By a name that means no skill when the run begins, and one when it is called.
    let late = "ctx.write('.metier/skills/y/SKILL.md', '---\\nname: y\\ndescription: d\\n---\\n') \
                ctx.write('.metier/skills/y/scripts/main.lua', 'return 1') ";
    let stage = Stage::lua("write:.metier/skills/y skill:y", &(late.to_owned() + script));
    stage.trust("x");
    stage.remember("x", &["write:.metier/skills/y", "skill:y"]);
    let engine = stage.engine();
    let first = engine.run(Invocation::new("x"));
    assert!(first.result.is_err());
    engine.reload().unwrap();
    let second = stage.engine();
    assert!(
        !second.trust_state(second.registry().find("x").unwrap()).is_trusted(),
        "it calls another skill now"
    );
    assert_eq!(kind(&second.run(Invocation::new("x"))), ErrorKind::Denied, "so no grant applies");
    trust(&second, "x");
}
