//! A run on a thread of its own, as a future that any executor can poll.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use super::{Engine, Invocation, Outcome};
use crate::error::{ErrorKind, SkillError};
use crate::policy::CancelToken;

/// A run in progress; see [`Engine::run_async`]. Dropping it cancels the run.
#[must_use = "a future runs when it is polled"]
pub struct RunFuture {
    pending_call: Option<(Engine, Invocation)>,
    cancel: CancelToken,
    outcome: Arc<Mutex<SharedOutcome>>,
}

#[derive(Default)]
struct SharedOutcome {
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

impl RunFuture {
    pub(super) fn new(engine: Engine, mut invocation: Invocation) -> Self {
        let cancel = invocation.cancel.child();
        invocation.cancel = cancel.clone();
        Self { pending_call: Some((engine, invocation)), cancel, outcome: Arc::default() }
    }

    fn start(
        engine: Engine,
        invocation: Invocation,
        shared: Arc<Mutex<SharedOutcome>>,
    ) -> std::io::Result<()> {
        let work = move || {
            let outcome = engine.run(invocation);
            // The receiver of the outcome may exit the process next, so the engine cleans up first.
            drop(engine);
            let waker = {
                let mut shared = lock_outcome(&shared);
                shared.outcome = Some(outcome);
                shared.waker.take()
            };
            // A waker may poll immediately, on this thread.
            if let Some(waker) = waker {
                waker.wake();
            }
        };
        std::thread::Builder::new().name("metier-run".into()).spawn(work).map(drop)
    }
}

impl Future for RunFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let waker = context.waker().clone();
        let replaced = lock_outcome(&self.outcome).waker.replace(waker);
        drop(replaced);
        if let Some((engine, invocation)) = self.pending_call.take() {
            let name = invocation.skill.clone();
            if let Err(source) = Self::start(engine, invocation, self.outcome.clone()) {
                let error = SkillError::new(ErrorKind::Unavailable, "no thread could be started for the run");
                return Poll::Ready(Outcome::failed(name, error.with_source(source)));
            }
        }
        let outcome = lock_outcome(&self.outcome).outcome.take();
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for RunFuture {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn lock_outcome(shared: &Mutex<SharedOutcome>) -> MutexGuard<'_, SharedOutcome> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
