//! What every started process offers, sandboxed or not.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use metier_core::host::NetworkReport;
use metier_sandbox::SupervisorReport;

/// A started process and its descendants. Dropping it kills and reaps what is left of them.
pub(crate) trait ProcessTree: Send {
    /// The host's ends of standard input, output and error. Later calls return `None` for each.
    fn take_stdio(&mut self) -> [Option<File>; 3];
    /// The host's end of the host API socket, if there is one. Later calls return `None`.
    fn take_api_socket(&mut self) -> Option<OwnedFd>;
    /// A descriptor that becomes readable when the process exits.
    fn exit_fd(&self) -> io::Result<OwnedFd>;
    /// What it did in its network since the last call, if that has granted hosts only.
    fn take_network_report(&mut self) -> Option<NetworkReport> {
        None
    }
    /// Kills the whole tree, as far as the system allows.
    fn kill(&mut self);
    /// Waits for the exit of a process that has exited or was killed; with the report of its supervisor, if it has one.
    fn reap(&mut self) -> io::Result<(ExitStatus, Option<SupervisorReport>)>;
}
