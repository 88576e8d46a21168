//! Modules that nobody trusts are compiled where they can be stopped: by a helper, under the deadline of the run.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use metier::ScriptLoader;
use metier::engine::{Engine, EngineBuilder, Invocation};
use metier::error::{ErrorKind, SkillError};
use metier::executor::{RuntimeId, Script};
use metier::policy::{CancelToken, ExecutionMode, Limits, SandboxLevel};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::hostile_modules::{LARGE_MODULE, hostile};

mod extism;
mod workers;

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

fn engine(project: &Path, level: SandboxLevel) -> Engine {
    builder(project, level).build().unwrap()
}

fn builder(project: &Path, level: SandboxLevel) -> EngineBuilder {
    Engine::builder(project).helper(HELPER).sandbox_level(level).limits(Limits::default().timeout(DEADLINE))
}

fn script(module: &str) -> Script {
    Script::new("test", "scripts/main.wat", unique(module).into_bytes())
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
        let level = if number % 2 == 0 { SandboxLevel::Namespaces } else { SandboxLevel::Landlock };
        let mode = if number % 4 < 2 { ExecutionMode::InProcess } else { ExecutionMode::Worker };
        let engine = builder(project.path(), level).execution_mode(mode).build().unwrap();
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
fn a_small_module_whose_compilation_takes_gigabytes_is_refused() {
    let (_, module) = hostile().into_iter().find(|(name, _)| *name == LARGE_MODULE).unwrap();
    assert!(module.len() < 200 << 10);
    for level in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
        let project = project(&module);
        let limits = Limits::default().timeout(Duration::from_mins(2));
        let engine = Engine::builder(project.path()).helper(HELPER).sandbox_level(level).limits(limits);
        let error = engine.build().unwrap().run(Invocation::new("hostile")).result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory, "{level:?}: {error}");
        assert!(error.message().contains("more than 1024 MiB"), "{level:?}: {error}");
    }
}

#[test]
fn a_small_module_is_compiled_by_the_helper_and_runs() {
    for level in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
        let project = project(SMALL);
        let engine = Engine::builder(project.path()).helper(HELPER).sandbox_level(level).build().unwrap();
        assert_eq!(engine.run(Invocation::new("hostile")).result.unwrap(), 7, "{level:?}");
    }
}

