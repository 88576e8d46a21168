//! Machine code that was compiled before. The one room here with `unsafe`: the processor runs what it is given.
#![allow(unsafe_code)]

use wasmtime::{Engine, Module};

/// The module of an entry that was whole and kept by this key; nothing where wasmtime finds that another made it.
pub(super) fn module(engine: &Engine, code: &[u8]) -> Option<Module> {
    // SAFETY: these bytes must come from `Module::serialize`, unchanged. They do: they were read, once and into memory of
    // our own, from a file that is the user's and that nobody else can write, in folders of which the same is true
    // (`cache.rs`); and they are, to the last bit, what was written there for this source by this code, by this version of
    // wasmtime, with these settings and for this processor (`entry.rs`).
    // Somebody who can write there all the same is the user, who may run whatever they like anyway.
    unsafe { Module::deserialize(engine, code) }.ok()
}
