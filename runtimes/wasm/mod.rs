//! WebAssembly plug-ins, as Extism's kits make them: JSON in, JSON out, a fresh instance for every run.
//!
//! A plug-in exports `run` (or the function its contract names), which takes nothing and answers with nothing or with a
//! code, 0 for success. It reads its input and sets its output through Extism's functions (`extism:host/env`), and calls the
//! host API as imports of `extism:host/user`: for every function of the table, under its name and its aliases, one `i64` for
//! each parameter, which is the offset of the argument as JSON text in Extism memory, or 0 where it is left out. Optional
//! ones at the end may be missing from the import, so that a function may get more of them. The answer is the offset of
//! `{"ok": value}` or `{"error": {"kind", "message", "help"}}`. Plug-ins made for Synwire import the same names but pass raw
//! text; they need to be compiled anew.
//!
//! Plug-ins are Extism's, made with its kits; the host under them is not, for three reasons:
//!
//! - A timeout of Extism raises the epoch of a whole engine and stops every plug-in on it. Here each run asks its own token
//!   when the epoch rises, and goes on where that is not it.
//! - Extism runs a module's start function and initialisers before anything can stop them, some of them twice. Here a module
//!   is rewritten when it is loaded, so that they run once, inside the call, behind the deadline.
//! - Extism keeps the sizes of its blocks where the plug-in can write, and reads as far as they say. Here that memory is the
//!   host's own, every access is checked, and it counts into the same budget as the plug-in's memory and tables.
//!
//! And Extism links all its functions anew for each instance. Here a plug-in is linked once.

mod budget;
#[cfg(unix)]
mod cache;
mod deserialize;
#[cfg(unix)]
mod mac_key;
#[cfg(not(unix))]
mod cache {
    //! Nothing is kept on disk where a directory does not say whose it is.
    pub(super) enum ModuleCache {}

    pub(super) fn user_cache() -> Option<&'static ModuleCache> {
        None
    }

    pub(in super::super) fn folder() -> Option<std::path::PathBuf> {
        None
    }

    impl ModuleCache {
        pub(super) fn mac_key(&self) -> &crate::runtimes::wasm::cache_entry::MacKey {
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
mod extism_kernel;
mod extism_memory;
mod failure;
mod imports;
mod instrument;
mod json_cost;
mod linker;
mod metadata;
mod module;
mod run_state;
mod wasi;
mod wat;

#[cfg(test)]
mod tests;

pub(super) use cache::folder as cache_folder;
#[cfg(unix)]
pub(super) use compiler::compiler_main;
pub(super) use executor::load;
