//! Luau through mlua, interpreter only: the one Lua in which every hostile script met its deadline.

mod executor;
mod failure;
mod from_lua;
mod host;
mod interrupt;
mod json;
mod matcher;
mod natives;
mod to_lua;
mod vm;

#[cfg(test)]
mod tests;

pub(super) use executor::load;
