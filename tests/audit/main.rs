//! What the audit log promises: a line for whatever happens, no secret in it, and a chain that shows what was changed.
#![cfg(all(unix, feature = "cli", feature = "lua-runtime"))]
#![allow(missing_docs)]

#[path = "../support/cli.rs"]
mod cli;
mod commands;
#[cfg(all(target_os = "linux", feature = "sandboxed"))]
#[path = "../support/not_run.rs"]
mod not_run;
#[path = "../engine/project.rs"]
#[allow(dead_code, clippy::duplicate_mod, reason = "not every suite needs everything")]
mod project;
mod runs;
mod writers;
