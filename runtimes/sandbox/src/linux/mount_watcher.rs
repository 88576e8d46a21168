//! Notices changes to the mounts, which end a standby.

use std::fs::File;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Watches the mounts of this namespace for changes: a process in a mount namespace created before a change does not see it.
pub(super) struct MountWatcher(OwnedFd);

impl MountWatcher {
    /// `None` if the kernel does not show the mounts.
    pub(super) fn open() -> Option<Self> {
        File::open("/proc/self/mountinfo").ok().map(|table| Self(table.into()))
    }

    /// Another handle: what one of them has told, the others do not tell.
    pub(super) fn try_clone(&self) -> std::io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Whether there were changes since the last call.
    pub(super) fn has_changed(&self) -> bool {
        let mut changes = [PollFd::new(&self.0, PollFlags::PRI)];
        poll(&mut changes, Some(&Timespec::default())) != Ok(0)
    }
}
