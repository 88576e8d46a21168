//! The Lua runtime: Luau through mlua, interpreter only; the one Lua in which every hostile script was stopped at its
//! deadline.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod executor;
mod failure;
mod from_lua;
mod globals;
mod interrupt;
mod interruptible_std;
mod json;
mod matcher;
mod missing_functions;
mod run_slot;
mod to_lua;
mod value_path;
mod vm;

#[cfg(test)]
mod tests;

pub use executor::load;

/// Counts what scripts allocate, as in the command.
#[cfg(test)]
#[global_allocator]
static HEAP: metier_core::alloc_counter::CountingAllocator = metier_core::alloc_counter::CountingAllocator;
