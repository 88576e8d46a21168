//! Modules that nobody trusts are compiled where they can be stopped: by a helper, under the deadline of the run.
#![cfg(all(target_os = "linux", feature = "wasm-runtime", feature = "sandboxed", feature = "cli"))]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use metier::LoadOptions;
use metier::engine::{Engine, Invocation};
use metier::error::ErrorKind;
use metier::executor::{Script, SkillRuntime};
use metier::policy::{CancelToken, Limits, SandboxLevel};
use tempfile::TempDir;

#[path = "support/hostile_modules.rs"]
mod hostile_modules;
use hostile_modules::hostile;

const HELPER: &str = env!("CARGO_BIN_EXE_metier");
const DEADLINE: Duration = Duration::from_millis(300);
/// Ten times what is promised.
const LATE: Duration = Duration::from_secs(1);

/// A project with one skill that is this module; no other run of any test has compiled it.
fn project(module: &str) -> TempDir {
    let project = tempfile::tempdir().unwrap();
    let skill = project.path().join(".metier/skills/hostile");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\nname: hostile\ndescription: Takes long to compile.\n---\n")
        .unwrap();
    std::fs::write(skill.join("scripts/main.wat"), unique(module)).unwrap();
    project
}

fn unique(module: &str) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
    format!("{module}\n;; {now} {}", std::process::id())
}

fn engine(project: &Path, tier: SandboxLevel) -> Engine {
    Engine::builder(project)
        .helper(HELPER)
        .sandbox_level(tier)
        .limits(Limits::default().timeout(DEADLINE))
        .build()
        .unwrap()
}

fn script(module: &str) -> Script {
    Script {
        skill: "test".into(),
        path: "scripts/main.wat".into(),
        folder: None,
        source: unique(module).into_bytes().into(),
        function: None,
    }
}

const SMALL: &str = r#"(module
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
    (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
    (func (export "run") (local $at i64)
        (call $store_u8 (local.tee $at (call $alloc (i64.const 1))) (i32.const 55))
        (call $output_set (local.get $at) (i64.const 1))))"#;

#[test]
fn whatever_a_module_is_its_run_ends_with_its_deadline() {
    for (number, (what, module)) in hostile().into_iter().enumerate() {
        let project = project(&module);
        let tier = if number % 2 == 0 { SandboxLevel::Namespaces } else { SandboxLevel::Landlock };
        let engine = engine(project.path(), tier);
        for explains in [false, true] {
            let began = Instant::now();
            let invocation = Invocation::new("hostile");
            let error = if explains {
                engine.explain(&invocation).map(drop).err()
            } else {
                engine.run(invocation).result.err()
            };
            let took = began.elapsed();
            assert!(took < DEADLINE + LATE, "{what}: {took:?}");
            let is_right = error.as_ref().is_none_or(|error| {
                let kinds = [
                    ErrorKind::Timeout,
                    ErrorKind::InvalidSkill,
                    ErrorKind::Memory,
                    ErrorKind::InvalidOutput,
                ];
                kinds.contains(&error.kind())
            });
            assert!(is_right, "{what}: {error:?}");
        }
    }
}

#[test]
fn a_small_module_is_compiled_by_the_helper_and_runs() {
    for tier in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
        let project = project(SMALL);
        let engine = Engine::builder(project.path()).helper(HELPER).sandbox_level(tier).build().unwrap();
        assert_eq!(engine.run(Invocation::new("hostile")).result.unwrap(), 7, "{tier:?}");
    }
}

#[test]
fn what_is_wrong_with_a_module_is_said_by_the_helper_with_its_place() {
    let load = |module: &str| {
        LoadOptions::new().helper(HELPER).load(SkillRuntime::Wasm, &script(module)).err().unwrap()
    };
    let error = load("(module\n  (func (i32.nonsense)))");
    let place = error.location().unwrap();
    assert_eq!((error.kind(), place.line, place.column), (ErrorKind::InvalidSkill, Some(2), Some(10)));
    let error = load(r#"(module (func (export "main")))"#);
    assert_eq!(error.help(), Some("it exports main; name one in the contract, or export `run`"));
}

#[test]
fn a_program_without_a_helper_compiles_nothing_unless_it_is_allowed_to() {
    let small = script(SMALL);
    let error = metier::load(SkillRuntime::Wasm, &small).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.help().unwrap().contains("helper_main"), "{error:?}");
    let project = project(SMALL);
    let engine = |allowed| Engine::builder(project.path()).compile_in_process(allowed).build().unwrap();
    assert_eq!(
        engine(false).run(Invocation::new("hostile")).result.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(engine(true).run(Invocation::new("hostile")).result.unwrap(), 7);
    assert!(LoadOptions::new().compile_in_process(true).load(SkillRuntime::Wasm, &small).is_ok());
}

#[test]
fn a_helper_that_is_none_is_an_error_and_not_believed() {
    for (program, kind) in [("/bin/true", None), ("/nonexistent", Some(ErrorKind::SandboxUnavailable))] {
        let error =
            LoadOptions::new().helper(program).load(SkillRuntime::Wasm, &script(SMALL)).err().unwrap();
        assert!(kind.is_none_or(|kind| error.kind() == kind), "{program}: {error:?}");
        assert!(!error.kind().is_limit(), "{program}: {error:?}");
    }
}

#[test]
fn a_cancel_stops_the_compiler_and_nothing_is_left_of_it() {
    let (_, module) = hostile().swap_remove(2);
    let module = module.replace("(export \"run\")", "(export \"run\") (local f64)");
    let token = CancelToken::new();
    let cancel = token.clone();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(DEADLINE);
        cancel.cancel();
    });
    let began = Instant::now();
    let loaded = LoadOptions::new().helper(HELPER).cancel(token).load(SkillRuntime::Wasm, &script(&module));
    let took = began.elapsed();
    canceller.join().unwrap();
    assert!(took < DEADLINE + LATE, "{took:?}");
    if let Err(error) = loaded {
        assert!([ErrorKind::Cancelled, ErrorKind::InvalidSkill].contains(&error.kind()), "{error}");
    }
}

#[test]
fn who_waits_for_anothers_compiler_waits_no_longer_than_its_own_deadline() {
    let module = hostile().swap_remove(5).1;
    let project = project(&module);
    let engine = Arc::new(engine(project.path(), SandboxLevel::Namespaces));
    let other = engine.clone();
    let long = Limits::default().timeout(Duration::from_secs(5));
    let first = std::thread::spawn(move || other.run(Invocation::new("hostile").limits(long)));
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    let outcome = engine.run(Invocation::new("hostile"));
    let took = began.elapsed();
    assert!(took < DEADLINE + LATE, "{took:?} {:?}", outcome.result);
    drop(first.join().unwrap());
}
