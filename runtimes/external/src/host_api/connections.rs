//! All connections to the processes of one run: the one that they share, and those that they sent over it.

use std::os::fd::OwnedFd;

use rustix::event::PollFd;

use crate::host_api::connection::{Connection, ConnectionState};

/// The host's ends.
pub(crate) struct Connections(pub(super) Vec<Connection>);

impl Connections {
    /// The connection that all processes share, if there is a socket for it.
    pub(crate) fn new(socket: Option<OwnedFd>) -> Self {
        Self(socket.map(Connection::shared).into_iter().collect())
    }

    /// The descriptors to poll for the next request.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(Connection::poll_fd)
    }

    /// Whether no request is unanswered and no answer unread. Drops the connections whose other end is closed.
    pub(crate) fn are_idle(&mut self) -> bool {
        let mut are_idle = true;
        self.0.retain(|connection| {
            let state = connection.state();
            are_idle &= state != ConnectionState::Active;
            state != ConnectionState::Closed
        });
        are_idle
    }
}
