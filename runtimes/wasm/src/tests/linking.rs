//! Tests of manifests with several modules: what is linked, what is refused, and that no code of a library escapes the limits of
//! the run.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::wasi::permissions;
use super::{ECHO, PRELUDE, invalid, limited, load, module, plugin_manifest, running, within};
use metier_core::error::{ErrorKind, Result};
use metier_core::executor::{Script, SkillExecutor, SkillInput};
use metier_core::host::SkillContext;
use metier_core::policy::Limits;

const PAGE: u64 = 64 << 10;

/// A manifest with these modules; no name where it is empty.
fn manifest(modules: &[(&str, &str)]) -> Script {
    let entry = |(name, text): &(&str, &str)| {
        let mut entry = json!({"data": STANDARD.encode(text)});
        if !name.is_empty() {
            entry["name"] = (*name).into();
        }
        entry
    };
    let modules: Vec<Value> = modules.iter().map(entry).collect();
    plugin_manifest(json!({"wasm": modules}).to_string())
}

fn linked(modules: &[(&str, &str)]) -> Box<dyn SkillExecutor> {
    load(&manifest(modules)).unwrap_or_else(|error| panic!("{error:?}"))
}

fn run(modules: &[(&str, &str)]) -> Result<Value> {
    linked(modules).execute(Value::Null.into()).map(|output| output.value)
}

/// Fails as these modules are loaded; the help has to say something.
fn refused(modules: &[(&str, &str)], sentence: &str) {
    let error = invalid(&manifest(modules), sentence);
    assert!(error.message().contains("scripts/plugin.json"), "names no file: {error:?}");
}

/// A main module that imports from libraries, and answers with the digit that this computes.
fn digit_of(imports: &str, digit: &str) -> String {
    format!(
        r#"(module {imports} {PRELUDE} (func (export "run")
            (i32.store8 (i32.const 0) (i32.add (i32.const 48) {digit}))
            (call $answer (call $text (i32.const 0) (i32.const 1)))))"#
    )
}

/// A library that exports a function with this type and body.
fn library(name: &str, function: &str) -> String {
    format!(r#"(module (func (export "{name}") {function}))"#)
}

/// A library whose counter goes up by one in its start function and in `_initialize`, and by one with each `next`.
const COUNTER: &str = r#"(module
    (global $count (mut i32) (i32.const 0))
    (func $next (export "next") (result i32)
        (global.set $count (i32.add (global.get $count) (i32.const 1)))
        (global.get $count))
    (func $start (drop (call $next)))
    (start $start)
    (func (export "_initialize") (drop (call $next)))
    (func (export "__wasm_call_ctors") unreachable)
    (func (export "hs_init") (param i32 i32) unreachable))"#;

const NEXT: &str = r#"(import "counter" "next" (func $next (result i32)))"#;

#[test]
fn a_module_calls_the_functions_of_others() {
    let add = library("add", "(param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))");
    let main = digit_of(
        r#"(import "sums" "add" (func $add (param i32 i32) (result i32)))"#,
        "(call $add (i32.const 3) (i32.const 4))",
    );
    assert_eq!(run(&[("sums", &add), ("main", &main)]).unwrap(), json!(7));
    // Every type of a value arrives.
    let types = library(
        "all",
        "(param i32 i64 f32 f64 v128 funcref externref) (result i64 f32)
            (i64.add (local.get 1) (i64.extend_i32_u (i32x4.extract_lane 2 (local.get 4)))) (f32.const 1.5)",
    );
    let main = digit_of(
        r#"(import "types" "all" (func $all (param i32 i64 f32 f64 v128 funcref externref) (result i64 f32)))"#,
        "(block (result i32)
            (call $all (i32.const 1) (i64.const 2) (f32.const 3) (f64.const 4) (v128.const i32x4 0 0 5 0)
                (ref.null func) (ref.null extern))
            (drop) (i32.wrap_i64))",
    );
    assert_eq!(run(&[("types", &types), ("main", &main)]).unwrap(), json!(7));
}

#[test]
fn the_main_module_is_the_one_of_that_name_or_else_the_last() {
    let (one, two) = (running("(call $fine)"), library("run", "unreachable"));
    for modules in [
        vec![("main", one.as_str()), ("a", &two), ("b", &two)],
        vec![("a", &two), ("main", &one), ("b", &two)],
        vec![("", &one), ("a", &two)],
        vec![("a", &two), ("b", &one)],
        vec![("a", &two), ("", &one)],
        vec![("extism:host/env", &one)],
    ] {
        assert_eq!(run(&modules).unwrap(), json!("fine"));
    }
}

