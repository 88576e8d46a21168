//! The network of scripts that are to have none: an empty one, the same for all.
//!
//! To make one takes the kernel longer than all the rest of a sandbox. Nobody in it can make a socket, so that those who share it
//! share nothing; what it is there for is that there is nothing to reach, should somebody find a way to one.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use rustix::io::retry_on_intr;
use rustix::process::{WaitOptions, waitpid};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::runtimes::sandbox::linux::sys;
use crate::runtimes::sandbox::linux::sys::ForkResult;

/// The network this process was in before it went into an empty one.
pub(in crate::runtimes::sandbox::linux) struct HostNetns(File);

impl HostNetns {
    /// Leaves the network, with all that is split off from here on. Nothing where this process may not, or could not go back.
    pub(in crate::runtimes::sandbox::linux) fn leave() -> Option<Self> {
        let outside = Self(File::open("/proc/thread-self/ns/net").ok()?);
        let (_, tried) = match sys::fork().ok()? {
            ForkResult::Child => {
                let tried = sys::unshare_network().and_then(|()| outside.enter());
                sys::exit(i32::from(tried.is_err()))
            }
            ForkResult::Parent(pid) => retry_on_intr(|| waitpid(Some(pid), WaitOptions::empty())).ok()??,
        };
        let may = tried.exit_status() == Some(0) && sys::unshare_network().is_ok();
        may.then_some(outside)
    }

    /// Goes back.
    pub(in crate::runtimes::sandbox::linux) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}
