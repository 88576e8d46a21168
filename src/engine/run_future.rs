//! A run on a thread of its own, as a future that any executor can poll.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::{Engine, Invocation, Outcome};
use crate::engine::run_queue::{PlaceWait, RunPlace};
use crate::engine::thread_future::{ThreadResult, thread_error};
use metier_core::error::Result;
use metier_core::host::works_for_run;
use metier_core::policy::CancelToken;

/// A run in progress; see [`Engine::run_async`]. Dropping it cancels the run.
#[must_use = "a future runs when it is polled"]
pub struct RunFuture {
    pending_run: PendingRun,
    outcome: ThreadResult<Outcome>,
}

/// A run that may have to wait for its place before it gets a thread. Dropping it cancels the run.
pub(super) struct PendingRun {
    call: Option<(Engine, Invocation)>,
    cancel: CancelToken,
    /// Absent for a run that belongs to another one.
    wait: Option<PlaceWait>,
}

/// What a run starts with.
pub(super) struct ReadyRun {
    pub(super) engine: Engine,
    pub(super) invocation: Invocation,
    /// Why it does not run, or its place; without a bound there are no places.
    pub(super) place: Result<Option<RunPlace>>,
}

impl Engine {
    /// Runs a skill on a thread of its own; the future works on every executor, current-thread tokio included.
    ///
    /// Nothing starts before the first poll, and dropping the future cancels the run.
    pub fn run_async(&self, invocation: Invocation) -> RunFuture {
        RunFuture::new(self.clone(), invocation)
    }
}

impl PendingRun {
    pub(super) fn new(engine: Engine, mut invocation: Invocation) -> Self {
        let cancel = invocation.cancel.child();
        invocation.cancel = cancel.clone();
        let waits = engine.0.run_queue.is_some() && !works_for_run();
        Self { call: Some((engine, invocation)), cancel, wait: waits.then(PlaceWait::default) }
    }

    /// The run, once, when it may start.
    pub(super) fn poll(&mut self, waker: &Waker) -> Option<ReadyRun> {
        let (engine, _) = self.call.as_ref()?;
        let place = match (&engine.0.run_queue, &mut self.wait) {
            (Some(queue), Some(wait)) => match wait.poll(queue, &self.cancel, waker) {
                Poll::Ready(place) => place.map(Some),
                Poll::Pending => return None,
            },
            _ => Ok(None),
        };
        let (engine, invocation) = self.call.take()?;
        Some(ReadyRun { engine, invocation, place })
    }
}

impl PendingRun {
    pub(super) fn cancel(&self) {
        self.cancel.cancel();
    }
}

impl Drop for PendingRun {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl RunFuture {
    pub(super) fn new(engine: Engine, invocation: Invocation) -> Self {
        Self { pending_run: PendingRun::new(engine, invocation), outcome: ThreadResult::default() }
    }
}

impl Future for RunFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        if let Some(ReadyRun { engine, invocation, place }) = self.pending_run.poll(context.waker()) {
            let place = match place {
                Ok(place) => place,
                Err(error) => return Poll::Ready(engine.0.refuse(&invocation, error)),
            };
            let name = invocation.skill.clone();
            let work = move || {
                let outcome = engine.0.run(invocation);
                drop(place);
                // The receiver of the outcome may exit the process next, so the engine cleans up first.
                drop(engine);
                outcome
            };
            let failed = {
                let name = name.clone();
                move |error| Outcome::failed(name, error)
            };
            if let Err(source) = self.outcome.start(work, failed) {
                return Poll::Ready(Outcome::failed(name, thread_error("the run", source)));
            }
        }
        self.outcome.poll(context.waker())
    }
}
