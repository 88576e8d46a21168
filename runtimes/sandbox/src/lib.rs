//! Runs a program in a sandbox on Linux: a policy goes in, a process comes out, and a report says what was enforced.
//!
//! A [`SandboxPolicy`] lists the files that a program may read and change, its network and its limits. A [`Launcher`] starts the
//! [`LaunchRequest`] with the standard streams that the caller passes, and returns a [`LaunchHandle`]. Dropping that kills the program and
//! all its descendants; [`LaunchHandle::kill_and_wait`] also waits for the [`SupervisorReport`].
//!
//! There are two levels. `namespaces` has mounts, processes and a network of its own, with Landlock and a filter of system calls on top;
//! `landlock` needs no namespaces. Linux 5.10 is enough for the first, 5.13 with Landlock for the second. [`machine`] says what this one has,
//! and [`Machine::refusal`] what it lacks and what would help.
//!
//! [`Launcher::mount_overlay`] gives programs a folder whose changes go to another one: [`Overlay::root`] shows it to the host program, and
//! [`FileRules::overlay`] to a sandboxed one.
//!
//! Without the feature `launcher` and on other systems there are the types, and each start fails with
//! [`Unsupported`](std::io::ErrorKind::Unsupported).
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod file_id;
mod level;
mod path_prefix;

#[cfg(unix)]
mod bytes;
#[cfg(unix)]
mod enforcement;
#[cfg(unix)]
mod fork_server;
#[cfg(all(feature = "launcher", target_os = "linux"))]
mod linux;
#[cfg(unix)]
#[cfg_attr(not(all(feature = "launcher", target_os = "linux")), allow(dead_code))]
mod machine;
#[cfg(unix)]
mod overlay;
#[cfg(unix)]
mod probe;
#[cfg(unix)]
mod report;
#[cfg(unix)]
mod request;
#[cfg(unix)]
mod response_timeout;
#[cfg(all(unix, not(all(feature = "launcher", target_os = "linux"))))]
mod unsupported;
#[cfg(unix)]
mod watch;

pub use self::file_id::FileId;
pub use self::level::{ParseLevelError, SandboxLevel};
#[doc(hidden)]
pub use self::path_prefix::begins_with;

#[cfg(unix)]
pub use self::enforcement::{Enforcement, Restrictions, SIGNAL_SCOPE_ABI, TRUNCATION_ABI};
#[cfg(unix)]
pub use self::fork_server::ForkServerSource;
#[cfg(unix)]
pub use self::fork_server::{RemoveFolder, remove_folder};
#[cfg(all(feature = "launcher", target_os = "linux"))]
pub use self::linux::{
    LaunchHandle, Launcher, Overlay, deny_all_files, enter_overlay, fork_server_main, inherited_fd, machine,
    restrict_to_computing,
};
#[cfg(unix)]
pub use self::machine::{Environment, Landlock, Machine, NamespaceSettings, Namespaces, Refusal};
#[cfg(unix)]
pub use self::overlay::{OverlayError, OverlayRequest, UpperLack};
#[cfg(unix)]
pub use self::probe::probe;
#[cfg(unix)]
pub use self::report::{
    FailedConnection, LaunchOutcome, MAX_FAILED_CONNECTIONS, ResourceUsage, SupervisorReport,
};
#[cfg(unix)]
pub use self::request::{
    EgressSockets, FileRules, HOST_API_FD, LaunchRequest, MAX_EGRESS_PORTS, NetworkAccess, OverlayMount,
    PRIVATE_TMP, PinnedPath, PrivateFolder, ProtectedPaths, ResourceLimits, SandboxPolicy,
};
#[cfg(unix)]
pub use self::response_timeout::{RESPONSE_TIMEOUT, TREE_EXIT_TIMEOUT, wait_for_report, wait_readable};
#[cfg(all(unix, not(all(feature = "launcher", target_os = "linux"))))]
pub use self::unsupported::{
    LaunchHandle, Launcher, Overlay, deny_all_files, enter_overlay, fork_server_main, inherited_fd, machine,
    restrict_to_computing,
};
#[cfg(unix)]
pub use self::watch::{AccessKind, AccessKinds, Observations, ObservedAccess, WatchRules, WatchedFolder};

/// Whether this build can start programs in a sandbox: on Linux, with the feature `launcher`.
pub const HAS_LAUNCHER: bool = cfg!(all(feature = "launcher", target_os = "linux"));
