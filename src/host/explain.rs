//! What the process of an external script would run and reach, shown before it runs.

use std::path::PathBuf;

use serde::Serialize;

use super::report::SandboxReport;
use crate::policy::WorkerOptions;

/// The command of an external script and everything that it would reach, taken from the same launch request that would start it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchPreview {
    /// The program and its arguments, including the script.
    pub command: Vec<String>,
    /// The version that the interpreter reports, if it reports one.
    pub interpreter_version: Option<String>,
    /// The working directory.
    pub working_dir: PathBuf,
    /// The names of its environment variables, sorted.
    pub environment: Vec<String>,
    /// A temporary directory of the run's own, for `HOME` and temporary files; each run gets another one, which is removed
    /// afterwards. `null` without a sandbox.
    pub temp_dir: Option<PathBuf>,
    /// Paths that it may read and execute, with everything below them.
    pub reads: Vec<SandboxPath>,
    /// Paths that it may read, execute and change, with everything below them.
    pub writes: Vec<SandboxPath>,
    /// Protected paths below the writable ones that it may not change (and, for secrets, not read) where
    /// `sandbox.protected_paths` is `true`. Lists those that exist when the run begins.
    pub protected: Vec<PathBuf>,
    /// Writable paths by its grants that do not exist, so the sandbox does not include them; relative to the project. The host
    /// creates no file that was not requested; the host API creates the files that it writes.
    pub missing: Vec<String>,
    /// Whether it may create sockets that reach the network. Requests to the host are separate.
    pub network: bool,
    /// Whether the host API serves it.
    pub has_api: bool,
    /// How long its worker is kept for further runs, if its skill asks for a worker.
    pub worker: Option<WorkerOptions>,
    /// The restrictions of that sandbox that this machine enforces, as just measured with a program that does nothing.
    pub sandbox: SandboxReport,
}

/// A file or folder in a sandbox, and the reason why it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxPath {
    /// Absolute.
    pub path: PathBuf,
    /// `project`, `skill`, `temp-dir`, `granted`, `system`, `network`, `interpreter`, `client`, or `device`.
    pub why: &'static str,
}

/// What this machine supports for external scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxSupport {
    /// The Landlock ABI that restricted a test program; `null` if Landlock did not work.
    pub landlock_abi: Option<u8>,
    /// The sandbox that was in force around the test program; the report of a plain process if no sandbox is possible.
    pub sandbox: SandboxReport,
    /// How the process tree of a script is killed: `scoped`, all at once, or `walk`, generation by generation; `null` without a
    /// sandbox.
    pub tree_kill: Option<&'static str>,
    /// Why no sandbox is possible.
    pub reason: Option<String>,
    /// The program that starts sandboxed processes; `null` if a copy of this process does.
    pub helper: Option<PathBuf>,
}

/// An interpreter command that runs scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterpreterReport {
    /// The command name that is looked up on `PATH`.
    pub command: String,
    /// The file extensions that it runs.
    pub extensions: Vec<&'static str>,
    /// Its path; `null` if it is not installed.
    pub path: Option<PathBuf>,
    /// The first line of its version output, requested from outside of the project.
    pub version: Option<String>,
}
