//! Runs a checked plan: which step is next, on which thread, with which arguments, and what it answered.

pub(super) mod backend;
pub(super) mod runner;
pub(super) mod schedule;
pub(super) mod scope;
pub(super) mod step_failure;
pub(super) mod step_pool;
pub(super) mod step_reports;
pub(super) mod step_runner;
