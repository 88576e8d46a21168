//! Runs agent skills: folders with a `SKILL.md` and scripts.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod engine;
pub mod error;
pub mod exact;
pub mod executor;
pub mod host;
pub mod policy;
pub mod registry;
pub mod skill;

// The languages lie beside `src/` as a top-level folder: a reader looks for them there, and each needs only
// `executor`, `host`, `policy` and `error`.
#[path = "../runtimes/mod.rs"]
pub(crate) mod runtimes;

/// Compiles a script without an engine around it; `unavailable` where this build lacks the runtime.
///
/// The executor holds limits and permissions as its context says; nothing else of the engine's pipeline applies.
pub fn load(
    runtime: executor::SkillRuntime,
    script: &executor::Script,
) -> error::Result<Box<dyn executor::SkillExecutor>> {
    runtimes::loader(runtime)?(script)
}

/// Whether this build runs scripts of a runtime; `unavailable`, with the Cargo feature that brings it, where it does not.
pub fn supports(runtime: executor::SkillRuntime) -> error::Result<()> {
    runtimes::loader(runtime).map(drop)
}
