//! What an approver decided during a run: permissions beyond the grants of the caller, and those that were refused.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::Result;
use crate::policy::{CancelToken, Permission};

/// The decisions about one run, shared with the runs that it calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Approvals(Arc<ApprovalsInner>);

#[derive(Debug, Default)]
struct ApprovalsInner {
    state: Mutex<Decisions>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Decisions {
    approved: Vec<Permission>,
    refused: Vec<Permission>,
    /// Whether somebody is asked now.
    is_asking: bool,
}

/// Permissions that one run may be refused; then nobody is asked any more.
const MAX_REFUSED: usize = 16;

/// How often a run that waits for the question of another one looks whether it was stopped.
const STOP_INTERVAL: Duration = Duration::from_millis(20);

impl Approvals {
    /// The permissions that were approved.
    pub(super) fn approved(&self) -> Vec<Permission> {
        self.lock().approved.clone()
    }

    /// Whether one of the approved permissions fulfils a condition.
    pub(super) fn any_approved(&self, mut condition: impl FnMut(&Permission) -> bool) -> bool {
        self.lock().approved.iter().any(&mut condition)
    }

    /// Decides about a permission with `ask`, unless that was done before. One question is asked at a time: a run that comes
    /// later waits, and then uses what was decided. Returns whether it is approved; fails if the run stops while it waits.
    pub(crate) fn decide(
        &self,
        permission: &Permission,
        token: &CancelToken,
        ask: impl FnOnce() -> bool,
    ) -> Result<bool> {
        let mut state = self.lock();
        loop {
            if state.approved.contains(permission) {
                return Ok(true);
            }
            if state.refused.contains(permission) || state.refused.len() >= MAX_REFUSED {
                return Ok(false);
            }
            if !state.is_asking {
                break;
            }
            state =
                self.0.changed.wait_timeout(state, STOP_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
            token.check()?;
        }
        state.is_asking = true;
        drop(state);
        let is_approved = ask();
        let mut state = self.lock();
        state.is_asking = false;
        // A run that was stopped while it asked got no answer.
        let stopped = token.check();
        match (is_approved, &stopped) {
            (true, _) => state.approved.push(permission.clone()),
            (false, Ok(())) => state.refused.push(permission.clone()),
            (false, Err(_)) => {}
        }
        drop(state);
        self.0.changed.notify_all();
        stopped.map(|()| is_approved)
    }

    fn lock(&self) -> MutexGuard<'_, Decisions> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Approvals {
    fn eq(&self, other: &Self) -> bool {
        self.approved() == other.approved()
    }
}

impl Eq for Approvals {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn permission(text: &str) -> Permission {
        text.parse().unwrap()
    }

    #[test]
    fn each_question_is_asked_once_and_one_at_a_time() {
        let (approvals, asked, now) = (Approvals::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for number in 0..16 {
                let (approvals, asked, now) = (&approvals, &asked, &now);
                scope.spawn(move || {
                    let need = permission(["write:a", "write:b"][number % 2]);
                    let answer = approvals.decide(&need, &CancelToken::new(), || {
                        assert_eq!(now.fetch_add(1, Ordering::SeqCst), 0, "one at a time");
                        std::thread::sleep(Duration::from_millis(5));
                        now.fetch_sub(1, Ordering::SeqCst);
                        asked.fetch_add(1, Ordering::SeqCst);
                        number % 2 == 0
                    });
                    assert_eq!(answer.unwrap(), number % 2 == 0);
                });
            }
        });
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        assert_eq!(approvals.approved(), [permission("write:a")]);
    }

    #[test]
    fn a_run_that_is_refused_again_and_again_asks_nobody_any_more() {
        let (approvals, asked) = (Approvals::default(), AtomicUsize::new(0));
        for number in 0..100 {
            let need = permission(&format!("write:out/{number}"));
            let refuse = || asked.fetch_add(1, Ordering::SeqCst) == usize::MAX;
            assert!(!approvals.decide(&need, &CancelToken::new(), refuse).unwrap());
        }
        assert_eq!(asked.load(Ordering::SeqCst), MAX_REFUSED);
    }

    #[test]
    fn a_run_that_stops_does_not_wait_for_the_question_of_another_one() {
        let approvals = Approvals::default();
        let (begins, has_begun) = std::sync::mpsc::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let asking = approvals.clone();
            scope.spawn(move || {
                asking.decide(&permission("write:a"), &CancelToken::new(), || {
                    begins.send(()).unwrap();
                    released.recv().unwrap();
                    true
                })
            });
            has_begun.recv().unwrap();
            let token = CancelToken::new();
            token.cancel();
            assert!(approvals.decide(&permission("write:b"), &token, || panic!("not asked")).is_err());
            release.send(()).unwrap();
        });
    }
}
