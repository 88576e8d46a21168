//! The launch of one request, in the namespaces prepared for it.

use std::os::fd::OwnedFd;

use rustix::io::Errno;

use crate::runtimes::sandbox::linux::child::SetupError;
use crate::runtimes::sandbox::linux::fork_server::ipc::LaunchMessage;
use crate::runtimes::sandbox::linux::layers::namespaces::{EnteredNamespaces, NamespaceConfig};
use crate::runtimes::sandbox::linux::supervisor;
use crate::runtimes::sandbox::linux::supervisor::IdleSupervisor;

/// A request, and where to run it.
pub(in crate::runtimes::sandbox::linux) struct LaunchTask {
    pub(in crate::runtimes::sandbox::linux) message: LaunchMessage,
    /// Namespaces in which this process is the first, and which it must set up; `None` if it runs among the machine's processes.
    pub(in crate::runtimes::sandbox::linux) namespaces: Option<NamespaceConfig>,
    /// Receives a message when the script is about to start. A supervisor that hangs up before that has started nothing.
    pub(in crate::runtimes::sandbox::linux) ready_fd: OwnedFd,
}

impl LaunchTask {
    /// Makes this process, which was just forked, a supervisor and runs the request to its end. Returns its exit code.
    pub(in crate::runtimes::sandbox::linux) fn run(self) -> i32 {
        let Ok(entered) = self.namespaces.map(|namespaces| namespaces.enter(None)).transpose() else {
            return 1;
        };
        let ready = IdleSupervisor::new(self.message.profile, None, entered.is_some());
        set_up_and_supervise(self.message, self.ready_fd, entered, ready)
    }
}

/// Runs a request to its end in a prepared supervisor, in the namespaces it has entered. Tells `said` before the script starts.
pub(in crate::runtimes::sandbox::linux) fn set_up_and_supervise(
    mut parcel: LaunchMessage,
    said: OwnedFd,
    entered: Option<EnteredNamespaces>,
    ready: Result<IdleSupervisor, SetupError>,
) -> i32 {
    let Ok(order) = parcel.request.decode() else { return 1 };
    let sandbox = &order.sandbox;
    let is_uncovered = entered.is_none()
        && sandbox.required
        && sandbox.files.as_ref().is_some_and(|files| !files.protected_paths.own.is_empty());
    let furnished =
        entered.zip(sandbox.files.as_ref()).map(|(entered, files)| entered.set_up(files, sandbox.limits));
    let lost = |ready: Result<IdleSupervisor, SetupError>, step: &'static str, error| {
        ready.into_iter().for_each(IdleSupervisor::kill_child);
        (Err((step, error)), None)
    };
    let (ready, made) = match furnished.transpose() {
        // If the sandbox is required, everything this machine supports must be set up, or the run fails.
        // Only a mount can hide what lies in the project.
        Ok(_) if is_uncovered => lost(ready, "own folders", Errno::OPNOTSUPP.into()),
        Ok(_) if parcel.is_downgraded && sandbox.required => lost(ready, "namespaces", Errno::AGAIN.into()),
        Ok(Some(made)) if !made.protected_paths && sandbox.required => {
            lost(ready, "protected paths", Errno::NOTSUP.into())
        }
        Err(error) if sandbox.required => lost(ready, "namespaces", error),
        Ok(made) => (ready, made),
        Err(_) => return 1,
    };
    rustix::io::write(&said, b"x").ok();
    drop(said);
    parcel.nproc_rlimit = made.and_then(|made| made.nproc_rlimit);
    supervisor::supervise(&order, parcel, ready, made)
}
