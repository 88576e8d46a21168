//! Schemas, and values held against them.

use metier::skill::Diagnostic;
use metier::skill::contract::{Schema, ValidationFailure};
use serde_json::{Value, json};

use super::skill::{lie_within, values};

/// The first line as a schema, the others as values to hold against it.
pub fn schema(source: &[u8]) {
    let end = source.iter().position(|&byte| byte == b'\n').unwrap_or(source.len());
    let Ok(json) = serde_json::from_slice::<Value>(&source[..end]) else { return };
    match Schema::parse(json) {
        Ok(schema) => holds_values(&schema, &source[end..]),
        Err(reason) => assert!(!reason.is_empty()),
    }
}

/// Values of every kind, and those given, held against a schema: each fits, or what is wrong with it is said.
pub fn holds_values(schema: &Schema, given: &[u8]) {
    let told = (schema.parameters(), schema.type_name(), schema.rows());
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
