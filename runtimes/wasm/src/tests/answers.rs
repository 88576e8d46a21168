//! Input, output, errors, the host's functions and the log.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ECHO, fails, load, loaded, module, run, running, source};
use metier_core::error::ErrorKind;
use metier_core::executor::SkillInput;
use metier_core::host::{Files, HttpClient, HttpRequest, HttpResponse, Providers, RunMessages, SkillContext};
use metier_core::policy::{Limits, PathProtection, Permission, Permissions, RequestedPermissions};

#[test]
fn json_goes_in_and_comes_out() {
    for value in [
        json!(null),
        json!({"a": [1, -2.5, {}], "id": 18_446_744_073_709_551_615_u64, "min": i64::MIN}),
        json!("grüße 😀 \u{0}"),
        json!("x".repeat(100_000)),
    ] {
        assert_eq!(run(&module(ECHO), value.clone()).unwrap(), value);
    }
    let nothing = loaded(module(ECHO)).execute(SkillInput::default()).unwrap();
    assert_eq!(nothing.value, json!({}), "no input is an empty object");
}

#[test]
fn numbers_move_by_bytes_and_by_words() {
    let copying = r#"(func (export "run") (local $at i64) (local $to i64)
        (local.set $to (call $alloc (i64.const 24)))
        (call $store_u64 (local.get $to) (call $load_u64 (call $input_offset)))
        (loop $next
            (call $store_u8 (i64.add (local.get $to) (i64.add (local.get $at) (i64.const 8)))
                (call $input_load_u8 (i64.add (local.get $at) (i64.const 8))))
            (local.set $at (i64.add (local.get $at) (i64.const 1)))
            (br_if $next (i64.lt_u (local.get $at) (i64.const 16))))
        (call $answer (local.get $to)))"#;
    let text = json!("0123456789012345678901");
    assert_eq!(run(&module(copying), text.clone()).unwrap(), text);
}

#[test]
fn what_is_no_json_is_an_invalid_output() {
    for (body, sentence) in [
        ("nop", "set no output"),
        ("(call $output_set (i64.const 0) (i64.const 0))", "set no output"),
        ("(i32.store8 (i32.const 65528) (i32.const 0xFF)) (call $fine)", "is not UTF-8 at byte 0"),
        ("(call $output_set (i64.const 1) (i64.const -1))", "set no output"),
        ("(call $output_set (i64.const 64) (i64.const 1000000))", "set no output"),
        ("(call $output_set (i64.const -8) (i64.const 16))", "set no output"),
        ("(call $output_set (call $input_offset) (i64.const 3))", "is not JSON"),
    ] {
        let error = fails(&running(body), ErrorKind::InvalidOutput, sentence);
        assert_eq!(error.location().unwrap().file, "scripts/main.wat");
    }
    let twice = r#"(data (i32.const 0) "{\22a\22:1,\22a\22:2}") (func (export "run") (call $answer (call $text (i32.const 0) (i32.const 13))))"#;
    fails(&module(twice), ErrorKind::InvalidOutput, "the key \"a\" occurs twice");
}

#[test]
fn half_of_a_character_in_an_output_is_replaced() {
    let half = r#"(data (i32.const 0) "\22cut \5cud83d\22") (func (export "run") (call $answer (call $text (i32.const 0) (i32.const 12))))"#;
    assert_eq!(run(&module(half), Value::Null).unwrap(), json!("cut \u{fffd}"));
}

#[test]
fn a_code_an_error_and_a_trap_are_failures_with_a_sentence() {
    let code = r#"(func (export "run") (result i32) (call $fine) (i32.const 3))"#;
    fails(&module(code), ErrorKind::Script, "ended with code 3");
    let said = r#"(data (i32.const 0) "no luck") (func (export "run") (result i32)
        (call $error_set (call $text (i32.const 0) (i32.const 7))) (i32.const 1))"#;
    assert_eq!(fails(&module(said), ErrorKind::Script, "no luck").message(), "no luck");
    for (body, sentence) in [
        ("unreachable", "gave up"),
        ("(drop (i32.load (i32.const -4)))", "outside of its memory"),
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", "divided by zero"),
    ] {
        fails(&running(body), ErrorKind::Script, sentence);
    }
}

#[test]
fn a_failure_names_the_functions_that_were_under_way() {
    let nested = module(
        r#"(func $inner unreachable) (func $outer call $inner) (func $entry (export "run") call $outer)"#,
    );
    let error = fails(&nested, ErrorKind::Script, "gave up");
    let frames = ["inner", "outer", "entry"].map(|name| format!("scripts/main.wat function {name}"));
    assert_eq!(error.traceback(), frames, "names survive the rewriting, and what was put in is not shown");
}

