//! The cancel token that stops a run: set once, with its cause, by the caller or by the deadline.

use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::error::{ErrorKind, Hint, LimitKind, Result, SkillError};

/// Why a run was stopped. In JSON its name: `cancelled`, `timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StopCause {
    /// The caller cancelled it.
    Cancelled,
    /// Its deadline passed.
    Timeout,
}

/// Stops the work that was started with it. Clones share one signal; a cancelled token stays cancelled.
#[derive(Clone, Default)]
pub struct CancelToken(Arc<CancelState>);

#[derive(Default)]
struct CancelState {
    cause: AtomicU8,
    next: AtomicU64,
    listeners: Mutex<Vec<(u64, Listener)>>,
    parent: Mutex<Option<ParentLink>>,
    pauses: Mutex<Pauses>,
    /// Whether there has been a pause; most tokens have none.
    was_paused: AtomicBool,
}

/// What a child token holds of its parent, so that it hears of a stop further up although nobody else holds the parent.
struct ParentLink {
    _guard: StopGuard,
    token: Arc<CancelState>,
}

/// How long the deadlines of a token have stood still.
#[derive(Default)]
struct Pauses {
    /// How many of them there are now, and since when.
    active: usize,
    since: Option<Instant>,
    /// The time of those that have ended.
    total: Duration,
}

type Listener = Box<dyn FnOnce(StopCause) + Send>;

const NO_CAUSE: u8 = 0;

/// The bit in the id of a listener that is called after those that stop the work.
const AFTER_WORK: u64 = 1 << 62;

/// The bit in the id of a listener that is called after all others.
const LAST: u64 = 1 << 63;

impl CancelToken {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stops everything that runs under this token, and everything started under it later.
    pub fn cancel(&self) {
        self.stop(StopCause::Cancelled);
    }

    /// Whether [`cancel`](Self::cancel) was called here or on a parent.
    pub fn is_cancelled(&self) -> bool {
        self.cause() == Some(StopCause::Cancelled)
    }

    /// Why the run was stopped, or `None` while it may continue. One atomic load.
    pub fn cause(&self) -> Option<StopCause> {
        cause_from_code(self.0.cause.load(Ordering::Acquire))
    }

    /// A child token: it stops with this one and can also be stopped alone.
    pub fn child(&self) -> Self {
        let child = Self::new();
        let weak = Arc::downgrade(&child.0);
        let guard = self.on_stop(move |cause| {
            if let Some(signal) = weak.upgrade() {
                Self(signal).stop(cause);
            }
        });
        *lock(&child.0.parent) = Some(ParentLink { _guard: guard, token: self.0.clone() });
        child
    }

    /// Calls `listener` once when the token stops, at once if it already has. Dropping the guard removes the listener.
    ///
    /// It is called on the thread that stops the token, so it must be short and must not block. If a listener panics, the others
    /// are still called.
    pub fn on_stop(&self, listener: impl FnOnce(StopCause) + Send + 'static) -> StopGuard {
        self.add_listener(0, listener)
    }

    /// The same, after the listeners that stop the work, also those that are added later: for whoever waits for it. What ends with the
    /// wait, maybe the whole process, cannot end before the work was stopped.
    pub(crate) fn on_stop_after_work(&self, listener: impl FnOnce(StopCause) + Send + 'static) -> StopGuard {
        self.add_listener(AFTER_WORK, listener)
    }

    fn add_listener(&self, order: u64, listener: impl FnOnce(StopCause) + Send + 'static) -> StopGuard {
        let id = order | self.0.next.fetch_add(1, Ordering::Relaxed);
        let mut listeners = lock(&self.0.listeners);
        match self.cause() {
            Some(cause) => {
                drop(listeners);
                listener(cause);
            }
            None => listeners.push((id, Box::new(listener))),
        }
        StopGuard { signal: Arc::downgrade(&self.0), id }
    }

