//! Modules that nobody trusts are compiled where they can be stopped: by a helper, under the deadline of the run.
#![cfg(all(target_os = "linux", feature = "wasm-runtime", feature = "sandboxed", feature = "cli"))]

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use metier::LoadOptions;
use metier::engine::{Engine, Invocation};
use metier::error::ErrorKind;
use metier::executor::{Script, SkillRuntime};
use metier::policy::{CancelToken, Limits, Tier};
use tempfile::TempDir;

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

fn engine(project: &Path, tier: Tier) -> Engine {
    Engine::builder(project)
        .helper(HELPER)
        .tier(tier)
        .limits(Limits::default().deadline(DEADLINE))
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

fn repeated(count: usize, what: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        write!(text, "{}", what(number)).unwrap();
        text
    })
}

/// Modules whose text is small for the time they take, or large in every way a module can be.
#[allow(clippy::too_many_lines, reason = "a table, a row for each module")]
fn hostile() -> Vec<(&'static str, String)> {
    let main = |body: &str| format!(r#"(module (func (export "run") {body}))"#);
    let locals = |count: usize| format!("(local {})", "i64 ".repeat(count));
    vec![
        ("nested blocks", main(&format!("{}{}", "(block ".repeat(20_000), ")".repeat(20_000)))),
        ("nested loops", main(&format!("{}{}", "(loop ".repeat(5_000), ")".repeat(5_000)))),
        (
            "locals set in many blocks",
            main(&format!(
                "{}{}",
                locals(2_000),
                repeated(4_000, |n| format!(
                    "(block (br_if 0 (i32.const {n})) (local.set {} (i64.add (local.get {}) (i64.const 1))))",
                    n % 2_000,
                    (n * 7) % 2_000
                ))
            )),
        ),
        (
            "loops that carry locals",
            main(&format!(
                "{}{}{}",
                locals(1_000),
                repeated(500, |n| format!(
                    "(loop (local.set {n} (i64.add (local.get {}) (local.get {n}))) (br_if 0 (i32.wrap_i64 (local.get {n})))",
                    (n + 1) % 1_000
                )),
                ")".repeat(500)
            )),
        ),
        (
            "branch tables",
            main(&format!(
                "{}{}{}",
                "(block ".repeat(200),
                repeated(40, |n| format!(
                    "(br_table {} (i32.const {n}))",
                    repeated(5_000, |at| format!("{} ", at % 200))
                )),
                ")".repeat(200)
            )),
        ),
        (
            "one giant function",
            main(&format!(
                "(local i64) {}",
                repeated(50_000, |n| format!(
                    "(local.set 0 (i64.xor (local.get 0) (i64.mul (local.get 0) (i64.const {n}))))"
                ))
            )),
        ),
        (
            "one deep expression",
            main(&format!(
                "(drop {}(i64.const 1){})",
                "(i64.add (i64.const 1) ".repeat(10_000),
                ")".repeat(10_000)
            )),
        ),
        (
            "many functions",
            format!(
                r#"(module (func (export "run")) {})"#,
                repeated(30_000, |n| format!("(func (result i64) (i64.mul (i64.const {n}) (i64.const 3)))"))
            ),
        ),
        (
            "many parameters",
            format!(
                r#"(module (func $f (param {}) (result i64) (local.get 0)) (func (export "run") {}))"#,
                "i64 ".repeat(1_000),
                repeated(100, |_| format!("(drop (call $f {}))", "(i64.const 1)".repeat(1_000)))
            ),
        ),
        (
            "many types",
            format!(
                r#"(module {} (func (export "run")))"#,
                repeated(60_000, |n| format!(
                    "(type (func (param {})))",
                    (0..16).map(|bit| if n >> bit & 1 == 1 { "i32 " } else { "i64 " }).collect::<String>()
                ))
            ),
        ),
        (
            "elements",
            format!(
                r#"(module (table 1000000 funcref) (func $f (export "run")) (elem (i32.const 0) {}))"#,
                "$f ".repeat(500_000)
            ),
        ),
        (
            "too many elements",
            format!(r#"(module (table 1000001 funcref) (func (export "run")) {})"#, " ".repeat(9)),
        ),
        (
            "long names",
            format!(
                r#"(module (func $f (export "run")) {})"#,
                repeated(200, |n| format!(r#"(export "{}{n}" (func $f))"#, "x".repeat(9_000)))
            ),
        ),
        (
            "many globals and calls through a table",
            format!(
                r#"(module (type $t (func)) (table 10 funcref) {} (func (export "run") {}))"#,
                repeated(20_000, |_| "(global (mut i64) (i64.const 0))".into()),
                repeated(20_000, |n| format!(
                    "(global.set {n} (i64.const 1)) (call_indirect (type $t) (i32.const {n}))"
                ))
            ),
        ),
        ("text without end", format!("(module {}", "(func (block ".repeat(400_000))),
    ]
}

#[test]
fn whatever_a_module_is_its_run_ends_with_its_deadline() {
    for (number, (what, module)) in hostile().into_iter().enumerate() {
        let project = project(&module);
        let tier = if number % 2 == 0 { Tier::Namespaces } else { Tier::Landlock };
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
                    ErrorKind::Deadline,
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
    for tier in [Tier::Namespaces, Tier::Landlock] {
        let project = project(SMALL);
        let engine = Engine::builder(project.path()).helper(HELPER).tier(tier).build().unwrap();
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
    let engine = Arc::new(engine(project.path(), Tier::Namespaces));
    let other = engine.clone();
    let long = Limits::default().deadline(Duration::from_secs(5));
    let first = std::thread::spawn(move || other.run(Invocation::new("hostile").limits(long)));
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    let outcome = engine.run(Invocation::new("hostile"));
    let took = began.elapsed();
    assert!(took < DEADLINE + LATE, "{took:?} {:?}", outcome.result);
    drop(first.join().unwrap());
}
