//! Limits how many calls run and how many wait. Callers take turns, so that no one of them keeps the others waiting.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};

use metier_core::error::{ErrorKind, Result, SkillError};

/// Calls of one caller that may wait for others; of more, each is refused.
const MAX_WAITING: usize = 10_000;

/// The calls that run and those that wait.
pub(super) struct CallQueue {
    turns: Mutex<Turns>,
    max_running: usize,
    is_idle: Notify,
}

struct Turns {
    /// By their numbers.
    callers: Vec<CallerTurns>,
    /// The caller that is looked at first when a place is free.
    next: usize,
    running: usize,
    is_closed: bool,
}

#[derive(Default)]
struct CallerTurns {
    running: usize,
    entered: usize,
    waiting: VecDeque<oneshot::Sender<Running>>,
}

/// The place of a call among those that wait.
pub(super) struct Waiting {
    queue: Arc<CallQueue>,
    caller: usize,
}

/// The place of a call among those that run.
pub(super) struct Running {
    /// `None` once the place was given back.
    queue: Option<Arc<CallQueue>>,
    caller: usize,
}

impl CallQueue {
    /// For callers with the numbers below `callers`.
    pub(super) fn new(max_running: usize, callers: usize) -> Arc<Self> {
        let callers = (0..callers.max(1)).map(|_| CallerTurns::default()).collect();
        let turns = Turns { callers, next: 0, running: 0, is_closed: false };
        Arc::new(Self { turns: Mutex::new(turns), max_running, is_idle: Notify::new() })
    }

    /// A place among those of this caller that wait, or `unavailable` if too many do.
    pub(super) fn enter(self: &Arc<Self>, caller: usize) -> Result<Waiting> {
        let mut turns = self.lock();
        let caller = caller.min(turns.callers.len() - 1);
        if turns.callers[caller].entered < MAX_WAITING {
            turns.callers[caller].entered += 1;
            return Ok(Waiting { queue: self.clone(), caller });
        }
        let sentence = format!("the call is refused because {MAX_WAITING} others are waiting");
        Err(SkillError::new(ErrorKind::Unavailable, sentence).with_help("call it again later"))
    }

    /// Waits until no call runs and `cleaned_up` has ended, but not longer than the limit. No call begins any more.
    pub(super) async fn close(&self, cleaned_up: impl Future<Output = ()>, limit: Duration) {
        {
            let mut turns = self.lock();
            turns.is_closed = true;
            for caller in &mut turns.callers {
                caller.waiting.clear();
            }
        }
        let ended = async {
            loop {
                let idle = self.is_idle.notified();
                if self.lock().running == 0 {
                    break;
                }
                idle.await;
            }
            cleaned_up.await;
        };
        tokio::time::timeout(limit, ended).await.ok();
    }

