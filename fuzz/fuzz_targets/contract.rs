//! Any bytes as a contract, and as the plan in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use metier::plan::{diagnostics, from_contract};
use metier::skill::contract;

fuzz_target!(|source: &[u8]| {
    let inputs = contract::parse(source).contract.and_then(|contract| contract.inputs);
    match from_contract(source, "skill.yaml") {
        Ok(plan) => drop(plan.map(|plan| plan.to_string())),
        Err(found) => assert!(!found.is_empty()),
    }
    diagnostics(source, "skill.yaml", inputs.as_ref().map(contract::Schema::json));
});
