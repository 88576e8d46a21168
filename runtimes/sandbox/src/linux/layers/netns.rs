//! The network namespace of scripts without network: an empty one, shared by all of them.
//!
//! Creating one takes the kernel longer than all the rest of a sandbox. Scripts cannot create sockets in it, so sharing it gives
//! them nothing in common; it makes sure that nothing can be reached if a script finds a way to create one.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::linux::sys;

/// The network namespace this process was in before it entered an empty one.
pub(crate) struct HostNetns(File);

impl HostNetns {
    /// Leaves the network namespace, also for all processes forked from here on. `None` if this is not permitted, or there is no
    /// way back.
    pub(crate) fn leave() -> Option<Self> {
        let outside = Self(File::open("/proc/thread-self/ns/net").ok()?);
        // To enter it takes the same rights from inside as from outside.
        outside.enter().and_then(|()| sys::unshare_network()).ok()?;
        Some(outside)
    }

    /// Goes back.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}
