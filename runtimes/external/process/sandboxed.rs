//! A sandboxed process: the fork server starts it, its supervisor kills and reaps it.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::net::{AddressFamily, SocketType, socketpair};

use super::super::super::sandbox::{LaunchHandle, LaunchOutcome, LaunchRequest, Launcher, SupervisorReport};
use super::ProcessTree;
use crate::runtimes::sandbox::compat::SOCK_CLOEXEC;

/// A process tree under its supervisor. Dropping it kills the tree.
pub(super) struct SandboxedProcess {
    stdio: [Option<File>; 3],
    api_socket: Option<OwnedFd>,
    started: Option<LaunchHandle>,
    report: Option<SupervisorReport>,
}

impl SandboxedProcess {
    pub(super) fn start(launcher: &Launcher, order: &LaunchRequest, has_input: bool) -> io::Result<Self> {
        let (stdin, feed) = stdin_pipe(has_input)?;
        let (stdout, out) = io::pipe()?;
        let (stderr, err) = io::pipe()?;
        let (api, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SOCK_CLOEXEC, None)?;
        let started = launcher.start(order, [stdin, out.into(), err.into()], Some(theirs))?;
        let taken = [feed, Some(OwnedFd::from(stdout)), Some(OwnedFd::from(stderr))];
        Ok(Self {
            stdio: taken.map(|end| end.map(File::from)),
            api_socket: Some(api),
            started: Some(started),
            report: None,
        })
    }
}

/// The script's end of standard input and ours; without input there is nothing to read, and nothing to write to.
fn stdin_pipe(has_input: bool) -> io::Result<(OwnedFd, Option<OwnedFd>)> {
    if has_input {
        let (theirs, ours) = io::pipe()?;
        return Ok((theirs.into(), Some(ours.into())));
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
    }

    fn reap(&mut self) -> io::Result<(ExitStatus, Option<SupervisorReport>)> {
        let report =
            self.report.take().ok_or_else(|| io::Error::other("the process that watches it was killed"))?;
        match &report.end {
            LaunchOutcome::Exited { status } => Ok((ExitStatus::from_raw(*status), Some(report))),
            LaunchOutcome::SetupFailed { step, errno } => Err(setup_error(step, *errno)),
        }
    }
}

/// The report of a sandbox that could be put up, whatever came of the program in it.
pub(in super::super) fn check_setup(report: SupervisorReport) -> io::Result<SupervisorReport> {
    match &report.end {
        LaunchOutcome::SetupFailed { step, errno } if step != PROGRAM_STEP => Err(setup_error(step, *errno)),
        _ => Ok(report),
    }
}

/// The last step of all.
const PROGRAM_STEP: &str = "program";

/// What some machines have and others do not, and what projects stand in the way of.
const STEP_HINTS: [(&str, &str); 3] = [
    (
        "namespaces",
        "raise what there was too little of, or grant fewer paths; --sandbox best-effort goes on without namespaces",
    ),
    (
        PROTECTED_PATHS_STEP,
        "name a smaller project with --project; --sandbox best-effort goes on with what could be protected",
    ),
    (
        METIER_DIRS_STEP,
        "have TMPDIR, HOME, XDG_CACHE_HOME and XDG_STATE_HOME name folders outside of the project, and remove those once no metier \
         runs that uses them; --sandbox best-effort goes on, and the script sees them",
    ),
];

/// The step that fails where not all could be protected that has to be.
pub(in super::super) const PROTECTED_PATHS_STEP: &str = "protected paths";

/// The step that fails where folders of metier's own could not be covered, and how that is said.
const METIER_DIRS_STEP: &str = "own folders";
pub(in super::super) const METIER_DIRS_VISIBLE: &str =
    "folders of metier's own lie where the script would see them, which takes namespaces to prevent";

/// A program that could not be executed is the script's fault; a restriction that could not be set up is the sandbox's.
fn setup_error(step: &str, errno: i32) -> io::Error {
    let error = io::Error::from_raw_os_error(errno);
    if step == PROGRAM_STEP {
        error
    } else {
        io::Error::other(SandboxSetupError { step: step.to_owned(), error })
    }
}

/// A sandbox that could not be set up.
#[derive(Debug)]
pub(in super::super) struct SandboxSetupError {
    step: String,
    error: io::Error,
}

impl SandboxSetupError {
    /// Whether a resource ran out, which says nothing about what the machine can enforce.
    pub(in super::super) fn is_resource_shortage(&self) -> bool {
        use rustix::io::Errno;
        let want = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::PIPE, Errno::NOSPC];
        Errno::from_io_error(&self.error).is_some_and(|error| want.contains(&error))
    }

    /// The hint, if the machine supports what is missing and could not provide it to this run.
    pub(in super::super) fn hint(&self) -> Option<&'static str> {
        let row = STEP_HINTS.into_iter().find(|(step, _)| *step == self.step);
        row.map(|(_, advice)| advice)
    }
}

impl std::fmt::Display for SandboxSetupError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.error.kind() == io::ErrorKind::ArgumentListTooLong {
            return f.write_str("it would be a sandbox inside of more sandboxes than the kernel allows");
        }
        if self.step == METIER_DIRS_STEP {
            return f.write_str(METIER_DIRS_VISIBLE);
        }
        write!(f, "{}: {}", self.step, self.error)
    }
}

impl std::error::Error for SandboxSetupError {}
