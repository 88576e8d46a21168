//! What several programs of tests need.
#![allow(dead_code, unused_imports, reason = "no program needs everything")]

#[cfg(target_os = "linux")]
pub mod alone;
#[cfg(feature = "cli")]
pub mod cli;
pub mod engine;
#[cfg(unix)]
pub mod file_states;
#[cfg(unix)]
pub mod go_program;
pub mod hostile_modules;
pub mod many_names;
pub mod not_run;
pub mod project;
#[cfg(unix)]
pub mod pseudo_terminal;
pub mod snippets;
