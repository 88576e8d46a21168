//! Structured skill definitions: AR-01 to AR-16.

use serde_json::{Map, Value, json};

use super::{Format, Key, any, key, values};

/// Who a skill is, what it takes and what it gives.
fn parameter_keys() -> Vec<Key> {
    let words = |value: &str| Some(json!(value));
    let accepted_parameters = [
        json!({"type": "string", "required": true, "description": "d"}),
        json!({"type": "integer", "minimum": 1, "maximum": 2, "default": 1}),
        json!({"type": "number", "multiple_of": 0.5}),
        json!({"type": "string", "min_length": 1, "max_length": 5, "pattern": "^[a-z]+$"}),
        json!({"type": "string", "validation": {"pattern": "^a"}}),
        json!({"type": "string", "pattern": "^a", "validation": {"pattern": "^a"}}),
        json!({"type": "array", "items": {"type": "string"}, "min_items": 1, "max_items": 3}),
        json!({"type": "string", "enum": ["a", "b"], "default": "a"}),
        json!({"type": "object", "properties": {"x": {"type": "boolean"}}}),
    ];
    let refused_parameters = [
        json!({"type": "string", "min_lenght": 1}),
        json!({"type": "strng"}),
        json!({"type": "string", "pattern": "("}),
        json!({"type": "integer", "default": "x"}),
        json!({"type": "string", "enum": ["a"], "default": "b"}),
        json!({"type": "string", "pattern": "^a", "validation": {"pattern": "^b"}}),
        json!({"type": "string", "required": "yes"}),
        json!({"type": "integer", "minimum": 5, "maximum": 1}),
        json!({"type": "string", "min_length": -1}),
        json!({"type": 5}),
        json!("string?"),
    ];
    let parameters = |list: &[Value]| list.iter().map(|one| Some(json!({"p": one}))).collect::<Vec<_>>();
    vec![
        key("name", values!["validate-helm-chart"], values![{}, ["a"]]),
        key("version", vec![words("1.2.0"), None, words("1.2.0-rc.1")], values![[1], {}]),
        key("description", vec![words("Validates."), None, words("two\nlines")], values![{}, ["a"]]),
        key(
            "inputs",
            [vec![None, Some(json!({}))], parameters(&accepted_parameters)].concat(),
            [parameters(&refused_parameters), values![[5], "p", 5]].concat(),
        ),
        key(
            "outputs",
            [vec![None, Some(json!({}))], parameters(&accepted_parameters[3..])].concat(),
            parameters(&refused_parameters[..3]),
        ),
    ]
}

/// What a skill needs, and the facts about it.
fn operation_keys() -> Vec<Key> {
    let words = |value: &str| Some(json!(value));
    let tools = |list: Value| Some(json!({"tools": list}));
    vec![
        key(
            "dependencies",
            vec![
                None,
                tools(json!([{"name": "helm", "version": ">=3.12.0", "required": true, "reason": "r"}])),
                tools(json!(["git"])),
                Some(json!({"skills": [{"name": "cluster-auth", "version": "^1", "required": false}]})),
                Some(json!({"infrastructure": [{"name": "db", "kind": "tcp", "target": "localhost:5432"}]})),
                // The article gives no list of kinds.
                Some(json!({"infrastructure": [{"name": "db", "kind": "mainframe"}]})),
            ],
            vec![
                tools(json!([{"version": ">=1"}])),
                tools(json!([{"name": "x", "version": "not a range"}])),
                tools(json!([{"name": "x", "required": "yes"}])),
                tools(json!("helm")),
                tools(json!([["helm"]])),
                Some(json!({"infrastructure": "db"})),
                Some(json!([])),
            ],
        ),
        key(
            "metadata",
            vec![
                None,
                Some(json!({"estimated_duration": "5-30s", "cost": "none", "risk_level": "read-only"})),
                Some(json!({"idempotent": true, "cacheable": true, "cache_ttl": "5m", "cost": "0.02 USD"})),
                Some(
                    json!({"risk_level": "destructive", "permissions": ["filesystem:read", "kubernetes:get (when dry_run=true)"]}),
                ),
            ],
            values![
                {"estimated_duration": "soon"},
                {"estimated_duration": "30-5s"},
                {"cost": "cheap"},
                {"risk_level": "harmless"},
                {"idempotent": "maybe"},
                {"cacheable": 1},
                {"cache_ttl": "later"},
                {"permissions": "filesystem:read"},
                ["a"],
                "x",
            ],
        ),
        key(
            "examples",
            vec![None, Some(json!([])), Some(json!([{"description": "d", "inputs": {}}]))],
            values!["x", {"a": 1}],
        ),
        key("timeout", vec![None, words("30s"), words("2m")], values!["soon", "-1s", [1]]),
        key("author", vec![None, words("kept, and nothing reads it")], vec![]),
        key("beside", vec![None], values!["a key beside `skill`"]),
    ]
}

fn definitions() -> Format {
    let keys = parameter_keys().into_iter().chain(operation_keys()).collect();
    let wrap = |mut object: Map<String, Value>| {
        let beside = object.shift_remove("beside");
        let mut root = json!({"skill": object});
        if let Some(beside) = beside {
            root["beside"] = beside;
        }
        root
    };
    Format { file: "skill.yaml", keys, is_consistent: any, wrap }
}

#[test]
fn ar_01_to_ar_16_every_definition_gets_the_verdict_of_the_rules() {
    definitions().check();
}
