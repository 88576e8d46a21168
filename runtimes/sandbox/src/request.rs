//! The request to start a sandboxed process, which the host sends to the fork server.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bytes;
use crate::{FileId, WatchRules};

/// The descriptor by which a script in a sandbox reaches the host API.
pub const HOST_API_FD: i32 = 3;

/// A program and the sandbox it runs in. Everything in it is decided by the host; nothing comes from the script.
#[derive(Debug, Serialize, Deserialize)]
pub struct LaunchRequest {
    /// The path of the program, absolute.
    #[serde(with = "bytes")]
    pub program: OsString,
    /// The arguments, without the program itself.
    #[serde(with = "bytes::list")]
    pub args: Vec<OsString>,
    /// The whole environment.
    #[serde(with = "bytes::pairs")]
    pub environment: Vec<(OsString, OsString)>,
    /// The working directory, absolute.
    #[serde(with = "bytes")]
    pub folder: OsString,
    /// What the program may do.
    pub sandbox: SandboxPolicy,
    /// Temp dirs of scripts, created and removed by the host; if the host is killed, the fork server removes them.
    #[serde(with = "bytes::list")]
    pub cleanup_dirs: Vec<OsString>,
    /// Milliseconds until the tree is killed, unless the host ends it earlier.
    pub timeout_ms: u64,
}

/// Which restrictions apply to a script.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// Files and folders that the script may access.
    pub files: FileRules,
    /// The network of the program.
    pub network: NetworkAccess,
    /// For a script that reaches granted hosts only: what to listen for.
    pub egress: EgressSockets,
    /// Whether a script may lock whole files (`flock`). The right to read a file is enough to lock it, and others then wait.
    pub allow_flock: bool,
    /// Whether a script without a network may create sockets of its own (`AF_UNIX`), and connect to those below
    /// [`FileRules::socket_dirs`]. Where the machine cannot tell them from others, it has none.
    pub allow_local_sockets: bool,
    /// Whether the program must not start if the kernel enforces less than this.
    pub required: bool,
    /// The limits of each process and of all of them.
    pub limits: ResourceLimits,
    /// Which accesses are reported; `None` if the run is not watched, which costs nothing. Where another sandbox around this one answers
    /// system calls, no run can be watched, and the report has no observations.
    pub watch: Option<WatchRules>,
}

/// Which network a script has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NetworkAccess {
    /// None: it creates no socket, except [local ones](SandboxPolicy::allow_local_sockets).
    #[default]
    Blocked,
    /// A network of its own, in which only the sockets that the host program serves exist.
    Hosts,
    /// That of the machine.
    Open,
}

/// Where programs have their temporary files, which may be a [`PrivateFolder`].
pub const PRIVATE_TMP: &str = "/tmp";

/// The maximum number of ports that are listened on for one script.
pub const MAX_EGRESS_PORTS: usize = 64;

/// The sockets in the network of a script that reaches granted hosts only. The host program receives them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressSockets {
    /// Listened on at every address.
    pub ports: Vec<u16>,
    /// Addresses that are granted as such, and therefore exist.
    pub addresses: Vec<IpAddr>,
}

/// Absolute paths; a folder includes everything below it. Paths that do not exist are skipped.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct FileRules {
    /// System paths to read and execute, which nobody else may change; symlinks are followed.
    #[serde(with = "bytes::list")]
    pub read: Vec<OsString>,
    /// To read and execute.
    pub own: Vec<PinnedPath>,
    /// To read, execute and change.
    pub write: Vec<PinnedPath>,
    /// Writable folders of the script alone, in which it may create sockets with a path, and connect to them.
    pub socket_dirs: Vec<PinnedPath>,
    /// Folders that the script has in the place of the machine's, of which it sees what is listed here. Only mounts can do that.
    pub private_folders: Vec<PrivateFolder>,
    /// The overlay that the script has in the place of a folder; all other rules are about what it shows. Only mounts can do that: without
    /// them, the program does not start, even if the sandbox is not required.
    pub overlay: Option<OverlayMount>,
    /// Exceptions: paths that stay read-only inside writable ones, and paths that stay hidden everywhere. Only mounts can enforce
    /// them.
    pub protected_paths: ProtectedPaths,
}

/// A folder that the script has in the place of another one, such as `/tmp`, and may change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivateFolder {
    /// Where the script has it; contains no symlinks.
    #[serde(with = "bytes")]
    pub path: OsString,
    /// What is mounted there.
    pub content: PinnedPath,
    /// The environment variables that name it by its real path. Once it is mounted, they name it by `path`; if the list is not empty, the
    /// script does not see the folder at its real path.
    pub variables: Vec<String>,
    /// Symlinks in it that lead to what is listed, by their paths below it, and what they contain.
    #[serde(with = "bytes::pairs")]
    pub links: Vec<(OsString, OsString)>,
}

/// A path pinned to a device and inode, so that a file or symlink that replaced it after the check is refused: who may write
/// beside it could put a symlink there that leads anywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedPath {
    /// Contains no symlinks.
    #[serde(with = "bytes")]
    pub path: OsString,
    /// `None` for a path of which the sandbox has its own version.
    pub file_id: Option<FileId>,
}

impl<T: AsRef<OsStr> + ?Sized> From<&T> for PinnedPath {
    /// Pins what exists at this path when the sandbox is set up, as long as no symlink leads to it.
    fn from(path: &T) -> Self {
        Self { path: path.into(), file_id: None }
    }
}

/// An overlay and the folder in whose place it is, from [`Overlay::mount_at`](crate::Overlay::mount_at).
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OverlayMount {
    /// The lower folder.
    pub(crate) target: PinnedPath,
    /// The socket of the overlay's server, which the host has.
    #[serde(skip)]
    #[cfg_attr(not(all(feature = "launcher", target_os = "linux")), allow(dead_code))]
    pub(crate) server: Option<Arc<OwnedFd>>,
}

impl OverlayMount {
    /// That of an overlay that has ended: no program starts with it.
    pub fn unavailable(path: &(impl AsRef<OsStr> + ?Sized)) -> Self {
        Self { target: PinnedPath::from(path), server: None }
    }
}

/// Paths that a grant to read or write the folders around them does not include.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ProtectedPaths {
    /// May be read, not changed.
    #[serde(with = "bytes::list")]
    pub read_only: Vec<OsString>,
    /// May be neither read nor changed.
    #[serde(with = "bytes::list")]
    pub hidden: Vec<OsString>,
    /// Directories of the program that starts this one, on which its other runs rely: hidden, and if they cannot be hidden, the run fails.
    #[serde(with = "bytes::list")]
    pub own: Vec<OsString>,
    /// Whether some of the paths are denied by name: if they cannot be covered, the run fails.
    pub has_denied: bool,
    /// Why the list may be incomplete; `None` if it is complete.
    pub incomplete_reason: Option<String>,
    /// Files with several hard links, all of whose reachable names are listed.
    pub hard_linked_files: Vec<FileId>,
}

/// Limits for each process, and for all of them together.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Bytes of heap and private mappings.
    pub memory: Option<u64>,
    /// Bytes of memory of the whole process tree.
    pub tree_memory: Option<u64>,
    /// Processes and threads of the tree, where they can be limited without counting the user's other processes.
    pub processes: Option<u64>,
    /// Seconds of CPU time.
    pub cpu_seconds: Option<u64>,
    /// Maximum size of one file, in bytes.
    pub file_size: Option<u64>,
    /// File descriptors open at a time.
    pub open_files: Option<u64>,
}
