//! What the engine promises to whoever embeds it.
#![cfg(all(unix, feature = "lua-runtime"))]
#![allow(missing_docs)]

#[path = "engine/attacks.rs"]
mod attacks;
#[path = "engine/contract.rs"]
mod contract;
#[path = "engine/doors.rs"]
mod doors;
#[path = "engine/permissions.rs"]
mod permissions;
#[path = "engine/project.rs"]
mod project;
