//! The timeout of a request, and its only way to wait: until the work is done, the time is up, or the run is stopped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{ErrorKind, Result, SkillError};
use crate::host::memory::{HostMemory, HostMemoryReservation};
use crate::host::{RunContext, SkillContext};
use crate::policy::{CancelToken, StopCause};

/// The time of one request, redirects included.
#[derive(Clone, Debug)]
pub(super) struct RequestTimeout {
    cancel: CancelToken,
    deadline: Instant,
    /// The request's own limit, where it is shorter than the run's.
    request_limit: Option<Duration>,
    thread_limit: BlockingThreadLimit,
    memory: HostMemory,
}

/// How many threads wait for the system on behalf of requests. A lookup or a connection that nobody waits for any more
/// cannot be ended from outside; it ends by itself, and until then it counts here.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockingThreadLimit(Arc<AtomicUsize>);

/// Counts one waiting thread.
struct BlockingThreadPermit(BlockingThreadLimit);

/// No request takes longer.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);

impl RequestTimeout {
    /// The time a request of this run gets: its own limit or the run's, whichever ends first.
    pub(super) fn new(ctx: &SkillContext, own: Option<Duration>, thread_limit: &BlockingThreadLimit) -> Self {
        let run = ctx.limits().timeout.min(MAX_TIMEOUT);
        let own = own.filter(|own| *own < run);
        let until = Instant::now() + own.unwrap_or(run);
        let memory = ctx.host_memory().clone();
        Self {
            cancel: ctx.cancel().clone(),
            deadline: until,
            request_limit: own,
            thread_limit: thread_limit.clone(),
            memory,
        }
    }

    /// The time left, never zero; the error the request ends with when there is none.
    pub(super) fn remaining(&self) -> Result<Duration> {
        self.cancel.check()?;
        match self.deadline.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(self.timeout_error()),
            left => Ok(left),
        }
    }

    /// An empty reservation in the run's memory for the response.
    pub(super) fn empty_reservation(&self) -> HostMemoryReservation {
        self.memory.empty_reservation()
    }

    /// The token of the run.
    pub(super) fn cancel(&self) -> &CancelToken {
        &self.cancel
    }

    /// Runs work that cannot be interrupted on a thread of its own, and waits only until the timeout or the end of the run.
    pub(super) fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let (left, place) = (self.remaining()?, self.thread_limit.try_acquire()?);
        let (sender, receiver) = mpsc::channel();
        let stopped = sender.clone();
        let _heard = self.cancel.on_stop(move |_| drop(stopped.send(None)));
        let work = move || {
            let done = catch_unwind(AssertUnwindSafe(work)).ok();
            drop(place);
            drop(sender.send(done));
        };
        let thread = thread::Builder::new().name("metier-http".into()).spawn(work);
        thread.map_err(|error| SkillError::io("failed to start a thread", error))?;
        let done = receiver.recv_timeout(left).ok().flatten();
        self.remaining()?;
        done.ok_or_else(|| SkillError::new(ErrorKind::Io, "the lookup of a host failed"))
    }

    fn timeout_error(&self) -> SkillError {
        let Some(own) = self.request_limit else { return StopCause::Timeout.error() };
        let sentence = format!("the request took longer than its {} ms", own.as_millis());
        SkillError::new(ErrorKind::Io, sentence).with_help("raise timeout_ms")
    }
}

impl BlockingThreadLimit {
    const MAX_THREADS: usize = 64;

    fn try_acquire(&self) -> Result<BlockingThreadPermit> {
        let place = BlockingThreadPermit(self.clone());
        if self.0.fetch_add(1, Ordering::Relaxed) < Self::MAX_THREADS {
            return Ok(place);
        }
        let sentence = format!("{} lookups and connections are still without an answer", Self::MAX_THREADS);
        Err(SkillError::new(ErrorKind::Io, sentence).with_help("try again in a few seconds"))
    }
}

impl Drop for BlockingThreadPermit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(own: Option<Duration>, thread_limit: &BlockingThreadLimit) -> RequestTimeout {
        RequestTimeout::new(&SkillContext::builder("waits").build(), own, thread_limit)
    }

    #[test]
    fn threads_nobody_waits_for_are_bounded_and_make_room_when_they_end() {
        let (thread_limit, (release, hold)) = (BlockingThreadLimit::default(), mpsc::channel::<()>());
        let hold = Arc::new(std::sync::Mutex::new(hold));
        for _ in 0..BlockingThreadLimit::MAX_THREADS {
            let (short, hold) = (timeout(Some(Duration::from_millis(20)), &thread_limit), hold.clone());
            let error = short.run_blocking(move || drop(hold.lock().map(|hold| hold.recv()))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        }
        let refused = timeout(None, &thread_limit).run_blocking(|| ()).unwrap_err();
        assert!(refused.message().contains("without an answer"), "{refused}");
        drop(release);
        let started = Instant::now();
        while timeout(None, &thread_limit).run_blocking(|| ()).is_err() {
            assert!(started.elapsed() < Duration::from_secs(10));
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn work_that_panics_is_an_error_at_once() {
        let error = timeout(None, &BlockingThreadLimit::default())
            .run_blocking(|| panic!("on purpose"))
            .map(|(): ()| ())
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
    }
}
