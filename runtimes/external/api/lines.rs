//! All lines to the processes of one tree: the one they share, and those they sent over it.

use std::os::fd::OwnedFd;

use rustix::event::PollFd;

use super::line::{Line, State};

/// The host's ends.
pub(in super::super) struct Lines(pub(super) Vec<Line>);

impl Lines {
    /// The line that all processes share; none where there is none.
    pub(in super::super) fn new(door: Option<OwnedFd>) -> Self {
        Self(door.map(Line::door).into_iter().collect())
    }

    /// What to wait for.
    pub(in super::super) fn waiting(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.0.iter().map(Line::waiting)
    }

    /// Whether nobody has said anything that is not answered, or has an answer still to read. Lines whose other end is gone are
    /// dropped.
    pub(in super::super) fn are_quiet(&mut self) -> bool {
        let mut are_quiet = true;
        self.0.retain(|line| {
            let state = line.state();
            are_quiet &= state != State::Speaks;
            state != State::Gone
        });
        are_quiet
    }
}
