//! What the helper is told to run, and what it answers: the words between the host and the sandbox.

use std::ffi::{OsStr, OsString};

use serde::{Deserialize, Serialize};

use super::bytes;

/// The descriptor by which a script in a sandbox reaches the host API.
pub(crate) const HOST_API_FD: i32 = 3;

/// A program and the sandbox it runs in. Everything in it is decided by the host; nothing comes from the script.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LaunchRequest {
    /// The program, absolute, and its arguments without itself.
    #[serde(with = "bytes")]
    pub(crate) program: OsString,
    #[serde(with = "bytes::list")]
    pub(crate) args: Vec<OsString>,
    /// The whole environment.
    #[serde(with = "bytes::pairs")]
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// The working directory, absolute.
    #[serde(with = "bytes")]
    pub(crate) folder: OsString,
    pub(crate) sandbox: SandboxPolicy,
    /// Folders for scripts that the host has made and removes; should it be killed, the helper does.
    #[serde(with = "bytes::list")]
    pub(crate) cleanup_dirs: Vec<OsString>,
    /// Milliseconds until the tree is killed, should the host not say so before.
    pub(crate) timeout_ms: u64,
}

/// What a script may reach.
#[allow(clippy::struct_excessive_bools, reason = "each is a wall of its own")]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SandboxPolicy {
    /// Files and folders; without any rules everything the user may reach.
    pub(crate) files: Option<FileRules>,
    /// Whether the network stays shut.
    pub(crate) block_network: bool,
    /// Whether whole files are locked where a script asks for it. It takes no more than the right to read, and others wait.
    pub(crate) allow_flock: bool,
    /// Whether system calls that lead out of a sandbox are refused.
    pub(crate) filter_syscalls: bool,
    /// Whether the program must not start when the kernel enforces less than this.
    pub(crate) required: bool,
    pub(crate) limits: ResourceLimits,
}

/// Paths, absolute; what lies below a folder is meant as well. What does not exist is passed over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileRules {
    /// To read and execute, wherever they lead: the system's, which nobody else may change.
    #[serde(with = "bytes::list")]
    pub(crate) read: Vec<OsString>,
    /// To read and execute.
    pub(crate) own: Vec<PinnedPath>,
    /// To read, execute and change.
    pub(crate) write: Vec<PinnedPath>,
    /// What is not to be changed inside of what is to write, and what is not to be seen inside of anything. Only mounts can
    /// carve that out.
    pub(crate) protected_paths: ProtectedPaths,
}

/// A file or a folder, and nothing that has taken its place since it was decided on: who may write around it could put a link
/// there that leads anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PinnedPath {
    /// Without links.
    #[serde(with = "bytes")]
    pub(crate) path: OsString,
    /// Its device and its number there; nothing where a sandbox has its own.
    pub(crate) file_id: Option<(u64, u64)>,
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for PinnedPath {
    /// What is there when the sandbox is put up, as long as no link leads to it.
    fn from(path: &T) -> Self {
        Self { path: path.into(), file_id: None }
    }
}

/// Paths that a grant to read or write what lies around them does not open.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ProtectedPaths {
    /// To read only.
    #[serde(with = "bytes::list")]
    pub(crate) read_only: Vec<OsString>,
    /// Neither to read nor to change.
    #[serde(with = "bytes::list")]
    pub(crate) hidden: Vec<OsString>,
    /// The same, and where it cannot be kept from being seen, nothing runs: what other runs rely on.
    #[serde(with = "bytes::list")]
    pub(crate) own: Vec<OsString>,
    /// Where there may be more of them than are listed here, and why nobody knows.
    pub(crate) incomplete_reason: Option<String>,
    /// Files with several names, by device and number, of which all that can be reached are listed.
    pub(crate) hard_linked_files: Vec<(u64, u64)>,
    /// What builds and tests run, and how it was when it was looked at: for the host alone.
    #[serde(skip)]
    pub(crate) build_files: Vec<(OsString, Version)>,
}

/// Device, number, size, and the moment of the last change by a clock that no script can set.
pub(crate) type Version = (u64, u64, u64, i64, i64);

/// What each process may use, and all of them together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ResourceLimits {
    /// Bytes of heap and private mappings.
    pub(crate) memory: Option<u64>,
    /// Bytes that the whole tree may hold.
    pub(crate) tree_memory: Option<u64>,
    /// Processes and threads of the tree, where its number can be limited without counting the user's others.
    pub(crate) processes: Option<u64>,
    /// Seconds of processor time.
    pub(crate) cpu_seconds: Option<u64>,
    /// Bytes of any one file.
    pub(crate) file_size: Option<u64>,
    /// Descriptors open at a time.
    pub(crate) open_files: Option<u64>,
}

/// How the tree ended, from the stub that watched it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SupervisorReport {
    pub(crate) end: LaunchOutcome,
    /// What the script itself put on before it became the program.
    pub(crate) enforcement: Enforcement,
    pub(crate) usage: ResourceUsage,
    /// Whether it was ended for what all of its processes held together.
    pub(crate) exceeded_tree_memory: bool,
}

/// How the script ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LaunchOutcome {
    /// It never became the program: the step that failed, and the system's error number.
    SetupFailed { step: String, errno: i32 },
    /// It ran; the status is that of `wait`.
    Exited { status: i32 },
}

/// What held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each wall stands or does not, whatever the others do")]
pub(crate) struct Enforcement {
    /// The Landlock ABI that confined files; 0 where none did.
    pub(crate) landlock_abi: u8,
    /// No socket could be made that reaches the network.
    pub(crate) network_blocked: bool,
    /// Signals and abstract sockets stayed inside.
    pub(crate) scope: bool,
    /// System calls were filtered, sockets among them where the network is shut.
    pub(crate) seccomp: bool,
    /// Files, processes and names are namespaces of its own; the network, where it is shut, one that no machine is in.
    pub(crate) namespaces: bool,
    /// There are namespaces on this machine, and this tree could not be given any.
    pub(crate) is_downgraded: bool,
    /// Nothing outside of what is to write could be changed, not even its mode or its times.
    pub(crate) read_only: bool,
    /// Everything guarded that was there was guarded.
    pub(crate) protected_paths: bool,
    /// The number of processes was limited.
    pub(crate) process_limit: bool,
    /// How the tree is killed: `scoped` reaches every descendant at once, `walk` finds them generation by generation.
    pub(crate) scoped_kill: bool,
    /// Nothing of the tree was left when the stub reported.
    pub(crate) tree_gone: bool,
}

/// What the whole tree used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResourceUsage {
    /// Microseconds of processor time.
    pub(crate) cpu_us: u64,
    /// Bytes resident in the largest process.
    pub(crate) memory: u64,
    /// Bytes that all held together, the most that was seen.
    pub(crate) peak_tree_memory: u64,
    /// Processes that ended after the script and were ended for it.
    pub(crate) left_behind: u32,
}
