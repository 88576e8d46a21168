//! What each language of scripts promises, and that the host API means the same in all of them.
//!
//! `conformance` installs the counting allocator, so memory is counted exactly in all of this program.
#![allow(missing_docs)]

#[cfg(any(
    feature = "lua-runtime",
    feature = "rhai-runtime",
    feature = "wasm-runtime",
    all(feature = "sandboxed", target_os = "linux")
))]
mod conformance;
#[cfg(feature = "wasm-runtime")]
mod plugins;
mod support;
#[cfg(all(target_os = "linux", feature = "sandboxed", feature = "cli"))]
mod typescript;
#[cfg(all(target_os = "linux", feature = "wasm-runtime", feature = "sandboxed", feature = "cli"))]
mod wasm;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod workers;
