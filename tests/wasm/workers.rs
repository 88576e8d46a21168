//! Plug-ins in worker processes: the host compiles, and a sandboxed process executes.

use std::time::{Duration, Instant};

use metier::engine::{Engine, Invocation};
use metier::error::{ErrorKind, SkillError};
use metier::host::EnforcedLevel;
use metier::policy::{ExecutionMode, Limits, SandboxLevel};
use serde_json::{Value, json};

use crate::wasm::{ASKING, FETCHING, HELPER, SMALL, digits, project_with_manifest, unique};

/// One plug-in, and how it is run.
struct Case {
    manifest: Value,
    module: String,
    allow: &'static [&'static str],
    limits: Limits,
}

impl Case {
    fn new(module: &str) -> Self {
        let limits = Limits::default().timeout(Duration::from_secs(20)).memory(64 << 20);
        Self { manifest: json!({"wasm": [{"path": "code.wat"}]}), module: unique(module), allow: &[], limits }
    }

    fn entries(mut self, entries: &Value) -> Self {
        for (name, value) in entries.as_object().unwrap() {
            self.manifest[name] = value.clone();
        }
        self
    }

    fn allow(self, allow: &'static [&'static str]) -> Self {
        Self { allow, ..self }
    }

    fn limits(mut self, change: impl FnOnce(Limits) -> Limits) -> Self {
        self.limits = change(self.limits);
        self
    }

    fn run(&self, level: SandboxLevel, mode: ExecutionMode) -> Result<Value, SkillError> {
        let project = project_with_manifest(&self.manifest, &self.module);
        let skill = project.path().join(".metier/skills/hostile");
        std::fs::write(skill.join("scripts/digits.wat"), digits(4)).unwrap();
        let asks = "---\nname: hostile\ndescription: Is a manifest.\nallowed-tools: wasi\n---\n";
        std::fs::write(skill.join("SKILL.md"), asks).unwrap();
        let engine = Engine::builder(project.path()).helper(HELPER).sandbox_level(level);
        let engine = engine.execution_mode(mode).limits(self.limits.clone()).build().unwrap();
        let mut results = (0..2).map(|_| {
            let grants = self.allow.iter().map(|name| name.parse().unwrap());
            let outcome = engine.run(grants.fold(Invocation::new("hostile"), Invocation::grant));
            let is_in_process =
                outcome.sandbox.is_none_or(|sandbox| sandbox.level == EnforcedLevel::InProcess);
            assert!(
                outcome.result.is_err() || is_in_process == (mode == ExecutionMode::InProcess),
                "{outcome:?}"
            );
            outcome.result
        });
        let first = results.next().unwrap();
        let second = results.next().unwrap();
        assert_eq!(
            json!(first.as_ref().ok()),
            json!(second.as_ref().ok()),
            "a worker that is kept answers the same"
        );
        first
    }
}

const ENDLESS: &str = r#"(module (func (export "run") (loop $again (br $again))))"#;

const GROWING: &str = r#"(module (memory 1) (func (export "run")
    (loop $again (drop (memory.grow (i32.const 1))) (br $again))))"#;

/// A function that fails two calls below the entry.
const TRAPPING: &str =
    r#"(module (func $deep unreachable) (func $middle (call $deep)) (func (export "run") (call $middle)))"#;

const RANDOM: &str = r#"(module
    (import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
    (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
    (memory (export "memory") 1)
    (func (export "run") (local $at i64)
        (call $store_u8 (local.tee $at (call $alloc (i64.const 1)))
            (i32.add (i32.const 48) (call $random (i32.const 0) (i32.const 8))))
        (call $output_set (local.get $at) (i64.const 1))))"#;

/// Its output is the setting `a`.
const SETTING: &str = r#"(module
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
    (import "extism:host/env" "config_get" (func $config (param i64) (result i64)))
    (import "extism:host/env" "length" (func $length (param i64) (result i64)))
    (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
    (func (export "run") (local $at i64)
        (call $store_u8 (local.tee $at (call $alloc (i64.const 1))) (i32.const 97))
        (local.set $at (call $config (local.get $at)))
        (call $output_set (local.get $at) (call $length (local.get $at)))))"#;

/// An error of 100,000 characters.
const LONG_ERROR: &str = r#"(module
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
    (import "extism:host/env" "error_set" (func $error_set (param i64)))
    (func (export "run") (result i32) (local $at i64) (local $i i64)
        (local.set $at (call $alloc (i64.const 100000)))
        (loop $next
            (call $store_u8 (i64.add (local.get $at) (local.get $i)) (i32.const 120))
            (local.set $i (i64.add (local.get $i) (i64.const 1)))
            (br_if $next (i64.lt_u (local.get $i) (i64.const 100000))))
        (call $error_set (local.get $at))
        (i32.const 1)))"#;

