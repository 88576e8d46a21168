//! A bound on the runs of an engine that are in progress at a time. Further runs wait in the order of their arrival.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::{self, Thread};

use metier_core::error::Result;
use metier_core::policy::{CancelToken, StopGuard};

/// The places for runs, and those that wait for one.
pub(super) struct RunQueue(Arc<Mutex<QueueState>>);

struct QueueState {
    free_places: usize,
    next_ticket: u64,
    /// In the order of arrival, which is that of the tickets.
    waiting: VecDeque<(u64, Option<Waker>)>,
    /// Tickets that have a place and have not taken it yet.
    admitted: BTreeSet<u64>,
}

/// The place of one run in progress. Dropping it gives it to the next.
pub(super) struct RunPlace(Arc<Mutex<QueueState>>);

/// A position in the queue. Dropping it leaves the queue.
struct Ticket {
    queue: Arc<Mutex<QueueState>>,
    number: u64,
}

/// The wait of one run for its place. Dropping it leaves the queue.
#[derive(Default)]
pub(super) struct PlaceWait {
    ticket: Option<Ticket>,
    on_stop: Option<StopGuard>,
}

impl RunQueue {
    pub(super) fn new(max: usize) -> Self {
        Self(Arc::new(Mutex::new(QueueState {
            free_places: max.max(1),
            next_ticket: 0,
            waiting: VecDeque::new(),
            admitted: BTreeSet::new(),
        })))
    }

    /// Waits on this thread. Fails when the token stops first.
    pub(super) fn wait(&self, cancel: &CancelToken) -> Result<RunPlace> {
        let waker = Waker::from(Arc::new(ThreadWaker(thread::current())));
        let mut wait = PlaceWait::default();
        loop {
            match wait.poll(self, cancel, &waker) {
                Poll::Ready(place) => return place,
                Poll::Pending => thread::park(),
            }
        }
    }

    fn enter(&self) -> Ticket {
        let mut state = lock(&self.0);
        let number = state.next_ticket;
        state.next_ticket += 1;
        if state.free_places > 0 {
            state.free_places -= 1;
            state.admitted.insert(number);
        } else {
            state.waiting.push_back((number, None));
        }
        drop(state);
        Ticket { queue: self.0.clone(), number }
    }
}

impl PlaceWait {
    /// The place once it is this run's turn. Fails when the token stops first.
    pub(super) fn poll(
        &mut self,
        queue: &RunQueue,
        cancel: &CancelToken,
        waker: &Waker,
    ) -> Poll<Result<RunPlace>> {
        let ticket = self.ticket.get_or_insert_with(|| queue.enter());
        if let Some(place) = ticket.take_place(waker) {
            *self = Self::default();
            return Poll::Ready(Ok(place));
        }
        let stopped = waker.clone();
        // The listener is called at once if the token has stopped already.
        self.on_stop = Some(cancel.on_stop(move |_| stopped.wake()));
        if let Err(error) = cancel.check() {
            *self = Self::default();
            return Poll::Ready(Err(error));
        }
        Poll::Pending
    }
}

impl Ticket {
    /// The place, if there is one; otherwise the waker is called when there is.
    fn take_place(&self, waker: &Waker) -> Option<RunPlace> {
        let mut state = lock(&self.queue);
        if state.admitted.remove(&self.number) {
            return Some(RunPlace(self.queue.clone()));
        }
        let replaced = match state.waiting.binary_search_by_key(&self.number, |(number, _)| *number) {
            Ok(at) => state.waiting[at].1.replace(waker.clone()),
            Err(_) => None,
        };
        drop(state);
        drop(replaced);
        None
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = lock(&self.queue);
        let at = state.waiting.binary_search_by_key(&self.number, |(number, _)| *number);
        let left = at.ok().and_then(|at| state.waiting.remove(at));
        let next = if state.admitted.remove(&self.number) { state.free_place() } else { None };
        drop(state);
        drop(left);
        wake(next);
    }
}

impl Drop for RunPlace {
    fn drop(&mut self) {
        let next = lock(&self.0).free_place();
        wake(next);
    }
}

impl QueueState {
    /// Gives a place to the next, and returns its waker.
    fn free_place(&mut self) -> Option<Waker> {
        let Some((number, waker)) = self.waiting.pop_front() else {
            self.free_places += 1;
            return None;
        };
        self.admitted.insert(number);
        waker
    }
}

/// A waker may poll immediately, on this thread, so it is called outside of the lock.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Wakes a thread that waits.
struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn lock(state: &Mutex<QueueState>) -> MutexGuard<'_, QueueState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
