//! An integer comes through exactly or fails, in every language.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use serde_json::{Value, json};

use crate::support::engine::{Project, kind};

/// The first integer that a double cannot hold.
const BEYOND_DOUBLES: i64 = (1 << 53) + 1;

fn run(file: &str, script: &str, number: &Value) -> metier::engine::Outcome {
    let project = Project::new().skill("x", "").file(&format!(".metier/skills/x/scripts/{file}"), script);
    project.engine().run(Invocation::new("x").input(json!({"n": number})))
}

#[test]
fn an_integer_comes_through_exactly_or_fails() {
    let lua = ("main.lua", "return input.n");
    let sequence = ("sequence.json", r#"{"steps": [{"tool": "tree"}], "outputs_from": {"n": "$inputs.n"}}"#);
    for number in [json!(1_i64 << 53), json!(-(1_i64 << 53)), json!(1_000_000_000_000_000_000_i64)] {
        assert_eq!(run(lua.0, lua.1, &number).result.unwrap(), number);
        assert_eq!(run(sequence.0, sequence.1, &number).result.unwrap()["n"], number);
    }
    for number in [json!(BEYOND_DOUBLES), json!(-BEYOND_DOUBLES), json!(i64::MAX), json!(u64::MAX)] {
        assert_eq!(kind(&run(lua.0, lua.1, &number)), ErrorKind::InvalidInput, "{number}");
        assert_eq!(run(sequence.0, sequence.1, &number).result.unwrap()["n"], number);
    }
}

#[test]
#[cfg(feature = "rhai-runtime")]
fn rhai_keeps_signed_integers_of_64_bits_and_refuses_larger_ones() {
    for number in [json!(BEYOND_DOUBLES), json!(i64::MAX), json!(i64::MIN)] {
        assert_eq!(run("main.rhai", "input.n", &number).result.unwrap(), number);
    }
    assert_eq!(kind(&run("main.rhai", "input.n", &json!(u64::MAX))), ErrorKind::InvalidInput);
}
