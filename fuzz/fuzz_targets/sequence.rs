//! Any bytes as a sequence: a plan that can be shown and scheduled, or reasons why there is none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metier::plan::{diagnostics, from_sequence};

fuzz_target!(|source: &[u8]| {
    match from_sequence(source, "scripts/sequence.json") {
        Ok(plan) => drop(plan.to_string()),
        Err(found) => assert!(!found.is_empty()),
    }
    diagnostics(source, "scripts/sequence.json", None);
});
