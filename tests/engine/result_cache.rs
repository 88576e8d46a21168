//! Values of equal runs, for skills that permit to cache them and embedders that ask for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use metier::engine::{Engine, Invocation};
use metier::error::Result;
use metier::host::{ApprovalRequest, Approver, Fixtures, LogLine, SkillContext};
use metier::policy::Approval;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
use metier::policy::{Limits, OutputPolicy, SandboxMode};
use serde_json::{Value, json};

use crate::support::engine::{Project, granted, value, wait_until, write};

const CACHEABLE: &str = "idempotent: true, cacheable: true, cache_ttl: 5m";

/// Returns what a file says, and the input.
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

/// Whether a second run has the value of the first.
fn is_answered_from_the_cache(engine: &Engine, grants: &[&str]) -> bool {
    let [first, second] = [(); 2].map(|()| engine.run(granted(run(1), grants)));
    assert_eq!(first.cached, None);
    let is_cached = second.cached.is_some();
    assert_eq!(
        (value(first), value(engine.run(granted(run(1), grants)))),
        (value(second.clone()), value(second))
    );
    is_cached
}

#[test]
fn ar_t15_an_equal_run_has_the_value_of_the_first_until_it_is_too_old() {
    let project = project("idempotent: true, cacheable: true, cache_ttl: 3s", READS);
    let engine = caching(&project);
    assert!(is_answered_from_the_cache(&engine, &[]));
    let outcome = engine.run(run(1));
    let is_told = |line: &LogLine| line.message.starts_with("the value is that of an equal run, ");
    assert!(outcome.log.iter().any(is_told), "{:?}", outcome.log);
    assert!(outcome.cached.is_some_and(|cached| cached.age < Duration::from_secs(3)), "{outcome:?}");
    let age = json!(outcome)["cached"]["age_ms"].as_u64().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let later = json!(engine.run(run(1)))["cached"]["age_ms"].as_u64();
    assert!(later.is_none_or(|later| later >= age + 50), "{age} {later:?}");
    let other = engine.run(run(2));
    assert_eq!((other.cached, &json!(other)["cached"]), (None, &Value::Null), "another input");
    wait_until(Duration::from_secs(30), || engine.run(run(1)).cached.is_none());
}

