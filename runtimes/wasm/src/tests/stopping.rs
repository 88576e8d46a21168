//! Deadlines and cancels: before, within and after a run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{limited, loaded, module, own, running, within};
use metier_core::error::ErrorKind;
use metier_core::executor::SkillInput;
use metier_core::host::SkillContext;
use metier_core::policy::CancelToken;

const DEADLINE: Duration = Duration::from_millis(200);

#[test]
fn every_place_where_a_plug_in_may_stay_for_ever_is_behind_the_deadline() {
    let forever = "(func $forever (loop $again (br $again)))";
    let fine = r#"(func (export "run") (call $fine))"#;
    for text in [
        module(&format!(r#"{forever} (func (export "run") (call $forever))"#)),
        module(&format!("{forever} (start $forever) {fine}")),
        module(&format!(r#"{forever} (export "_initialize" (func $forever)) {fine}"#)),
        module(&format!(r#"{forever} (export "__wasm_call_ctors" (func $forever)) {fine}"#)),
        module(&format!(r#"(func (export "hs_init") (param i32 i32) (loop $again (br $again))) {fine}"#)),
        module(&format!(
            r#"{forever} (export "_initialize" (func $forever)) (func (export "hs_init") (param i32 i32)) {fine}"#
        )),
        running("(loop $again (drop (call $read_file (i64.const 0))) (br $again))"),
        running("(loop $again (call $free (call $alloc (i64.const 100))) (br $again))"),
    ] {
        let executor = loaded(&text);
        let started = Instant::now();
        let error = limited(&*executor, Value::Null, within(DEADLINE)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{}: {error:?}", own(&text));
        assert!(started.elapsed() < DEADLINE + Duration::from_millis(500), "{:?}", started.elapsed());
    }
}

#[test]
fn what_makes_ready_runs_once_and_in_extisms_order() {
    let note = |name: &str, params: &str, digit: u32, results: &str| {
        format!(
            r#"(func (export "{name}") {params} {results}
            (global.set $order (i32.add (i32.mul (global.get $order) (i32.const 10)) (i32.const {digit})))
            {})"#,
            if results.is_empty() { "" } else { "(i32.const 0)" }
        )
    };
    let text = |parts: &str| {
        module(&format!(
            r#"(global $order (mut i32) (i32.const 0))
            (func $start (global.set $order (i32.add (i32.mul (global.get $order) (i32.const 10)) (i32.const 1))))
            (start $start) {parts}
            (func (export "run")
                (i32.store8 (i32.const 0) (i32.add (i32.const 48) (i32.div_u (global.get $order) (i32.const 100))))
                (i32.store8 (i32.const 1) (i32.add (i32.const 48) (i32.rem_u (i32.div_u (global.get $order) (i32.const 10)) (i32.const 10))))
                (i32.store8 (i32.const 2) (i32.add (i32.const 48) (i32.rem_u (global.get $order) (i32.const 10))))
                (i32.store8 (i32.const 3) (i32.const 34))
                (i32.store8 (i32.const 4) (i32.const 34))
                (call $answer (call $text (i32.const 4) (i32.const 1)))
                (memory.copy (i32.const 5) (i32.const 0) (i32.const 4))
                (call $answer (call $text (i32.const 4) (i32.const 5))))"#
        ))
    };
    let (reactor, constructors) = (note("_initialize", "", 2, ""), note("__wasm_call_ctors", "", 3, ""));
    let haskell = note("hs_init", "(param i32 i32)", 4, "(result i32)");
    let odd = note("__wasm_call_ctors", "(param i32)", 5, "");
    for (parts, order) in [
        (String::new(), "001"),
        (reactor.clone(), "012"),
        (format!("{reactor}{constructors}"), "013"),
        (format!("{reactor}{constructors}{haskell}"), "124"),
        (format!("{constructors}{haskell}"), "014"),
        (format!("{reactor}{odd}"), "001"),
    ] {
        let executor = loaded(text(&parts));
        for _ in 0..2 {
            assert_eq!(executor.execute(SkillInput::default()).unwrap().value, json!(order), "{parts}");
        }
    }
}

#[test]
fn a_token_that_stopped_before_ends_the_run_at_once() {
    let executor = loaded(running("(loop $again (br $again))"));
    let token = CancelToken::new();
    token.cancel();
    let context = SkillContext::builder("test").cancel(token).build();
    let error = executor.execute_with_context(SkillInput::default(), Some(&context)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[test]
fn a_cancel_at_any_moment_stops_the_run_and_only_that_run() {
    let executor = loaded(module(
        r#"(func (export "run")
            (if (i32.eq (call $input_load_u8 (i64.const 0)) (i32.const 34)) (then (call $fine) (return)))
            (loop $again (br $again)))"#,
    ));
    for round in 0..200_u64 {
        let token = CancelToken::new();
        let context = SkillContext::builder("test").cancel(token.clone()).build();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(round * 10));
            token.cancel();
        });
        let error = executor.execute_with_context(json!(0).into(), Some(&context)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{round}");
        let again = executor.execute(json!("go").into());
        assert_eq!(again.unwrap_or_else(|error| panic!("{round}: {error:?}")).value, json!("fine"));
        canceller.join().unwrap();
    }
}

#[test]
fn a_plug_in_stopped_in_its_last_instructions_leaves_nothing_behind() {
    let executor = loaded(running("(call $fine)"));
    for round in 0..300_u64 {
        let token = CancelToken::new();
        let context = SkillContext::builder("test").cancel(token.clone()).build();
        let canceller = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(round * 3));
            token.cancel();
        });
        match executor.execute_with_context(SkillInput::default(), Some(&context)) {
            Ok(output) => assert_eq!(output.value, json!("fine")),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
        }
        assert_eq!(executor.execute(SkillInput::default()).unwrap().value, json!("fine"), "{round}");
        canceller.join().unwrap();
    }
}

/// A memory of so many pages, which is what a run is given.
fn large(pages: u32, body: &str) -> String {
    let memory = format!(r#"(memory (export "memory") {pages})"#);
    running(body).replace(r#"(memory (export "memory") 1)"#, &memory)
}

#[test]
fn one_instruction_on_much_memory_is_behind_the_deadline_too() {
    // Unoptimized, the engine takes a microsecond for each element of a table.
    let late = Duration::from_secs(if cfg!(debug_assertions) { 6 } else { 1 });
    let pages = 8192;
    let all = pages << 16;
    let half = all / 2;
    let table = |body: &str| {
        module(&format!(
            r#"(table $t 1000000 1000000 funcref) (func (export "run") (loop $again {body} (br $again)))"#
        ))
    };
    for text in [
        large(
            pages,
            &format!("(loop $again (memory.fill (i32.const 0) (i32.const 7) (i32.const {all})) (br $again))"),
        ),
        large(
            pages,
            &format!(
                "(loop $again (memory.copy (i32.const 0) (i32.const {half}) (i32.const {half})) (br $again))"
            ),
        ),
        large(
            pages,
            &format!(
                "(loop $again (memory.copy (i32.const 9) (i32.const 0) (i32.const {half})) (br $again))"
            ),
        ),
        table("(table.fill $t (i32.const 0) (ref.null func) (i32.const 1000000))"),
        table("(table.copy $t $t (i32.const 1) (i32.const 0) (i32.const 999999))"),
        running("(loop $again (call $free (call $alloc (i64.const 500000000))) (br $again))"),
        running(
            "(loop $again (drop (call $alloc (i64.const 1))) (call $free (call $alloc (i64.const 100))) (br $again))",
        ),
    ] {
        let executor = loaded(&text);
        let started = Instant::now();
        let limits = within(DEADLINE).memory(1 << 30);
        let error = limited(&*executor, Value::Null, limits).unwrap_err();
        let is_over = [ErrorKind::Timeout, ErrorKind::Memory].contains(&error.kind());
        assert!(is_over, "{}: {error:?}", own(&text));
        assert!(started.elapsed() < DEADLINE + late, "{:?}: {}", started.elapsed(), own(&text));
    }
}

#[test]
fn filling_and_copying_in_pieces_is_the_same_as_at_once() {
    // Every byte is told by where it was; all lengths around a piece, both ways, overlapping and not.
    let text = large(
        100,
        r"(local $at i32) (local $from i32) (local $to i32) (local $length i32) (local $case i32)
        (loop $cases
            (local.set $length (i32.add (i32.const 1048575) (i32.mul (local.get $case) (i32.const 524288))))
            (local.set $from (i32.const 1000000)) (local.set $to (i32.add (i32.const 999000) (i32.mul (local.get $case) (i32.const 400))))
            (local.set $at (i32.const 70000))
            (loop $each
                (i32.store (local.get $at) (i32.mul (local.get $at) (i32.const 0x9E3779B1)))
                (local.set $at (i32.add (local.get $at) (i32.const 4)))
                (br_if $each (i32.lt_u (local.get $at) (i32.const 6000000))))
            (memory.copy (local.get $to) (local.get $from) (local.get $length))
            (local.set $at (i32.const 0))
            (loop $each
                (if (i32.ne (i32.load8_u (i32.add (local.get $to) (local.get $at)))
                    (i32.and (i32.const 255) (i32.shr_u
                        (i32.mul (i32.and (i32.add (local.get $from) (local.get $at)) (i32.const -4)) (i32.const 0x9E3779B1))
                        (i32.mul (i32.const 8) (i32.and (i32.add (local.get $from) (local.get $at)) (i32.const 3))))))
                    (then unreachable))
                (local.set $at (i32.add (local.get $at) (i32.const 1)))
                (br_if $each (i32.lt_u (local.get $at) (local.get $length))))
            (memory.fill (local.get $to) (i32.const 5) (local.get $length))
            (if (i32.eq (i32.load8_u (i32.sub (local.get $to) (i32.const 1))) (i32.const 5)) (then (nop)))
            (local.set $at (i32.const 0))
            (loop $each
                (if (i32.ne (i32.load8_u (i32.add (local.get $to) (local.get $at))) (i32.const 5)) (then unreachable))
                (local.set $at (i32.add (local.get $at) (i32.const 1)))
                (br_if $each (i32.lt_u (local.get $at) (local.get $length))))
            (local.set $case (i32.add (local.get $case) (i32.const 1)))
            (br_if $cases (i32.lt_u (local.get $case) (i32.const 6))))
        (call $fine)",
    );
    let executor = loaded(&text);
    assert_eq!(limited(&*executor, Value::Null, within(Duration::from_mins(1))).unwrap(), json!("fine"));
}

#[test]
fn filling_and_copying_beyond_the_memory_writes_nothing() {
    let all = 100 << 16;
    for bulk in [
        format!("(memory.fill (i32.const 1) (i32.const 5) (i32.const {all}))"),
        "(memory.fill (i32.const 1) (i32.const 5) (i32.const -1))".to_owned(),
        format!("(memory.copy (i32.const 1) (i32.const 0) (i32.const {all}))"),
        format!("(memory.copy (i32.const 0) (i32.const 1) (i32.const {all}))"),
        "(memory.copy (i32.const 0) (i32.const -5) (i32.const 10))".to_owned(),
    ] {
        super::fails(&large(100, &bulk), ErrorKind::Script, "outside of its memory");
    }
}

#[test]
fn an_argument_is_counted_before_it_is_a_value() {
    // 48 MB of `0,0,0`: a hundred times as much as a value.
    let text = large(
        800,
        r"(local $block i64) (local $at i64) (local.set $block (call $alloc (i64.const 1000000)))
        (loop $next
            (call $store_u64 (i64.add (local.get $block) (local.get $at)) (i64.const 0x2C302C302C302C30))
            (local.set $at (i64.add (local.get $at) (i64.const 8)))
            (br_if $next (i64.lt_u (local.get $at) (i64.const 1000000))))
        (call $store_u8 (local.get $block) (i32.const 91))
        (drop (call $read_file (local.get $block)))
        (call $fine)",
    );
    let executor = loaded(&text);
    let limit = |bytes| limited(&*executor, Value::Null, within(Duration::from_mins(1)).memory(bytes));
    assert_eq!(limit(60 << 20).unwrap_err().kind(), ErrorKind::Memory);
    assert_eq!(limit(256 << 20).unwrap(), json!("fine"), "what is no JSON is refused, and the run goes on");
}
