//! What a process would reach, told before it runs.

use std::path::PathBuf;

use serde::Serialize;

use super::report::SandboxReport;
use crate::policy::WorkerOptions;

/// The command of an external script, and all that it would reach: of the very order that would start it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LaunchPreview {
    /// The program and its arguments, the script among them.
    pub command: Vec<String>,
    /// What the interpreter says of its version, where it says something.
    pub interpreter_version: Option<String>,
    /// The working directory.
    pub working_dir: PathBuf,
    /// The names of its environment variables, sorted.
    pub environment: Vec<String>,
    /// A folder of the run's own, for `HOME` and temporary files; each run has another one, gone afterwards. `null` without a
    /// sandbox.
    pub temp_dir: Option<PathBuf>,
    /// What it may read and execute, with all that lies below.
    pub reads: Vec<SandboxPath>,
    /// What it may read, execute and change, with all that lies below.
    pub writes: Vec<SandboxPath>,
    /// What it may not change although it lies below that, and of secrets not read either: where `sandbox.protected_paths` is
    /// `true`. What there is of it when the run begins.
    pub protected: Vec<PathBuf>,
    /// Paths it may write by its grants that are not there, so that its sandbox opens nothing by them: relative to the project. The
    /// host makes nothing that nobody asked for; the host API makes what it writes.
    pub missing: Vec<String>,
    /// Whether it may make sockets that reach the network. What it asks of the host is another matter.
    pub network: bool,
    /// Whether the host API answers it.
    pub has_api: bool,
    /// How long it is kept for further runs, where its skill asks for that.
    pub worker: Option<WorkerOptions>,
    /// What this machine enforces of that sandbox, as a program that does nothing has just found.
    pub sandbox: SandboxReport,
}

/// A file or folder in a sandbox, and why it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxPath {
    /// Absolute.
    pub path: PathBuf,
    /// `project`, `skill`, `scratch`, `granted`, `system`, `network`, `interpreter`, `client`, or `device`.
    pub why: &'static str,
}

/// What this machine offers to external scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SandboxSupport {
    /// The Landlock ABI that confined a program that did nothing; `null` where none did.
    pub landlock_abi: Option<u8>,
    /// What held of a sandbox around it; that of a plain process where there can be no sandbox.
    pub sandbox: SandboxReport,
    /// How the tree of a script is killed: `scoped`, all at once, or `walk`, generation by generation; `null` without a sandbox.
    pub tree_kill: Option<&'static str>,
    /// Why there can be no sandbox.
    pub reason: Option<String>,
    /// The program that starts processes in sandboxes; `null` where a copy of this process does.
    pub helper: Option<PathBuf>,
}

/// A command that runs scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InterpreterReport {
    /// Its name, as it is looked for on `PATH`.
    pub command: String,
    /// The file endings it runs.
    pub extensions: Vec<&'static str>,
    /// Where it lies; `null` where it is not installed.
    pub path: Option<PathBuf>,
    /// The first line it says of its version, asked outside of the project.
    pub version: Option<String>,
}
