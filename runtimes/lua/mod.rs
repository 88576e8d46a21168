//! The Lua runtime: Luau through mlua, interpreter only; the one Lua in which every hostile script was stopped at its
//! deadline.

mod executor;
mod failure;
mod from_lua;
mod globals;
mod interrupt;
mod interruptible_std;
mod json;
mod matcher;
mod run_slot;
mod to_lua;
mod value_path;
mod vm;

#[cfg(test)]
mod tests;

pub(super) use executor::load;
