//! What the command promises, from its arguments to what it leaves on the disk, and what its pages show.
#![allow(missing_docs)]

mod cases;
#[cfg(all(unix, feature = "cli", feature = "lua-runtime"))]
mod cli;
#[cfg(all(unix, feature = "cli", feature = "lua-runtime"))]
mod config;
#[cfg(all(unix, feature = "cli"))]
mod kill;
#[cfg(all(feature = "cli", feature = "lua-runtime"))]
mod new;
mod readme;
#[cfg(all(feature = "cli", feature = "sandboxed", target_os = "linux"))]
mod scripts;
#[cfg(all(target_os = "linux", feature = "sandboxed", feature = "cli"))]
mod state;
mod support;
#[cfg(feature = "cli")]
mod validate;
