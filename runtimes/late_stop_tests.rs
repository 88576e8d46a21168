//! A stop that arrives when its run has ended, and the engine of that run serves the next one.
#![cfg(any(feature = "lua-runtime", feature = "rhai-runtime"))]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::ErrorKind;
use crate::executor::{Script, SkillExecutor, SkillInput};
use crate::host::{ClosureTools, Providers, SkillContext};
use crate::policy::{CancelToken, PathProtection, Permissions, RequestedPermissions};

/// The first run is cancelled, but its runtime hears of it only when the second run is under way.
fn check_late_stop(executor: &dyn SkillExecutor) {
    let (begins, has_begun) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let token = CancelToken::new();
    // Listeners are called in the order of their registration, and this one is the first.
    let _slow = token.on_stop(move |_| {
        begins.send(()).unwrap();
        released.recv().unwrap();
    });
    let (calls, canceller) = (AtomicUsize::new(0), token.clone());
    let (has_begun, release) = (std::sync::Mutex::new(has_begun), std::sync::Mutex::new(release));
    let tools = ClosureTools::new().tool("next", "What happens next", json!({}), move |_, _| {
        if calls.fetch_add(1, Ordering::SeqCst) == 0 {
            let canceller = canceller.clone();
            std::thread::spawn(move || canceller.cancel());
            has_begun.lock().unwrap().recv().unwrap();
        } else {
            release.lock().unwrap().send(()).unwrap();
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Value::Null)
    });
    let providers = Providers { tools: Some(std::sync::Arc::new(tools)), ..Providers::default() };
    let run = |token: CancelToken| {
        let tool = "tool:next".parse().unwrap();
        let permissions = Permissions::new(
            RequestedPermissions::All,
            [tool],
            PathProtection::new(std::iter::empty::<String>()),
        );
        let context = SkillContext::builder("test").providers(providers.clone()).permissions(permissions);
        executor.execute_with_context(SkillInput::default(), Some(&context.cancel(token).build()))
    };
    assert_eq!(run(token).unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(run(CancelToken::new()).unwrap().value, json!(2_001_000));
}

fn script(path: &str, source: &str) -> Script {
    let source = source.as_bytes().into();
    Script { skill: "test".into(), path: path.into(), folder: None, source, function: None }
}

#[test]
#[cfg(feature = "lua-runtime")]
fn a_late_stop_of_a_lua_run_does_not_stop_the_next() {
    let source = "ctx.tool('next', {}) local sum = 0 for i = 1, 2000 do sum += i end return sum";
    check_late_stop(&*super::lua::load(&script("main.lua", source)).unwrap());
}

#[test]
#[cfg(feature = "rhai-runtime")]
fn a_late_stop_of_a_rhai_run_does_not_stop_the_next() {
    let source = "ctx.tool(\"next\", #{}); let sum = 0; for i in 1..=2000 { sum += i; } sum";
    check_late_stop(&*super::rhai::load(&script("main.rhai", source), &CancelToken::new()).unwrap());
}
