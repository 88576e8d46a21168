//! Plug-ins built with Extism's kits for Rust and `AssemblyScript`, which do what their input says, and those of `tests/plugins`.

use super::Agreement::{Differs, Error, Failure, Output};
use super::{Agreement, Case, disagreement, hold};
use serde_json::{Value, json};

pub const KITS: [(&str, &[u8]); 2] = [
    ("Rust", include_bytes!("../../oracle/plugins/rust.wasm")),
    ("AssemblyScript", include_bytes!("../../oracle/plugins/assemblyscript.wasm")),
];

const SETTINGS: &[(&str, &str)] = &[("width", "80"), ("name", "grüße"), ("empty", "")];

/// `plugins/rust/src/lib.rs` says what each call is.
const CALLS: &[(Agreement, &str)] = &[
    (Output, "input"),
    (Output, "input;input;input"),
    (Output, "var_get a"),
    (Output, "var_set a one;var_get a"),
    (Output, "var_set a one;var_set b two;var_get a;var_get b;var_get c"),
    (Output, "var_set a one;var_set a two;var_get a"),
    (Output, "var_set a one;var_remove a;var_get a"),
    (Output, "var_remove a;var_get a"),
    (Output, "var_set a #;var_get a"),
    (Output, "var_set a one;var_set a #;var_get a"),
    (Output, "var_set a #00017f80feff;var_get a"),
    (Output, "var_set grüße größe;var_get grüße"),
    (Output, "var_set a @1000000;var_get a"),
    (Failure, "var_set a @1048577;var_get a"),
    (Failure, "var_set a @600000;var_set b @600000"),
    (Output, "config width;config name;config empty;config missing"),
    (Output, "log debug one;log info two;log warn three;log error four;input"),
    (Output, "log info @5000;input"),
    (Error, "log warn before;fail after"),
    (Error, "fail no-luck"),
    (Error, "fail @3000"),
    (Error, "fail #c3bcc39f"),
    (Error, "error noticed;input"),
    (Error, "error one;error two;var_get a"),
    (Failure, "code 1"),
    (Failure, "code -7"),
    (Error, "fly"),
    (Output, "output 12"),
    (Output, "output [1,2]"),
    (Differs("what a skill answers with is JSON"), "output text"),
    (Differs("what a skill answers with is JSON"), "output #00ff"),
    (Differs("what a skill answers with is JSON"), "output #"),
    (Failure, "http GET http://127.0.0.1:9/"),
];

#[test]
fn plug_ins_of_every_kit_do_what_they_do_there() {
    hold(KITS.iter().flat_map(|kit| CALLS.iter().map(move |row| (kit, row))).map(
        |((kit, module), (agreement, calls))| {
            let case = Case { input: (*calls).into(), config: SETTINGS, ..Case::new(module) };
            (format!("{kit}: {calls}"), disagreement(&case, *agreement))
        },
    ));
}

#[test]
fn every_input_arrives() {
    let inputs = [
        json!(null),
        json!({}),
        json!(""),
        json!({"a": [1, -2.5, {}], "id": u64::MAX, "min": i64::MIN}),
        json!("grüße 😀 \u{0}"),
        json!("x".repeat(1 << 20)),
        Value::from((0..100_000).collect::<Vec<_>>()),
    ];
    let echo = include_bytes!("../../plugins/conformance.wasm");
    hold(inputs.into_iter().map(|input| {
        let name: String = input.to_string().chars().take(40).collect();
        let case = Case { function: "echo", input, user: true, ..Case::new(echo) };
        (name, disagreement(&case, Output))
    }));
}

#[test]
fn functions_of_the_host_are_called_as_there() {
    let words = include_bytes!("../../plugins/words.wasm");
    let rows =
        [(Output, json!({"path": "a.txt"})), (Failure, json!({"path": "missing.txt"})), (Error, json!({}))];
    hold(rows.into_iter().map(|(agreement, input)| {
        let name = input.to_string();
        (name, disagreement(&Case { input, user: true, ..Case::new(words) }, agreement))
    }));
}
