//! A stop that arrives when its run has ended, and the engine of that run serves the next one.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "it is only called by tests")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::error::ErrorKind;
use crate::executor::{SkillExecutor, SkillInput};
use crate::host::{ClosureTools, Providers, SkillContext};
use crate::policy::{CancelToken, PathProtection, Permissions, RequestedPermissions};

/// The first run is cancelled, but its runtime hears of it only when the second run is under way.
pub fn check_late_stop(executor: &dyn SkillExecutor) {
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