#[test]
fn a_library_is_initialised_once_in_each_run_and_shared_by_all_that_import_it() {
    let executor = linked(&[("counter", COUNTER), ("main", &digit_of(NEXT, "(call $next)"))]);
    for _ in 0..3 {
        assert_eq!(executor.execute(SkillInput::default()).unwrap().value, json!(3));
    }
    // The two sides of a diamond: the start function of the first has called `next` before that of the second.
    let side = |add: u32| {
        format!(
            r#"(module {NEXT} (global $first (mut i32) (i32.const 0))
                (func $start (global.set $first (call $next))) (start $start)
                (func (export "first") (result i32) (i32.mul (global.get $first) (i32.const {add}))))"#
        )
    };
    let imports =
        r#"(import "a" "first" (func $a (result i32))) (import "b" "first" (func $b (result i32)))"#;
    let (a, b, main) = (side(0), side(1), digit_of(imports, "(i32.add (call $a) (call $b))"));
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 3, 0, 1]] {
        let all = [("main", main.as_str()), ("b", &b), ("a", &a), ("counter", COUNTER)];
        assert_eq!(run(&order.map(|index| all[index])).unwrap(), json!(4), "{order:?}");
    }
}

#[test]
fn names_that_modules_cannot_have_are_refused() {
    let (main, other) = (running("(call $fine)"), library("f", ""));
    for name in ["extism:host/env", "extism:host/user", "wasi_snapshot_preview1", "metier:run"] {
        refused(&[(name, &other), ("main", &main)], "which is a name of the host");
        // Which wins is not left to the order in which they are linked.
        refused(&[("main", &main), (name, &other)], "which is a name of the host");
    }
    refused(&[("a", &other), ("a", &other), ("main", &main)], "names two modules \"a\"");
    refused(&[("", &main), ("", &main)], "names two modules \"main\"");
    refused(&[("", &main), ("main", &main)], "names two modules \"main\"");
    refused(&[(&"n".repeat(129), &other), ("main", &main)], "a module with 129 bytes; a name may have 128");
    for count in [17, 1_000] {
        let names: Vec<String> = (0..count).map(|number| format!("m{number}")).collect();
        let modules: Vec<_> = names.iter().map(|name| (name.as_str(), "(module)")).collect();
        refused(&modules, &format!("names {count} modules; a plug-in has at most 16"));
    }
    let strange: [&str; 4] = ["", "\u{1b}[2J", "../../a", "\u{0}"];
    for name in strange {
        let importing = format!(
            r#"(import "{}" "f" (func $f))"#,
            name.replace('\u{0}', "\\00").replace('\u{1b}', "\\1b")
        );
        let main = digit_of(&importing, "(i32.const 1)");
        let mut script: Value =
            serde_json::from_slice(&manifest(&[("x", &other), ("main", &main)]).source).unwrap();
        script["wasm"][0]["name"] = name.into();
        let script = plugin_manifest(script.to_string());
        assert_eq!(
            load(&script).unwrap().execute(SkillInput::default()).unwrap().value,
            json!(1),
            "{name:?}"
        );
    }
}

