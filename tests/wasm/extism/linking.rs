//! Manifests with several modules, which both link.

use serde_json::{Value, json};

use super::Agreement::{Differs, Error, Failure, Output};
use super::text::{module, module_with_imports};
use super::{Agreement, Case, data_of, disagreement, hold};

/// A row: its name, how far the two agree, and the modules with their names, in order; none where it is empty.
type Row = (&'static str, Agreement, Vec<(&'static str, String)>);

const ADD: &str =
    r#"(module (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))"#;

/// Counts in a global, and in memory; begins at 2 when its start function and `_initialize` have run once.
const COUNTER: &str = r#"(module (memory (export "memory") 1)
    (global $count (mut i32) (i32.const 0))
    (func $next (export "next") (result i32)
        (global.set $count (i32.add (global.get $count) (i32.const 1)))
        (i32.store (i32.const 8) (i32.add (i32.load (i32.const 8)) (i32.const 2)))
        (i32.add (global.get $count) (i32.mul (i32.const 1000) (i32.load (i32.const 8)))))
    (func $start (drop (call $next))) (start $start)
    (func (export "_initialize") (drop (call $next)))
    (func (export "__wasm_call_ctors") unreachable)
    (func (export "hs_init") (param i32 i32) unreachable))"#;

const NEXT: &str = r#"(import "counter" "next" (func $next (result i32)))"#;

/// A library that remembers what the counter was at its start.
fn side() -> String {
    format!(
        r#"(module {NEXT} (global $first (mut i32) (i32.const 0))
            (func $start (global.set $first (call $next))) (start $start)
            (func (export "first") (result i32) (global.get $first)))"#
    )
}

/// A main module with these imports.
fn main_with(imports: &str, body: &str) -> String {
    module_with_imports(imports, "", body)
}

fn counting() -> String {
    main_with(NEXT, "(call $put32 (call $next)) (call $put32 (call $next))")
}

fn adding() -> String {
    main_with(
        r#"(import "sums" "add" (func $add (param i32 i32) (result i32)))"#,
        "(call $put32 (call $add (i32.const 3) (i32.const 4)))",
    )
}

fn sides() -> String {
    main_with(
        r#"(import "a" "first" (func $a_first (result i32))) (import "b" "first" (func $b_first (result i32)))"#,
        "(call $put32 (call $a_first)) (call $put32 (call $b_first))",
    )
}

