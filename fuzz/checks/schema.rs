//! Schemas, and values held against them.

use metier::skill::Diagnostic;
use metier::skill::comparison::{Change, compare};
use metier::skill::contract::{Contract, Schema, ValidationFailure};
use serde_json::{Value, json};

use super::skill::{lie_within, values};
use metier_skill::contract::parse_schema;
use metier_skill::contract::signature::{parameters, rows, type_name};

/// The first line as a schema, the others as values to hold against it.
pub fn schema(source: &[u8]) {
    let end = source.iter().position(|&byte| byte == b'\n').unwrap_or(source.len());
    let Ok(json) = serde_json::from_slice::<Value>(&source[..end]) else { return };
    match parse_schema(json) {
        Ok(schema) => {
            holds_values(&schema, &source[end..]);
            is_the_same_as_itself(&schema);
        }
        Err(reason) => assert!(!reason.is_empty()),
    }
}

/// Compared with itself, nothing is different; compared with a schema that takes everything, it takes no more.
fn is_the_same_as_itself(schema: &Schema) {
    let contract = |schema: &Schema| {
        let mut contract = Contract::default();
        contract.outputs = Some(schema.clone());
        contract
    };
    let anything = parse_schema(json!({})).expect("it takes everything");
    let (one, other) = (contract(schema), contract(&anything));
    assert_eq!(compare(&one, &one).findings, [], "{}", schema.json());
    // What comes out may become less, and not more.
    let narrower = compare(&other, &one);
    let is_wider = narrower.findings.iter().any(|found| found.change == Change::Major);
    assert!(!is_wider, "{}: {narrower:?}", schema.json());
}

/// Values of every kind, and those given, held against a schema: each fits, or what is wrong with it is said.
pub fn holds_values(schema: &Schema, given: &[u8]) {
    let told = (parameters(schema), type_name(schema), rows(schema));
    assert_eq!(told.2.len(), schema.names().len());
    let mut all = values(given);
    all.extend([json!(null), json!({}), json!([]), json!(""), json!(0), json!(-1.5), json!(true)]);
    all.push(json!({"a": 1, "b": "x", "c": [1, "x", null, {"a": {}}], "d": {"a": {"a": 2}}}));
    all.push(json!([1, 1.0, "x", {"a": 1}, [], null, u64::MAX, i64::MIN, 1e300]));
    all.push(json!("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"));
    for value in all {
        let fits = schema.validate(&value);
        match &fits {
            Ok(()) | Err(ValidationFailure::TooLarge) => {}
            Err(ValidationFailure::Violations { violations, .. }) => {
                assert!(!violations.is_empty(), "{} {value}", schema.json());
            }
            Err(failure) => panic!("{} was taken: {failure:?}", schema.json()),
        }
        let filled = schema.with_defaults(value);
        assert_eq!(schema.with_defaults(filled.clone()), filled, "{}", schema.json());
    }
}

/// What does not read is told of, in the file.
pub fn is_told(source: &[u8], found: &[Diagnostic]) {
    assert!(found.iter().any(|found| found.blocks), "{found:?}");
    lie_within(source, found);
}
