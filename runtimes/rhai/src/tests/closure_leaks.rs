//! Tests of what runs leak: usually nothing; and if Rhai cannot free it, no more than one run may allocate.

use serde_json::{Value, json};

use super::script;
use metier_core::alloc_counter;
use metier_core::error::ErrorKind;
use metier_core::executor::SkillInput;
use metier_core::host::SkillContext;
use metier_core::policy::Limits;

/// The bytes that this thread leaks in a thousand runs, after a few to warm up; a run that fails ends the count.
fn retained_by(source: &str, runs: usize) -> (i64, Option<ErrorKind>) {
    let executor = script(source);
    let context = || SkillContext::builder("test").limits(Limits::default().memory(1 << 20)).build();
    let run = || executor.execute_with_context(SkillInput::from(json!({"a": [1, "x"]})), Some(&context()));
    for _ in 0..10 {
        let _ = run();
    }
    let before = alloc_counter::net_bytes();
    for _ in 0..runs {
        match run() {
            Err(error) if error.kind() == ErrorKind::Memory => {
                return (alloc_counter::net_bytes() - before, Some(error.kind()));
            }
            _ => {}
        }
    }
    (alloc_counter::net_bytes() - before, None)
}

#[test]
fn a_thousand_runs_leave_nothing_behind() {
    for source in [
        "input.a",
        "let list = []; for i in 0..100 { list.push(#{i: i, s: `text ${i}`}); } list",
        "let n = 0; let count = |x| { n += x; }; for i in 0..10 { count.call(i); } n",
        "let f = |x| x + 1; [1, 2, 3].map(f)",
        "throw \"no luck\"",
        "throw #{a: blob(10000)}",
        "fn f(n) { if n == 0 { throw [blob(1000)] } else { f(n - 1) } } f(10)",
        "try { ctx.read_file(\"x\") } catch (e) { e.message }",
        "ctx.read_file(\"x\")",
        "print(\"x\".to_upper()); exit([1, 2])",
        "|x| x",
    ] {
        assert_eq!(retained_by(source, 1000), (0, None), "{source}");
    }
}

/// A closure in a variable that it uses itself, the usual way to write an anonymous recursive function.
#[test]
fn closures_that_hold_themselves_are_released_at_the_end_of_a_run() {
    for source in [
        "let f = (); f = |n| if n == 0 { 0 } else { [f, n] }; 1",
        "let data = blob(10000); let f = 0; f = || [f, data]; 1",
        "let a = #{}; let f = || a; a = #{f: f, data: blob(10000)}; 1",
        "let a = 0; let b = 0; a = || b; b = || a; throw 1",
    ] {
        assert_eq!(retained_by(source, 1000), (0, None), "{source}");
    }
}

/// The variables of functions and blocks are gone when the run is over; what leaks with them is counted.
#[test]
fn what_cannot_be_released_ends_at_the_limit_of_one_run() {
    for source in [
        "fn leak() { let data = blob(10000); let f = 0; f = || [f, data]; } leak();",
        "{ let data = blob(10000); let f = 0; f = || [f, data]; }",
        "{ let data = blob(10000); let f = 0; f = || [f, data]; } throw data",
    ] {
        let (kept, ended) = retained_by(source, 1000);
        assert_eq!(ended, Some(ErrorKind::Memory), "{source}: {kept}");
        assert!((0..2 << 20).contains(&kept), "{source}: {kept}");
    }
}

#[test]
fn a_run_that_leaked_once_does_not_stop_the_next() {
    let executor = script("if input == 1 { let f = 0; f = || f; } input");
    for input in [1, 2, 1, 2] {
        assert_eq!(executor.execute(json!(input).into()).unwrap().value, Value::from(input));
    }
}
