//! The sandbox on Linux: namespaces if available, Landlock, seccomp, limits, and a supervisor that kills the whole process tree.
//!
//! ```text
//! host ──request, descriptors──▶ fork server ──fork──▶ supervisor ──fork──▶ child, which executes the script
//!   ▲                                                   │ passes the request on, supervises, kills, reaps
//!   └────────────────────── report ─────────────────────┘
//! ```
//!
//! A supervisor that was forked in advance (`standby`) receives the next request itself, and tells the fork server.

mod access_observer;
mod call_filter;
mod child;
mod child_processes;
mod connections;
mod fd_passing;
mod file_locks;
mod fork_server;
mod ipc;
mod layers;
mod machine;
mod memory_monitor;
mod observed_calls;
mod overlay;
mod procfs;
mod signal_filter;
mod standby;
mod supervisor;
mod sys;
#[cfg(test)]
mod tests;

pub use self::fork_server::client::{LaunchHandle, Launcher, fork_server_main};
pub use self::layers::landlock::deny_all_files;
pub use self::layers::seccomp::restrict_to_computing;
pub use self::machine::machine;
pub use self::overlay::client::{Overlay, enter_overlay};
pub use self::sys::inherited_fd;
