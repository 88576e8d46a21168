//! WebAssembly plug-ins built with Extism's kits: JSON in, JSON out, a fresh instance for every run.
//!
//! A plug-in exports `run` (or the function that its contract names), which has no parameters and returns nothing or a code,
//! 0 for success. It reads its input and sets its output through Extism's functions (`extism:host/env`), and calls the host
//! API as imports of `extism:host/user`: every function of the table, under its name and its aliases, has one `i64` for each
//! parameter, which is the offset of the argument as JSON text in Extism memory, or 0 if it is omitted. An import may lack
//! optional parameters at the end, so that more of them can be added to a function. The result is the offset of
//! `{"ok": value}` or `{"error": {"kind", "message", "help"}}`. Plug-ins built for Synwire import the same names but pass raw
//! text; the runtime `synwire-wasm` runs them.
//!
//! The plug-ins are those of Extism, built with its kits, and `tests/oracle` compares what they do here and there. The host is
//! not Extism's, for three reasons:
//!
//! - A timeout of Extism raises the epoch of a whole engine and stops every plug-in on it. Here each run checks its own token
//!   when the epoch rises, and continues if its token was not stopped.
//! - Extism runs a module's start function and initialisers before anything can stop them, some of them twice. Here a module
//!   is instrumented when it is loaded, so that they run once, inside the call and under its deadline.
//! - Extism stores the sizes of its blocks where the plug-in can write, and reads as far as they say. Here that memory belongs
//!   to the host, every access is checked, and it counts into the same budget as the plug-in's memory and tables.
//!
//! Also, Extism links all its functions anew for each instance. Here a module that imports from the host alone is linked once.
//!
//! A manifest may name several modules. Each is checked, instrumented and compiled by itself, and all of them share one engine,
//! one store and one budget. The main module runs; the others are libraries, whose functions the modules after them import.
//!
//! In a worker process, a plug-in is executed that the host compiled (`worker.rs`).
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod budget;
#[cfg(unix)]
mod cache;
mod deserialize;
#[cfg(not(unix))]
mod cache {
    //! Nothing is cached on disk on systems whose directories do not record their owner.
    pub(super) enum UserCache {}

    pub(super) fn user_cache() -> Option<&'static UserCache> {
        None
    }

    pub fn folder() -> Option<std::path::PathBuf> {
        None
    }

    impl UserCache {
        pub(super) fn mac_key(&self) -> &metier_core::host::MacKey {
            match *self {}
        }

        pub(super) fn read_entry(&self, _: &str) -> Option<Vec<u8>> {
            match *self {}
        }

        pub(super) fn store_entry(&self, _: &str, _: &[u8]) {
            match *self {}
        }
    }
}
mod cache_entry;
mod compiled_plugin;
mod compiler;
mod engine;
mod executor;
mod extism_http;
mod extism_kernel;
mod extism_memory;
mod extism_response;
mod failure;
mod imports;
mod instrument;
mod linked_module;
mod linked_plugin;
mod linker;
mod message_parts;
mod metadata;
mod module;
mod module_source;
mod plugin_manifest;
mod plugin_settings;
mod run_state;
mod services;
mod text_abi;
mod wasi;
#[cfg(unix)]
mod worker;

#[cfg(test)]
mod tests;

pub use cache::folder as cache_folder;
#[cfg(unix)]
pub use compiler::compiler_main;
pub use executor::load;
pub use plugin_manifest::inline_modules;
pub use services::PluginServices;
#[cfg(unix)]
pub use worker::{compile_for_workers, load_machine_code};
/// The engine and the reader of its text format, for what measures against them.
pub use {wasmtime, wast};

/// Counts what scripts allocate, as in the command.
#[cfg(test)]
#[global_allocator]
static HEAP: metier_core::alloc_counter::CountingAllocator = metier_core::alloc_counter::CountingAllocator;
