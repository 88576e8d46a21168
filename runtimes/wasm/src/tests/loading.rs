//! Tests of modules that are refused before anything is compiled, and of the error messages.

use serde_json::json;

use super::{ECHO, invalid, load, module, run, running, source};

#[test]
fn text_and_binary_are_distinguished_by_what_they_hold() {
    let binary = wast::parser::ParseBuffer::new(&module(ECHO))
        .and_then(|buffer| wast::parser::parse::<wast::Wat>(&buffer)?.encode())
        .unwrap();
    let executor = load(&source(binary)).unwrap();
    assert_eq!(executor.execute(json!([1]).into()).unwrap().value, json!([1]));
}

#[test]
fn a_syntax_error_has_its_place() {
    let error = invalid(&source("(module\n  (func (i32.nonsense)))"), "unknown operator");
    let at = error.location().unwrap();
    assert_eq!((at.file.as_str(), at.line, at.column), ("scripts/main.wat", Some(2), Some(10)));
    invalid(&source(""), "is no WebAssembly module");
    invalid(&source([0xFF, 0xFE]), "is no WebAssembly module");
    invalid(&source(b"\0asm\x01\0\0\0\xFF"), "not a module that runs here");
    invalid(&source(b"\0asm\x0d\0\x01\0"), "not a module that runs here");
    invalid(&source("(".repeat(1 << 20)), "");
    invalid(&source(format!("(module {})", "(func (block ".repeat(100_000))), "");
}

#[test]
fn a_missing_entry_is_said_with_what_there_is() {
    let error = invalid(
        &source(module(r#"(func (export "main")) (func (export "other"))"#)),
        "exports no function `run`",
    );
    assert_eq!(error.help(), Some("it exports main, other; name one in the contract, or export `run`"));
    invalid(&source(module("")), "exports no function `run`");
}

#[test]
fn an_entry_takes_nothing_and_answers_with_a_code_at_most() {
    for (signature, sentence) in [
        ("(param i32)", "takes parameters"),
        ("(result i64) (i64.const 0)", "must answer with nothing or with an i32"),
        ("(result i32 i32) (i32.const 0) (i32.const 0)", "must answer with nothing or with an i32"),
    ] {
        invalid(&source(module(&format!(r#"(func (export "run") {signature})"#))), sentence);
    }
}

#[test]
fn an_import_that_nothing_offers_is_named() {
    for (import, sentence, help) in [
        (
            r#""extism:host/user" "read_fil" (func (param i64) (result i64))"#,
            "\"read_fil\"",
            "did you mean `read_file`?",
        ),
        (r#""extism:host/env" "reset" (func)"#, "\"reset\"", "documentation of the host API"),
        (r#""env" "abort" (func (param i32 i32 i32 i32))"#, "\"env\" \"abort\"", "extism:host/user"),
        (r#""extism:host/env" "memory" (memory 1)"#, "is not a function", ""),
        (r#""extism:host/env" "extism_context" (global externref)"#, "is not a function", ""),
        (r#""metier:run" "begin" (func)"#, "\"metier:run\"", ""),
        (
            r#""extism:host/user" "stat" (func (param i32) (result i64))"#,
            "another type than what is offered: (i64, i64) -> (i64)",
            "",
        ),
        (
            r#""extism:host/env" "alloc" (func (param i64))"#,
            "another type than what is offered: (i64) -> (i64)",
            "",
        ),
    ] {
        let error =
            invalid(&source(format!(r#"(module (import {import}) (func (export "run")))"#)), sentence);
        assert!(error.help().unwrap_or_default().contains(help), "{error:?}");
    }
}

#[test]
fn what_would_be_in_no_budget_is_not_in_the_language() {
    for part in [
        "(memory 1) (memory 1)",
        "(memory i64 1)",
        "(memory 1 1 shared)",
        "(type (struct (field i32)))",
        "(type (array i8))",
        "(tag)",
    ] {
        invalid(&source(format!(r#"(module {part} (func (export "run")))"#)), "");
    }
}

#[test]
fn modules_are_bounded_before_they_are_compiled() {
    let many = |what: &str, count: usize| format!(r#"(module {} (func (export "run")))"#, what.repeat(count));
    invalid(&source(many("(func)", 50_001)), "50002 functions; a module may have 50000");
    invalid(&source(many("(table 0 funcref)", 17)), "17 tables; a module may have 16");
    invalid(
        &source(many(r#"(memory 0) (data "")"#, 1).replace(r#"(data "")"#, &r#"(data "")"#.repeat(50_001))),
        "segments",
    );
    invalid(&source(running(&"nop ".repeat((1 << 20) + 1))), "bytes in one function");
    invalid(&source(format!("(module (;{};))", " ".repeat(17 << 20))), "a module may have 16777216");
}

#[test]
fn every_part_of_a_module_survives_the_rewriting() {
    let full = module(
        r#"(type $unary (func (param i32) (result i32)))
        (global $count (mut i32) (i32.const 40))
        (global $first funcref (ref.func $double))
        (table $t 4 8 funcref)
        (elem (table $t) (i32.const 1) func $double $half)
        (elem $passive func $double)
        (data $later "7")
        (func $double (type $unary) (i32.mul (local.get 0) (i32.const 2)))
        (func $half (type $unary) (i32.div_u (local.get 0) (i32.const 2)))
        (func $sum (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1)))
        (func $tail (param i32) (result i32) (return_call $double (local.get 0)))
        (func (export "run")
            (memory.init $later (i32.const 0) (i32.const 0) (i32.const 1))
            (table.init $t $passive (i32.const 3) (i32.const 0) (i32.const 1))
            (if (i32.ne (call $sum (call_indirect $t (type $unary) (global.get $count) (i32.const 2)) (call $tail (i32.const 11))) (i32.const 42))
                (then unreachable))
            (if (i32.ne (call_indirect $t (type $unary) (i32.const 4) (i32.const 3)) (i32.const 8)) (then unreachable))
            (if (ref.is_null (global.get $first)) (then unreachable))
            (if (i32.ne (table.grow $t (ref.null func) (i32.const 4)) (i32.const 4)) (then unreachable))
            (if (i32.ne (table.grow $t (ref.null func) (i32.const 1)) (i32.const -1)) (then unreachable))
            (if (i32.ne (memory.grow (i32.const 2)) (i32.const 1)) (then unreachable))
            (if (i32.ne (memory.size) (i32.const 3)) (then unreachable))
            (call $answer (call $text (i32.const 0) (i32.const 1))))"#,
    );
    assert_eq!(run(&full, json!(null)).unwrap(), json!(7));
    let referring =
        module(r#"(func $f (export "f")) (func (export "run") (drop (ref.func $f)) (call $fine))"#);
    assert_eq!(run(&referring, json!(null)).unwrap(), json!("fine"), "its export declares the reference");
    let no_memory = r#"(module (table 1 externref) (func (export "run") (drop (table.grow 0 (ref.null extern) (i32.const 3)))))"#;
    assert!(run(no_memory, json!(null)).unwrap_err().message().contains("set no output"));
    assert!(
        run(r#"(module (func (export "run")))"#, json!(null))
            .unwrap_err()
            .message()
            .contains("set no output")
    );
}
