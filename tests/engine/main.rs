//! What the engine promises to whoever embeds it.
#![cfg(all(unix, feature = "lua-runtime"))]
#![allow(missing_docs)]

mod approver;
mod async_providers;
mod attacks;
mod contract;
mod doors;
mod embedded_skills;
mod events;
mod identity;
mod integers;
mod leaks;
mod nearness;
mod nested;
mod permissions;
mod project;
mod providers;
mod redaction;
mod runtimes;
mod sampling;
mod tools;
