//! Any bytes, held against the check of this name.
#![no_main]

#[path = "../checks/mod.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|source: &[u8]| checks::check("openapi", source));