/// A run in a project with one file.
fn in_project(text: &str, input: Value, allow: &[&str]) -> metier_core::error::Result<Value> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "grüße\n").unwrap();
    let granted: Vec<Permission> = allow.iter().map(|text| text.parse().unwrap()).collect();
    let context = SkillContext::builder("test")
        .project(Files::open(folder.path()).unwrap())
        .permissions(Permissions::new(RequestedPermissions::All, granted, PathProtection::default()))
        .build();
    loaded(text).execute_with_context(input.into(), Some(&context)).map(|output| output.value)
}

/// Calls `read_file` with the input as its argument, as it is.
const READING: &str = r#"(func (export "run") (call $answer (call $read_file (call $input_offset))))"#;

#[test]
fn a_host_function_answers_with_its_value_or_its_error_as_text() {
    let answer = |input| in_project(&module(READING), input, &[]).unwrap();
    assert_eq!(answer(json!("a.txt")), json!({"ok": "grüße\n"}));
    let missing = answer(json!("b.txt"));
    assert_eq!(missing["error"]["kind"], json!("io"));
    let refused = answer(json!("../secret"));
    assert_eq!(refused["error"]["kind"], json!("outside-project"), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("outside"), "{refused}");
    let wrong = answer(json!(12));
    assert_eq!(wrong["error"]["kind"], json!("invalid-argument"));
}

