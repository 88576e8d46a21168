//! What the fuzzers start from, read without one: every parser of strangers' text ends, and what it reads prints back.
#![allow(missing_docs)]

use std::path::Path;

use metier::plan::{Condition, Template, diagnostics, from_contract, from_sequence};
use metier::skill::{Place, contract, parse};

/// Each file of a corpus, whole and cut short at every place.
fn each(corpus: &str, check: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(corpus);
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        files += 1;
        (0..=bytes.len()).for_each(|cut| check(&bytes[..cut]));
    }
    assert!(files > 0, "{corpus} is empty");
}

#[test]
fn references_and_conditions() {
    each("reference", |bytes| {
        let text = String::from_utf8_lossy(bytes);
        if let Ok(template) = text.parse::<Template>() {
            assert_eq!(template.to_string().parse::<Template>(), Ok(template), "{text}");
        }
        if let Ok(condition) = text.parse::<Condition>() {
            assert_eq!(condition.to_string().parse::<Condition>(), Ok(condition), "{text}");
        }
    });
}

#[test]
fn sequences() {
    each("sequence", |bytes| {
        match from_sequence(bytes, "scripts/sequence.json") {
            Ok(plan) => assert!(plan.to_string().starts_with("scripts/sequence.json")),
            Err(found) => assert!(!found.is_empty()),
        }
        diagnostics(bytes, "scripts/sequence.json", None);
    });
}

#[test]
fn contracts() {
    each("contract", |bytes| {
        let inputs = contract::parse(bytes).contract.and_then(|contract| contract.inputs);
        if let Err(found) = from_contract(bytes, "skill.yaml") {
            assert!(!found.is_empty());
        }
        diagnostics(bytes, "skill.yaml", inputs.as_ref().map(contract::Schema::json));
    });
}

#[test]
fn heads_of_skills() {
    each("frontmatter", |bytes| {
        let parsed = parse(bytes, Place { directory: "x", file: "SKILL.md" });
        assert!(parsed.diagnostics.iter().all(|found| found.span.end <= bytes.len()));
    });
}