#[test]
fn a_file_that_was_changed_gives_a_new_value_in_every_language() {
    let lua = project(CACHEABLE, READS);
    let rhai = Project::new()
        .skill("x", "")
        .file(".metier/skills/x/scripts/main.rhai", r#"[ctx.read_file("n.txt"), input]"#)
        .file(".metier/skills/x/skill.yaml", format!("metadata: {{{CACHEABLE}}}\n"))
        .file("n.txt", "first");
    let steps = json!([
        {"id": "a", "tool": "read_file", "args": {"path": "n.txt"}},
        {"id": "b", "tool": "stat", "args": {"path": "n.txt"}},
    ]);
    let plan = Project::new()
        .skill("x", "")
        .file(".metier/skills/x/skill.yaml", format!("steps: {steps}\nmetadata: {{{CACHEABLE}}}\n"))
        .file("n.txt", "first");
    let wasm = Project::new()
        .skill("x", "")
        .file(".metier/skills/x/scripts/main.wasm", include_bytes!("../plugins/conformance.wasm"))
        .file(
            ".metier/skills/x/skill.yaml",
            format!("entrypoint: {{path: scripts/main.wasm, function: call}}\nmetadata: {{{CACHEABLE}}}\n"),
        )
        .file("n.txt", "first");
    let call = json!({"name": "read_file", "args": ["n.txt"]});
    for (language, project) in [("Lua", lua), ("Rhai", rhai), ("plans", plan), ("WebAssembly", wasm)] {
        if language == "WebAssembly" && !cfg!(feature = "wasm-runtime") {
            continue;
        }
        let engine = project.builder().cache_results(true).compile_in_process(true).build().unwrap();
        let invocation = match language {
            "plans" => Invocation::new("x"),
            _ => Invocation::new("x").input(call.clone()),
        };
        let is_cached = || engine.run(invocation.clone()).cached.is_some();
        let first = engine.run(invocation.clone());
        assert!(first.result.is_ok(), "{language}: {first:?}");
        assert!(is_cached() && is_cached(), "{language}");
        // Of the same length, and perhaps within the same step of the clock.
        write(&project.path("n.txt"), "fir5t");
        let outcome = engine.run(invocation.clone());
        assert_eq!(outcome.cached, None, "{language}");
        let shown = value(outcome).to_string();
        assert!(shown.contains("fir5t") || shown.contains("size"), "{language}: {shown}");
        assert!(is_cached(), "{language}");
        write(&project.path("other.txt"), "which nobody reads");
        assert!(is_cached(), "{language}");
        std::fs::remove_file(project.path("n.txt")).unwrap();
        assert!(!is_cached(), "{language}");
    }
}

#[test]
fn what_a_script_lists_or_misses_is_a_part_of_what_it_read() {
    for (script, path) in [
        ("return {ctx.list_dir('.')}", "new.txt"),
        ("return {ctx.glob('**/*.txt')}", "deep/new.txt"),
        ("return {ctx.grep('first')}", "new.txt"),
        ("return {ctx.tree('.')}", "deep/new"),
        ("return {ctx.find('.', 'new')}", "a-new-one"),
        ("return {(pcall(ctx.read_file, 'new.txt'))}", "new.txt"),
        ("return {(pcall(ctx.asset, 'node_modules/new.txt'))}", ".metier/skills/x/node_modules/new.txt"),
    ] {
        let project = project(CACHEABLE, script);
        let engine = caching(&project);
        assert!(is_answered_from_the_cache(&engine, &[]), "{script}");
        write(&project.path(path), "first");
        let outcome = engine.run(run(1));
        assert_eq!(outcome.cached, None, "{script}");
        assert_eq!(value(outcome), value(project.engine().run(run(1))), "{script}");
    }
}

#[test]
fn a_run_that_may_use_a_store_is_not_kept() {
    for (permission, call) in [("state", "ctx.store_get('a')"), ("store:team", "ctx.store_list(nil, 'team')")]
    {
        let script = format!("return {{{call}}}");
        let project = Project::lua_with_tools(permission, &script)
            .file(".metier/skills/x/skill.yaml", format!("metadata: {{{CACHEABLE}}}\n"));
        let fixtures = Fixtures::new(r#"{"store": {"a": 1}, "stores": {"team": {}}}"#).unwrap().providers();
        let engine = project.builder().providers(fixtures).cache_results(true).build().unwrap();
        assert!(!is_answered_from_the_cache(&engine, &[permission]), "{permission}");
    }
}

#[test]
fn a_run_that_reads_too_often_is_not_kept() {
    let script = "for i = 1, input.n do ctx.head('n.txt', i) end return {1}";
    let project = project(CACHEABLE, script);
    let engine = caching(&project);
    for (reads, is_kept) in [(1_000, true), (1_001, false)] {
        let run = || engine.run(Invocation::new("x").input(json!({"n": reads})));
        assert_eq!((run().cached.is_some(), run().cached.is_some()), (false, is_kept), "{reads}");
    }
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
    assert!(is_answered_from_the_cache(&caching(&permitted), &[]));
    assert!(!is_answered_from_the_cache(&permitted.engine(), &[]), "the embedder does not ask for it");
    for metadata in [
        "cacheable: true, cache_ttl: 5m",
        "idempotent: false, cacheable: true, cache_ttl: 5m",
        "idempotent: true, cacheable: false, cache_ttl: 5m",
        "idempotent: true, cache_ttl: 5m",
        "idempotent: true, cacheable: true",
    ] {
        let project = project(metadata, READS);
        assert!(!is_answered_from_the_cache(&caching(&project), &[]), "{metadata}");
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
        assert!(is_answered_from_the_cache(&engine, &[]), "asked for and not granted: {permission}");
        assert!(!is_answered_from_the_cache(&caching(&project), &[permission]), "{permission}");
    }
    let settings = project(CACHEABLE, READS).file(
        ".metier/skills/x/skill.yaml",
        format!("metadata: {{{CACHEABLE}}}\nconfig:\n  unit: {{description: d}}\n"),
    );
    assert!(!is_answered_from_the_cache(&caching(&settings), &[]), "settings are not part of a key");
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
    assert!(is_answered_from_the_cache(&engine, &[]));
    write(&project.path(".metier/skills/x/scripts/main.lua"), "return {'of other code'}");
    assert_eq!(said(&engine, run(1)), "of other code");
    let asset = project.path(".metier/skills/x/assets/table.txt");
    write(&asset, "one");
    write(&project.path(".metier/skills/x/scripts/main.lua"), "return {ctx.asset('assets/table.txt')}");
    assert_eq!(said(&engine, run(1)), "one");
    write(&project.path(".metier/skills/x/assets/other.txt"), "what the script does not read");
    assert!(engine.run(run(1)).cached.is_some());
    write(&asset, "two");
    assert_eq!(said(&engine, run(1)), "two");
    let contract = std::fs::read_to_string(project.path(".metier/skills/x/skill.yaml")).unwrap();
    write(&project.path(".metier/skills/x/skill.yaml"), format!("{contract}\n# said otherwise\n"));
    assert_eq!(engine.run(run(1)).cached, None);
}

/// One person after another, who say yes or no.
#[derive(Clone, Default)]
struct Answer(Arc<AtomicBool>);

impl Approver for Answer {
    fn approve(&self, _: &SkillContext, _: &ApprovalRequest) -> Result<Approval> {
        Ok(if self.0.load(Ordering::Relaxed) { Approval::Once } else { Approval::No })
    }
}

#[test]
fn what_one_person_permits_or_refuses_answers_no_other() {
    let script = "local ok, text = pcall(ctx.read_file, '.env') return {ok and text or 'refused'}";
    let project = project(CACHEABLE, script)
        .file(".env", "hidden")
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: read:.env\n---\n");
    let person = Answer::default();
    let engine = project.builder().cache_results(true).approver(person.clone()).build().unwrap();
    for (is_permitted, expected) in [(true, "hidden"), (false, "refused"), (true, "hidden")] {
        person.0.store(is_permitted, Ordering::Relaxed);
        assert_eq!(said(&engine, run(1)), expected);
    }
}

#[test]
fn no_input_is_another_one_than_null() {
    let project = project(CACHEABLE, "return {input == null}");
    let engine = caching(&project);
    let [none, null] = [Invocation::new("x"), Invocation::new("x").input(Value::Null)];
    let alone = [&none, &null].map(|one| said(&project.engine(), one.clone()));
    assert_eq!([none, null].map(|one| said(&engine, one)), alone);
    assert_ne!(alone[0], alone[1]);
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn an_external_script_is_cached_where_a_sandbox_is_required_and_its_streams_are_its_own() {
    let project = Project::shell("", "cat n.txt; cat")
        .file(".metier/skills/x/skill.yaml", format!("metadata: {{{CACHEABLE}}}\n"))
        .file("n.txt", "first");
    let engine = caching(&project);
    let run = |mode: SandboxMode| value(engine.run(Invocation::new("x").sandbox_mode(mode)));
    for (mode, second) in
        [(SandboxMode::Off, "second"), (SandboxMode::BestEffort, "second"), (SandboxMode::Required, "first")]
    {
        write(&project.path("n.txt"), "first");
        assert_eq!(run(mode), "first", "{mode:?}");
        write(&project.path("n.txt"), "second");
        assert_eq!(run(mode), second, "{mode:?}");
    }
    for text in ["one", "two"] {
        let fed = Invocation::new("x").sandbox_mode(SandboxMode::Required).stdin(text.as_bytes());
        assert_eq!(value(engine.run(fed)), format!("second{text}"));
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_value_that_was_cut_short_is_not_kept() {
    let project = Project::shell("", "cat n.txt")
        .file(".metier/skills/x/skill.yaml", format!("metadata: {{{CACHEABLE}}}\n"));
    let engine = caching(&project);
    let said = |text: &str, cap: u64| {
        write(&project.path("n.txt"), text);
        let limits = Limits::default().output(cap).on_output(OutputPolicy::Truncate);
        let outcome = engine.run(Invocation::new("x").sandbox_mode(SandboxMode::Required).limits(limits));
        (outcome.limits.truncated, value(outcome))
    };
    assert!(said("a long text", 8).0);
    let (truncated, other) = said("other words", 8);
    assert!(truncated && other.as_str().unwrap().starts_with('o'), "{other}");
    assert_eq!(said("a long text", 80).1, "a long text");
    assert_eq!(said("other words", 80).1, "a long text", "a whole value is kept");
}

#[test]
fn a_journal_of_a_plan_is_always_written() {
    let steps = json!({"steps": [{"id": "a", "tool": "read_file", "args": {"path": "n.txt"}}]});
    let project = Project::new()
        .skill("x", "")
        .file(
            ".metier/skills/x/skill.yaml",
            format!("steps: {}\nmetadata: {{{CACHEABLE}}}\n", steps["steps"]),
        )
        .file("n.txt", "first");
    let engine = caching(&project);
    assert_eq!(value(engine.run(Invocation::new("x"))), "first");
    assert!(engine.run(Invocation::new("x")).cached.is_some(), "a plan that reads is cached");
    let journals = project.home();
    assert_eq!(engine.run(Invocation::new("x").journal(&journals)).cached, None);
    assert!(journals.read_dir().unwrap().next().is_some(), "it has a journal");
}

#[test]
fn the_order_of_keys_is_no_other_input() {
    let project = project(CACHEABLE, READS);
    let engine = caching(&project);
    let is_cached = |input: &str| {
        let input: Value = serde_json::from_str(input).unwrap();
        engine.run(Invocation::new("x").input(input)).cached.is_some()
    };
    assert!(!is_cached(r#"{"n": {"b": 1, "a": 2}, "m": 3}"#));
    assert!(is_cached(r#"{"m": 3, "n": {"a": 2, "b": 1}}"#));
    assert!(!is_cached(r#"{"m": 3, "n": {"a": 1, "b": 2}}"#));
}

#[cfg(unix)]
#[test]
fn a_value_of_a_project_is_none_of_another_one_at_its_path() {
    let project = project(CACHEABLE, READS);
    let engine = caching(&project);
    assert!(is_answered_from_the_cache(&engine, &[]));
    project.replace();
    assert_eq!(engine.run(run(1)).cached, None);
}

/// Settings of the caller's own, which no key holds.
struct Settings(&'static str);

impl metier::host::ConfigProvider for Settings {
    fn config(&self, _: &SkillContext) -> Result<serde_json::Map<String, Value>> {
        Ok([("who".to_owned(), json!(self.0))].into_iter().collect())
    }
}

#[test]
fn a_value_for_the_settings_of_one_caller_is_none_for_another() {
    let project = project(CACHEABLE, "return {ctx.config().who, 1}");
    let engine = caching(&project);
    for who in ["one", "two"] {
        let providers = metier::host::Providers::default().config(Settings(who));
        assert_eq!(said(&engine, run(1).providers(providers)), who);
    }
}
