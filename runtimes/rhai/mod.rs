//! The Rhai runtime, without modules, files or functions that wait; the memory of a run is what its thread allocates.

mod bounded_std;
mod closure_leaks;
mod engine;
mod executor;
mod failure;
mod from_rhai;
mod heap_budget;
mod host_api;
mod language;
mod memory_estimator;
mod parse;
mod run_limits;
mod run_slot;
mod stack;
mod to_rhai;

#[cfg(test)]
mod tests;

pub(super) use executor::load;
