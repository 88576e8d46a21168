//! The network of scripts that are to have none: an empty one, the same for all.
//!
//! To make one takes the kernel longer than all the rest of a cage. Nobody in it can make a socket, so that those who share it
//! share nothing; what it is there for is that there is nothing to reach, should somebody find a way to one.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::system;

/// The network this process was in before it went into an empty one.
pub(super) struct Outside(File);

impl Outside {
    /// Leaves the network, with all that is split off from here on. Nothing where that takes a right this process does not have.
    pub(super) fn left() -> Option<Self> {
        let outside = File::open("/proc/thread-self/ns/net").ok()?;
        system::leave_network().ok()?;
        Some(Self(outside))
    }

    /// Goes back.
    pub(super) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}
