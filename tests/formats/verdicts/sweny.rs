//! Skill objects of SWEny: SW-01 to SW-08.

use serde_json::{Map, Value, json};

use super::{Format, Key, key, unwrapped, values};

/// Who a skill is, and its settings.
fn identity_keys() -> Vec<Key> {
    let words = |value: &str| Some(json!(value));
    vec![
        key(
            "id",
            vec![words("github"), words("a"), words("a-b-c"), words("0x"), words(&"a".repeat(64))],
            vec![
                None,
                words(""),
                words("MySkill"),
                words("bad--name"),
                words("-a"),
                words("a-"),
                words("a_b"),
                words("é"),
                words("../../etc/passwd"),
                words(&"a".repeat(65)),
                Some(json!(5)),
                Some(json!(null)),
            ],
        ),
        key("name", values!["GitHub", "a b c"], vec![None, words(""), Some(json!(5)), Some(json!(null))]),
        key(
            "description",
            values!["d", "two\nlines"],
            vec![None, words(""), Some(json!(5)), Some(json!([]))],
        ),
        key(
            "category",
            values!["git", "observability", "tasks", "notification", "data", "general"],
            vec![None, words("sports"), words("Git"), words(""), Some(json!(5)), Some(json!(null))],
        ),
        key(
            "config",
            values![
                {},
                {"K": {"description": "d"}},
                {"K": {"description": "d", "required": true, "env": "K"}, "L": {"description": "e", "required": false}},
            ],
            vec![
                None,
                Some(json!([])),
                words("x"),
                Some(json!(null)),
                Some(json!({"K": "text"})),
                Some(json!({"K": null})),
                Some(json!({"K": {}})),
                Some(json!({"K": {"description": 5}})),
                Some(json!({"K": {"description": "d", "required": "yes"}})),
                Some(json!({"K": {"description": "d", "secret": true}})),
                Some(json!({"K": {"description": "d", "env": 5}})),
            ],
        ),
    ]
}

/// What a skill offers, and keys that the format does not have.
fn offer_keys() -> Vec<Key> {
    let words = |value: &str| Some(json!(value));
    let tool = json!({"name": "t", "description": "d", "input_schema": {"type": "object"}});
    let with = |name: &str, value: Value| {
        let mut tool = tool.clone();
        tool[name] = value;
        Some(json!([tool]))
    };
    vec![
        key("instruction", vec![words("Do it."), None], values![5, null, ["Do it."], {}]),
        key(
            "tools",
            vec![None, Some(json!([tool])), Some(json!([])), with("input_schema", json!({}))],
            vec![
                Some(json!([tool, tool])),
                Some(json!([{"name": "t", "description": "d"}])),
                Some(json!([{"description": "d", "input_schema": {}}])),
                with("name", json!("")),
                with("name", json!(5)),
                with("handler", json!("x")),
                with("input_schema", json!("object")),
                Some(json!([5])),
                Some(json!({})),
                Some(json!(null)),
            ],
        ),
        key(
            "mcp",
            vec![
                None,
                Some(json!({"command": "server", "args": ["--stdio"]})),
                Some(json!({"url": "https://example.com/mcp"})),
                Some(
                    json!({"type": "http", "url": "https://a.b/c", "headers": {"a": "b"}, "env": {"KEY": "what it is"}}),
                ),
                Some(json!({"type": "stdio", "command": "server"})),
            ],
            values![
                {"args": ["x"]},
                {"type": "http", "command": "x"},
                {"type": "stdio", "url": "https://a.b"},
                {"type": "carrier-pigeon", "url": "https://a.b"},
                {"url": "no address"},
                {"url": 5},
                {"command": 5},
                {"command": "x", "args": "y"},
                {"url": "https://a.b", "token": "x"},
                {"url": "https://a.b", "headers": ["x"]},
                [],
                "https://a.b",
                null,
            ],
        ),
        key(
            "mcpAliases",
            vec![None, Some(json!({})), Some(json!({"search": ["find", "look"]}))],
            values![{"a": []}, {"a": "b"}, {"a": [1]}, {"a": null}, [], "a", null],
        ),
        key("$schema", vec![None, words("https://spec.sweny.ai/schemas/skill.json")], vec![]),
        key("version", vec![None], values!["1.0.0"]),
        key("extra", vec![None], values![{"a": 1}]),
    ]
}

fn objects() -> Format {
    let keys = identity_keys().into_iter().chain(offer_keys()).collect();
    Format { file: "skill.json", keys, is_consistent: offers_something, wrap: unwrapped }
}

/// At least one of three, and no empty list of tools alone.
fn offers_something(object: &Map<String, Value>) -> bool {
    let has = |key: &str| object.contains_key(key);
    has("instruction") || has("mcp") || object.get("tools").is_some_and(|tools| *tools != json!([]))
}

#[test]
fn sw_t24_every_object_gets_the_verdict_of_the_rules() {
    objects().check();
}

#[test]
fn sw_t24_an_object_in_yaml_gets_the_verdict_of_the_same_object_in_json() {
    let mut format = objects();
    // Without these keys a file in YAML is a contract of metier.
    for key in format.keys.iter_mut().filter(|key| ["id", "category"].contains(&key.name)) {
        key.variants.retain(|variant| variant.value.is_some());
    }
    let format = Format { file: "skill.yaml", ..format };
    let (mut accepted, mut refused) = (0, 0);
    for (text, expected) in format.files() {
        if serde_json::from_str::<Map<String, Value>>(&text).is_ok() {
            let found = metier::formats::parse(format.file, text.as_bytes(), None);
            assert_eq!(found.contract.is_some(), expected, "{text}: {:?}", found.diagnostics);
            *if expected { &mut accepted } else { &mut refused } += 1;
        }
    }
    assert!(accepted >= 40 && refused >= 100, "{accepted} accepted, {refused} refused");
}

#[test]
fn sw_08_what_the_published_schema_refuses_is_refused() {
    let schema: Value = serde_json::from_str(metier::formats::SWENY_SKILL_SCHEMA).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let blanks = [
        json!({"id": " x"}),
        json!({"id": "x\n"}),
        json!({"category": "git "}),
        json!({"tools": [{"name": "t", "description": "d", "input_schema": null}]}),
        json!({"config": {"A": {"description": "d", "required": null}}}),
    ];
    let with = |more: &Value| {
        let mut object = json!({"id": "x", "name": "X", "description": "d", "category": "git", "config": {}, "instruction": "i"});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object.to_string()
    };
    let mut refused = 0;
    for text in objects().files().into_keys().chain(blanks.iter().map(with)) {
        let Ok(object) = serde_json::from_str::<Value>(&text) else { continue };
        if !schema.is_valid(&object) {
            refused += 1;
            let found = metier::formats::parse("skill.json", text.as_bytes(), None);
            assert!(found.contract.is_none(), "{text}");
        }
    }
    assert!(refused >= 100, "{refused}");
}
