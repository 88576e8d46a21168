//! Memory, tables, stack, output and operations.

use serde_json::{Value, json};

use super::{ECHO, limited, loaded, module, own, running};
use metier_core::error::ErrorKind;
use metier_core::policy::Limits;

const PAGE: u64 = 64 << 10;

/// Grows its memory by that many pages, in steps of one, and answers.
fn growing(pages: u32) -> String {
    module(&format!(
        r#"(func (export "run") (local $left i32) (local.set $left (i32.const {pages}))
        (loop $next
            (if (i32.eq (memory.grow (i32.const 1)) (i32.const -1)) (then unreachable))
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (br_if $next (local.get $left)))
        (call $fine))"#
    ))
}

#[test]
fn memory_is_exact_to_the_byte() {
    // One page from the beginning, nine more, 64 bytes for the input `null` and 64 for the answer.
    let needed = 10 * PAGE + 128;
    let executor = loaded(growing(9));
    assert_eq!(limited(&*executor, Value::Null, Limits::default().memory(needed)).unwrap(), json!("fine"));
    let error = limited(&*executor, Value::Null, Limits::default().memory(needed - 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert_eq!(error.message(), format!("the plug-in needed more than its {} bytes of memory", needed - 1));
    assert_eq!(limited(&*executor, Value::Null, Limits::default().memory(needed)).unwrap(), json!("fine"));
}

#[test]
fn whatever_grows_is_counted_into_the_same_budget() {
    let endless = |body: &str| running(&format!("(loop $again {body} (br $again))"));
    for text in [
        endless("(drop (memory.grow (i32.const 1)))"),
        endless("(drop (call $alloc (i64.const 1)))"),
        endless("(drop (call $alloc (i64.const 100000)))"),
        running("(drop (memory.grow (i32.const 65535)))"),
        running("(drop (call $alloc (i64.const -1)))"),
        running("(drop (call $alloc (i64.const 0x7fffffffffffffff)))"),
        module(
            r#"(table $t 0 funcref) (func (export "run") (drop (table.grow $t (ref.null func) (i32.const -1))))"#,
        ),
        module(
            r#"(table $t 0 externref) (func (export "run") (loop $again (drop (table.grow $t (ref.null extern) (i32.const 10000))) (br $again)))"#,
        ),
        module(
            r#"(func $f (param i32) (result i32) (memory.grow (local.get 0))) (func (export "run") (loop $again (drop (call $f (i32.const 16))) (br $again)))"#,
        ),
        module(
            r#"(global $n (mut i32) (i32.const 0))
            (func (export "run") (loop $again
                (i32.store (i32.const 0) (global.get $n))
                (global.set $n (i32.add (global.get $n) (i32.const 1)))
                (call $var_set (call $text (i32.const 0) (i32.const 4)) (call $text (i32.const 0) (i32.const 60000)))
                (br $again)))"#,
        ),
    ] {
        let error = limited(&*loaded(&text), Value::Null, Limits::default().memory(512 << 10)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory, "{}: {error:?}", own(&text));
    }
}

#[test]
fn a_plug_in_that_begins_too_large_does_not_run() {
    for (text, bytes) in [
        (r#"(module (memory 200) (func (export "run") unreachable))"#.to_owned(), 200 * PAGE),
        (r#"(module (table 1000000 funcref) (func (export "run") unreachable))"#.to_owned(), 8_000_000),
    ] {
        let executor = loaded(&text);
        let run =
            |memory| limited(&*executor, Value::Null, Limits::default().memory(memory)).unwrap_err().kind();
        assert_eq!((run(bytes - 1), run(bytes + 64)), (ErrorKind::Memory, ErrorKind::Script), "{text}");
    }
    let huge = loaded(r#"(module (memory 65536) (func (export "run") unreachable))"#);
    assert_eq!(limited(&*huge, Value::Null, Limits::default()).unwrap_err().kind(), ErrorKind::Memory);
    let executor = loaded(module(ECHO));
    let large = json!("x".repeat(2 << 20));
    let error = limited(&*executor, large, Limits::default().memory(1 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory, "the input counts as well");
}

#[test]
fn what_did_not_grow_is_not_counted() {
    let text = r#"(module (memory 1 2)
        (func (export "run") (local $left i32) (local.set $left (i32.const 1000))
            (loop $next
                (drop (memory.grow (i32.const 50)))
                (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                (br_if $next (local.get $left)))))"#;
    let error = limited(&*loaded(text), Value::Null, Limits::default().memory(4 << 20)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOutput, "{error:?}");
}

#[test]
fn calls_nested_too_deep_are_a_failure_of_the_script() {
    let deep = module(
        r#"(func $f (param i32) (call $f (local.get 0)) (call $f (local.get 0))) (func (export "run") (call $f (i32.const 1)))"#,
    );
    let executor = loaded(&deep);
    for _ in 0..3 {
        let error = executor.execute(Value::Null.into()).unwrap_err();
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Script, "the plug-in's calls are nested too deep")
        );
        assert!((1..=12).contains(&error.traceback().len()), "{:?}", error.traceback());
    }
}

#[test]
fn an_output_over_the_cap_is_not_even_parsed() {
    let executor = loaded(module(ECHO));
    let run = |length: usize| limited(&*executor, json!("x".repeat(length)), Limits::default().output(100));
    assert_eq!(run(98).unwrap(), json!("x".repeat(98)));
    assert_eq!(run(99).unwrap_err().kind(), ErrorKind::Output);
}

#[test]
fn a_full_log_ends_the_run() {
    let flooding = "(loop $again (call $log_warn (call $text (i32.const 0) (i32.const 1000))) (br $again))";
    let error =
        limited(&*loaded(running(flooding)), Value::Null, Limits::default().output(200_000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Output, "{error:?}");
}

#[test]
fn operations_are_counted_where_a_limit_is_set() {
    let executor = loaded(running("(loop $again (br $again))"));
    for count in [1, 10, 1_000_000] {
        let error = limited(&*executor, Value::Null, Limits::default().operations(count)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Operations, "{count}: {error:?}");
    }
    let executor = loaded(module(ECHO));
    assert_eq!(limited(&*executor, json!(1), Limits::default().operations(1_000_000)).unwrap(), json!(1));
}

#[test]
fn what_sending_a_body_takes_is_counted_before_it_is_sent() {
    const LENGTH: u64 = 1_000_000;
    let text = module(&format!(
        r#"(data (i32.const 0) "{{\22url\22:\22http://a.test\22}}")
        (func (export "run")
            (drop (call $http_request (call $text (i32.const 0) (i32.const 23)) (call $alloc (i64.const {LENGTH})))))"#
    ));
    let executor = loaded(&text);
    // The memory, the body itself, and a little for the input and the request.
    let limit = |copies| {
        let limits = Limits::default().memory(PAGE + LENGTH + copies * LENGTH + 10_000);
        limited(&*executor, Value::Null, limits).unwrap_err().kind()
    };
    assert_eq!((limit(2), limit(3)), (ErrorKind::Memory, ErrorKind::Denied));
}