    /// Takes a place, or waits for it.
    fn request(self: &Arc<Self>, caller: usize) -> Option<oneshot::Receiver<Running>> {
        let mut turns = self.lock();
        if turns.is_closed {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        turns.callers[caller].waiting.push_back(sender);
        self.fill(&mut turns);
        Some(receiver)
    }

    /// Gives free places to those that wait, a caller after the other.
    fn fill(self: &Arc<Self>, turns: &mut Turns) {
        let count = turns.callers.len();
        loop {
            let mut order = (0..count).map(|step| (turns.next + step) % count);
            let Some(caller) = order.find(|caller| turns.may_start(*caller, self.max_running)) else {
                return;
            };
            let Some(sender) = turns.callers[caller].waiting.pop_front() else { return };
            let running = Running { queue: Some(self.clone()), caller };
            match sender.send(running) {
                Ok(()) => {
                    turns.running += 1;
                    turns.callers[caller].running += 1;
                    turns.next = caller + 1;
                }
                // Nobody waits for it any more.
                Err(mut running) => running.queue = None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turns {
    /// Whether a call of this caller waits and has a place: one is kept for each caller that runs nothing, of at most half of them.
    fn may_start(&self, caller: usize, max_running: usize) -> bool {
        let own = &self.callers[caller];
        if own.waiting.is_empty() || self.running >= max_running {
            return false;
        }
        let is_idle = |(other, turns): &(usize, &CallerTurns)| *other != caller && turns.running == 0;
        let kept = || self.callers.iter().enumerate().filter(is_idle).count().min(max_running / 2);
        own.running == 0 || self.running + kept() < max_running
    }
}

impl Waiting {
    /// Waits for a place among those that run; `None` after the end of the server.
    pub(super) async fn turn(self) -> Option<Running> {
        self.queue.request(self.caller)?.await.ok()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.queue.lock().callers[self.caller].entered -= 1;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(queue) = self.queue.take() else { return };
        let mut turns = queue.lock();
        turns.running -= 1;
        turns.callers[self.caller].running -= 1;
        if turns.running == 0 {
            queue.is_idle.notify_waiters();
        }
        queue.fill(&mut turns);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    type Turn = Pin<Box<dyn Future<Output = Option<Running>>>>;

    fn calls(queue: &Arc<CallQueue>, caller: usize, count: usize) -> Vec<Turn> {
        let enter = |_| Box::pin(queue.enter(caller).unwrap().turn()) as Turn;
        let mut turns: Vec<Turn> = (0..count).map(enter).collect();
        started(&mut turns).into_iter().for_each(std::mem::forget);
        turns
    }

    /// Those that have a place now.
    fn started(turns: &mut Vec<Turn>) -> Vec<Running> {
        let mut places = Vec::new();
        turns.retain_mut(|turn| match turn.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => {
                places.extend(place);
                false
            }
            Poll::Pending => true,
        });
        places
    }

    #[test]
    fn callers_take_turns_whoever_came_first() {
        let queue = CallQueue::new(1, 3);
        let mut busy = calls(&queue, 0, 0);
        busy.push(Box::pin(queue.enter(0).unwrap().turn()));
        let mut place = started(&mut busy);
        assert_eq!(place.len(), 1);
        let mut waiting = [calls(&queue, 0, 1_000), calls(&queue, 1, 2), calls(&queue, 2, 1)];
        let mut order = Vec::new();
        for _ in 0..6 {
            place.clear();
            for (caller, turns) in waiting.iter_mut().enumerate() {
                let mut found = started(turns);
                order.extend(found.iter().map(|_| caller));
                place.append(&mut found);
            }
        }
        assert_eq!(order, [1, 2, 0, 1, 0, 0]);
    }

    #[test]
    fn a_caller_leaves_a_place_to_each_that_runs_nothing() {
        for (max, callers, expected) in [(16, 1, 16), (16, 2, 15), (16, 3, 14), (16, 100, 8), (1, 2, 1)] {
            let queue = CallQueue::new(max, callers);
            let waiting = calls(&queue, 0, 40);
            assert_eq!(40 - waiting.len(), expected, "{max} {callers}");
            if callers > 1 && max > 1 {
                assert_eq!(calls(&queue, 1, 2).len(), 1, "{callers}");
            }
        }
    }

    #[test]
    fn a_caller_that_waits_too_often_refuses_itself_alone() {
        let queue = CallQueue::new(1, 2);
        let waiting: Vec<_> = (0..MAX_WAITING).map(|_| queue.enter(0).unwrap()).collect();
        assert_eq!(queue.enter(0).err().map(|error| error.kind()), Some(ErrorKind::Unavailable));
        assert!(queue.enter(1).is_ok());
        drop(waiting);
        assert!(queue.enter(0).is_ok());
    }

    #[test]
    fn a_call_that_is_given_up_leaves_its_place_to_the_next() {
        let queue = CallQueue::new(1, 1);
        let mut turns = calls(&queue, 0, 0);
        turns.push(Box::pin(queue.enter(0).unwrap().turn()));
        let place = started(&mut turns);
        let mut given_up = calls(&queue, 0, 2);
        let mut last = calls(&queue, 0, 1);
        given_up.pop();
        drop(place);
        // It has its place, and is dropped before it looks.
        drop(given_up);
        assert_eq!(started(&mut last).len(), 1);
    }
}
