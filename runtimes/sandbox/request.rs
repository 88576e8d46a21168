//! The request to start a sandboxed process, and the report about it: what the host and the fork server send each other.

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
    /// Temp dirs of scripts, created and removed by the host; if the host is killed, the fork server removes them.
    #[serde(with = "bytes::list")]
    pub(crate) cleanup_dirs: Vec<OsString>,
    /// Milliseconds until the tree is killed, unless the host ends it earlier.
    pub(crate) timeout_ms: u64,
}

/// Which restrictions apply to a script.
#[allow(clippy::struct_excessive_bools, reason = "each is a wall of its own")]
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SandboxPolicy {
    /// Files and folders that the script may access; `None` allows everything the user may access.
    pub(crate) files: Option<FileRules>,
    /// Whether the network is blocked.
    pub(crate) block_network: bool,
    /// Whether a script may lock whole files (`flock`). The right to read a file is enough to lock it, and others then wait.
    pub(crate) allow_flock: bool,
    /// Whether system calls that lead out of a sandbox are refused.
    pub(crate) filter_syscalls: bool,
    /// Whether the program must not start if the kernel enforces less than this.
    pub(crate) required: bool,
    pub(crate) limits: ResourceLimits,
}

/// Absolute paths; a folder includes everything below it. Paths that do not exist are skipped.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct FileRules {
    /// System paths to read and execute, which nobody else may change; symlinks are followed.
    #[serde(with = "bytes::list")]
    pub(crate) read: Vec<OsString>,
    /// To read and execute.
    pub(crate) own: Vec<PinnedPath>,
    /// To read, execute and change.
    pub(crate) write: Vec<PinnedPath>,
    /// Exceptions: paths that stay read-only inside writable ones, and paths that stay hidden everywhere. Only mounts can enforce
    /// them.
    pub(crate) protected_paths: ProtectedPaths,
}

/// A path pinned to a device and inode, so that a file or symlink that replaced it after the check is refused: who may write
/// beside it could put a symlink there that leads anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PinnedPath {
    /// Contains no symlinks.
    #[serde(with = "bytes")]
    pub(crate) path: OsString,
    /// Its device and inode; `None` for a path of which the sandbox has its own version.
    pub(crate) file_id: Option<(u64, u64)>,
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for PinnedPath {
    /// Pins what exists at this path when the sandbox is set up, as long as no symlink leads to it.
    fn from(path: &T) -> Self {
        Self { path: path.into(), file_id: None }
    }
}

/// Paths that a grant to read or write the folders around them does not include.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ProtectedPaths {
    /// May be read, not changed.
    #[serde(with = "bytes::list")]
    pub(crate) read_only: Vec<OsString>,
    /// May be neither read nor changed.
    #[serde(with = "bytes::list")]
    pub(crate) hidden: Vec<OsString>,
    /// metier's own directories, on which other runs rely: hidden, and if they cannot be hidden, the run fails.
    #[serde(with = "bytes::list")]
    pub(crate) own: Vec<OsString>,
    /// Why the list may be incomplete; `None` if it is complete.
    pub(crate) incomplete_reason: Option<String>,
    /// Files with several hard links, by device and inode, all of whose reachable names are listed.
    pub(crate) hard_linked_files: Vec<(u64, u64)>,
    /// Files that builds and tests execute, with their version at the scan. Only the host uses them.
    #[serde(skip)]
    pub(crate) build_files: Vec<(OsString, Version)>,
}

/// Device, inode, size, and the time of the last change by a clock that no script can set.
pub(crate) type Version = (u64, u64, u64, i64, i64);

/// Limits for each process, and for all of them together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct ResourceLimits {
    /// Bytes of heap and private mappings.
    pub(crate) memory: Option<u64>,
    /// Bytes of memory of the whole process tree.
    pub(crate) tree_memory: Option<u64>,
    /// Processes and threads of the tree, where they can be limited without counting the user's other processes.
    pub(crate) processes: Option<u64>,
    /// Seconds of CPU time.
    pub(crate) cpu_seconds: Option<u64>,
    /// Maximum size of one file, in bytes.
    pub(crate) file_size: Option<u64>,
    /// File descriptors open at a time.
    pub(crate) open_files: Option<u64>,
}

/// How the tree ended, reported by its supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SupervisorReport {
    pub(crate) end: LaunchOutcome,
    /// The restrictions that were in force when the program started.
    pub(crate) enforcement: Enforcement,
    pub(crate) usage: ResourceUsage,
    /// Whether the tree was killed because all its processes together exceeded the memory limit.
    pub(crate) exceeded_tree_memory: bool,
}

/// How the script ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LaunchOutcome {
    /// The program was never executed: the setup step that failed, and the system's error number.
    SetupFailed { step: String, errno: i32 },
    /// The program ran; the status is that of `wait`.
    Exited { status: i32 },
}

/// Which restrictions were in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::struct_excessive_bools, reason = "each wall stands or does not, whatever the others do")]
pub(crate) struct Enforcement {
    /// The Landlock ABI that restricted files; 0 if none did.
    pub(crate) landlock_abi: u8,
    /// No socket could be created that connects to the network.
    pub(crate) network_blocked: bool,
    /// Signals and abstract sockets could not leave the sandbox.
    pub(crate) scope: bool,
    /// System calls were filtered, including sockets if the network is blocked.
    pub(crate) seccomp: bool,
    /// The script had mount, PID, IPC and UTS namespaces of its own and, if the network is blocked, an empty network namespace.
    pub(crate) namespaces: bool,
    /// Namespaces are available on this machine, but setting them up failed for this run.
    pub(crate) is_downgraded: bool,
    /// Nothing outside of the writable paths could be changed, not even its mode or its times.
    pub(crate) read_only: bool,
    /// Every protected path that existed was protected.
    pub(crate) protected_paths: bool,
    /// The number of processes was limited.
    pub(crate) process_limit: bool,
    /// How the tree is killed: `scoped` kills every descendant at once, `walk` kills them generation by generation.
    pub(crate) scoped_kill: bool,
    /// No process of the tree was left when the supervisor reported.
    pub(crate) tree_gone: bool,
}

/// What the whole tree used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResourceUsage {
    /// Microseconds of CPU time.
    pub(crate) cpu_us: u64,
    /// Resident bytes of the largest process.
    pub(crate) memory: u64,
    /// Bytes that all processes held together, the highest sample.
    pub(crate) peak_tree_memory: u64,
    /// Processes that outlived the script and were killed because of that.
    pub(crate) left_behind: u32,
}
