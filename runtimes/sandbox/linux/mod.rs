//! The sandbox on Linux: namespaces where there are any, Landlock, seccomp, limits, and a stub that leaves nothing alive.
//!
//! ```text
//! host ──order, descriptors──▶ helper ──fork──▶ stub ──fork──▶ leader, which becomes the script
//!   ▲                                            │ hands the order on, watches, kills, reaps
//!   └───────────────── report ───────────────────┘
//! ```

pub(in crate::runtimes::sandbox::linux) mod child;
pub(in crate::runtimes::sandbox::linux) mod child_processes;
pub(in crate::runtimes::sandbox::linux) mod cleanup_list;
mod fork_server;
mod layers;
pub(in crate::runtimes::sandbox::linux) mod memory_monitor;
pub(in crate::runtimes::sandbox::linux) mod standby;
pub(in crate::runtimes::sandbox::linux) mod supervisor;
pub(in crate::runtimes::sandbox::linux) mod sys;
#[cfg(test)]
mod tests;

pub(crate) use self::fork_server::client::{LaunchHandle, Launcher};
pub(crate) use self::sys::inherited_fd;

use crate::runtimes::sandbox::FileRules;

/// Shuts this process out of every file it has not open, and of the network. It must have one thread. An error where the kernel
/// does not enforce that.
#[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
pub(crate) fn deny_all_files() -> std::io::Result<()> {
    let held = self::layers::landlock::confine(&FileRules::default(), true, None)?;
    if held.restricts_files() { Ok(()) } else { Err(std::io::ErrorKind::Unsupported.into()) }
}

/// The argument that makes a program the helper.
const FORK_SERVER_ARG: &str = "__metier-helper";

/// See [`crate::helper_main`].
pub(crate) fn fork_server_main() {
    self::fork_server::client::HAS_MAIN_HOOK.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == FORK_SERVER_ARG) && arguments.next().is_none() {
        self::fork_server::server::serve_stdin();
    }
}
