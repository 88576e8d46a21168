//! A stub that waits for its order: what every stub does alike is done before there is one.
//!
//! Splitting off a process and its namespaces takes as long as the rest of a start. A helper that is asked a second time keeps
//! one that is ready for what was asked last.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use super::namespaces::Namespaces;
use super::stub::Ready;
use super::task;
use super::wire::{self, Kind, Parcel, Text, Word};

/// The waiting stub, as its helper knows it.
pub(super) struct Spare {
    pub(super) pid: Pid,
    socket: OwnedFd,
    kind: Kind,
}

/// Its own side.
pub(super) struct Waiting {
    socket: OwnedFd,
    kind: Kind,
    /// The order before the next one, which is likely to be like it.
    like: Text,
    namespaces: Option<Namespaces>,
}

impl Spare {
    pub(super) fn new(pid: Pid, socket: OwnedFd, kind: Kind) -> Self {
        Self { pid, socket, kind }
    }

    /// Whether it has the order. One of another kind than it was made for it cannot have.
    pub(super) fn take_on(&self, parcel: &Parcel) -> bool {
        parcel.kind == self.kind && wire::send(&self.socket, parcel).is_ok()
    }

    /// Where it says that the script comes next.
    pub(super) fn said(self) -> OwnedFd {
        self.socket
    }

    /// Ends it.
    pub(super) fn dismiss(self) {
        kill_process(self.pid, Signal::KILL).ok();
        waitpid(Some(self.pid), WaitOptions::empty()).ok();
    }
}

impl Waiting {
    pub(super) fn new(socket: OwnedFd, kind: Kind, like: Text, namespaces: Option<Namespaces>) -> Self {
        Self { socket, kind, like, namespaces }
    }

    /// Waits for an order and runs it to its end. The answer is the stub's own exit code.
    pub(super) fn serve(self) -> i32 {
        let Self { socket, kind, like, namespaces } = self;
        let processes = like.order().ok().and_then(|order| order.cage.ceilings.processes);
        let entered = namespaces.map(|namespaces| namespaces.enter(processes));
        let Ok(entered) = entered.transpose() else { return 1 };
        let ready = match Ready::new(kind, Some(&like), entered.is_some()) {
            Ok(ready) if ready.reaches_everyone() => ready,
            // Whether that is enough depends on the order.
            _ => return 1,
        };
        let Ok(Word::Run(parcel)) = wire::receive(&socket) else { return 0 };
        if !ready.has_leader() {
            // It was the first to go when memory was short. Another stub takes the order.
            return 1;
        }
        task::done(*parcel, socket, entered, Ok(ready))
    }
}

/// The mounts of this namespace, watched for changes: who was split off before one does not see it.
pub(super) struct MountTable(OwnedFd);

impl MountTable {
    /// Nothing where the kernel does not show them.
    pub(super) fn watched() -> Option<Self> {
        std::fs::File::open("/proc/self/mountinfo").ok().map(|table| Self(table.into()))
    }

    /// Whether there were changes since this was last asked.
    pub(super) fn has_changed(&self) -> bool {
        let mut changes = [PollFd::new(&self.0, PollFlags::PRI)];
        poll(&mut changes, Some(&Timespec::default())) != Ok(0)
    }
}