#[test]
fn circles_are_refused_with_their_modules() {
    let importing =
        |module: &str| format!(r#"(module (import "{module}" "f" (func $f)) (export "f" (func $f)))"#);
    let main = running("(call $fine)");
    let (a, b, c) = (importing("a"), importing("b"), importing("c"));
    refused(&[("a", &a), ("main", &main)], "the module a imports from itself");
    refused(&[("a", &b), ("b", &a), ("main", &main)], "a imports from b imports from a");
    refused(
        &[("a", &b), ("b", &c), ("c", &a), ("main", &main)],
        "a imports from b imports from c imports from a",
    );
    refused(&[("a", &b), ("b", &b), ("main", &main)], "the module b imports from itself");
    let from_main = importing("main");
    refused(
        &[("a", &from_main), ("main", &main)],
        "(module a): the import \"f\" of main is of the main module",
    );
    let main_of_itself = digit_of(r#"(import "main" "run" (func $run))"#, "(i32.const 1)");
    refused(
        &[("a", &library("f", "")), ("main", &main_of_itself)],
        "(module main): the import \"run\" of main",
    );
    // The longest chain that there can be.
    let names: Vec<String> = (0..15).map(|number| format!("m{number:02}")).collect();
    let mut texts: Vec<String> = names.iter().map(|name| importing(name)).collect();
    texts.insert(0, library("f", ""));
    let mut modules: Vec<_> =
        names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let last = digit_of(r#"(import "m14" "f" (func $f))"#, "(i32.const 5)");
    modules.reverse();
    modules.push(("main", &last));
    assert_eq!(run(&modules).unwrap(), json!(5));
}

#[test]
fn an_import_that_a_library_does_not_offer_is_named() {
    let offering = r#"(module (memory (export "memory") 1) (table (export "table") 1 funcref)
        (global (export "global") i32 (i32.const 1)) (func (export "add") (param i32) (result i32) (local.get 0)))"#;
    for (import, sentence) in [
        (r#"(import "a" "ad" (func (param i32) (result i32)))"#, "\"ad\" of a is not there"),
        (r#"(import "a" "memory" (func))"#, "\"memory\" of a is not there"),
        (r#"(import "a" "metier:initialize" (func))"#, "\"metier:initialize\" of a is not there"),
        (
            r#"(import "a" "add" (func (param i64) (result i32)))"#,
            "has the type (i64) -> (i32), and the module exports it as (i32) -> (i32)",
        ),
        (r#"(import "a" "add" (func (param i32)))"#, "has the type (i32) -> ()"),
        (
            r#"(import "a" "memory" (memory 1))"#,
            "\"memory\" of a is not a function; the modules of a plug-in share nothing else",
        ),
        (r#"(import "a" "table" (table 1 funcref))"#, "\"table\" of a is not a function"),
        (r#"(import "a" "global" (global i32))"#, "\"global\" of a is not a function"),
        (r#"(import "b" "add" (func))"#, "nothing offers the import \"b\" \"add\""),
        (r#"(import "metier:run" "grow" (func (param i64)))"#, "nothing offers the import"),
    ] {
        let main = format!(r#"(module {import} (func (export "run")))"#);
        refused(&[("a", offering), ("main", &main)], sentence);
        refused(&[("a", offering), ("main", &main)], "(module main)");
    }
    let error = load(&manifest(&[
        ("a", offering),
        ("main", &digit_of(r#"(import "a" "ad" (func))"#, "(i32.const 1)")),
    ]))
    .err()
    .unwrap();
    assert_eq!(error.help(), Some("did you mean `add`?"));
}

#[test]
fn a_library_keeps_its_names_except_those_of_the_host() {
    let main = running("(call $fine)");
    refused(
        &[("a", &library("metier:initialize", "")), ("main", &main)],
        "(module a) exports `metier:initialize`",
    );
    refused(
        &[("a", &library("_start", "")), ("main", &main)],
        "(module a) exports `_start`, so it is a program",
    );
    refused(
        &[("a", &library("_initialize", "(param i32)")), ("main", &main)],
        "`_initialize` of scripts/plugin.json (module a)",
    );
    let error = invalid(
        &manifest(&[("a", "(module (i32.nonsense))"), ("main", &main)]),
        "expected valid module field",
    );
    assert_eq!(error.location().unwrap().file, "scripts/plugin.json (module a)");
    refused(&[("a", "\0asm\u{1}\0\0\0\u{7f}"), ("main", &main)], "(module a) is not a module that runs here");
    refused(
        &[("a", &library("f", "")), ("main", &library("g", ""))],
        "(module main) exports no function `run`",
    );
    let run_of_library = library("run", "(result i32) (i32.const 6)");
    let main = digit_of(r#"(import "a" "run" (func $a_run (result i32)))"#, "(call $a_run)");
    assert_eq!(run(&[("a", &run_of_library), ("main", &main)]).unwrap(), json!(6));
}

/// Main modules and libraries that stay for ever, or take memory for ever, with this body.
fn endless(body: &str) -> Vec<Vec<(&'static str, String)>> {
    let fine = running("(call $fine)");
    let calling = digit_of(r#"(import "a" "f" (func $f))"#, "(block (result i32) (call $f) (i32.const 1))");
    let memory = "(memory 1) (table $t 0 funcref)";
    let with = |rest: &str| format!("(module {memory} (func $f {body}) {rest})");
    vec![
        vec![("a", with("(start $f)")), ("main", fine.clone())],
        vec![("a", with(r#"(export "_initialize" (func $f))"#)), ("main", fine)],
        vec![("a", with(r#"(export "f" (func $f))"#)), ("main", calling.clone())],
        vec![
            ("b", with(r#"(export "f" (func $f))"#)),
            ("a", r#"(module (import "b" "f" (func $f)) (start $f) (export "f" (func $f)))"#.into()),
            ("main", calling),
        ],
    ]
}

fn borrowed<'a>(modules: &'a [(&'static str, String)]) -> Vec<(&'static str, &'a str)> {
    modules.iter().map(|(name, text)| (*name, text.as_str())).collect()
}

#[test]
fn code_of_a_library_is_behind_the_deadline_wherever_it_runs() {
    let deadline = Duration::from_millis(200);
    for modules in endless("(loop $again (br $again))") {
        let executor = linked(&borrowed(&modules));
        let started = Instant::now();
        let error = limited(&*executor, Value::Null, within(deadline)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
        assert!(started.elapsed() < deadline + Duration::from_millis(500), "{:?}", started.elapsed());
        let counted = limited(&*executor, Value::Null, Limits::default().operations(10_000)).unwrap_err();
        assert_eq!(counted.kind(), ErrorKind::Operations, "{counted:?}");
    }
}

#[test]
fn what_a_library_takes_is_in_the_budget_of_the_run() {
    for body in [
        "(loop $again (drop (memory.grow (i32.const 1))) (br $again))",
        "(drop (memory.grow (i32.const 60000)))",
        "(loop $again (drop (table.grow $t (ref.null func) (i32.const 1000))) (br $again))",
    ] {
        for modules in endless(body) {
            let limits = Limits::default().memory(512 << 10).timeout(Duration::from_secs(20));
            let error = limited(&*linked(&borrowed(&modules)), Value::Null, limits).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Memory, "{body}: {error:?}");
        }
    }
}

#[test]
fn memories_of_all_modules_are_exact_to_the_byte() {
    let (three, five) = ("(module (memory 3))", "(module (memory 5) (table 1000 funcref))");
    let executor = linked(&[("a", three), ("b", five), ("main", &running("(call $fine)"))]);
    // Nine pages and the table from the beginning, 64 bytes for the input `null` and 64 for the answer.
    let needed = 9 * PAGE + 8_000 + 128;
    let limit = |bytes| limited(&*executor, Value::Null, Limits::default().memory(bytes));
    assert_eq!(limit(needed).unwrap(), json!("fine"));
    assert_eq!(limit(needed - 1).unwrap_err().kind(), ErrorKind::Memory);
    assert_eq!(limit(8 * PAGE).unwrap_err().kind(), ErrorKind::Memory, "before anything is instantiated");
    let huge = ("(module (memory 65536))", "(module (table 1000000 funcref))");
    let executor = linked(&[("a", huge.0), ("b", huge.0), ("c", huge.1), ("main", &running("(call $fine)"))]);
    assert_eq!(limited(&*executor, Value::Null, Limits::default()).unwrap_err().kind(), ErrorKind::Memory);
}

#[test]
fn as_many_modules_tables_and_memories_as_there_can_be_run_together() {
    let tables = "(table 10 funcref)".repeat(16);
    let text = format!("(module (memory 1) {tables} (func (export \"f\")))");
    let names: Vec<String> = (0..15).map(|number| format!("m{number}")).collect();
    let main = running("(call $fine)");
    let mut modules: Vec<_> = names.iter().map(|name| (name.as_str(), text.as_str())).collect();
    modules.push(("main", &main));
    let executor = linked(&modules);
    for _ in 0..20 {
        assert_eq!(executor.execute(SkillInput::default()).unwrap().value, json!("fine"));
    }
}

#[test]
fn calls_between_modules_are_nested_no_deeper_than_in_one() {
    // The main module gives the library a function of its own, which calls the library again.
    let calls = r#"(module (type $f (func)) (table $t 1 funcref)
        (func (export "call") (param funcref)
            (table.set $t (i32.const 0) (local.get 0))
            (call_indirect $t (type $f) (i32.const 0))))"#;
    let main = r#"(module (import "calls" "call" (func $call (param funcref)))
        (elem declare func $again)
        (func $again (call $call (ref.func $again)))
        (func (export "run") (call $again)))"#;
    let executor = linked(&[("calls", calls), ("main", main)]);
    for _ in 0..3 {
        let error = executor.execute(Value::Null.into()).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Script, "the plug-in's calls are nested too deep")
        );
        let trace = error.traceback().join("\n");
        assert!(trace.contains("scripts/plugin.json (module calls) function"), "{trace}");
        assert!(trace.contains("scripts/plugin.json (module main) function again"), "{trace}");
    }
}

#[test]
fn a_failure_says_in_which_module() {
    let traps = "(module (func $breaks (export \"f\") unreachable))";
    let main = digit_of(r#"(import "a" "f" (func $f))"#, "(block (result i32) (call $f) (i32.const 1))");
    let error = run(&[("a", traps), ("main", &main)]).unwrap_err();
    assert_eq!(error.location().unwrap().file, "scripts/plugin.json");
    assert_eq!(error.traceback()[0], "scripts/plugin.json (module a) function breaks");
    assert!(error.traceback()[1].starts_with("scripts/plugin.json (module main) function"), "{error:?}");
    let outside = r#"(module (memory 0) (data (i32.const 1) "outside"))"#;
    let error = run(&[("a", outside), ("main", &running("(call $fine)"))]).unwrap_err();
    assert_eq!(error.traceback(), ["scripts/plugin.json (module a)"], "{error:?}");
    let exits = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (func $start (call $exit (i32.const 0))) (start $start))"#;
    let context = SkillContext::builder("test").permissions(permissions(&["wasi"], &["wasi"])).build();
    let executor = linked(&[("a", exits), ("main", &module(ECHO))]);
    let error = executor.execute_with_context(Value::Null.into(), Some(&context)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Script, "a library that exits has not been initialised: {error:?}");
}

#[test]
fn host_functions_pass_through_a_library_and_stay_checked() {
    let passing = r#"(module (import "extism:host/user" "read_file" (func $read (param i64) (result i64)))
        (import "extism:host/env" "length" (func $length (param i64) (result i64)))
        (export "read" (func $read)) (export "length" (func $length)))"#;
    let main = digit_of(
        r#"(import "a" "read" (func $a_read (param i64) (result i64)))
        (import "a" "length" (func $a_length (param i64) (result i64)))"#,
        "(i64.ne (i64.const 0) (call $a_length (call $a_read (i64.const 0))))",
    );
    assert_eq!(run(&[("a", passing), ("main", &main)]).unwrap(), json!(1), "an error is answered as well");
    // Each module may leave out other optional parameters of one function.
    let short = r#"(module (import "extism:host/user" "stat" (func $stat (param i64) (result i64)))
        (func (export "short") (result i64) (call $stat (i64.const 0))))"#;
    let main = digit_of(
        r#"(import "a" "short" (func $short (result i64)))
        (import "extism:host/user" "stat" (func $stat (param i64 i64) (result i64)))"#,
        "(i64.lt_u (call $short) (call $stat (i64.const 0) (i64.const 0)))",
    );
    assert_eq!(run(&[("a", short), ("main", &main)]).unwrap(), json!(1));
}

#[test]
fn wasi_of_a_library_needs_the_permission_and_means_its_own_memory() {
    let clock = r#"(module
        (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
        (memory (export "memory") 1) (data (i32.const 0) "\07\07\07\07\07\07\07\07")
        (export "sizes" (func $sizes))
        (func (export "own") (result i32) (drop (call $sizes (i32.const 0) (i32.const 4))) (i32.load (i32.const 0))))"#;
    let imports = r#"(import "a" "own" (func $own (result i32)))
        (import "a" "sizes" (func $sizes (param i32 i32) (result i32)))"#;
    // The library clears its own memory, not that of the main module; the function that passes through it clears that.
    let main = digit_of(
        imports,
        "(block (result i32) (i32.store (i32.const 16) (i32.const 1))
            (drop (call $own))
            (i32.add (i32.load (i32.const 16)) (block (result i32)
                (drop (call $sizes (i32.const 16) (i32.const 20)))
                (i32.add (i32.load (i32.const 16)) (call $own)))))",
    );
    let executor = linked(&[("a", clock), ("main", &main)]);
    let with = |granted: &[&str]| {
        let context = SkillContext::builder("test").permissions(permissions(&["wasi"], granted)).build();
        executor.execute_with_context(Value::Null.into(), Some(&context)).map(|output| output.value)
    };
    assert_eq!(with(&[]).unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(with(&["wasi"]).unwrap(), json!(1));
}

#[test]
fn libraries_share_the_memory_variables_and_output_of_the_run() {
    let sets = r#"(module (import "extism:host/env" "output_set" (func $set (param i64 i64)))
        (import "extism:host/env" "input_offset" (func $offset (result i64)))
        (import "extism:host/env" "input_length" (func $length (result i64)))
        (func (export "echo") (call $set (call $offset) (call $length))))"#;
    let main = r#"(module (import "a" "echo" (func $echo)) (func (export "run") (call $echo)))"#;
    let executor = linked(&[("a", sets), ("main", main)]);
    assert_eq!(executor.execute(json!([1, "x"]).into()).unwrap().value, json!([1, "x"]));
}
