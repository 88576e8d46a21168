//! Loads machine code that was compiled before. The only unsafe code of this runtime: the processor executes these bytes as
//! they are.
#![allow(unsafe_code)]

use wasmtime::{Engine, Module};

/// The module from the compiler's machine code, new or cached; `None` if wasmtime finds that another version compiled it.
pub(super) fn deserialize_module(engine: &Engine, code: &[u8]) -> Option<Module> {
    // SAFETY: these bytes must come from `Engine::precompile_module`, unchanged. They do, from one of three sources, and are in
    // memory of our own that nobody else writes. Either they were just read from a pipe that only one process of this program
    // could write into, which was started to compile this very module and can reach nothing else (`compiler/client.rs`); its
    // response states the version of wasmtime, the settings and the processor it compiles for. Or they were obtained that way
    // before, and cached on disk with a MAC over all of them that only a host of this user can compute, since the key is one
    // that no script can read (`cache_entry.rs`, `mac_key.rs`). A worker process has them from its host, which obtained them in
    // one of these ways, through a pipe that nobody else writes into (`worker.rs`). What remains is trust in the compiler: a
    // module that took over its sandboxed process could make it respond with any machine code.
    unsafe { Module::deserialize(engine, code) }.ok()
}
