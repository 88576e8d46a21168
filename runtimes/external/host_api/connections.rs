//! All lines to the processes of one tree: the one they share, and those they sent over it.

use std::os::fd::OwnedFd;

use rustix::event::PollFd;

use crate::runtimes::external::host_api::connection::{Connection, ConnectionState};

/// The host's ends.
pub(in super::super) struct Connections(pub(super) Vec<Connection>);

impl Connections {
    /// The line that all processes share; none where there is none.
    pub(in super::super) fn new(door: Option<OwnedFd>) -> Self {
        Self(door.map(Connection::shared).into_iter().collect())
    }

    /// What to wait for.
    pub(in super::super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(Connection::poll_fd)
    }

    /// Whether nobody has said anything that is not answered, or has an answer still to read. Lines whose other end is gone are
    /// dropped.
    pub(in super::super) fn are_idle(&mut self) -> bool {
        let mut are_quiet = true;
        self.0.retain(|line| {
            let state = line.state();
            are_quiet &= state != ConnectionState::Active;
            state != ConnectionState::Closed
        });
        are_quiet
    }
}
