//! The async door: a run on a thread of its own, as a future any executor can poll.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Engine, Invocation, Outcome};
use crate::error::{ErrorKind, SkillError};
use crate::policy::CancelToken;

/// A run under way; see [`Engine::run_async`]. Dropping it cancels the run.
#[must_use = "a future runs when it is polled"]
pub struct Run {
    waiting: Option<(Engine, Invocation)>,
    cancel: CancelToken,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

impl Run {
    pub(super) fn new(engine: Engine, mut invocation: Invocation) -> Self {
        let cancel = invocation.cancel.child();
        invocation.cancel = cancel.clone();
        Self { waiting: Some((engine, invocation)), cancel, shared: Arc::default() }
    }

    fn start(engine: Engine, invocation: Invocation, shared: Arc<Mutex<Shared>>) -> std::io::Result<()> {
        let work = move || {
            let outcome = engine.run(invocation);
            // Whoever gets the outcome may end the process next; what the engine has to clean up comes first.
            drop(engine);
            let waker = {
                let mut shared = locked(&shared);
                shared.outcome = Some(outcome);
                shared.waker.take()
            };
            // A waker may poll at once, on this thread.
            if let Some(waker) = waker {
                waker.wake();
            }
        };
        std::thread::Builder::new().name("metier-run".into()).spawn(work).map(drop)
    }
}

impl Future for Run {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let waker = context.waker().clone();
        let replaced = locked(&self.shared).waker.replace(waker);
        drop(replaced);
        if let Some((engine, invocation)) = self.waiting.take() {
            let name = invocation.skill.clone();
            if let Err(source) = Self::start(engine, invocation, self.shared.clone()) {
                let error = SkillError::new(ErrorKind::Unavailable, "no thread could be started for the run");
                return Poll::Ready(Outcome::failed(name, error.with_source(source)));
            }
        }
        let outcome = locked(&self.shared).outcome.take();
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn locked(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
