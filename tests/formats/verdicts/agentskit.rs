//! Skills of AgentsKit: S1 to S12 and AK-17.

use serde_json::{Map, Value, json};

use super::{Format, Key, any, key, unwrapped, values};

fn keys() -> Vec<Key> {
    let words = |value: &str| Some(json!(value));
    let names = || values!["a", null, ["not a tool"], [1], ["a", "a"], [null], [[]], {}, 5];
    let lists = || vec![None, Some(json!([])), Some(json!(["web_search"])), Some(json!(["a", "_b", "c-d"]))];
    vec![
        key(
            "name",
            vec![words("researcher"), words("_x"), words("a-b"), words("__proto__"), words(&"a".repeat(64))],
            vec![
                None,
                words(""),
                words("bad name!"),
                words("1a"),
                words("-a"),
                words("é"),
                words("a.b"),
                words(&"a".repeat(65)),
                Some(json!(5)),
                Some(json!(null)),
                Some(json!(["a"])),
            ],
        ),
        key(
            "description",
            values!["Finds sources."],
            vec![None, words(""), words("  "), words("a\nb"), Some(json!(5)), Some(json!(null))],
        ),
        key(
            "systemPrompt",
            values!["You find sources.", "several\nlines"],
            vec![None, words(""), words(" \n "), Some(json!(5)), Some(json!(null)), Some(json!(["p"]))],
        ),
        key(
            "examples",
            vec![
                None,
                Some(json!([])),
                Some(json!([{"input": "a", "output": "b"}, {"input": "c", "output": "d\ne"}])),
            ],
            values![
                42,
                null,
                "a",
                {},
                ["x"],
                [null],
                [{"input": "a"}],
                [{"output": "a"}],
                [{"input": "a", "output": "b", "name": "c"}],
                [{"input": "a", "output": " "}],
                [{"input": 1, "output": "b"}],
            ],
        ),
        key("tools", lists(), names()),
        key("delegates", lists(), names()),
        key(
            "temperature",
            vec![None, Some(json!(0)), Some(json!(0.3)), Some(json!(2)), Some(json!(2.0))],
            values![(-1), (-0.01), 2.01, 3, "warm", "1", null, [1], true],
        ),
        key(
            "metadata",
            vec![None, Some(json!({})), Some(json!({"a": [1, {"x": null}], "__proto__": {"y": 1}}))],
            values![[1], "x", 5, null, true],
        ),
        key("run", vec![None], values!["x", null, {}]),
        key("execute", vec![None], values!["x", null]),
        key("invoke", vec![None], values!["x"]),
        key("onActivate", vec![None], values!["x", {}]),
        key("author", vec![None, words("kept, and nothing reads it")], vec![]),
    ]
}

#[test]
fn ak_a02_to_ak_a06_every_skill_gets_the_verdict_of_the_rules() {
    Format { file: "skill.json", keys: keys(), is_consistent: any, wrap: unwrapped }.check();
}

#[test]
fn ak_a07_every_package_gets_the_verdict_of_the_rules() {
    let wrap = |mut object: Map<String, Value>| {
        let version = object.shift_remove("version");
        let mut package = json!({"publisher": "p", "tags": ["a"], "skill": object});
        if let Some(version) = version {
            package["version"] = version;
        }
        package
    };
    let words = |value: &str| Some(json!(value));
    let mut keys = keys();
    keys.push(key(
        "version",
        values!["1.0.0", "1.0.0-alpha.1", "1.0.0+build.5", "10.20.30"],
        vec![
            None,
            words("01.2.3"),
            words("1.2.3-"),
            words("1.2.3-01"),
            words("v1"),
            words("1.2"),
            words(""),
            Some(json!(1)),
            Some(json!(null)),
        ],
    ));
    Format { file: "skill.json", keys, is_consistent: any, wrap }.check();
}
