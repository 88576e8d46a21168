//! Deadlines and cancels: before, within and after a run.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{limited, loaded, module, own, running, within};
use crate::error::ErrorKind;
use crate::executor::SkillInput;
use crate::host::SkillContext;
use crate::policy::CancelToken;

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
        assert_eq!(error.kind(), ErrorKind::Deadline, "{}: {error:?}", own(&text));
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
