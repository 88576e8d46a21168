//! The report about a sandboxed process, which its supervisor sends to the host.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::{Enforcement, Observations};

/// How the tree ended, reported by its supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SupervisorReport {
    /// How the program ended.
    pub end: LaunchOutcome,
    /// The restrictions that were in force when the program started.
    pub enforcement: Enforcement,
    /// What the program and its descendants used.
    pub usage: ResourceUsage,
    /// Whether the tree was killed because all its processes together exceeded the memory limit.
    pub exceeded_tree_memory: bool,
    /// Addresses that it connected to in vain, in a network of its own: at most [`MAX_FAILED_CONNECTIONS`].
    pub failed_connections: Vec<FailedConnection>,
    /// What a watched run wanted to access; `None` if it was not watched, or could not be. It comes beside the report.
    #[serde(skip)]
    pub observations: Option<Observations>,
}

/// The most addresses that a report has of those that were not reached.
pub const MAX_FAILED_CONNECTIONS: usize = 64;

/// An address that a program did not reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedConnection {
    /// What it tried to connect to.
    pub address: SocketAddr,
    /// How often.
    pub count: u64,
}

/// How the script ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LaunchOutcome {
    /// The program was never executed.
    SetupFailed {
        /// The step of the setup that failed, such as `files` or `execute`.
        step: String,
        /// The error number of the system.
        errno: i32,
    },
    /// The program ran.
    Exited {
        /// As `wait` returns it.
        status: i32,
    },
}

/// What the whole tree used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// Microseconds of CPU time.
    pub cpu_us: u64,
    /// Resident bytes of the largest process.
    pub memory: u64,
    /// Bytes that all processes held together, the highest sample.
    pub peak_tree_memory: u64,
    /// Processes that outlived the script and were killed because of that.
    pub left_behind: u32,
}
