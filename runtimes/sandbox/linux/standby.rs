//! The standby supervisor: forked and sandboxed in advance, it waits for the next request.
//!
//! Forking a process with its namespaces takes as long as the rest of a start. From the second request on, the fork server keeps
//! one standby that is ready for another request like the last.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::runtimes::sandbox::linux::ipc;
use crate::runtimes::sandbox::linux::ipc::{LaunchMessage, Message, SandboxProfile};
use crate::runtimes::sandbox::linux::layers::namespaces::NamespaceConfig;
use crate::runtimes::sandbox::linux::supervisor::{IdleSupervisor, set_up_and_supervise};

/// The fork server's handle of a standby.
pub(super) struct StandbyHandle {
    pub(super) pid: Pid,
    /// Takes the request, and announces that the script starts next.
    pub(super) socket: OwnedFd,
    pub(super) profile: SandboxProfile,
}

/// The standby process itself.
pub(super) struct StandbySupervisor {
    pub(super) socket: OwnedFd,
    pub(super) profile: SandboxProfile,
    /// The process limit of the previous request, which the next one is likely to have as well.
    pub(super) process_limit: Option<u64>,
    /// The files of the system that the previous request read, likewise.
    pub(super) expected_read: Vec<OsString>,
    pub(super) namespaces: Option<NamespaceConfig>,
}

impl StandbyHandle {
    /// Whether the standby has received the request. It accepts none with another profile than its own.
    pub(super) fn submit(&self, message: &LaunchMessage) -> bool {
        message.profile == self.profile && ipc::send_launch(&self.socket, message).is_ok()
    }

    pub(super) fn kill_and_reap(self) {
        kill_process(self.pid, Signal::KILL).ok();
        waitpid(Some(self.pid), WaitOptions::empty()).ok();
    }
}

impl StandbySupervisor {
    /// Waits for a request and runs it to its end. Returns the supervisor's own exit code.
    pub(super) fn wait_and_run(self) -> i32 {
        let Self { socket, profile, process_limit, expected_read, namespaces } = self;
        let entered = namespaces.map(|namespaces| namespaces.enter(process_limit));
        let Ok(entered) = entered.transpose() else { return 1 };
        let supervisor = match IdleSupervisor::new(profile, &expected_read, entered.is_some()) {
            Ok(supervisor) if supervisor.has_scoped_kill() => supervisor,
            // Whether a sandbox without this suffices depends on the request.
            _ => return 1,
        };
        let Ok(Message::Launch(message)) = ipc::receive(&socket) else { return 0 };
        if !supervisor.has_child() {
            // The child was killed first when memory was short. Another supervisor takes the request.
            return 1;
        }
        set_up_and_supervise(*message, socket, entered, Ok(supervisor))
    }
}
