//! The cage on Linux: namespaces where there are any, Landlock, seccomp, limits, and a stub that leaves nothing alive.
//!
//! ```text
//! host ──order, descriptors──▶ helper ──fork──▶ stub ──fork──▶ leader, which becomes the script
//!   ▲                                            │ hands the order on, watches, kills, reaps
//!   └───────────────── report ───────────────────┘
//! ```

mod allowed;
mod calls;
mod capabilities;
mod children;
mod files;
mod filter;
mod helper;
mod leader;
mod leftovers;
mod memory;
mod mounts;
mod namespaces;
mod network;
mod serve;
mod spare;
mod stub;
mod system;
mod task;
#[cfg(test)]
mod tests;
mod twice;
mod wire;

pub(crate) use helper::{LaunchHandle, Launcher};
pub(crate) use system::inherited_fd;

use super::sandbox::FileRules;

/// Shuts this process out of every file it has not open, and of the network. It must have one thread. An error where the kernel
/// does not enforce that.
#[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
pub(crate) fn deny_all_files() -> std::io::Result<()> {
    let held = files::confine(&FileRules::default(), true, None)?;
    if held.restricts_files() { Ok(()) } else { Err(std::io::ErrorKind::Unsupported.into()) }
}

/// The argument that makes a program the helper.
const FORK_SERVER_ARG: &str = "__metier-helper";

/// See [`crate::helper_main`].
pub(crate) fn fork_server_main() {
    helper::HAS_MAIN_HOOK.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == FORK_SERVER_ARG) && arguments.next().is_none() {
        serve::serve_stdin();
    }
}
