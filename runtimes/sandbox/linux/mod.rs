//! The sandbox on Linux: namespaces if available, Landlock, seccomp, limits, and a supervisor that kills the whole process tree.
//!
//! ```text
//! host ──request, descriptors──▶ fork server ──fork──▶ supervisor ──fork──▶ child, which executes the script
//!   ▲                                                   │ passes the request on, supervises, kills, reaps
//!   └────────────────────── report ─────────────────────┘
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

/// Denies this process every file that is not open yet, and the network. The process must have one thread. Returns an error if
/// the kernel does not enforce that.
#[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
pub(crate) fn deny_all_files() -> std::io::Result<()> {
    let held = self::layers::landlock::confine(&FileRules::default(), true, None)?;
    if held.restricts_files() { Ok(()) } else { Err(std::io::ErrorKind::Unsupported.into()) }
}

/// The argument that makes a program the fork server.
const FORK_SERVER_ARG: &str = "__metier-helper";

/// See [`crate::helper_main`].
pub(crate) fn fork_server_main() {
    self::fork_server::client::HAS_MAIN_HOOK.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == FORK_SERVER_ARG) && arguments.next().is_none() {
        self::fork_server::server::serve_stdin();
    }
}
