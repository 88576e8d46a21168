//! What the sandbox holds back, what it lets through, and that honest scripts notice nothing of it.
#![allow(missing_docs)]

#[cfg(all(target_os = "linux", feature = "sandboxed"))]
mod egress;
#[cfg(all(target_os = "linux", feature = "sandboxed", feature = "cli"))]
mod parity;
#[cfg(all(target_os = "linux", feature = "sandboxed"))]
mod sandbox;
mod support;
