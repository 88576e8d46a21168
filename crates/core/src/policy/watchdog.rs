//! Stops runs at their deadlines: one thread for any number of deadlines, which sleeps until the nearest one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::alloc_counter::can_start_thread;
use crate::policy::cancel::{CancelToken, StopCause};

/// Sets [`StopCause::Timeout`] on each armed token at its deadline. The thread starts with the first deadline and ends with the
/// watchdog.
#[derive(Default)]
pub struct Watchdog(Arc<WatchdogInner>);

#[derive(Default)]
struct WatchdogInner {
    state: Mutex<WatchdogState>,
    changed: Condvar,
}

#[derive(Default)]
struct WatchdogState {
    /// Sorted by when they are due. Most are added at the end and removed near one of the ends.
    deadlines: VecDeque<(DeadlineKey, ArmedToken)>,
    /// Where the deadlines are that stood still for a time, by what they were at first.
    postponed: BTreeMap<DeadlineKey, DeadlineKey>,
    next: u64,
    thread: ThreadState,
}

/// A deadline and its number, in the order in which they are due.
type DeadlineKey = (Instant, u64);

/// A token that is stopped at its deadline.
struct ArmedToken {
    token: CancelToken,
    /// The key that its guard knows.
    first: DeadlineKey,
    /// The pauses of the token for which the deadline was postponed, and those before it was armed.
    counted: Duration,
}

/// How often a deadline is looked at that is due while it stands still.
const PAUSE_TICK: Duration = Duration::from_millis(10);

impl ArmedToken {
    /// The time by which a deadline that is due now has to be postponed, because it stood still; `None` if not at all.
    fn postponement(&self) -> Option<Duration> {
        let (paused, is_paused) = self.token.paused_time();
        let missing = paused.saturating_sub(self.counted);
        let wait = if is_paused { missing.max(PAUSE_TICK) } else { missing };
        (!wait.is_zero()).then_some(wait)
    }
}

/// The state of the thread, so that arming a later deadline does not need to wake it.
#[derive(Default, PartialEq)]
enum ThreadState {
    #[default]
    NotStarted,
    Waiting(Option<Instant>),
    Stopped,
}

impl Watchdog {
    /// A watchdog without deadlines; it has no thread yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops `token` at `deadline` unless the returned guard is dropped first.
    pub fn arm(&self, deadline: Instant, token: &CancelToken) -> DeadlineGuard<'_> {
        let mut state = self.0.lock();
        let key = (deadline, state.next);
        state.next += 1;
        let counted = token.paused_time().0;
        state.insert(key, ArmedToken { token: token.clone(), first: key, counted });
        let is_held = match state.thread {
            ThreadState::NotStarted => self.start(),
            ThreadState::Waiting(_) => true,
            ThreadState::Stopped => false,
        };
        match state.thread {
            ThreadState::NotStarted if is_held => state.thread = ThreadState::Waiting(None),
            ThreadState::Waiting(nearest) if nearest.is_none_or(|nearest| deadline < nearest) => {
                self.0.changed.notify_one();
            }
            _ => {}
        }
        drop(state);
        if !is_held {
            // Without a thread the deadline cannot be enforced, and a run that cannot be stopped must not start.
            token.stop(StopCause::Timeout);
        }
        DeadlineGuard { shared: &self.0, key }
    }

    fn start(&self) -> bool {
        let shared = self.0.clone();
        let thread = std::thread::Builder::new().name("metier-watchdog".into());
        can_start_thread() && thread.spawn(move || shared.watch()).is_ok()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.lock().thread = ThreadState::Stopped;
        self.0.changed.notify_one();
    }
}

impl WatchdogState {
    /// Arms a token again that stood still for some time.
    fn postpone(&mut self, key: DeadlineKey, armed: ArmedToken, wait: Duration) {
        self.postponed.insert(armed.first, key);
        self.insert(key, ArmedToken { counted: armed.counted + wait, ..armed });
    }

    fn insert(&mut self, key: DeadlineKey, armed: ArmedToken) {
        let at = self.deadlines.partition_point(|(other, _)| *other < key);
        self.deadlines.insert(at, (key, armed));
    }

    fn remove(&mut self, key: DeadlineKey) -> Option<ArmedToken> {
        let at = self.deadlines.binary_search_by(|(other, _)| other.cmp(&key)).ok()?;
        self.deadlines.remove(at).map(|(_, armed)| armed)
    }
}

