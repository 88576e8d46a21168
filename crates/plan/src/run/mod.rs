//! Runs a checked plan: schedules its steps onto threads, resolves their arguments, and collects their results.

pub(super) mod backend;
pub(super) mod progress;
pub(super) mod runner;
pub(super) mod schedule;
pub(super) mod scope;
pub(super) mod state;
pub(super) mod step_failure;
pub(super) mod step_pool;
pub(super) mod step_runner;