    /// Waits until the token stops, and returns the cause. For futures that should end with a run; works on every executor.
    ///
    /// ```
    /// # use metier_core as metier;
    /// use metier::policy::{CancelToken, StopCause};
    ///
    /// # async fn wait() {
    /// let token = CancelToken::new();
    /// token.cancel();
    /// assert_eq!(token.cancelled().await, StopCause::Cancelled);
    /// # }
    /// ```
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { token: self.clone(), waker: Arc::default(), guard: None }
    }

    /// Until the guard is dropped, the deadlines of this token and of its parents stand still.
    pub(crate) fn pause_deadlines(&self) -> PauseGuard {
        let mut tokens = vec![self.0.clone()];
        while let Some(parent) = tokens.last().and_then(|token| token.parent()) {
            tokens.push(parent);
        }
        let now = Instant::now();
        for token in &tokens {
            token.was_paused.store(true, Ordering::Release);
            let mut pauses = lock(&token.pauses);
            pauses.since.get_or_insert(now);
            pauses.active += 1;
        }
        PauseGuard(tokens)
    }

    /// How long the deadlines of this token have stood still until now, and whether they do now.
    pub(super) fn paused_time(&self) -> (Duration, bool) {
        if !self.0.was_paused.load(Ordering::Acquire) {
            return (Duration::ZERO, false);
        }
        let pauses = lock(&self.0.pauses);
        let current = pauses.since.map_or(Duration::ZERO, |since| since.elapsed());
        (pauses.total + current, pauses.active > 0)
    }

    /// Sets the signal; the first cause stays.
    pub(crate) fn stop(&self, cause: StopCause) {
        let mut listeners = lock(&self.0.listeners);
        if self
            .0
            .cause
            .compare_exchange(NO_CAUSE, cause_to_code(cause), Ordering::AcqRel, Ordering::Acquire)
            .is_err()
        {
            return;
        }
        let mut notified = std::mem::take(&mut *listeners);
        drop(listeners);
        notified.sort_unstable_by_key(|(id, _)| *id);
        for (_, listener) in notified {
            if catch_unwind(AssertUnwindSafe(|| listener(cause))).is_err() {
                tracing::error!("a listener panicked when its run was stopped");
            }
        }
    }

    /// The error of a stopped run, or `Ok` while it may continue. Long loops of host functions check this.
    pub fn check(&self) -> Result<()> {
        self.cause().map_or(Ok(()), |cause| Err(cause.error()))
    }
}

/// Like [`CancelToken::on_stop`], after all other listeners: for code that may take long.
pub fn on_stop_last(token: &CancelToken, listener: impl FnOnce(StopCause) + Send + 'static) -> StopGuard {
    token.add_listener(LAST, listener)
}

impl CancelState {
    fn parent(&self) -> Option<Arc<Self>> {
        lock(&self.parent).as_ref().map(|parent| parent.token.clone())
    }
}

/// While it exists, the deadlines of some tokens stand still.
#[must_use = "dropping the guard ends the pause"]
pub(crate) struct PauseGuard(Vec<Arc<CancelState>>);

impl Drop for PauseGuard {
    fn drop(&mut self) {
        for token in &self.0 {
            let mut pauses = lock(&token.pauses);
            pauses.active -= 1;
            if pauses.active == 0 {
                let ended = pauses.since.take().map_or(Duration::ZERO, |since| since.elapsed());
                pauses.total += ended;
            }
        }
    }
}

/// Waits until a token stops; see [`CancelToken::cancelled`].
#[must_use = "a future waits when it is polled"]
pub struct Cancelled {
    token: CancelToken,
    waker: Arc<Mutex<Option<Waker>>>,
    guard: Option<StopGuard>,
}

impl Future for Cancelled {
    type Output = StopCause;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<StopCause> {
        let replaced = lock(&self.waker).replace(context.waker().clone());
        drop(replaced);
        if self.guard.is_none() {
            let waker = self.waker.clone();
            let guard = self.token.on_stop(move |_| {
                let waker = lock(&waker).take();
                waker.into_iter().for_each(Waker::wake);
            });
            self.guard = Some(guard);
        }
        // Read last, so that a stop that came meanwhile is seen here or wakes.
        self.token.cause().map_or(Poll::Pending, Poll::Ready)
    }
}

impl fmt::Debug for CancelToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CancelToken({:?})", self.cause())
    }
}

impl StopCause {
    /// The error of a run that was stopped for this cause.
    pub fn error(self) -> SkillError {
        match self {
            Self::Cancelled => SkillError::new(ErrorKind::Cancelled, "the run was cancelled"),
            Self::Timeout => SkillError::new(ErrorKind::Timeout, "the run did not end before its deadline")
                .with_help("give it more time, or make it do less")
                .with_hint(Hint::Limit(LimitKind::Timeout)),
        }
    }
}

/// Keeps a listener registered; see [`CancelToken::on_stop`].
#[must_use = "dropping the guard forgets the listener"]
pub struct StopGuard {
    signal: std::sync::Weak<CancelState>,
    id: u64,
}

