//! A stub that waits for its order: what every stub does alike is done before there is one.
//!
//! Splitting off a process and its namespaces takes as long as the rest of a start. A helper that is asked a second time keeps
//! one that is ready for what was asked last.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::runtimes::sandbox::linux::fork_server::ipc;
use crate::runtimes::sandbox::linux::fork_server::ipc::{
    EncodedRequest, LaunchMessage, Message, SandboxProfile,
};
use crate::runtimes::sandbox::linux::layers::namespaces::NamespaceConfig;
use crate::runtimes::sandbox::linux::supervisor::IdleSupervisor;
use crate::runtimes::sandbox::linux::supervisor::launch;

/// The waiting stub, as its helper knows it.
pub(super) struct StandbyHandle {
    pub(super) pid: Pid,
    socket: OwnedFd,
    profile: SandboxProfile,
}

/// Its own side.
pub(super) struct StandbySupervisor {
    socket: OwnedFd,
    profile: SandboxProfile,
    /// The order before the next one, which is likely to be like it.
    previous_request: EncodedRequest,
    namespaces: Option<NamespaceConfig>,
}

impl StandbyHandle {
    pub(super) fn new(pid: Pid, socket: OwnedFd, kind: SandboxProfile) -> Self {
        Self { pid, socket, profile: kind }
    }

    /// Whether it has the order. One of another kind than it was made for it cannot have.
    pub(super) fn submit(&self, parcel: &LaunchMessage) -> bool {
        parcel.profile == self.profile && ipc::send_launch(&self.socket, parcel).is_ok()
    }

    /// Where it says that the script comes next.
    pub(super) fn into_ready_fd(self) -> OwnedFd {
        self.socket
    }

    /// Ends it.
    pub(super) fn kill_and_reap(self) {
        kill_process(self.pid, Signal::KILL).ok();
        waitpid(Some(self.pid), WaitOptions::empty()).ok();
    }
}

impl StandbySupervisor {
    pub(super) fn new(
        socket: OwnedFd,
        kind: SandboxProfile,
        like: EncodedRequest,
        namespaces: Option<NamespaceConfig>,
    ) -> Self {
        Self { socket, profile: kind, previous_request: like, namespaces }
    }

    /// Waits for an order and runs it to its end. The answer is the stub's own exit code.
    pub(super) fn wait_and_run(self) -> i32 {
        let Self { socket, profile: kind, previous_request: like, namespaces } = self;
        let processes = like.decode().ok().and_then(|order| order.sandbox.limits.processes);
        let entered = namespaces.map(|namespaces| namespaces.enter(processes));
        let Ok(entered) = entered.transpose() else { return 1 };
        let ready = match IdleSupervisor::new(kind, Some(&like), entered.is_some()) {
            Ok(ready) if ready.has_scoped_kill() => ready,
            // Whether that is enough depends on the order.
            _ => return 1,
        };
        let Ok(Message::Launch(parcel)) = ipc::receive(&socket) else { return 0 };
        if !ready.has_child() {
            // It was the first to go when memory was short. Another stub takes the order.
            return 1;
        }
        launch::set_up_and_supervise(*parcel, socket, entered, Ok(ready))
    }
}

/// The mounts of this namespace, watched for changes: who was split off before one does not see it.
pub(super) struct MountWatcher(OwnedFd);

impl MountWatcher {
    /// Nothing where the kernel does not show them.
    pub(super) fn open() -> Option<Self> {
        std::fs::File::open("/proc/self/mountinfo").ok().map(|table| Self(table.into()))
    }

    /// Whether there were changes since this was last asked.
    pub(super) fn has_changed(&self) -> bool {
        let mut changes = [PollFd::new(&self.0, PollFlags::PRI)];
        poll(&mut changes, Some(&Timespec::default())) != Ok(0)
    }
}
