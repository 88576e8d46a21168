//! Scripts that were not written for metier, run by their interpreter and by `metier run`: the exit code, both streams and the files
//! that they leave are the same, with the grants that a person gives.
//!
//! Each case is one piece of work in Python, in the shell and in Node. It runs at every level of the sandbox.
#![cfg(all(target_os = "linux", feature = "sandboxed", feature = "cli"))]
#![allow(missing_docs)]

#[path = "../support/cli.rs"]
mod cli;
mod difference;
mod environment;
mod files;
mod hints;
mod hints_grants;
mod hints_home;
mod hints_network;
mod hints_variables;
mod layouts;
mod network;
#[path = "../support/not_run.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod not_run;
mod packages;
mod programs;
mod refusals;
mod repositories;
mod streams;
mod work;
