//! Values of equal runs, for skills that permit to cache them and embedders that ask for it.

use std::time::Duration;

use metier::engine::{Engine, Invocation};
use serde_json::{Value, json};

use crate::project::{Project, granted, value, wait_until, write};

const CACHEABLE: &str = "idempotent: true, cacheable: true, cache_ttl: 5m";

/// Returns what a file says, so that a value from the cache is an old one.
const READS: &str = "return {ctx.read_file('n.txt'), input}";

/// The skill `x` with that in its metadata.
fn project(metadata: &str, script: &str) -> Project {
    Project::lua(script)
        .file(".metier/skills/x/skill.yaml", format!("metadata: {{{metadata}}}\n"))
        .file("n.txt", "first")
}

fn caching(project: &Project) -> Engine {
    project.builder().cache_results(true).build().unwrap()
}

/// What a run says of the file.
#[track_caller]
fn said(engine: &Engine, invocation: Invocation) -> Value {
    value(engine.run(invocation))[0].clone()
}

fn run(input: u8) -> Invocation {
    Invocation::new("x").input(json!({"n": input}))
}

/// Whether a second run after the file has changed has the value of the first.
fn is_answered_from_the_cache(engine: &Engine, project: &Project, grants: &[&str]) -> bool {
    write(&project.path("n.txt"), "first");
    assert_eq!(said(engine, granted(run(1), grants)), "first");
    write(&project.path("n.txt"), "second");
    said(engine, granted(run(1), grants)) == "first"
}

#[test]
fn ar_t15_an_equal_run_has_the_value_of_the_first_until_it_is_too_old() {
    let project = project("idempotent: true, cacheable: true, cache_ttl: 1s", READS);
    let engine = caching(&project);
    assert!(is_answered_from_the_cache(&engine, &project, &[]));
    let outcome = engine.run(run(1));
    assert_eq!(outcome.log[0].message, "the value is that of an equal run, 0 s ago");
    assert_eq!(said(&engine, run(2)), "second", "another input");
    wait_until(Duration::from_secs(10), || said(&engine, run(1)) == "second");
}

#[test]
fn ar_t15_a_failed_run_is_not_kept() {
    let project = project(CACHEABLE, READS);
    let engine = caching(&project);
    std::fs::remove_file(project.path("n.txt")).unwrap();
    assert!(engine.run(run(1)).result.is_err());
    write(&project.path("n.txt"), "there");
    assert_eq!(said(&engine, run(1)), "there");
    // Neither is a value that its contract does not permit.
    let wrong = Project::lua("return ctx.read_file('n.txt')").file("n.txt", "words").file(
        ".metier/skills/x/skill.yaml",
        format!("metadata: {{{CACHEABLE}}}\noutputs:\n  type: string\n  enum: [right]\n"),
    );
    let engine = caching(&wrong);
    assert!(engine.run(run(1)).result.is_err());
    write(&wrong.path("n.txt"), "right");
    assert_eq!(value(engine.run(run(1))), "right");
}

#[test]
fn ar_17_only_what_the_contract_and_the_embedder_permit_is_cached() {
    let permitted = project(CACHEABLE, READS);
    assert!(is_answered_from_the_cache(&caching(&permitted), &permitted, &[]));
    assert!(
        !is_answered_from_the_cache(&permitted.engine(), &permitted, &[]),
        "the embedder does not ask for it"
    );
    for metadata in [
        "cacheable: true, cache_ttl: 5m",
        "idempotent: false, cacheable: true, cache_ttl: 5m",
        "idempotent: true, cacheable: false, cache_ttl: 5m",
        "idempotent: true, cache_ttl: 5m",
        "idempotent: true, cacheable: true",
    ] {
        let project = project(metadata, READS);
        assert!(!is_answered_from_the_cache(&caching(&project), &project, &[]), "{metadata}");
    }
}

#[test]
fn a_run_that_may_do_more_than_read_is_never_answered_from_the_cache() {
    for permission in ["write", "net:api.example.com", "tool:t", "skill:y", "secret:s", "env:V"] {
        let project = project(CACHEABLE, READS).file(
            ".metier/skills/x/SKILL.md",
            format!("---\nname: x\ndescription: d\nallowed-tools: {permission}\n---\n"),
        );
        let engine = caching(&project);
        assert!(
            is_answered_from_the_cache(&engine, &project, &[]),
            "asked for and not granted: {permission}"
        );
        assert!(!is_answered_from_the_cache(&caching(&project), &project, &[permission]), "{permission}");
    }
    let settings = project(CACHEABLE, READS).file(
        ".metier/skills/x/skill.yaml",
        format!("metadata: {{{CACHEABLE}}}\nconfig:\n  unit: {{description: d}}\n"),
    );
    assert!(
        !is_answered_from_the_cache(&caching(&settings), &settings, &[]),
        "settings are not part of a key"
    );
}

#[test]
fn no_run_gets_a_value_that_another_one_was_granted() {
    let script = "local ok, text = pcall(ctx.read_file, '.env') return {ok and text or 'refused'}";
    let project = project(CACHEABLE, script)
        .file(".env", "hidden")
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: read:.env\n---\n");
    let engine = caching(&project);
    assert_eq!(said(&engine, granted(run(1), &["read:.env"])), "hidden");
    assert_eq!(said(&engine, run(1)), "refused");
}

#[test]
fn a_skill_that_was_changed_has_no_value_yet() {
    let project = project(CACHEABLE, READS);
    let engine = caching(&project);
    assert!(is_answered_from_the_cache(&engine, &project, &[]));
    write(&project.path(".metier/skills/x/scripts/main.lua"), "return {'of other code'}");
    assert_eq!(said(&engine, run(1)), "of other code");
    write(&project.path(".metier/skills/x/scripts/main.lua"), READS);
    write(&project.path(".metier/skills/x/assets/table.txt"), "what the script may read");
    assert_eq!(said(&engine, run(1)), "second");
}
