//! Machine code that was compiled before. The one room here with `unsafe`: the processor runs what it is given.
#![allow(unsafe_code)]

use wasmtime::{Engine, Module};

/// The module that the compiler answered with, now or before; nothing where wasmtime finds that another version made it.
pub(super) fn deserialize_module(engine: &Engine, code: &[u8]) -> Option<Module> {
    // SAFETY: these bytes must come from `Engine::precompile_module`, unchanged. They do, from one of two places, and lie in
    // memory of our own that nobody else writes. Either they came just now over a pipe that only a process of this program
    // could write into, which was started to compile this very module and can reach nothing else (`compiler/client.rs`); it
    // says by which version of wasmtime, with which settings and for which processor it compiles. Or they came so before, and
    // were kept on disk with a code over all of them that only a host of this user can make, for it takes a key that no script
    // can read (`entry.rs`, `cache_key.rs`).
    // What remains is trust in the compiler: a module that took it over, in its sandbox, could answer with any machine code.
    unsafe { Module::deserialize(engine, code) }.ok()
}
