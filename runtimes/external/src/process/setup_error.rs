//! Why a sandbox could not be set up.

use std::fmt;
use std::io;

use rustix::io::Errno;

use metier_sandbox::{LaunchOutcome, Launcher, Refusal, SandboxPolicy, SupervisorReport};

/// The last step of a start. If it fails, the sandbox was set up and the program could not be executed.
const PROGRAM_STEP: &str = "program";
/// The step that creates the namespaces.
const NAMESPACES_STEP: &str = "namespaces";
/// The step that fails if a protected path could not be covered.
const PROTECTED_PATHS_STEP: &str = "protected paths";
/// The step that fails if a folder of metier's own could not be covered.
const METIER_DIRS_STEP: &str = "own folders";

/// The step that fails if a path that the configuration denies could not be covered.
const DENIED_PATHS_STEP: &str = "denied paths";

/// The step that makes the network of a script that reaches granted hosts only.
const HOSTS_STEP: &str = "hosts";

/// The steps that enforce a restriction for which a machine can lack something.
const RESTRICTION_STEPS: [&str; 6] =
    ["files", "signals", "the network", "local sockets", "system calls", "tree"];

/// Hints for steps that depend on the project or on the load of the machine.
const STEP_HINTS: [(&str, &str); 4] = [
    (
        NAMESPACES_STEP,
        "raise the limit that was too low, or grant fewer paths; a best-effort sandbox continues without namespaces",
    ),
    (
        PROTECTED_PATHS_STEP,
        "name a smaller project, or one that is mounted at one place only; a best-effort sandbox continues with what could be protected",
    ),
    (
        DENIED_PATHS_STEP,
        "deny the whole permission, or do not grant what contains the paths; a best-effort sandbox continues, and the script can use them",
    ),
    (
        METIER_DIRS_STEP,
        "set TMPDIR, HOME, XDG_CACHE_HOME and XDG_STATE_HOME to folders outside of the project, and remove the old folders when no \
         metier uses them; a best-effort sandbox continues, and the script sees them",
    ),
];

/// A sandbox that could not be set up: the step that failed, and the system's error.
#[derive(Debug)]
pub(crate) struct SandboxSetupError {
    step: String,
    error: io::Error,
}

impl SandboxSetupError {
    /// Whether a resource ran out. Then the machine may well be able to set up the sandbox at another time.
    pub(crate) fn is_resource_shortage(&self) -> bool {
        let shortages = [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::AGAIN, Errno::PIPE, Errno::NOSPC];
        Errno::from_io_error(&self.error).is_some_and(|error| shortages.contains(&error))
    }

    /// Whether a protected path could not be covered.
    pub(crate) fn is_about_protected_paths(&self) -> bool {
        self.step == PROTECTED_PATHS_STEP
    }

    /// Whether a folder of metier's own could not be covered.
    pub(crate) fn is_about_metier_dirs(&self) -> bool {
        self.step == METIER_DIRS_STEP
    }

    /// Whether the script could not get a network with granted hosts only. Nothing else may take its place, such as the whole network.
    pub(crate) fn is_about_hosts(&self) -> bool {
        self.step == HOSTS_STEP
    }

    /// The system's error.
    pub(crate) fn error(&self) -> &io::Error {
        &self.error
    }

    /// Whether it would be a sandbox inside of too many.
    fn is_too_deep(&self) -> bool {
        self.error.kind() == io::ErrorKind::ArgumentListTooLong
    }

    /// What the machine lacks for it, if that is known; `None` for what fails on a machine that lacks nothing.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        if self.is_too_deep() || self.is_resource_shortage() {
            return None;
        }
        if self.is_about_hosts() {
            return metier_sandbox::machine()?.namespace_refusal();
        }
        let restriction = RESTRICTION_STEPS.into_iter().find(|step| *step == self.step)?;
        metier_sandbox::machine()?.refusal(restriction)
    }

    /// What to do about it, if the machine supports the step and could not do it for this run: a best-effort sandbox is one way.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        STEP_HINTS.into_iter().find(|(step, _)| *step == self.step).map(|(_, hint)| hint)
    }
}

impl fmt::Display for SandboxSetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_too_deep() {
            return f.write_str("it would be a sandbox inside of more sandboxes than the kernel allows");
        }
        if self.is_about_metier_dirs() {
            return f.write_str(
                "folders of metier's own lie where the script would see them, which takes namespaces to prevent",
            );
        }
        if self.step == DENIED_PATHS_STEP {
            return f.write_str(
                "the configuration denies paths that the script would reach, which takes namespaces to prevent",
            );
        }
        if self.is_about_hosts() {
            return f.write_str("the network with granted hosts only, which takes namespaces");
        }
        write!(f, "{}: {}", self.step, self.error)
    }
}

impl std::error::Error for SandboxSetupError {}

/// What this sandbox enforces, probed with a program that does nothing. Fails with a [`SandboxSetupError`] if it cannot be set up,
/// but not if only the program cannot be executed.
pub(crate) fn probe(launcher: &Launcher, policy: SandboxPolicy) -> io::Result<SupervisorReport> {
    let report = metier_sandbox::probe(launcher, policy)?;
    match &report.end {
        LaunchOutcome::SetupFailed { step, errno } if step != PROGRAM_STEP => Err(start_error(step, *errno)),
        _ => Ok(report),
    }
}

/// The error of a failed step. It is a [`SandboxSetupError`] unless the program itself could not be executed.
pub(super) fn start_error(step: &str, errno: i32) -> io::Error {
    let error = io::Error::from_raw_os_error(errno);
    if step == PROGRAM_STEP {
        error
    } else {
        io::Error::other(SandboxSetupError { step: step.to_owned(), error })
    }
}
