//! Manifests of Curia: CU-01 to CU-13 and the shorthand CU-16.

use serde_json::json;

use super::{Format, Key, any, key, unwrapped, values};

/// Who a skill is, and how much it may do.
fn identity_keys() -> Vec<Key> {
    let words = |value: &str| Some(json!(value));
    vec![
        key(
            "name",
            values!["web-search", "a", "search_2"],
            vec![
                None,
                words(""),
                words("   "),
                words("../x"),
                Some(json!(5)),
                Some(json!(null)),
                Some(json!(["a"])),
            ],
        ),
        key(
            "description",
            vec![words("Searches."), words(&"long ".repeat(400)), words("two\nlines")],
            vec![None, words(""), words("  "), Some(json!(7)), Some(json!(null)), Some(json!({}))],
        ),
        key(
            "version",
            values!["1.0.0", "1.2.3-beta.1", "0.0.1"],
            vec![None, words(""), Some(json!(1)), Some(json!(null)), Some(json!(["1.0.0"]))],
        ),
        key(
            "action_risk",
            values!["none", "low", "medium", "high", "critical", 0, 75, 100, 75.0, 1e1, (-0.0)],
            vec![
                None,
                words("severe"),
                words("None"),
                words(""),
                words("75"),
                Some(json!(101)),
                Some(json!(-1)),
                Some(json!(7.5)),
                Some(json!(true)),
                Some(json!(null)),
                Some(json!([])),
            ],
        ),
        key(
            "sensitivity",
            vec![None, words("normal"), words("elevated")],
            values!["Elevated", "high", "", 1, null, ["normal"]],
        ),
        key(
            "capabilities",
            vec![
                None,
                Some(json!([])),
                Some(json!(["bus"])),
                Some(json!(["skillSearch", "executiveProfileService"])),
            ],
            values![["notARealCapability"], ["bus", "Bus"], ["bus "], ["\nbus"], "bus", [1], [""], null],
        ),
    ]
}

/// What a handler takes, gives and needs.
fn handler_keys() -> Vec<Key> {
    let words = |value: &str| Some(json!(value));
    vec![
        key(
            "inputs",
            vec![
                None,
                Some(json!({})),
                Some(json!({"q": "string"})),
                Some(json!({"n": "number? (at most 20)", "t": "timestamp"})),
                Some(json!({"a": "string[]", "b": "object[]?", "c": "null"})),
                Some(json!({"a": "boolean  ( yes (or) no )", "b": "string( )"})),
            ],
            vec![
                Some(json!({"a": " string"})),
                Some(json!({"a": "string "})),
                Some(json!({"a": "string ? (x)"})),
                Some(json!({"a": "string (x) "})),
                Some(json!({"a": "string (two\nlines)"})),
                Some(json!({"a": "string — the text"})),
                Some(json!({"a": "foo[]"})),
                Some(json!({"a": "timestamp[]"})),
                Some(json!({"a": "string[][]"})),
                Some(json!({"a": "String"})),
                Some(json!({"a": ""})),
                Some(json!({"a": 5})),
                Some(json!({"a": null})),
                Some(json!({"a": {"type": "string"}})),
                Some(json!([])),
                words("q: string"),
                Some(json!(null)),
            ],
        ),
        key(
            "outputs",
            vec![
                None,
                Some(json!({})),
                Some(json!({"a": "array of {id, title}", "b": "string or null", "c": "boolean — true if"})),
            ],
            values![[], "x", null],
        ),
        key(
            "permissions",
            vec![None, Some(json!([])), Some(json!(["network:https"])), Some(json!(["anything at all"]))],
            values!["network:https", [1], [null], {}, null],
        ),
        key(
            "secrets",
            vec![
                None,
                Some(json!([])),
                Some(json!(["brave_api_key"])),
                Some(json!(["ANTHROPIC_API_KEY", "b"])),
            ],
            values!["key", [1], [""], ["key "], ["a key"], [{}], null],
        ),
        key(
            "timeout",
            vec![None, Some(json!(1)), Some(json!(5000)), Some(json!(660_000)), Some(json!(3e4))],
            values![0, (-5), 1.5, "15000", "15s", true, null, [1]],
        ),
        key(
            "entity_enrichment",
            vec![
                None,
                Some(json!({"param": "who", "default": "caller"})),
                Some(json!({"param": "who", "default": "agent"})),
            ],
            values![
                {"param": "who"}, {"default": "caller"}, {"param": "x", "default": "all"}, {"param": "x", "default": " agent"}, {"param": "x", "default": "agent", "more": 1}, {"param": 5}, [], "who", null,
            ],
        ),
        key("sensitivty", vec![None], values!["elevated"]),
        key("author", vec![None], values!["somebody"]),
        key("$schema", vec![None, words("https://example.com/skill.schema.json")], vec![]),
    ]
}

fn manifests() -> Format {
    let keys = identity_keys().into_iter().chain(handler_keys()).collect();
    Format { file: "skill.json", keys, is_consistent: any, wrap: unwrapped }
}

#[test]
fn cu_t19_every_manifest_gets_the_verdict_of_the_rules() {
    manifests().check();
}
