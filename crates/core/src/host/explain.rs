//! What the process of an external script would run and reach, shown before it runs.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use super::report::SandboxReport;
use crate::error::Hint;
use crate::policy::WorkerOptions;

/// The command of an external script and everything that it would reach, taken from the same launch request that would start it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LaunchPreview {
    /// The program and its arguments, including the script.
    pub command: Vec<String>,
    /// The version that the interpreter reports, if it reports one.
    pub interpreter_version: Option<String>,
    /// The working directory.
    pub working_dir: PathBuf,
    /// The names of its environment variables, sorted.
    pub environment: Vec<String>,
    /// A temporary directory of the run's own, for temporary files and, without the permission `state`, for `HOME`; each run gets another one, which is removed
    /// afterwards. `null` without a sandbox.
    pub temp_dir: Option<PathBuf>,
    /// Paths that it may read and execute, with everything below them.
    pub reads: Vec<SandboxPath>,
    /// Paths that it may read, execute and change, with everything below them.
    pub writes: Vec<SandboxPath>,
    /// Protected paths below the writable ones that it may not change (and, for secrets, not read) where
    /// `sandbox.protected_paths` is `true`. Lists those that exist when the run begins.
    pub protected: Vec<PathBuf>,
    /// Writable paths by its grants that do not exist; relative to the project. Before a run, the host creates those whose name has no
    /// dot, as folders. The sandbox does not include the others, which may be meant as files; the host API creates the files that it
    /// writes.
    pub missing: Vec<String>,
    /// Whether it may create sockets that reach the whole network. Requests to the host are separate.
    pub network: bool,
    /// The hosts that it reaches in a network of its own, as they were granted, if it does not reach the whole network.
    pub hosts: Vec<String>,
    /// Whether the host API serves it.
    pub has_api: bool,
    /// What the script may want, guessed from its text alone; `null` if it has none that can be read. Nothing is granted by it.
    pub guesses: Option<ScriptGuesses>,
    /// How long its worker is kept for further runs, if its skill asks for a worker.
    pub worker: Option<WorkerOptions>,
    /// The restrictions of that sandbox that this machine enforces, as just measured with a program that does nothing.
    pub sandbox: SandboxReport,
}

/// What the text of a script names, without a run: it may want more than that, and less. Whoever wrote the script chose the texts. Of each kind
/// at most 32 are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ScriptGuesses {
    /// The hosts of the addresses in it, with their ports.
    pub hosts: Vec<String>,
    /// The environment variables that it reads.
    pub variables: Vec<String>,
    /// The paths that it names: absolute, in the home with `~/`, and those that it opens.
    pub paths: Vec<String>,
    /// The packages that it imports.
    pub imports: Vec<String>,
    /// The programs that it starts.
    pub commands: Vec<String>,
    /// Whether only its first 64 KiB were searched.
    pub is_cut: bool,
}

/// A file or folder in a sandbox, and the reason why it is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SandboxPath {
    /// Absolute.
    pub path: PathBuf,
    /// Why it is there.
    pub why: AccessReason,
}

/// That path, and the reason.
pub fn sandbox_path(path: impl Into<PathBuf>, why: AccessReason) -> SandboxPath {
    SandboxPath { path: path.into(), why }
}

/// Why a file or folder is in a sandbox. In JSON its name: `temp-dir`, `project` and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AccessReason {
    /// The project.
    Project,
    /// The skill's folder.
    Skill,
    /// In the temporary directory of the run.
    TempDir,
    /// The home that the skill keeps.
    State,
    /// The packages that were prepared for the script.
    Packages,
    /// A path in the project that a grant names.
    Granted,
    /// The repository of the project, which lies outside of it.
    Repository,
    /// A program or library of the system.
    System,
    /// Configuration that programs need to reach the network.
    Network,
    /// The interpreter and its libraries.
    Interpreter,
    /// The client of the host API.
    Client,
    /// A device.
    Device,
    /// Everything that the user can reach: there is no sandbox.
    User,
}

impl AccessReason {
    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::Skill => "skill",
            Self::TempDir => "temp-dir",
            Self::State => "state",
            Self::Packages => "packages",
            Self::Granted => "granted",
            Self::Repository => "repository",
            Self::System => "system",
            Self::Network => "network",
            Self::Interpreter => "interpreter",
            Self::Client => "client",
            Self::Device => "device",
            Self::User => "user",
        }
    }
}

impl fmt::Display for AccessReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What this machine supports for external scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SandboxSupport {
    /// The Landlock ABI that restricted a test program; `null` if Landlock did not work.
    pub landlock_abi: Option<u8>,
    /// The strongest sandbox that this machine supports, as it was in force around a test program; the report of a plain process
    /// if no sandbox is possible.
    pub strongest: SandboxReport,
    /// How the process tree of a script is killed; `null` without a sandbox.
    pub tree_kill: Option<TreeKill>,
    /// Why no sandbox is possible.
    pub reason: Option<String>,
    /// What would help, if something does; each way says what else it allows.
    pub help: Option<String>,
    /// The same for the program around it.
    #[serde(skip)]
    pub hint: Option<Hint>,
    /// The program that starts sandboxed processes; `null` if a copy of this process does.
    pub helper: Option<PathBuf>,
}

/// How the process tree of a script is killed. In JSON its name in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TreeKill {
    /// All processes at once, by a signal that the kernel confines to the sandbox.
    Scoped,
    /// Generation by generation.
    Walk,
}

/// An interpreter command that runs scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
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

/// A command, the extensions that it runs, its path if it is installed, and the version that it reports.
pub fn interpreter_report(
    command: impl Into<String>,
    extensions: Vec<&'static str>,
    path: Option<PathBuf>,
    version: Option<String>,
) -> InterpreterReport {
    InterpreterReport { command: command.into(), extensions, path, version }
}
