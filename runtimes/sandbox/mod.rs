//! The sandbox for processes: policy, launcher and report. The rest of the crate uses what this module exports.

mod bytes;
mod cleanup;
pub(crate) mod compat;
mod enforcement;
mod fork_server_source;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod linux;
#[cfg_attr(not(all(feature = "sandboxed", target_os = "linux")), allow(dead_code))]
mod machine;
mod probe;
mod report;
mod request;
mod response_timeout;
mod run_temp_dir;
#[cfg(not(all(feature = "sandboxed", target_os = "linux")))]
mod unsupported;

pub(crate) use self::cleanup::CleanupThreads;
pub(crate) use self::enforcement::{Enforcement, Restrictions, SIGNAL_SCOPE_ABI, TRUNCATION_ABI};
pub(crate) use self::fork_server_source::ForkServerSource;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[cfg_attr(not(feature = "wasm-runtime"), allow(unused_imports))]
pub(crate) use self::linux::{
    LaunchHandle, Launcher, deny_all_files, fork_server_main, inherited_fd, machine, restrict_to_computing,
};
pub(crate) use self::machine::{Machine, Refusal};
pub(crate) use self::probe::probe;
pub(crate) use self::report::{LaunchOutcome, ResourceUsage, SupervisorReport};
pub(crate) use self::request::{
    EgressSockets, FileRules, HOST_API_FD, LaunchRequest, MAX_EGRESS_PORTS, NetworkAccess, PRIVATE_TMP,
    PinnedPath, ProtectedPaths, ResourceLimits, SandboxPolicy, Version,
};
pub(crate) use self::response_timeout::{
    RESPONSE_TIMEOUT, TREE_EXIT_TIMEOUT, wait_for_report, wait_readable,
};
pub(crate) use self::run_temp_dir::{CleanupDir, RunTempDir};
#[cfg(not(all(feature = "sandboxed", target_os = "linux")))]
#[cfg_attr(not(feature = "wasm-runtime"), allow(unused_imports))]
pub(crate) use self::unsupported::{
    LaunchHandle, Launcher, deny_all_files, fork_server_main, inherited_fd, machine, restrict_to_computing,
};