impl WatchdogInner {
    fn watch(&self) {
        let mut state = self.lock();
        while state.thread != ThreadState::Stopped {
            let now = Instant::now();
            let is_due = state.deadlines.front().is_some_and(|(key, _)| key.0 <= now);
            let due = if is_due { state.deadlines.pop_front() } else { None };
            if let Some(((deadline, number), armed)) = due {
                if let Some(wait) = armed.postponement() {
                    state.postpone((deadline + wait, number), armed, wait);
                    continue;
                }
                state.postponed.remove(&armed.first);
                let token = armed.token;
                // Listeners may remove deadlines, and so may dropping the last clone of a token: the lock is not held for either.
                drop(state);
                token.stop(StopCause::Timeout);
                drop(token);
                state = self.lock();
                continue;
            }
            let nearest = state.deadlines.front().map(|((deadline, _), _)| *deadline);
            state.thread = ThreadState::Waiting(nearest);
            state = match nearest {
                Some(deadline) => {
                    let wait = deadline.saturating_duration_since(now);
                    self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, WatchdogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A deadline that is armed until this guard is dropped.
#[must_use = "dropping the guard lifts the deadline"]
pub struct DeadlineGuard<'a> {
    shared: &'a WatchdogInner,
    key: DeadlineKey,
}

impl Drop for DeadlineGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        let key = state.postponed.remove(&self.key).unwrap_or(self.key);
        let lifted = state.remove(key);
        drop(state);
        drop(lifted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_nearest_deadline_fires_first_and_a_dropped_one_never() {
        let watchdog = Watchdog::new();
        let (far, near, lifted) = (CancelToken::new(), CancelToken::new(), CancelToken::new());
        let now = Instant::now();
        let _far = watchdog.arm(now + Duration::from_mins(10), &far);
        let _near = watchdog.arm(now + Duration::from_millis(30), &near);
        drop(watchdog.arm(now + Duration::from_millis(20), &lifted));
        let (sender, receiver) = std::sync::mpsc::channel();
        let _guard = near.on_stop(move |cause| sender.send(cause).unwrap_or_default());
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(StopCause::Timeout));
        assert_eq!((far.cause(), lifted.cause()), (None, None));
    }

    #[test]
    fn a_deadline_stands_still_while_its_token_or_one_below_is_paused() {
        let (watchdog, token) = (Watchdog::new(), CancelToken::new());
        let below = token.child().child();
        let (at, now) = (Duration::from_millis(60), Instant::now());
        let _armed = watchdog.arm(now + at, &token);
        let _sibling = watchdog.arm(now + at, &token.child());
        let lifted = watchdog.arm(now + at, &token);
        let outer = below.pause_deadlines();
        let inner = token.pause_deadlines();
        std::thread::sleep(Duration::from_millis(100));
        drop(inner);
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(token.cause(), None, "it stands still");
        drop(lifted);
        drop(outer);
        let paused = now.elapsed();
        while token.cause().is_none() {
            assert!(now.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(now.elapsed() >= at + Duration::from_millis(200), "{:?} {paused:?}", now.elapsed());
        let state = watchdog.0.lock();
        assert!(state.postponed.is_empty() && state.deadlines.is_empty());
    }

    #[test]
    fn ten_thousand_deadlines_are_held_by_one_thread() {
        let (watchdog, started) = (Watchdog::new(), Instant::now());
        let at = |number: u64| {
            started + Duration::from_millis(if number.is_multiple_of(2) { 50 } else { 600_000 })
        };
        let armed: Vec<_> = (0..10_000)
            .map(|number| {
                let token = CancelToken::new();
                (watchdog.arm(at(number), &token), token)
            })
            .collect();
        let due = || armed.iter().filter(|(_, token)| token.cause() == Some(StopCause::Timeout)).count();
        while due() < 5000 {
            assert!(started.elapsed() < Duration::from_secs(20), "{} of 5000", due());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(due(), 5000);
        drop(armed);
        assert!(watchdog.0.lock().deadlines.is_empty());
    }

    #[test]
    fn a_deadline_lifted_from_within_a_listener_does_not_hang_and_a_panic_there_ends_nothing() {
        // Listeners hold its guards, and are dropped by its thread.
        let watchdog: &'static Watchdog = Box::leak(Box::default());
        let (sender, receiver) = std::sync::mpsc::channel();
        let now = Instant::now();
        for number in 0..3 {
            let (token, sender) = (CancelToken::new(), sender.clone());
            let other = watchdog.arm(now + Duration::from_mins(10), &CancelToken::new());
            let own = watchdog.arm(now + Duration::from_millis(20), &token);
            let guard = token.on_stop(move |_| {
                drop((other, own));
                sender.send(number).unwrap_or_default();
                assert!(number != 0, "on purpose");
            });
            // The watchdog holds the last clone of the token, and with it the listener.
            std::mem::forget(guard);
        }
        let mut heard: Vec<i32> =
            (0..3).map(|_| receiver.recv_timeout(Duration::from_secs(10)).unwrap()).collect();
        heard.sort_unstable();
        assert_eq!(heard, [0, 1, 2]);
    }
}
