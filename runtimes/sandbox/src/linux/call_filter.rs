//! The calls that a script makes and its supervisor answers.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::linux::local_sockets::LocalSockets;
use crate::linux::{signal_filter, sys};

/// The calls of one tree, which descends from this process.
pub(super) struct CallFilter {
    listener: OwnedFd,
    sockets: LocalSockets,
}

impl CallFilter {
    /// Answers what waits at this descriptor.
    pub(super) fn new(listener: OwnedFd, sockets: LocalSockets) -> Self {
        Self { listener, sockets }
    }

    /// Readable when a call waits.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Answers the call that has waited longest.
    pub(super) fn answer_next(&mut self) {
        // Whoever made the call may be gone.
        let Ok(call) = sys::receive_call(&self.listener) else { return };
        match call.number {
            libc::SYS_connect => self.sockets.answer(&self.listener, &call),
            _ => signal_filter::answer(&self.listener, &call),
        }
    }
}
