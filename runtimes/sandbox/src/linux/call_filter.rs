//! The calls that a script makes and its supervisor answers.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};

use crate::linux::access_observer::AccessObserver;
use crate::linux::connections::Connections;
use crate::linux::file_locks::FileLocks;
use crate::linux::observed_calls::ObservedCall;
use crate::linux::{signal_filter, sys};
use crate::{FailedConnection, Observations};

/// What is reported of the calls of a tree.
#[derive(Default)]
pub(super) struct ObservedCalls {
    /// Addresses that were connected to in vain.
    pub(super) failed_connections: Vec<FailedConnection>,
    /// The accesses of a watched run.
    pub(super) observations: Option<Observations>,
}

/// The calls of one tree, which descends from this process.
pub(super) struct CallFilter {
    listener: OwnedFd,
    connections: Connections,
    locks: FileLocks,
    observer: Option<AccessObserver>,
}

impl CallFilter {
    /// Answers what waits at this descriptor, and observes the calls of a watched run.
    pub(super) fn new(listener: OwnedFd, connections: Connections, observer: Option<AccessObserver>) -> Self {
        if observer.is_some() {
            sys::switch_directly(&listener);
        }
        Self { listener, connections, locks: FileLocks::default(), observer }
    }

    /// The first is readable when a call waits; the others are ready when a call can be ended.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let calls = PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN);
        let sockets = self.connections.poll_fds();
        std::iter::once(calls).chain(sockets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)))
    }

    /// How long until calls that wait for a lock are looked at again, if there are any.
    pub(super) fn retry_interval(&self) -> Option<Duration> {
        self.locks.retry_interval()
    }

    /// Ends the calls that have waited for a connection or a lock, which is there now.
    pub(super) fn end_ready(&mut self) {
        self.connections.end_ready(&self.listener);
        self.locks.end_ready(&self.listener);
    }

    /// Answers the call that has waited longest. As long as the program has not begun, it is one of the sandbox itself.
    pub(super) fn answer_next(&mut self, has_begun: bool) {
        // Whoever made the call may be gone.
        let Ok(call) = sys::receive_call(&self.listener) else { return };
        match (call.number, ObservedCall::find(call.number), &mut self.observer) {
            (libc::SYS_connect, ..) => self.connections.answer(&self.listener, call),
            (libc::SYS_flock, ..) => self.locks.answer(&self.listener, call, &self.connections),
            (_, Some(found), Some(observer)) if has_begun => {
                observer.observe(&self.listener, &call, found);
            }
            (_, Some(_), _) => drop(sys::continue_call(&self.listener, &call)),
            _ => signal_filter::answer(&self.listener, &call),
        }
    }

    /// What is to be reported of the calls.
    pub(super) fn into_observed(self) -> ObservedCalls {
        ObservedCalls {
            failed_connections: self.connections.into_failed(),
            observations: self.observer.map(AccessObserver::into_observations),
        }
    }
}