/// A main module that calls `f` of `a`.
fn calling() -> String {
    main_with(r#"(import "a" "f" (func $f))"#, "(call $f) (call $put (i64.const 1))")
}

fn library(body: &str) -> String {
    format!(r#"(module (func (export "f") {body}))"#)
}

#[allow(clippy::too_many_lines, reason = "it is a table")]
fn linked() -> Vec<Row> {
    let counter = || ("counter", COUNTER.to_owned());
    let one = || module("", "(call $put (i64.const 1))");
    vec![
        ("two modules", Output, vec![("sums", ADD.into()), ("main", adding())]),
        ("the main module before the other", Output, vec![("main", adding()), ("sums", ADD.into())]),
        ("the last is the main module", Output, vec![("sums", ADD.into()), ("other", adding())]),
        ("the last has no name", Output, vec![("sums", ADD.into()), ("", adding())]),
        ("the one without a name is the main module", Output, vec![("", adding()), ("sums", ADD.into())]),
        ("a library that nobody needs", Output, vec![("sums", ADD.into()), ("main", one())]),
        ("one module under another name", Output, vec![("sums", one())]),
        ("state of a library", Output, vec![counter(), ("main", counting())]),
        ("a diamond", Output, vec![("b", side()), ("main", sides()), counter(), ("a", side())]),
        ("a diamond, the other way around", Output, vec![counter(), ("a", side()), ("b", side()), ("main", sides())]),
        (
            "three in a row",
            Output,
            vec![
                ("a", format!(r#"(module {NEXT} (func (export "f") (drop (call $next)) (drop (call $next))))"#)),
                counter(),
                (
                    "main",
                    main_with(
                        &format!(r#"{NEXT} (import "a" "f" (func $f))"#),
                        "(call $f) (call $put32 (call $next))",
                    ),
                ),
            ],
        ),
        (
            "a library that exports `run`",
            Output,
            vec![
                ("a", r#"(module (func (export "run") (result i32) (i32.const 5)))"#.into()),
                ("main", main_with(r#"(import "a" "run" (func $a_run (result i32)))"#, "(call $put32 (call $a_run))")),
            ],
        ),
        (
            "a function of Extism that a library passes on",
            Output,
            vec![
                (
                    "a",
                    r#"(module (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
                        (import "extism:host/env" "length" (func $length (param i64) (result i64)))
                        (export "make" (func $alloc)) (export "size" (func $length)))"#
                        .into(),
                ),
                (
                    "main",
                    main_with(
                        r#"(import "a" "make" (func $make (param i64) (result i64)))
                        (import "a" "size" (func $size (param i64) (result i64)))"#,
                        "(call $put (call $size (call $make (i64.const 77))))",
                    ),
                ),
            ],
        ),
        (
            "variables and memory of Extism are those of all",
            Output,
            vec![
                ("a", module(r#"(func (export "f") (call $var_set <one> <two>))"#, "")),
                (
                    "main",
                    main_with(r#"(import "a" "f" (func $f))"#, "(call $f) (call $put_block (call $var_get <one>))"),
                ),
            ],
        ),
        (
            "the last output counts",
            Output,
            vec![
                ("a", module(r#"(func (export "f") (call $put (i64.const 9)) (call $done))"#, "")),
                ("main", calling()),
            ],
        ),
        (
            "functions as values",
            Output,
            vec![
                (
                    "a",
                    r#"(module (type $f (func (result i32))) (table $t 1 funcref)
                        (func (export "apply") (param funcref) (result i32)
                            (table.set $t (i32.const 0) (local.get 0)) (call_indirect $t (type $f) (i32.const 0)))
                        (func $six (result i32) (i32.const 6)) (elem declare func $six)
                        (func (export "six") (result funcref) (ref.func $six)))"#
                        .into(),
                ),
                (
                    "main",
                    main_with(
                        r#"(import "a" "apply" (func $apply (param funcref) (result i32)))
                        (import "a" "six" (func $six (result funcref)))"#,
                        "(call $put32 (call $apply (call $six)))",
                    ),
                ),
            ],
        ),
        ("the error of a library", Error, vec![("a", module(r#"(func (export "f") (call $error_set <no luck>))"#, "")), ("main", calling())]),
        ("a trap in a library", Failure, vec![("a", library("unreachable")), ("main", calling())]),
        ("a start function that traps", Failure, vec![("a", "(module (func $s unreachable) (start $s))".into()), ("main", one())]),
        ("calls nested too deep", Failure, vec![("a", library("").replace("(func", "(func $f").replace("\"f\")", "\"f\") (call $f) (call $f)")), ("main", calling())]),
        ("a function that is not there", Failure, vec![("a", library("").replace("\"f\"", "\"g\"")), ("main", calling())]),
        ("a function of another type", Failure, vec![("a", library("(param i32)")), ("main", calling())]),
        ("a module that is not there", Failure, vec![("b", library("")), ("main", calling())]),
        ("a memory as a function", Failure, vec![("a", r#"(module (memory (export "f") 1))"#.into()), ("main", calling())]),
        ("a broken library that nobody needs", Failure, vec![("a", r#"(module (import "x" "f" (func)))"#.into()), ("main", one())]),
        ("an initialiser that takes something", Failure, vec![("a", r#"(module (func (export "_initialize") (param i32)))"#.into()), ("main", one())]),
        ("a program and a library in one", Failure, vec![("a", r#"(module (func (export "_start")) (func (export "_initialize")))"#.into()), ("main", one())]),
        ("no function `run` in the main module", Failure, vec![("main", ADD.into()), ("a", one())]),
        ("two modules of one name", Failure, vec![("a", ADD.into()), ("a", ADD.into()), ("main", one())]),
        ("two modules without a name", Failure, vec![("", one()), ("", one())]),
        ("two main modules", Failure, vec![("main", one()), ("main", one())]),
        ("a module with the name of Extism's own", Failure, vec![("extism:host/env", ADD.into()), ("main", one())]),
        (
            "a module with the name of the host",
            Differs("no module can have a name of the host"),
            vec![("extism:host/user", library("")), ("main", calling().replace("\"a\"", "\"extism:host/user\""))],
        ),
        (
            "a memory of another module",
            Differs("modules share functions and nothing else"),
            vec![
                ("a", r#"(module (memory (export "shared") 1))"#.into()),
                ("b", r#"(module (import "a" "shared" (memory 1)))"#.into()),
                ("main", one()),
            ],
        ),
        (
            "a program as a library",
            Differs("no module imports from a program, of which Extism makes an instance for each call"),
            vec![("a", r#"(module (func (export "_start")) (func (export "f")))"#.into()), ("main", calling())],
        ),
        (
            "a library that imports from the main module",
            Differs("no module imports from the main module, of which Extism makes two instances"),
            vec![
                ("a", r#"(module (import "main" "run" (func (result i32))))"#.into()),
                ("main", one()),
            ],
        ),
        (
            "a start function of the main module that changes a library",
            Differs("a start function runs once"),
            vec![
                counter(),
                (
                    "main",
                    module_with_imports(NEXT, "(func $s (drop (call $next))) (start $s)", "(call $put32 (call $next))"),
                ),
            ],
        ),
    ]
}

#[test]
fn several_modules_are_linked_as_there() {
    hold(
        linked()
            .into_iter()
            .map(|(name, agreement, modules)| (name.to_owned(), compared(&manifest(&modules), agreement))),
    );
}

#[test]
fn limits_and_sums_are_those_of_all_modules() {
    let with = |modules: &[(&str, String)], key: &str, value: Value| {
        let mut manifest = manifest(modules);
        manifest[key] = value;
        manifest
    };
    let endless = [("a", library("(loop $again (br $again))")), ("main", calling())];
    let growing = [
        ("a", r#"(module (memory 1) (func (export "f") (if (i32.eq (memory.grow (i32.const 90)) (i32.const -1)) (then unreachable))))"#.into()),
        ("main", calling()),
    ];
    let sum = |of: usize, sum: &str| {
        let mut manifest = manifest(&[("sums", ADD.into()), ("main", adding())]);
        manifest["wasm"][of]["hash"] = sum.into();
        manifest
    };
    let zeros = "0".repeat(64);
    let rows = [
        ("a deadline", Failure, with(&endless, "timeout_ms", json!(50))),
        ("room to grow", Output, with(&growing, "memory", json!({"max_pages": 200}))),
        ("no room to grow", Failure, with(&growing, "memory", json!({"max_pages": 50}))),
        ("the sum of another library", Failure, sum(0, &zeros)),
        ("the sum of another main module", Failure, sum(1, &zeros)),
    ];
    hold(
        rows.into_iter().map(|(name, agreement, manifest)| (name.to_owned(), compared(&manifest, agreement))),
    );
}

#[test]
fn wasi_is_that_of_the_module_that_calls_it() {
    let library = r#"(module
        (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
        (memory (export "memory") 1) (data (i32.const 0) "\07\07\07\07\07\07\07\07")
        (export "sizes" (func $sizes))
        (func (export "own") (result i32) (drop (call $sizes (i32.const 0) (i32.const 4))) (i32.load (i32.const 0))))"#;
    let main = main_with(
        r#"(import "a" "own" (func $own (result i32))) (import "a" "sizes" (func $sizes (param i32 i32) (result i32)))"#,
        "(i32.store (i32.const 50000) (i32.const 3)) (i32.store (i32.const 0) (i32.const 3))
        (call $put32 (call $own)) (call $put32 (i32.load (i32.const 0)))
        (drop (call $sizes (i32.const 50000) (i32.const 50004))) (call $put32 (i32.load (i32.const 50000)))",
    );
    let manifest = manifest(&[("a", library.into()), ("main", main)]).to_string();
    let case = Case { is_manifest: true, wasi: true, ..Case::new(manifest.as_bytes()) };
    hold([("own memory".to_owned(), disagreement(&case, Output))]);
}

/// A manifest of these modules by their bytes.
fn manifest(modules: &[(&str, String)]) -> Value {
    let entry = |(name, text): &(&str, String)| {
        let mut entry = data_of(text);
        if !name.is_empty() {
            entry["name"] = (*name).into();
        }
        entry
    };
    json!({"wasm": modules.iter().map(entry).collect::<Vec<_>>()})
}

fn compared(manifest: &Value, agreement: Agreement) -> Option<String> {
    let manifest = manifest.to_string();
    disagreement(&Case { is_manifest: true, ..Case::new(manifest.as_bytes()) }, agreement)
}
