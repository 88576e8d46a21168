//! The standby supervisor: forked and sandboxed in advance, it waits for the next request.
//!
//! Forking a process with its namespaces takes as long as the rest of a start. From the second request on, the fork server keeps
//! one standby that is ready for another request like the last.

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

/// The fork server's handle of a standby.
pub(super) struct StandbyHandle {
    pub(super) pid: Pid,
    socket: OwnedFd,
    profile: SandboxProfile,
}

/// The standby process itself.
pub(super) struct StandbySupervisor {
    socket: OwnedFd,
    profile: SandboxProfile,
    /// The previous request, which the next one is likely to resemble.
    previous_request: EncodedRequest,
    namespaces: Option<NamespaceConfig>,
}

impl StandbyHandle {
    pub(super) fn new(pid: Pid, socket: OwnedFd, kind: SandboxProfile) -> Self {
        Self { pid, socket, profile: kind }
    }

    /// Whether the standby has received the request. It accepts none with another profile than its own.
    pub(super) fn submit(&self, parcel: &LaunchMessage) -> bool {
        parcel.profile == self.profile && ipc::send_launch(&self.socket, parcel).is_ok()
    }

    /// The descriptor on which it announces that the script starts next.
    pub(super) fn into_ready_fd(self) -> OwnedFd {
        self.socket
    }

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

    /// Waits for a request and runs it to its end. Returns the supervisor's own exit code.
    pub(super) fn wait_and_run(self) -> i32 {
        let Self { socket, profile: kind, previous_request: like, namespaces } = self;
        let processes = like.decode().ok().and_then(|order| order.sandbox.limits.processes);
        let entered = namespaces.map(|namespaces| namespaces.enter(processes));
        let Ok(entered) = entered.transpose() else { return 1 };
        let ready = match IdleSupervisor::new(kind, Some(&like), entered.is_some()) {
            Ok(ready) if ready.has_scoped_kill() => ready,
            // Whether a sandbox without this suffices depends on the request.
            _ => return 1,
        };
        let Ok(Message::Launch(parcel)) = ipc::receive(&socket) else { return 0 };
        if !ready.has_child() {
            // The child was killed first when memory was short. Another supervisor takes the request.
            return 1;
        }
        launch::set_up_and_supervise(*parcel, socket, entered, Ok(ready))
    }
}

/// Watches the mounts of this namespace for changes: a process in a mount namespace created before a change does not see it.
pub(super) struct MountWatcher(OwnedFd);

impl MountWatcher {
    /// `None` if the kernel does not show the mounts.
    pub(super) fn open() -> Option<Self> {
        std::fs::File::open("/proc/self/mountinfo").ok().map(|table| Self(table.into()))
    }

    /// Whether there were changes since the last call.
    pub(super) fn has_changed(&self) -> bool {
        let mut changes = [PollFd::new(&self.0, PollFlags::PRI)];
        poll(&mut changes, Some(&Timespec::default())) != Ok(0)
    }
}