impl Drop for StopGuard {
    fn drop(&mut self) {
        if let Some(signal) = self.signal.upgrade() {
            let mut listeners = lock(&signal.listeners);
            let forgotten =
                listeners.iter().position(|(id, _)| *id == self.id).map(|at| listeners.swap_remove(at));
            drop(listeners);
            drop(forgotten);
        }
    }
}

fn cause_to_code(cause: StopCause) -> u8 {
    match cause {
        StopCause::Cancelled => 1,
        StopCause::Timeout => 2,
    }
}

fn cause_from_code(code: u8) -> Option<StopCause> {
    match code {
        1 => Some(StopCause::Cancelled),
        2 => Some(StopCause::Timeout),
        _ => None,
    }
}

/// A listener that panicked leaves no inconsistent state here, so a poisoned lock is still usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn count(counter: &AtomicUsize) {
        counter.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn the_last_listener_comes_after_those_that_were_added_later() {
        let (token, order) = (CancelToken::new(), Arc::new(Mutex::new(Vec::new())));
        let push = |name: &'static str| {
            let order = order.clone();
            move |_| lock(&order).push(name)
        };
        let _last = on_stop_last(&token, push("last"));
        let _waiter = token.on_stop_after_work(push("waiter"));
        let _guards = ["first", "second"].map(|name| token.on_stop(push(name)));
        token.cancel();
        assert_eq!(*lock(&order), ["first", "second", "waiter", "last"]);
    }

    #[test]
    fn a_child_stops_with_its_parent_but_not_the_other_way_round() {
        let parent = CancelToken::new();
        let (first, second) = (parent.child(), parent.child());
        first.cancel();
        assert!(first.is_cancelled() && !parent.is_cancelled() && !second.is_cancelled());
        parent.cancel();
        assert!(second.is_cancelled());
        assert!(parent.child().is_cancelled(), "a child born late is stopped too");
    }

    #[test]
    fn a_grandchild_stops_although_nobody_holds_the_token_between() {
        let root = CancelToken::new();
        let grandchild = root.child().child();
        root.cancel();
        assert!(grandchild.is_cancelled());
    }

    #[test]
    fn a_listener_may_drop_its_own_guard_and_stop_the_token_again() {
        let token = CancelToken::new();
        let kept: Arc<Mutex<Option<StopGuard>>> = Arc::default();
        let (own, again) = (kept.clone(), token.clone());
        *lock(&kept) = Some(token.on_stop(move |_| {
            drop(lock(&own).take());
            again.cancel();
        }));
        token.cancel();
        assert!(lock(&kept).is_none());
    }

    #[test]
    fn a_listener_that_panics_keeps_nobody_from_hearing() {
        let (parent, heard) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
        let child = parent.child();
        let _panics = child.on_stop(|_| panic!("on purpose"));
        let counter = heard.clone();
        let _hears = child.on_stop(move |_| count(&counter));
        parent.cancel();
        assert_eq!((heard.load(Ordering::SeqCst), child.is_cancelled()), (1, true));
    }

    #[test]
    fn storms_of_cancels_children_and_listeners_end() {
        for _ in 0..100 {
            let (root, heard) = (CancelToken::new(), Arc::new(AtomicUsize::new(0)));
            std::thread::scope(|scope| {
                for worker in 0..6 {
                    let (root, heard) = (root.clone(), heard.clone());
                    scope.spawn(move || {
                        for _ in 0..20 {
                            let (child, counter) = (root.child(), heard.clone());
                            let guard = child.on_stop(move |_| count(&counter));
                            if worker == 0 {
                                root.cancel();
                            }
                            child.cancel();
                            drop((child, guard));
                        }
                    });
                }
            });
            assert_eq!(heard.load(Ordering::SeqCst), 120, "each is heard exactly once");
            assert!(lock(&root.0.listeners).is_empty(), "nothing is left behind");
        }
    }

    #[test]
    fn the_first_cause_stays_and_listeners_hear_it_once() {
        let heard = Arc::new(AtomicUsize::new(0));
        let token = CancelToken::new();
        let counter = heard.clone();
        let _kept = token.on_stop(move |_| {
            counter.fetch_add(1, Ordering::SeqCst);
        });
        let counter = heard.clone();
        drop(token.on_stop(move |_| {
            counter.fetch_add(100, Ordering::SeqCst);
        }));
        token.stop(StopCause::Timeout);
        token.cancel();
        assert_eq!(token.cause(), Some(StopCause::Timeout));
        assert_eq!(heard.load(Ordering::SeqCst), 1);
    }
}
