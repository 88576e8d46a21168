//! The Rhai runtime, without modules, files or functions that wait; the memory of a run is what its thread allocates.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod bounded_std;
mod closure_leaks;
mod engine;
mod failure;
mod from_rhai;
mod heap_budget;
mod host_api;
mod memory_estimator;
mod parse;
mod run_slot;
mod stack;
mod to_rhai;

#[cfg(test)]
mod tests;

pub use engine::load;

/// Counts what scripts allocate, as in the command.
#[cfg(test)]
#[global_allocator]
static HEAP: metier_core::alloc_counter::CountingAllocator = metier_core::alloc_counter::CountingAllocator;
