//! The request to start a sandboxed process, which the host sends to the fork server.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::bytes;
use crate::host::FileId;

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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct SandboxPolicy {
    /// Files and folders that the script may access.
    pub(crate) files: FileRules,
    pub(crate) network: NetworkAccess,
    /// For a script that reaches granted hosts only: what to listen for.
    pub(crate) egress: EgressSockets,
    /// Whether a script may lock whole files (`flock`). The right to read a file is enough to lock it, and others then wait.
    pub(crate) allow_flock: bool,
    /// Whether the program must not start if the kernel enforces less than this.
    pub(crate) required: bool,
    pub(crate) limits: ResourceLimits,
}

/// Which network a script has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum NetworkAccess {
    /// None: it cannot create a socket.
    #[default]
    Blocked,
    /// A network of its own, in which only the sockets that the host program serves exist.
    Hosts,
    /// That of the machine.
    Open,
}

/// What a script may have a folder of its own for.
pub(crate) const PRIVATE_TMP: &str = "/tmp";

/// The maximum number of ports that are listened on for one script.
pub(crate) const MAX_EGRESS_PORTS: usize = 64;

/// The sockets in the network of a script that reaches granted hosts only. The host program receives them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EgressSockets {
    /// Listened on at every address.
    pub(crate) ports: Vec<u16>,
    /// Addresses that are granted as such, and therefore exist.
    pub(crate) addresses: Vec<IpAddr>,
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
    /// The folder that the script has in the place of `/tmp`, of which it sees what is listed here. Only mounts can do that.
    pub(crate) private_tmp: Option<PinnedPath>,
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
    /// `None` for a path of which the sandbox has its own version.
    pub(crate) file_id: Option<FileId>,
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
    /// Whether the configuration denies some of the paths that it could use: if they cannot be covered, the run fails.
    pub(crate) has_denied: bool,
    /// Why the list may be incomplete; `None` if it is complete.
    pub(crate) incomplete_reason: Option<String>,
    /// Files with several hard links, all of whose reachable names are listed.
    pub(crate) hard_linked_files: Vec<FileId>,
    /// Files that builds and tests execute, with their version at the scan. Only the host uses them.
    #[serde(skip)]
    pub(crate) build_files: Vec<(OsString, Version)>,
    /// What a configuration makes git read or run and that does not exist, relative to the project: a mount cannot cover it. Only the
    /// host uses them.
    #[serde(skip)]
    pub(crate) absent_git_targets: Vec<String>,
    /// Listed paths with another name that is protected, and leads there: a grant that names it opens the path as well. The names are
    /// relative to the project. Only the host uses them.
    #[serde(skip)]
    pub(crate) aliases: Vec<(PathBuf, String)>,
    /// Listed paths that are hard links of protected files, and the first names of these. Only the host uses them.
    #[serde(skip)]
    pub(crate) second_names: Vec<(PathBuf, String)>,
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