#[test]
fn what_is_wrong_with_a_module_is_said_by_the_helper_with_its_place() {
    let load = |module: &str| {
        ScriptLoader::new().helper(HELPER).load(RuntimeId::WASM, &script(module)).err().unwrap()
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
    let error = metier::ScriptLoader::new().load(RuntimeId::WASM, &small).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.help().unwrap().contains("helper_main"), "{error:?}");
    let project = project(SMALL);
    let engine = |allowed| Engine::builder(project.path()).compile_in_process(allowed).build().unwrap();
    assert_eq!(
        engine(false).run(Invocation::new("hostile")).result.unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    assert_eq!(engine(true).run(Invocation::new("hostile")).result.unwrap(), 7);
    assert!(ScriptLoader::new().compile_in_process(true).load(RuntimeId::WASM, &small).is_ok());
}

#[test]
fn a_helper_that_is_none_is_an_error_and_not_believed() {
    for (program, kind) in [("/bin/true", None), ("/nonexistent", Some(ErrorKind::SandboxUnavailable))] {
        let error = ScriptLoader::new().helper(program).load(RuntimeId::WASM, &script(SMALL)).err().unwrap();
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
    let loaded = ScriptLoader::new().helper(HELPER).cancel(token).load(RuntimeId::WASM, &script(&module));
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

/// A project whose skill is a manifest of Extism and a module beside it.
fn project_with_manifest(manifest: &Value, module: &str) -> TempDir {
    let project = tempfile::tempdir().unwrap();
    let skill = project.path().join(".metier/skills/hostile");
    std::fs::create_dir_all(skill.join("scripts")).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\nname: hostile\ndescription: Is a manifest.\n---\n").unwrap();
    std::fs::write(skill.join("scripts/plugin.json"), manifest.to_string()).unwrap();
    std::fs::write(skill.join("scripts/code.wat"), module).unwrap();
    project
}

fn in_process(project: &TempDir) -> Engine {
    Engine::builder(project.path()).compile_in_process(true).build().unwrap()
}

fn run_manifest(manifest: &Value, module: &str) -> Result<Value, SkillError> {
    in_process(&project_with_manifest(manifest, module)).run(Invocation::new("hostile")).result
}

#[test]
fn a_manifest_names_the_module_that_runs() {
    let manifest = json!({"wasm": [{"path": "code.wat"}]});
    assert_eq!(run_manifest(&manifest, SMALL).unwrap(), 7);
    let project = project_with_manifest(&manifest, SMALL);
    let engine = in_process(&project);
    assert_eq!(engine.run(Invocation::new("hostile")).result.unwrap(), 7);
    let code = project.path().join(".metier/skills/hostile/scripts/code.wat");
    std::fs::write(code, SMALL.replace("55", "56")).unwrap();
    assert_eq!(engine.run(Invocation::new("hostile")).result.unwrap(), 8, "what is cached covers the module");
}

/// A main module that answers with the digit of a library.
const ASKING: &str = r#"(module
    (import "digits" "digit" (func $digit (result i32)))
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
    (import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
    (func (export "run") (local $at i64)
        (call $store_u8 (local.tee $at (call $alloc (i64.const 1))) (i32.add (i32.const 48) (call $digit)))
        (call $output_set (local.get $at) (i64.const 1))))"#;

fn digits(digit: u32) -> String {
    unique(&format!(r#"(module (func (export "digit") (result i32) (i32.const {digit})))"#))
}

#[test]
fn the_modules_of_a_manifest_are_compiled_by_the_helper_and_linked() {
    let manifest = json!({"wasm": [{"path": "digits.wat", "name": "digits"}, {"path": "code.wat"}]});
    let project = project_with_manifest(&manifest, &unique(ASKING));
    let library = project.path().join(".metier/skills/hostile/scripts/digits.wat");
    let engine = Engine::builder(project.path()).helper(HELPER).build().unwrap();
    for digit in [4, 4, 5] {
        std::fs::write(&library, digits(digit)).unwrap();
        let outcome = engine.run(Invocation::new("hostile"));
        assert_eq!(outcome.result.unwrap(), digit, "what is cached covers the library");
    }
    std::fs::write(&library, digits(1).replace("digit\"", "number\"")).unwrap();
    let error = engine.run(Invocation::new("hostile")).result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSkill);
    assert!(error.message().contains("\"digit\" of digits is not there"), "{error}");
    std::fs::write(&library, "(module (func (export \"_start\")))").unwrap();
    let error = engine.run(Invocation::new("hostile")).result.unwrap_err();
    let sentence = "scripts/plugin.json (module digits) exports `_start`";
    assert!(error.message().contains(sentence) && error.help().is_some(), "{error:?}");
    std::fs::remove_file(&library).unwrap();
    assert_eq!(engine.run(Invocation::new("hostile")).result.unwrap_err().kind(), ErrorKind::Io);
}

#[test]
fn whatever_a_library_is_its_run_ends_with_its_deadline() {
    for (what, module) in hostile() {
        let manifest = json!({"wasm": [
            {"path": "code.wat", "name": "first"}, {"path": "second.wat", "name": "second"}, {"path": "main.wat"},
        ]});
        let project = project_with_manifest(&manifest, &unique(&module));
        let scripts = project.path().join(".metier/skills/hostile/scripts");
        std::fs::write(scripts.join("second.wat"), unique(&module)).unwrap();
        std::fs::write(scripts.join("main.wat"), SMALL).unwrap();
        let began = Instant::now();
        let outcome = engine(project.path(), SandboxLevel::Namespaces).run(Invocation::new("hostile"));
        let took = began.elapsed();
        // Both are read into the manifest first, which takes its time in a build without optimisation.
        assert!(took < DEADLINE + 2 * LATE, "{what}: {took:?} {:?}", outcome.result);
    }
}

#[test]
fn a_module_outside_of_the_skill_is_not_read() {
    let outside = tempfile::tempdir().unwrap();
    let code = outside.path().join("code.wat");
    std::fs::write(&code, SMALL).unwrap();
    for path in [
        code.to_str().unwrap(),
        "../../../../code.wat",
        "../../SKILL.md/../../../x.wat",
        "missing.wat",
        "",
        ".",
    ] {
        let error = run_manifest(&json!({"wasm": [{"path": path}]}), SMALL).unwrap_err();
        assert!(
            [ErrorKind::OutsideProject, ErrorKind::Io, ErrorKind::InvalidArgument].contains(&error.kind()),
            "{path}: {error:?}"
        );
    }
    let project = project_with_manifest(&json!({"wasm": [{"path": "link.wat"}]}), SMALL);
    let link = project.path().join(".metier/skills/hostile/scripts/link.wat");
    std::os::unix::fs::symlink(&code, link).unwrap();
    let error = in_process(&project).run(Invocation::new("hostile")).result.unwrap_err();
    assert!([ErrorKind::OutsideProject, ErrorKind::Io].contains(&error.kind()), "{error:?}");
}

#[test]
fn a_module_that_is_too_large_or_another_than_the_hash_says_does_not_run() {
    let manifest = json!({"wasm": [{"path": "code.wat"}]});
    let large = format!("{SMALL}{}", " ".repeat(17 << 20));
    assert_eq!(
        run_manifest(&manifest, &large).unwrap_err().kind(),
        ErrorKind::Io,
        "no file that large is read"
    );
    let project = project_with_manifest(&manifest, SMALL);
    let code = project.path().join(".metier/skills/hostile/scripts/code.wat");
    std::fs::File::create(code).unwrap().set_len(1 << 40).unwrap();
    assert!(in_process(&project).run(Invocation::new("hostile")).result.is_err());
    let hashed = |hash: &str| run_manifest(&json!({"wasm": [{"path": "code.wat", "hash": hash}]}), SMALL);
    let error = hashed(&"0".repeat(64)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidSkill);
    let found = error.message().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(hashed(&found).unwrap(), 7);
}

/// Requests the port 9 of this machine.
const FETCHING: &str = r#"(module
        (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
        (import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
        (import "extism:host/env" "http_request" (func $http (param i64 i64) (result i64)))
        (memory 1) (data (i32.const 0) "{\22url\22:\22http://127.0.0.1:9/\22}")
        (func (export "run") (local $at i64) (local $i i32)
            (local.set $at (call $alloc (i64.const 29)))
            (loop $next
                (call $store_u8 (i64.add (local.get $at) (i64.extend_i32_u (local.get $i))) (i32.load8_u (local.get $i)))
                (local.set $i (i32.add (local.get $i) (i32.const 1)))
                (br_if $next (i32.lt_u (local.get $i) (i32.const 29))))
            (drop (call $http (local.get $at) (i64.const 0)))))"#;

#[test]
fn a_manifest_only_asks_and_only_lowers() {
    let asking = json!({"wasm": [{"path": "code.wat"}], "allowed_hosts": ["127.0.0.1"]});
    let error = run_manifest(&asking, FETCHING).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error:?}");
    assert!(error.message().contains("grant net:127.0.0.1"), "{error}");
    let engine_of = |manifest: &Value| {
        let project = project_with_manifest(manifest, FETCHING);
        let grant = "net:127.0.0.1".parse().unwrap();
        in_process(&project).run(Invocation::new("hostile").grant(grant)).result.unwrap_err()
    };
    assert_eq!(engine_of(&asking).kind(), ErrorKind::Io, "asked and granted: nobody answers there");
    let endless = r#"(module (func (export "run") (loop $again (br $again))))"#;
    let began = Instant::now();
    let short = json!({"wasm": [{"path": "code.wat"}], "timeout_ms": 50});
    assert_eq!(run_manifest(&short, endless).unwrap_err().kind(), ErrorKind::Timeout);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let growing = r#"(module (memory 1) (func (export "run")
        (loop $again (drop (memory.grow (i32.const 1))) (br $again))))"#;
    let small = json!({"wasm": [{"path": "code.wat"}], "memory": {"max_pages": 3}});
    let error = run_manifest(&small, growing).unwrap_err();
    assert!(error.message().contains("more than its 192 KiB"), "{error}");
    let large = json!({"wasm": [{"path": "code.wat"}], "memory": {"max_pages": 60_000}});
    let error = run_manifest(&large, growing).unwrap_err();
    assert!(error.message().contains("more than its 64 MiB"), "{error}");
}
