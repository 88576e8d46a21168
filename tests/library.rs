//! What metier promises to whoever embeds it: skills found, trusted, run and recorded by the library.
#![allow(missing_docs)]

#[cfg(all(unix, feature = "cli", feature = "lua-runtime"))]
mod audit;
#[cfg(all(unix, feature = "json-schema", feature = "lua-runtime"))]
mod contract;
#[cfg(all(unix, feature = "lua-runtime"))]
mod engine;
mod examples;
#[cfg(unix)]
mod files;
#[cfg(all(unix, feature = "json-schema", feature = "lua-runtime"))]
mod formats;
#[cfg(feature = "http")]
mod http;
#[cfg(all(target_os = "linux", feature = "sandboxed", feature = "cli"))]
mod packages;
#[cfg(all(unix, feature = "lua-runtime"))]
mod plan;
#[cfg(unix)]
mod registry;
#[cfg(all(unix, feature = "http", feature = "lua-runtime", feature = "json-schema"))]
mod services;
mod support;
#[cfg(all(unix, feature = "lua-runtime"))]
mod tools;
#[cfg(all(unix, feature = "lua-runtime"))]
mod trust;
#[cfg(all(target_os = "linux", feature = "rhai-runtime"))]
mod uncounted;
