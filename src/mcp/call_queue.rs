//! Limits how many calls run and how many wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};

use super::backlog::Backlog;
use crate::error::{ErrorKind, Result, SkillError};

/// Calls that may wait for others; of more, each is refused.
const MAX_WAITING: usize = 10_000;

/// The calls that run and those that wait.
pub(super) struct CallQueue {
    places: Semaphore,
    max_running: usize,
    waiting: AtomicUsize,
    backlog: Arc<Backlog>,
}

/// The place of a call among those that wait.
pub(super) struct Waiting<'a>(&'a CallQueue);

/// The place of a call among those that run.
pub(super) struct Running<'a>(
    #[expect(dead_code, reason = "held until the call has ended")] SemaphorePermit<'a>,
);

impl CallQueue {
    pub(super) fn new(max_running: usize, backlog: Arc<Backlog>) -> Self {
        Self { places: Semaphore::new(max_running), max_running, waiting: AtomicUsize::new(0), backlog }
    }

    /// A place among those that wait, or `unavailable` if too many do.
    pub(super) fn enter(&self) -> Result<Waiting<'_>> {
        let waiting = Waiting(self);
        if self.waiting.fetch_add(1, Ordering::AcqRel) < MAX_WAITING {
            return Ok(waiting);
        }
        let sentence = format!("the call is refused because {MAX_WAITING} others are waiting");
        Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help("call it again later"))
    }

    /// Waits until what was written before is read, as far as that is bounded.
    pub(super) async fn writable(&self) {
        self.backlog.writable().await;
    }

    /// Waits until no call runs and `cleaned_up` has ended, but not longer than the limit. No call begins any more.
    pub(super) async fn close(&self, cleaned_up: impl Future<Output = ()>, limit: Duration) {
        let max = u32::try_from(self.max_running).unwrap_or(u32::MAX);
        let ended = async {
            let places = self.places.acquire_many(max).await;
            cleaned_up.await;
            drop(places);
        };
        tokio::time::timeout(limit, ended).await.ok();
        self.places.close();
    }
}

impl<'a> Waiting<'a> {
    /// Waits for a place among those that run; `None` after the end of the server.
    pub(super) async fn turn(self) -> Option<Running<'a>> {
        self.0.writable().await;
        self.0.places.acquire().await.ok().map(Running)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}
