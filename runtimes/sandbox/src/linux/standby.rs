//! The standby supervisor: forked and sandboxed in advance, it waits for the next request, in the place of its fork server.
//!
//! Forking a process with its namespaces takes as long as the rest of a start. From the second request on, the fork server keeps
//! one standby that is ready for another request like the last. A request then wakes the process that runs it before any other.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, set_parent_process_death_signal, waitpid};

use crate::linux::ipc::{self, EncodedRequest, LaunchMessage, Message, SandboxProfile};
use crate::linux::layers::namespaces::NamespaceConfig;
use crate::linux::supervisor::{IdleSupervisor, set_up_and_supervise};

/// The fork server's handle of a standby.
pub(super) struct StandbyHandle {
    pub(super) pid: Pid,
    /// Receives a copy of the request that the standby accepts, or a request that does not fit; then a byte when the script is about to
    /// start.
    pub(super) socket: OwnedFd,
    /// Its exit status, once it is reaped: its process id may then be that of another process.
    pub(super) wait_status: Option<i32>,
}

/// The standby process itself.
pub(super) struct StandbySupervisor {
    /// The host's requests. Only the standby reads them as long as there is one.
    pub(super) requests: OwnedFd,
    /// Hangs up when the fork server ends.
    pub(super) server: OwnedFd,
    /// From then on this machine may support more than was found.
    pub(super) valid_until: Option<Instant>,
    /// What has changed since this process was forked, it does not see.
    pub(super) mount_watcher: MountWatcher,
    /// The profile of requests for which it stands by, and what of it this machine supports.
    pub(super) requested: SandboxProfile,
    pub(super) profile: SandboxProfile,
    /// The process limit that the next request is likely to have.
    pub(super) process_limit: Option<u64>,
    /// A request that the next one is likely to resemble.
    pub(super) previous: Option<EncodedRequest>,
    pub(super) namespaces: Option<NamespaceConfig>,
}

impl StandbyHandle {
    /// Returns whether it had ended by itself, because it could not be set up.
    pub(super) fn kill_and_reap(self) -> bool {
        const SETUP_FAILED: i32 = 1 << 8;
        let status = self.wait_status.or_else(|| {
            kill_process(self.pid, Signal::KILL).ok();
            let ended = waitpid(Some(self.pid), WaitOptions::empty()).ok()?;
            ended.map(|(_, status)| status.as_raw())
        });
        status == Some(SETUP_FAILED)
    }
}

impl StandbySupervisor {
    /// Waits for a request and runs it to its end. Returns the supervisor's own exit code.
    pub(super) fn wait_and_run(mut self) -> i32 {
        // The host kills a fork server that does not answer. What lies in the socket must then be gone as well.
        set_parent_process_death_signal(Some(Signal::KILL)).ok();
        let entered = self.namespaces.map(|namespaces| namespaces.enter(self.process_limit));
        let Ok(entered) = entered.transpose() else { return 1 };
        let previous = self.previous.take();
        let supervisor = match IdleSupervisor::new(self.profile, previous.as_ref(), entered.is_some()) {
            Ok(supervisor) if supervisor.has_scoped_kill() => supervisor,
            // Whether a sandbox without this suffices depends on the request.
            _ => return 1,
        };
        // What this touches in memory is there when the next request is decoded.
        previous.map(|previous| previous.decode());
        let Some(mut message) = self.accept_request(&supervisor) else { return 0 };
        message.profile = self.profile;
        // As long as a process holds its end, the host takes the fork server to be alive.
        let Self { requests, server, mount_watcher, .. } = self;
        drop((requests, mount_watcher));
        set_up_and_supervise(message, server, entered, Ok(supervisor))
    }

    /// The next request, which from now on belongs to this process. A request that does not fit goes to the fork server.
    fn accept_request(&self, supervisor: &IdleSupervisor) -> Option<LaunchMessage> {
        loop {
            let mut fds =
                [PollFd::new(&self.server, PollFlags::IN), PollFd::new(&self.requests, PollFlags::IN)];
            let ready = poll(&mut fds, None);
            let has_no_server = !fds[0].revents().is_empty();
            match ready {
                Err(_) => continue,
                Ok(_) if has_no_server => return None,
                Ok(_) => {}
            }
            match ipc::receive(&self.requests) {
                Ok(Message::Launch(message)) => {
                    let is_fit = message.profile == self.requested
                        && self.valid_until.is_none_or(|until| Instant::now() < until)
                        && !self.mount_watcher.has_changed()
                        // The child was killed first when memory was short.
                        && supervisor.has_child();
                    if !is_fit {
                        if ipc::send_launch(&self.server, &message).is_err() {
                            // Without a report its pipe hangs up, and the run fails at once.
                            ipc::send_taken(&self.requests);
                        }
                        return None;
                    }
                    // From the moment it is taken, no other process runs it.
                    set_parent_process_death_signal(None).ok();
                    // A host that has given up waiting sends it to another process.
                    let is_mine = ipc::send_taken(&self.requests);
                    // Until the script starts, the fork server can give its copy to another supervisor. One that was killed has none.
                    let is_gone = |error: io::Error| error.kind() == ErrorKind::BrokenPipe;
                    let is_kept =
                        is_mine && ipc::send_accepted(&self.server, &message).err().is_none_or(is_gone);
                    return is_kept.then_some(*message);
                }
                // The fork server answers.
                Ok(Message::MountOverlay(fds)) => {
                    if ipc::send_mount_overlay(&self.server, &fds).is_err() {
                        ipc::send_taken(&self.requests);
                    }
                }
                // This process has too many descriptors to receive more. Without a report its pipe hangs up.
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    ipc::send_taken(&self.requests);
                }
                // This is prepared for a request.
                Ok(Message::Prepare(..) | Message::Accepted(_)) => {}
                // `Unsupported` is a host of another release, which has started nothing here.
                Ok(Message::Shutdown) => break,
                Err(error) if error.kind() == ErrorKind::Unsupported => break,
                Ok(Message::Disconnected) | Err(_) => return None,
            }
        }
        ipc::send_shutdown(&self.server);
        None
    }
}

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
