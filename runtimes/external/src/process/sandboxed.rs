//! A sandboxed process: the fork server starts it, its supervisor kills and reaps it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::net::{AddressFamily, SocketType, socketpair};

use super::process_tree::ProcessTree;
use super::setup_error;
use super::supervisor_lost::SupervisorLost;
use crate::compat::SOCK_CLOEXEC;
use crate::egress::{Egress, EgressRules};
use metier_core::host::NetworkReport;
use metier_sandbox::{LaunchHandle, LaunchOutcome, LaunchRequest, Launcher, SupervisorReport};

/// A process tree under its supervisor. Dropping it kills the tree.
pub(super) struct SandboxedProcess {
    stdio: [Option<File>; 3],
    api_socket: Option<OwnedFd>,
    started: Option<LaunchHandle>,
    egress: Option<Egress>,
    report: Option<SupervisorReport>,
}

impl SandboxedProcess {
    pub(super) fn start(
        launcher: &Launcher,
        request: &LaunchRequest,
        egress: Option<Box<EgressRules>>,
        has_input: bool,
    ) -> io::Result<Self> {
        let (script_stdin, stdin) = stdin_pipe(has_input)?;
        let (stdout, script_stdout) = io::pipe()?;
        let (stderr, script_stderr) = io::pipe()?;
        let (api_socket, script_api_socket) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SOCK_CLOEXEC, None)?;
        let script_ends = [script_stdin, script_stdout.into(), script_stderr.into()];
        let mut started = launcher.start(request, script_ends, Some(script_api_socket))?;
        let egress = egress.zip(started.egress.take());
        let egress = egress.map(|(rules, sockets)| Egress::start(*rules, sockets)).transpose()?;
        let host_ends = [stdin, Some(OwnedFd::from(stdout)), Some(OwnedFd::from(stderr))];
        Ok(Self {
            stdio: host_ends.map(|end| end.map(File::from)),
            api_socket: Some(api_socket),
            started: Some(started),
            egress,
            report: None,
        })
    }
}

/// The script's end of standard input, and the host's end if there is input.
fn stdin_pipe(has_input: bool) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    if has_input {
        let (reader, writer) = io::pipe()?;
        return Ok((reader.into(), Some(writer.into())));
    }
    Ok((File::open("/dev/null")?.into(), None))
}

impl ProcessTree for SandboxedProcess {
    fn take_stdio(&mut self) -> [Option<File>; 3] {
        std::mem::take(&mut self.stdio)
    }

    fn take_api_socket(&mut self) -> Option<OwnedFd> {
        self.api_socket.take()
    }

    fn exit_fd(&self) -> io::Result<OwnedFd> {
        let started = self.started.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        started.report.try_clone()
    }

    fn kill(&mut self) {
        self.report = self.started.take().and_then(LaunchHandle::kill_and_wait);
        self.egress.iter_mut().for_each(Egress::stop);
    }

    fn take_network_report(&mut self) -> Option<NetworkReport> {
        let failed = self.report.iter().flat_map(|report| &report.failed_connections);
        let failed: Vec<_> = failed.cloned().collect();
        self.egress.as_ref().map(|egress| egress.take_report(&failed))
    }

    fn reap(&mut self) -> io::Result<(ExitStatus, Option<SupervisorReport>)> {
        let report = self.report.take().ok_or_else(|| io::Error::other(SupervisorLost))?;
        match &report.end {
            LaunchOutcome::Exited { status } => Ok((ExitStatus::from_raw(*status), Some(report))),
            LaunchOutcome::SetupFailed { step, errno } => Err(setup_error::start_error(step, *errno)),
        }
    }
}