#[test]
fn a_plug_in_has_the_same_outcome_in_a_worker_as_in_the_host() {
    let libraries = json!({"wasm": [{"path": "digits.wat", "name": "digits"}, {"path": "code.wat"}]});
    let wrong_library = json!({"wasm": [{"path": "digits.wat", "name": "numbers"}, {"path": "code.wat"}]});
    let cases = [
        ("value", Case::new(SMALL), Ok(json!(7))),
        ("counted operations", Case::new(SMALL).limits(|limits| limits.operations(100_000)), Ok(json!(7))),
        ("linked modules", Case::new(ASKING).entries(&libraries), Ok(json!(4))),
        ("missing library", Case::new(ASKING).entries(&wrong_library), Err(ErrorKind::InvalidSkill)),
        ("setting", Case::new(SETTING).entries(&json!({"config": {"a": "12"}})), Ok(json!(12))),
        ("WASI with a grant", Case::new(RANDOM).allow(&["wasi"]), Ok(json!(0))),
        ("WASI without a grant", Case::new(RANDOM), Err(ErrorKind::Denied)),
        ("trap", Case::new(TRAPPING), Err(ErrorKind::Script)),
        ("long error", Case::new(LONG_ERROR).limits(|limits| limits.output(1000)), Err(ErrorKind::Script)),
        (
            "host without a grant",
            Case::new(FETCHING).entries(&json!({"allowed_hosts": ["127.0.0.1"]})),
            Err(ErrorKind::Denied),
        ),
        (
            "host with a grant",
            Case::new(FETCHING).entries(&json!({"allowed_hosts": ["127.0.0.1"]})).allow(&["net:127.0.0.1"]),
            Err(ErrorKind::Io),
        ),
        ("host that is not requested", Case::new(FETCHING).allow(&["net:127.0.0.1"]), Err(ErrorKind::Denied)),
        ("no output", Case::new(r#"(module (func (export "run")))"#), Err(ErrorKind::InvalidOutput)),
        (
            "code",
            Case::new(r#"(module (func (export "run") (result i32) i32.const 3))"#),
            Err(ErrorKind::Script),
        ),
        ("invalid", Case::new("(module (func (i32.nonsense)))"), Err(ErrorKind::InvalidSkill)),
        ("no entry", Case::new("(module)"), Err(ErrorKind::InvalidSkill)),
        (
            "operations",
            Case::new(ENDLESS).limits(|limits| limits.operations(10_000)),
            Err(ErrorKind::Operations),
        ),
        ("memory", Case::new(GROWING), Err(ErrorKind::Memory)),
        ("pages", Case::new(GROWING).entries(&json!({"memory": {"max_pages": 3}})), Err(ErrorKind::Memory)),
        ("own timeout", Case::new(ENDLESS).entries(&json!({"timeout_ms": 300})), Err(ErrorKind::Timeout)),
    ];
    for level in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
        for (what, case, expected) in &cases {
            let host = case.run(level, ExecutionMode::InProcess);
            let worker = case.run(level, ExecutionMode::Worker);
            let kind = worker.as_ref().map_err(SkillError::kind).cloned();
            assert_eq!(kind, *expected, "{what}: {worker:?}");
            let parts = |result: &Result<Value, SkillError>| match result {
                Ok(value) => value.clone(),
                Err(error) => json!(error),
            };
            assert_eq!(parts(&worker), parts(&host), "{what}");
        }
    }
}

#[test]
fn a_worker_of_an_endless_plug_in_is_killed_at_the_deadline() {
    for level in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
        let case = Case::new(ENDLESS).limits(|limits| limits.timeout(Duration::from_millis(500)));
        let began = Instant::now();
        assert_eq!(case.run(level, ExecutionMode::Worker).unwrap_err().kind(), ErrorKind::Timeout);
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }
}

/// One engine alternates between code that counts operations and code that does not: no run gets a worker of the other kind.
#[test]
fn a_worker_serves_only_runs_whose_operations_it_counts() {
    let project = project_with_manifest(&json!({"wasm": [{"path": "code.wat"}]}), &unique(SMALL));
    let engine = Engine::builder(project.path()).helper(HELPER).execution_mode(ExecutionMode::Worker);
    let engine = engine.build().unwrap();
    let run = |operations: Option<u64>| {
        let limits = Limits::default();
        let limits = match operations {
            Some(operations) => limits.operations(operations),
            None => limits,
        };
        engine.run(Invocation::new("hostile").limits(limits)).result.map_err(|error| error.kind())
    };
    for _ in 0..2 {
        assert_eq!(run(None), Ok(json!(7)));
        assert_eq!(run(Some(u64::MAX)), Ok(json!(7)), "the largest number is no limit");
        assert_eq!(run(Some(2)), Err(ErrorKind::Operations));
        assert_eq!(run(Some(1_000_000)), Ok(json!(7)));
    }
}

/// Compiling, and starting the worker, take longer than that; they belong to the deadline of the run.
#[test]
fn the_timeout_of_a_manifest_begins_when_the_plug_in_is_loaded() {
    let case = Case::new(SMALL).entries(&json!({"timeout_ms": 30}));
    for case in
        [case, Case::new(SMALL).entries(&json!({"timeout_ms": 30})).limits(|limits| limits.operations(9_999))]
    {
        assert_eq!(case.run(SandboxLevel::Namespaces, ExecutionMode::Worker).unwrap(), 7);
    }
}

#[test]
fn explain_names_the_sandbox_of_the_worker() {
    let project = project_with_manifest(&json!({"wasm": [{"path": "code.wat"}]}), &unique(SMALL));
    for level in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
        let engine = Engine::builder(project.path()).helper(HELPER).sandbox_level(level).build().unwrap();
        let level = |mode| {
            engine.explain(&Invocation::new("hostile").execution_mode(mode)).unwrap().sandbox.unwrap().level
        };
        assert_eq!(level(ExecutionMode::InProcess), EnforcedLevel::InProcess);
        let ran = engine.run(Invocation::new("hostile").execution_mode(ExecutionMode::Worker));
        assert_eq!(level(ExecutionMode::Worker), ran.sandbox.unwrap().level);
        assert_ne!(level(ExecutionMode::Worker), EnforcedLevel::InProcess);
    }
}
