//! The report about a sandboxed process, which its supervisor sends to the host.

use serde::{Deserialize, Serialize};

use super::Enforcement;

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