#[test]
fn arguments_that_are_no_json_are_refused_and_not_fatal() {
    for (at, reason) in [
        ("(i64.const 0)", "path is missing"),
        ("(i64.const 12345)", "path is not the offset of a block"),
        ("(i64.const -1)", "path is not the offset of a block"),
        ("(call $text (i32.const 65529) (i32.const 4))", "path is not JSON: "),
        ("(call $text (i32.const 0) (i32.const 3))", "path is not UTF-8"),
    ] {
        let body = format!("(i32.store (i32.const 0) (i32.const -1)) (call $answer (call $read_file {at}))");
        let answer = in_project(&running(&body), Value::Null, &[]).unwrap();
        assert_eq!(answer["error"]["kind"], json!("invalid-argument"), "{answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(reason) && message.starts_with("read_file(path"), "{message}");
    }
}

#[test]
fn the_length_of_a_block_cannot_be_forged() {
    // Stock Extism keeps it before the block, and believes what it finds there.
    let forging = r#"(data (i32.const 0) "\22a.txt\22")
        (func (export "run") (local $path i64) (local $at i64)
            (local.set $path (call $text (i32.const 0) (i32.const 7)))
            (local.set $at (i64.const 64))
            (loop $next
                (call $store_u8 (i64.sub (local.get $path) (local.get $at)) (i32.const 0x7F))
                (local.set $at (i64.sub (local.get $at) (i64.const 1)))
                (br_if $next (i64.ne (local.get $at) (i64.const 0))))
            (if (i64.ne (call $length (local.get $path)) (i64.const 7)) (then unreachable))
            (call $answer (call $read_file (local.get $path))))"#;
    assert_eq!(in_project(&module(forging), Value::Null, &[]).unwrap(), json!({"ok": "grüße\n"}));
}

#[test]
fn an_error_of_the_host_handed_on_ends_the_run_as_that_error() {
    let handing_on = r#"(data (i32.const 0) "\22out/a.txt\22") (func (export "run") (result i32) (local $path i64)
        (local.set $path (call $text (i32.const 0) (i32.const 11)))
        (call $error_set (call $write (local.get $path) (local.get $path))) (i32.const 1))"#;
    let error = in_project(&module(handing_on), Value::Null, &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(error.message(), "failed to write out/a.txt: not permitted; grant write");
    assert_eq!(error.help(), Some("grant write"));
    let made_up = r#"(data (i32.const 0) "{\22error\22:{\22kind\22:\22denied\22,\22message\22:\22x\22}}")
        (func (export "run") (call $error_set (call $text (i32.const 0) (i32.const 39))))"#;
    assert_eq!(in_project(&module(made_up), Value::Null, &[]).unwrap_err().kind(), ErrorKind::Script);
}

#[test]
fn logs_land_in_the_log_of_the_run() {
    let logging = running("(call $log_warn (call $text (i32.const 65529) (i32.const 4))) (call $fine)");
    let context = SkillContext::builder("test").build();
    loaded(logging).execute_with_context(SkillInput::default(), Some(&context)).unwrap();
    let log: Vec<Value> = context.take_log().iter().map(|line| serde_json::to_value(line).unwrap()).collect();
    assert_eq!(log, [json!({"level": "warn", "message": "fine"})]);
}

#[test]
fn memory_outside_of_what_extism_gives_reads_as_zero_and_keeps_nothing() {
    let outside = running(
        "(call $store_u8 (i64.const 1000000) (i32.const 7))
        (call $store_u64 (i64.const -1) (i64.const 7))
        (if (call $load_u8 (i64.const 1000000)) (then unreachable))
        (if (i64.ne (call $load_u64 (i64.const 0x7fffffffffffffff)) (i64.const 0)) (then unreachable))
        (if (call $input_load_u8 (call $input_length)) (then unreachable))
        (call $fine)",
    );
    assert_eq!(run(&outside, json!("input")).unwrap(), json!("fine"));
}

/// Sends the input, an Extism request, and answers with the response's body.
const FETCHING: &str =
    r#"(func (export "run") (call $answer (call $http_request (call $input_offset) (i64.const 0))))"#;

/// A client that answers with the method, the URL and one header of each request.
struct Mirror;

impl HttpClient for Mirror {
    fn send(&self, _: &SkillContext, request: HttpRequest) -> metier_core::error::Result<HttpResponse> {
        let body = json!([request.method, request.url, request.headers, request.max_bytes]).to_string();
        Ok(HttpResponse::new(200, request.url, body))
    }
}

fn fetched(request: Value, grants: &[&str]) -> metier_core::error::Result<Value> {
    let granted: Vec<Permission> = grants.iter().map(|text| text.parse().unwrap()).collect();
    let mut providers = Providers::default();
    providers.http = Some(Arc::new(Mirror));
    let context = SkillContext::builder("test")
        .permissions(Permissions::new(RequestedPermissions::All, granted, PathProtection::default()))
        .providers(providers)
        .limits(Limits::default().output(4321))
        .build();
    let executor = loaded(module(FETCHING));
    executor.execute_with_context(request.into(), Some(&context)).map(|output| output.value)
}

#[test]
fn extisms_own_http_is_the_hosts_under_its_permission_and_limits() {
    let request = json!({"url": "http://a.test/x", "method": "put", "headers": {"x-a": "b"}});
    let answer = fetched(request.clone(), &["net:a.test"]).unwrap();
    assert_eq!(answer, json!(["PUT", "http://a.test/x", [["x-a", "b"]], 4321]));
    for grants in [&[][..], &["net:b.test"]] {
        let error = fetched(request.clone(), grants).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert_eq!(error.message(), "failed to reach a.test: not permitted; grant net:a.test");
    }
    for request in [json!(1), json!({}), json!({"url": "http://a.test", "body": "x"}), json!({"url": 1})] {
        let error = fetched(request, &["net"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
}

#[test]
fn nothing_of_one_run_is_there_in_the_next() {
    let counting = module(
        r#"(global $runs (mut i32) (i32.const 0))
        (table $t 1 funcref) (elem declare func $fine)
        (data (i32.const 0) "\22key\22")
        (func (export "run") (local $key i64)
            (local.set $key (call $text (i32.const 0) (i32.const 5)))
            (if (i32.or
                    (i32.or (i32.load (i32.const 1024)) (global.get $runs))
                    (i32.or (i32.ne (memory.size) (i32.const 1))
                            (i32.eqz (ref.is_null (table.get $t (i32.const 0))))))
                (then unreachable))
            (if (i64.ne (call $var_get (local.get $key)) (i64.const 0)) (then unreachable))
            (if (i64.ne (call $load_u64 (i64.const 640)) (i64.const 0)) (then unreachable))
            (call $var_set (call $text (i32.const 0) (i32.const 5)) (call $text (i32.const 0) (i32.const 5)))
            (drop (call $alloc (i64.const 2000)))
            (call $store_u64 (i64.const 640) (i64.const -1))
            (i32.store (i32.const 1024) (i32.const 7))
            (global.set $runs (i32.const 1))
            (table.set $t (i32.const 0) (ref.func $fine))
            (drop (memory.grow (i32.const 3)))
            (i32.store (i32.const 200000) (i32.const 7))
            (call $fine))"#,
    );
    let counting = counting.replace(
        "(call $load_u64 (i64.const 640))",
        "(block (result i64) (drop (call $alloc (i64.const 1000))) (call $load_u64 (i64.const 640)))",
    );
    let executor = loaded(counting);
    for round in 0..50 {
        let answer = executor.execute(SkillInput::default());
        assert_eq!(answer.unwrap_or_else(|error| panic!("run {round}: {error:?}")).value, json!("fine"));
    }
}

#[test]
fn the_contract_may_name_another_function() {
    let mut script = source(module(r#"(func (export "other") (call $fine))"#));
    script.function = Some("other".into());
    assert_eq!(load(&script).unwrap().execute(SkillInput::default()).unwrap().value, json!("fine"));
}
