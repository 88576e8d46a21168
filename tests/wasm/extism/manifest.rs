//! Manifests, which both read as they are.

use serde_json::{Value, json};

use super::Agreement::{Differs, Failure, Output};
use super::{Agreement, Case, data_of, disagreement, hold, text};

const SUM_OF_ANOTHER: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What a manifest of one module says besides, and what that module does.
fn rows() -> Vec<(&'static str, Agreement, Value, &'static str)> {
    let setting = "(call $put_block (call $config_get <width>)) (call $put (call $config_get <height>))";
    let variable =
        "(call $var_set <a> (call $alloc (i64.const 100))) (call $put (call $length (call $var_get <a>)))";
    let growing = "(call $put32 (memory.grow (i32.const 10)))";
    vec![
        ("nothing", Output, json!({}), "(call $put (i64.const 1))"),
        ("settings", Output, json!({"config": {"width": "80"}}), setting),
        ("a setting that is not text", Failure, json!({"config": {"width": 80}}), setting),
        ("room for variables", Output, json!({"memory": {"max_var_bytes": 149}}), variable),
        ("too little room for variables", Failure, json!({"memory": {"max_var_bytes": 148}}), variable),
        ("no variables", Failure, json!({"memory": {"max_var_bytes": 0}}), variable),
        ("room to grow", Output, json!({"memory": {"max_pages": 100}}), growing),
        ("no room to grow", Failure, json!({"memory": {"max_pages": 5}}), growing),
        ("a deadline", Failure, json!({"timeout_ms": 50}), "(loop $again (br $again))"),
        ("an unknown key", Failure, json!({"more": 1}), ""),
        ("no module", Failure, json!({"wasm": []}), ""),
        ("an empty list of hosts", Output, json!({"allowed_hosts": []}), "(call $put (i64.const 1))"),
        ("a folder", Differs("a plug-in has no files"), json!({"allowed_paths": {"/": "/"}}), ""),
    ]
}

#[test]
fn a_manifest_says_what_it_says_there() {
    hold(rows().into_iter().map(|(name, agreement, more, body)| {
        let mut manifest = json!({"wasm": [data(body)]});
        for (key, value) in more.as_object().expect("an object") {
            manifest[key] = value.clone();
        }
        (name.to_owned(), compared(&manifest, agreement))
    }));
}

#[test]
fn modules_are_named_and_verified_as_there() {
    let with = |key: &str, value: &str| {
        let mut module = data("(call $put (i64.const 1))");
        module[key] = value.into();
        module
    };
    let one = || with("name", "one");
    let rows = [
        ("a name", Output, json!({"wasm": [one()]})),
        ("the sum of another", Failure, json!({"wasm": [with("hash", SUM_OF_ANOTHER)]})),
        ("an unknown key", Failure, json!({"wasm": [with("more", "1")]})),
        ("no base64", Failure, json!({"wasm": [{"data": "?"}]})),
    ];
    hold(
        rows.into_iter().map(|(name, agreement, manifest)| (name.to_owned(), compared(&manifest, agreement))),
    );
}

/// A module that does this, as a manifest names it by its bytes.
fn data(body: &str) -> Value {
    data_of(&text::module("", body))
}

fn compared(manifest: &Value, agreement: Agreement) -> Option<String> {
    let manifest = manifest.to_string();
    disagreement(&Case { is_manifest: true, ..Case::new(manifest.as_bytes()) }, agreement)
}
