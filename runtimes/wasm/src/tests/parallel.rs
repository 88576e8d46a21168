//! Tests of parallel runs on one loaded plug-in: stopping one run does not stop another.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{limited, loaded, module, within};
use metier_core::error::ErrorKind;

#[test]
fn endless_runs_are_stopped_and_long_ones_beside_them_never() {
    // `null` stays for ever; `"…"` counts to a billion or so before it answers.
    let executor = loaded(module(
        r#"(func (export "run") (local $left i64)
            (if (i32.ne (call $input_load_u8 (i64.const 0)) (i32.const 34))
                (then (loop $again (br $again))))
            (local.set $left (i64.const 100000000))
            (loop $next
                (local.set $left (i64.sub (local.get $left) (i64.const 1)))
                (br_if $next (i64.ne (local.get $left) (i64.const 0))))
            (call $fine))"#,
    ));
    let (answered, stopped) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let until = Instant::now() + Duration::from_secs(4);
    std::thread::scope(|scope| {
        for worker in 0..3_u64 {
            let (executor, stopped) = (&*executor, &stopped);
            scope.spawn(move || {
                while Instant::now() < until {
                    let deadline = Duration::from_millis(5 + worker * 7);
                    let error = limited(executor, Value::Null, within(deadline)).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::Timeout, "{error:?}");
                    stopped.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..3 {
            let (executor, answered) = (&*executor, &answered);
            scope.spawn(move || {
                while Instant::now() < until {
                    let answer = limited(executor, json!("long"), within(Duration::from_mins(1)));
                    assert_eq!(answer.unwrap_or_else(|error| panic!("killed: {error:?}")), json!("fine"));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let (answered, stopped) = (answered.into_inner(), stopped.into_inner());
    assert!(answered >= 3 && stopped >= 20, "{answered} answered, {stopped} stopped");
}
