//! The calls that a script makes and its supervisor answers.

use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};

use crate::FailedConnection;
use crate::linux::connections::Connections;
use crate::linux::{signal_filter, sys};

/// The calls of one tree, which descends from this process.
pub(super) struct CallFilter {
    listener: OwnedFd,
    connections: Connections,
}

impl CallFilter {
    /// Answers what waits at this descriptor.
    pub(super) fn new(listener: OwnedFd, connections: Connections) -> Self {
        Self { listener, connections }
    }

    /// The first is readable when a call waits; the others are ready when a call can be ended.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let calls = PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN);
        let sockets = self.connections.poll_fds();
        std::iter::once(calls).chain(sockets.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)))
    }

    /// Ends the calls that have waited for their connection, which is there now.
    pub(super) fn end_ready(&mut self) {
        self.connections.end_ready(&self.listener);
    }

    /// Addresses that the script did not reach.
    pub(super) fn into_failed_connections(self) -> Vec<FailedConnection> {
        self.connections.into_failed()
    }

    /// Answers the call that has waited longest.
    pub(super) fn answer_next(&mut self) {
        // Whoever made the call may be gone.
        let Ok(call) = sys::receive_call(&self.listener) else { return };
        match call.number {
            libc::SYS_connect => self.connections.answer(&self.listener, call),
            _ => signal_filter::answer(&self.listener, &call),
        }
    }
}
