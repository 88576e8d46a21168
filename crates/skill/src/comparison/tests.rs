//! What is found between two contracts, as tables; and what holds for any two schemas.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value as Json, json};

use super::Change::{Major, Minor, Patch, Unknown};
use super::*;
use crate::contract;
use crate::contract::{Schema, parse_input_schema, parse_schema};

fn contract(text: &str) -> Contract {
    let parsed = contract::parse(text.as_bytes());
    let diagnostics = format!("{text}: {:?}", parsed.diagnostics);
    parsed.contract.expect(&diagnostics)
}

fn findings(old: &str, new: &str) -> Vec<(String, Change)> {
    let comparison = compare(&contract(old), &contract(new));
    comparison.findings.into_iter().map(|finding| (finding.path, finding.change)).collect()
}

/// Compares contracts that differ in one line, and expects these findings in any order.
fn check(old: &str, new: &str, expected: &[(&str, Change)]) {
    let mut found = findings(old, new);
    found.sort();
    let mut expected: Vec<(String, Change)> =
        expected.iter().map(|(path, change)| ((*path).to_owned(), *change)).collect();
    expected.sort();
    assert_eq!(found, expected, "\n{old}\n{new}");
    // Where something is written makes no difference.
    assert_eq!(findings(old, &format!("# a comment\n\n{old}")), [], "{old}");
}

/// A field `x` of the old schema and of the new one, where they differ, and what the change is for inputs and for outputs.
const FIELDS: &[(&str, &str, &str, Change, Change)] = &[
    ("type: string", "type: [string, integer]", "type", Minor, Major),
    ("type: [string, 'null']", "type: string", "type", Major, Minor),
    ("type: integer", "type: number", "type", Minor, Major),
    ("type: number", "type: integer", "type", Major, Minor),
    ("type: string", "type: integer", "type", Major, Major),
    ("type: string", "{}", "type", Minor, Major),
    ("enum: [a, b]", "enum: [a, b, c]", "enum", Minor, Major),
    ("enum: [a, b]", "enum: [b]", "enum", Major, Minor),
    ("enum: [a]", "const: a, description: x", "description", Patch, Patch),
    ("const: a", "enum: [a, b]", "enum", Minor, Major),
    ("enum: [a, b]", "enum: [a, b], pattern: '^a'", "enum", Unknown, Unknown),
    ("enum: [0.1, 0.25]", "enum: [0.1, 0.25], multipleOf: 0.1", "enum", Unknown, Unknown),
    ("enum: [1, 2]", "enum: [1, 2], multipleOf: 2", "enum", Major, Minor),
    ("type: string, enum: [a]", "type: string", "enum", Minor, Major),
    ("type: string", "type: string, enum: [a]", "enum", Major, Minor),
    ("type: boolean", "const: true", "const", Major, Minor),
    ("type: string, minLength: 1", "type: string, minLength: 2", "minLength", Major, Minor),
    ("type: string, minLength: 1", "type: string", "minLength", Minor, Major),
    ("type: string", "type: string, maxLength: 9", "maxLength", Major, Minor),
    ("type: string", "type: string, pattern: '^a'", "pattern", Major, Minor),
    ("type: string, pattern: '^a'", "type: string", "pattern", Minor, Major),
    ("type: string, pattern: '^a'", "type: string, pattern: '^b'", "pattern", Unknown, Unknown),
    ("type: integer, minimum: 1", "type: integer, minimum: 0", "minimum", Minor, Major),
    ("type: number, minimum: 0", "type: number, exclusiveMinimum: 0", "exclusiveMinimum", Major, Minor),
    ("type: number, maximum: 5", "type: number, maximum: 9.5", "maximum", Minor, Major),
    ("type: integer, multipleOf: 4", "type: integer, multipleOf: 2", "multipleOf", Minor, Major),
    ("type: integer, multipleOf: 2", "type: integer, multipleOf: 3", "multipleOf", Major, Major),
    ("type: number, multipleOf: 0.1", "type: number, multipleOf: 0.2", "multipleOf", Unknown, Unknown),
    ("type: array, items: {type: string}", "type: array, items: {}", "items/type", Minor, Major),
    ("type: array", "type: array, minItems: 1", "minItems", Major, Minor),
    ("type: array, maxItems: 3", "type: array, maxItems: 4", "maxItems", Minor, Major),
    ("type: array", "type: array, uniqueItems: true", "uniqueItems", Major, Minor),
    ("prefixItems: [{type: string}]", "prefixItems: [{}]", "prefixItems/0/type", Minor, Major),
    ("items: {type: string}", "prefixItems: [{}], items: {type: string}", "prefixItems/0/type", Minor, Major),
    ("type: array, items: false", "type: array, items: true", "items", Minor, Major),
    ("contains: {type: string}", "contains: {}", "contains/type", Minor, Major),
    ("contains: {}", "contains: {}, minContains: 2", "minContains", Major, Minor),
    ("type: object, required: [a]", "type: object", "required/a", Minor, Major),
    ("type: object", "type: object, required: [a/b]", "required/a~1b", Major, Minor),
    ("type: object", "type: object, minProperties: 1", "minProperties", Major, Minor),
    ("type: object", "type: object, additionalProperties: false", "additionalProperties", Major, Minor),
    (
        "type: object, additionalProperties: {type: string}",
        "type: object",
        "additionalProperties/type",
        Minor,
        Major,
    ),
    ("type: object", "type: object, unevaluatedProperties: false", "unevaluatedProperties", Major, Minor),
    ("type: object", "type: object, propertyNames: {maxLength: 3}", "propertyNames/maxLength", Major, Minor),
    ("dependentRequired: {a: [b]}", "dependentRequired: {a: [b, c]}", "dependentRequired/a", Major, Minor),
    ("properties: {a: {type: string}}", "properties: {a: {}}", "properties/a/type", Minor, Major),
    ("properties: {a: {}}", "properties: {a: {}, b: {type: string}}", "properties/b", Minor, Minor),
    ("properties: {a: {}, b: {}}", "properties: {a: {}}", "properties/b", Major, Major),
    ("type: string, description: a", "type: string, description: b", "description", Patch, Patch),
    ("type: string, format: date", "type: string, format: time", "format", Patch, Patch),
    ("type: string", "type: string, x-unit: km", "x-unit", Patch, Patch),
    ("type: string, default: a", "type: string, default: b", "default", Minor, Patch),
    ("not: {type: string}", "not: {type: [string, 'null']}", "not", Major, Minor),
    ("not: {type: string}", "not: {type: 'null'}", "not", Unknown, Unknown),
    ("type: string", "type: string, not: {const: a}", "not", Major, Minor),
    (
        "if: {type: string}, then: {minLength: 1}",
        "if: {type: string}, then: {}",
        "then/minLength",
        Minor,
        Major,
    ),
    (
        "if: {type: string}, then: {minLength: 1}",
        "if: {type: array}, then: {minLength: 1}",
        "if",
        Unknown,
        Unknown,
    ),
    ("{}", "if: {type: string}, then: {minLength: 1}", "if", Major, Minor),
    ("allOf: [{minimum: 1}]", "allOf: [{minimum: 2}]", "allOf/0/minimum", Major, Minor),
    ("allOf: [{minimum: 1}]", "allOf: [{maximum: 5}, {minimum: 1}]", "allOf", Major, Minor),
    ("anyOf: [{type: string}]", "anyOf: [{type: string}, {type: 'null'}]", "anyOf", Minor, Major),
    ("anyOf: [{type: string}, {type: array}]", "anyOf: [{type: array}]", "anyOf", Major, Minor),
    (
        "anyOf: [{minimum: 1}, {pattern: a}]",
        "anyOf: [{pattern: a}, {minimum: 0}]",
        "anyOf/1/minimum",
        Minor,
        Major,
    ),
    ("type: string", "anyOf: [{type: string}, {type: array}]", "anyOf", Minor, Major),
    ("anyOf: [{type: string}, {type: array}]", "type: string", "anyOf", Major, Minor),
    ("oneOf: [{type: string}]", "oneOf: [{type: string}, {type: 'null'}]", "oneOf", Minor, Major),
    ("oneOf: [{minimum: 1}, {maximum: 5}]", "oneOf: [{minimum: 1}, {maximum: 6}]", "oneOf", Unknown, Unknown),
    ("oneOf: [{const: a}]", "oneOf: [{const: a}, {const: b}]", "oneOf", Minor, Major),
];

#[test]
fn ar_23_inputs_may_accept_more_and_outputs_may_promise_more() {
    // AR-23
    for &(old, new, path, inputs, outputs) in FIELDS {
        let braces = |text: &str| if text == "{}" { text.to_owned() } else { format!("{{{text}}}") };
        let side = |side: &str, field: &str| {
            format!(
                "{side}: {{type: object, properties: {{x: {}}}, additionalProperties: true}}",
                braces(field)
            )
        };
        for (name, change) in [("inputs", inputs), ("outputs", outputs)] {
            let path = format!("/{name}/properties/x/{path}");
            check(
                &side(name, old),
                &side(name, new),
                &[(&path, change)].map(|(path, change)| (path.as_str(), change)),
            );
        }
    }
}

#[test]
fn other_patterns_of_names_cannot_be_compared() {
    let outputs = |pattern: &str| {
        format!("outputs: {{type: object, patternProperties: {{'{pattern}': {{type: string}}}}}}")
    };
    let at = "/outputs/patternProperties";
    let expected = [("^a", Unknown), ("^b", Unknown)].map(|(name, change)| (format!("{at}/{name}"), change));
    assert_eq!(findings(&outputs("^b"), &outputs("^a")), expected);
}

#[test]
fn schemas_that_accept_the_same_have_no_differences() {
    for (old, new) in [
        ("type: [string, integer]", "type: [integer, string]"),
        ("type: [integer, number]", "type: number"),
        ("enum: [a, b]", "enum: [b, a]"),
        ("enum: [1]", "const: 1.0"),
        ("type: boolean", "enum: [true, false]"),
        ("type: 'null'", "const: null"),
        ("enum: [{a: 1, b: 2}]", "enum: [{b: 2, a: 1}]"),
        ("enum: [a, 1], type: string", "const: a"),
        ("enum: [a, bbb], maxLength: 2", "const: a"),
        ("type: integer, exclusiveMinimum: 1", "type: integer, minimum: 2"),
        ("type: integer, minimum: 1.5", "type: integer, minimum: 2"),
        ("type: string, minLength: 0", "type: string"),
        ("type: string, minimum: 5", "type: string"),
        ("type: integer, multipleOf: 1", "type: integer"),
        ("uniqueItems: false", "{}"),
        ("items: true", "items: {}"),
        ("prefixItems: [{type: string}], items: {type: string}", "items: {type: string}"),
        ("properties: {}, required: []", "{}"),
        ("allOf: [{type: string}, {minLength: 1}]", "allOf: [{minLength: 1}, {type: string}]"),
        ("anyOf: [{type: string}, {type: array}]", "anyOf: [{type: array}, {type: string}]"),
        ("type: [string, 'null']", "anyOf: [{type: string}, {type: 'null'}]"),
        ("anyOf: [{type: string}, {type: 'null'}]", "oneOf: [{type: 'null'}, {type: string}]"),
        ("oneOf: [{const: a, title: A}, {const: b}]", "enum: [a, b]"),
        ("oneOf: [{minimum: 1}, {maximum: 5}]", "oneOf: [{maximum: 5}, {minimum: 1}]"),
        ("not: {enum: [a, b]}", "not: {enum: [b, a]}"),
    ] {
        let side = |field: &str| {
            format!("outputs: {{type: object, properties: {{x: {{{field}}}}}}}").replace("{{}}", "{}")
        };
        check(&side(old), &side(new), &[]);
        check(&side(new), &side(old), &[]);
    }
}

#[test]
fn references_are_followed_in_any_notation() {
    let whole = |defs: &str, field: &str| {
        format!("inputs: {{type: object, properties: {{x: {field}}}, $defs: {{a: {defs}}}}}")
    };
    let by_name = whole("{type: string, $anchor: named}", "{$ref: '#named'}");
    let by_path = whole("{type: string}", "{$ref: '#/$defs/a'}");
    let written_out = whole("{type: string}", "{type: string}");
    for one in [&by_name, &by_path, &written_out] {
        for other in [&by_name, &by_path, &written_out] {
            check(one, other, &[]);
        }
    }
    let wider = whole("{type: [string, integer]}", "{$ref: '#/$defs/a'}");
    check(&by_path, &wider, &[("/inputs/properties/x/type", Minor)]);
    // The same reference, and another schema behind it; inside alternatives, too.
    let any = |defs: &str| whole(defs, "{anyOf: [{$ref: '#/$defs/a'}, {type: array}]}");
    check(&any("{type: string}"), &any("{type: 'null'}"), &[("/inputs/properties/x/anyOf/0/type", Major)]);
    let beside = |length: u8| whole(&format!("{{minLength: {length}}}"), "{$ref: '#/$defs/a', type: string}");
    check(&beside(1), &beside(2), &[("/inputs/properties/x/allOf/0/minLength", Major)]);
    let described =
        |text: &str| whole("{type: string}", &format!("{{$ref: '#/$defs/a', description: {text}}}"));
    check(&described("a"), &described("b"), &[("/inputs/properties/x/description", Patch)]);
}

#[test]
fn earlier_dialects_mean_what_they_meant() {
    let schema = |dialect: &str, field: &str| {
        format!(
            "inputs: {{$schema: '{dialect}', type: object, properties: {{x: {field}}}, definitions: {{a: {{type: string}}}}}}"
        )
    };
    let seven = "http://json-schema.org/draft-07/schema#";
    let later = "https://json-schema.org/draft/2020-12/schema";
    // What stands beside a reference is ignored.
    check(
        &schema(seven, "{$ref: '#/definitions/a', minLength: 1}"),
        &schema(seven, "{$ref: '#/definitions/a', minLength: 5}"),
        &[],
    );
    check(
        &schema(seven, "{type: string}"),
        &schema(later, "{type: string}"),
        &[("/inputs/$schema", Unknown)],
    );
    check(
        &schema(seven, "{items: [{type: string}], additionalItems: false}"),
        &schema(seven, "{items: [{}], additionalItems: false}"),
        &[("/inputs/properties/x/prefixItems/0/type", Minor)],
    );
}

#[test]
fn ar_t13_fields_of_the_input_come_and_go() {
    let inputs = |fields: &str| format!("inputs: {{{fields}}}");
    let base = inputs("path: {type: string, required: true}");
    for (fields, expected) in [
        (
            "path: {type: string, required: true}, deep: {type: boolean, required: false}",
            &[("/inputs/properties/deep", Minor)][..],
        ),
        (
            "path: {type: string, required: true}, deep: {type: boolean, default: true}",
            &[("/inputs/properties/deep", Minor)],
        ),
        (
            "path: {type: string, required: true}, deep: {type: boolean, required: true}",
            &[("/inputs/properties/deep", Major)],
        ),
        ("path: {type: string, required: false}", &[("/inputs/required/path", Minor)]),
        (
            "path: {type: string, default: a}",
            &[("/inputs/required/path", Minor), ("/inputs/properties/path/default", Minor)],
        ),
        (
            "folder: {type: string, required: true}",
            &[("/inputs/properties/folder", Major), ("/inputs/properties/path", Major)],
        ),
    ] {
        check(&base, &inputs(fields), expected);
    }
    check(
        &inputs("a: {type: string, required: false}"),
        &inputs("a: {type: string, required: true}"),
        &[("/inputs/required/a", Major)],
    );
    check(
        &inputs("a: {type: string, default: x}"),
        &inputs("a: {type: string, required: true}"),
        &[("/inputs/required/a", Major), ("/inputs/properties/a/default", Minor)],
    );
    // Parameters and the JSON Schema that says the same are the same.
    let schema = "inputs: {type: object, properties: {path: {type: string}}, required: [path]}";
    check(&base, schema, &[]);
    check(schema, &base, &[]);
}

#[test]
fn a_missing_input_with_a_default_is_not_required() {
    let schema = |required: &str, default: &str| {
        format!(
            "inputs: {{type: object, required: [{required}], properties: {{a: {{type: string{default}}}}}}}"
        )
    };
    check(&schema("a", ", default: x"), &schema("", ", default: x"), &[]);
    check(
        &schema("a", ", default: x"),
        &schema("a", ""),
        &[("/inputs/required/a", Major), ("/inputs/properties/a/default", Minor)],
    );
}

/// Defaults are not filled in behind references and in alternatives.
#[test]
fn a_default_that_is_no_longer_filled_in_makes_its_field_required() {
    let place = "{type: object, required: [q], properties: {q: {type: string, default: a}}}";
    let inputs =
        |place: &str, defs: &str| format!("inputs: {{type: object, properties: {{p: {place}}}{defs}}}");
    let inline = inputs(place, "");
    let referenced = inputs("{$ref: '#/$defs/p'}", &format!(", $defs: {{p: {place}}}"));
    check(&inline, &referenced, &[("/inputs/properties/p/required/q", Major)]);
    check(&referenced, &inline, &[("/inputs/properties/p/required/q", Minor)]);
    let alternative = inputs(&format!("{{anyOf: [{place}, {{type: string}}]}}"), "");
    let at = "/inputs/properties/p/anyOf";
    check(&inline, &alternative, &[(at, Unknown), (at, Minor)]);
}

#[test]
fn a_new_field_where_callers_could_pass_anything_may_refuse_what_they_passed() {
    let open = |more: &str, field: &str| {
        format!("inputs: {{type: object, properties: {{a: {{type: string}}{field}}}{more}}}")
    };
    let stated = ", additionalProperties: true";
    check(&open(stated, ""), &open(stated, ", b: {type: string}"), &[("/inputs/properties/b", Major)]);
    check(&open(stated, ""), &open(stated, ", b: {}"), &[("/inputs/properties/b", Minor)]);
    let texts = ", additionalProperties: {type: string}";
    check(
        &open(texts, ""),
        &open(texts, ", b: {type: [string, integer]}"),
        &[("/inputs/properties/b", Minor)],
    );
    check(&open("", ""), &open("", ", b: {type: string}"), &[("/inputs/properties/b", Minor)]);
}

#[test]
fn schemas_come_and_go() {
    let inputs = "inputs: {a: {type: string, required: false}}";
    let outputs = "outputs: {a: {type: string}}";
    let open = "inputs: {type: object, additionalProperties: true}";
    check("{}", inputs, &[("/inputs", Major)]);
    check(inputs, "{}", &[("/inputs", Major)]);
    check("{}", open, &[("/inputs", Major)]);
    check(open, "{}", &[("/inputs", Minor)]);
    check("{}", "inputs: {$comment: any}", &[("/inputs", Minor)]);
    check("{}", outputs, &[("/outputs", Minor)]);
    check(outputs, "{}", &[("/outputs", Major)]);
}

#[test]
fn what_calls_and_scripts_may_reach_is_compared() {
    for (old, new, expected) in [
        (
            "{config: {u: {default: 'https://a.test'}}, tools: [{name: t, http: {base_url: $config.u}}]}",
            "{config: {u: {default: 'https://b.test'}}, tools: [{name: t, http: {base_url: $config.u}}]}",
            &[
                ("/config/u/default", Minor),
                ("/permissions/net:a.test", Minor),
                ("/permissions/net:b.test", Major),
            ][..],
        ),
        (
            "{config: {u: {secret: true}}, base_url: 'https://a.test', tools: [{name: t, http: {path: /x}}]}",
            "{config: {u: {secret: true}}, base_url: 'https://a.test', tools: [{name: t, http: {base_url: $secrets.u}}]}",
            &[
                ("/tools/t/http", Patch),
                ("/permissions/net", Major),
                ("/tools/t/http/base_url", Unknown),
                ("/tools/t/http/secrets/u", Minor),
            ],
        ),
        (
            "{config: {o: {}}, tools: [{name: t, http: {base_url: 'https://a.test/$config.o'}}]}",
            "{config: {o: {}}, tools: [{name: t, http: {base_url: 'https://b.test/$config.o'}}]}",
            &[
                ("/tools/t/http", Patch),
                ("/permissions/net:a.test", Minor),
                ("/permissions/net:b.test", Major),
                ("/tools/t/http/base_url", Unknown),
            ],
        ),
        (
            "{config: {o: {}}, tools: [{name: t, http: {base_url: $config.o}}]}",
            "{config: {o: {}}, tools: [{name: t, http: {base_url: 'https://${config.o}'}}]}",
            &[("/tools/t/http", Patch), ("/tools/t/http/base_url", Unknown)],
        ),
        (
            "{config: {k: {secret: true}}, base_url: 'https://a.test', tools: [{name: t, http: {path: /x}}]}",
            "{config: {k: {secret: true}}, base_url: 'https://a.test', tools: [{name: t, http: {path: /x, method: DELETE, headers: {A: $secrets.k}}}]}",
            &[("/tools/t/http", Patch), ("/tools/t/http/method", Minor), ("/tools/t/http/secrets/k", Minor)],
        ),
        (
            "entrypoint: scripts/a.lua",
            "entrypoint: scripts/a.sh",
            &[("/entrypoint", Patch), ("/entrypoint", Unknown)],
        ),
        (
            "{entrypoint: scripts/a.lua, permissions: [read]}",
            "{entrypoint: scripts/a.sh, permissions: [read]}",
            &[("/entrypoint", Patch)],
        ),
        (
            "tools: [{name: t, entrypoint: a.lua}, {name: i, internal: true, requires_confirmation: true, entrypoint: b.lua}]",
            "tools: [{name: t, entrypoint: a.lua}, {name: i, internal: true, entrypoint: b.lua}]",
            &[("/tools/i", Patch), ("/tools/i/requires_confirmation", Minor)],
        ),
        ("config: {a: {default: 1}}", "config: {a: {default: 2}}", &[("/config/a/default", Minor)]),
    ] {
        check(old, new, expected);
    }
}

#[test]
fn what_a_skill_asks_for_is_compared() {
    for (old, new, expected) in [
        ("permissions: []", "permissions: [write]", &[("/permissions/write", Major)][..]),
        ("{}", "permissions: [write]", &[("/permissions/write", Major)]),
        ("permissions: [write:out]", "permissions: [write]", &[("/permissions/write", Major)]),
        ("permissions: [write]", "permissions: [write:out]", &[("/permissions/write", Minor)]),
        ("permissions: ['net:example.com']", "permissions: [net]", &[("/permissions/net", Major)]),
        ("permissions: [net, read]", "permissions: []", &[("/permissions/net", Minor)]),
        ("permissions: [net]", "{}", &[("/permissions/net", Minor), ("/permissions", Unknown)]),
        ("permissions: [net, state]", "permissions: [state, net]", &[("/permissions", Patch)]),
        ("permissions: [state (when kept)]", "permissions: [state]", &[("/permissions", Patch)]),
        ("permissions: ['kubernetes:get']", "permissions: []", &[("/permissions", Patch)]),
        ("env: []", "env: [TOKEN_A]", &[("/permissions/env:TOKEN_A", Major)]),
        ("config: {}", "config: {a: text}", &[("/config/a", Minor)]),
        ("config: {}", "config: {a: {required: true}}", &[("/config/a", Major)]),
        ("config: {}", "config: {a: {required: true, default: 1}}", &[("/config/a", Minor)]),
        (
            "config: {a: {required: on_use}}",
            "config: {a: {required: true}}",
            &[("/config/a/required", Patch)],
        ),
        ("config: {}", "config: {a: {required: any_of}}", &[("/config/a", Major)]),
        (
            "config: {a: {required: any_of}}",
            "config: {a: {required: any_of}, b: {required: any_of}}",
            &[("/config/b", Minor)],
        ),
        ("config: {a: text}", "config: {}", &[("/config/a", Minor)]),
        (
            "config: {}",
            "config: {a: {secret: true}}",
            &[("/config/a", Minor), ("/permissions/secret:a", Major)],
        ),
        (
            "secrets: [{name: K, host: a.example.com}]",
            "secrets: [{name: K, host: [a.example.com, b.example.com]}]",
            &[
                ("/config/K/hosts", Patch),
                ("/permissions/net:b.example.com", Major),
                ("/permissions/secret:K@b.example.com", Major),
            ],
        ),
        ("dependencies: {}", "dependencies: {tools: [helm]}", &[("/dependencies/tools/helm", Major)]),
        ("dependencies: {tools: [helm]}", "dependencies: {}", &[("/dependencies/tools/helm", Minor)]),
        (
            "dependencies: {}",
            "dependencies: {tools: [{name: helm, required: false}]}",
            &[("/dependencies/tools/helm", Minor)],
        ),
        (
            "dependencies: {tools: [{name: helm, version: '>=3.11'}]}",
            "dependencies: {tools: [{name: helm, version: '>=3.12'}]}",
            &[("/dependencies/tools/helm/version", Major)],
        ),
        (
            "dependencies: {skills: ['a@^1']}",
            "dependencies: {skills: [{name: a, required: false}]}",
            &[("/dependencies/skills/a/required", Minor), ("/dependencies/skills/a/version", Minor)],
        ),
        (
            "dependencies: {infrastructure: [{name: d, kind: tcp, target: 'localhost:1'}]}",
            "dependencies: {infrastructure: [{name: d, kind: tcp, target: 'localhost:2'}]}",
            &[("/dependencies/infrastructure/d/target", Major)],
        ),
    ] {
        check(old, new, expected);
    }
}

#[test]
fn names_and_facts_are_compared() {
    for (old, new, expected) in [
        ("name: a", "name: b", &[("/name", Major)][..]),
        ("description: a", "description: b", &[("/description", Patch)]),
        ("entrypoint: a.lua", "entrypoint: b.lua", &[("/entrypoint", Patch)]),
        ("entrypoint: a.lua", "{}", &[("/entrypoint", Unknown)]),
        ("{}", "entrypoint: a.lua", &[("/entrypoint", Minor)]),
        (
            "entrypoint: a.lua\nentrypoints: {check: c.lua}",
            "entrypoint: a.lua\nentrypoints: {verify: c.lua}",
            &[("/entrypoints/check", Major), ("/entrypoints/verify", Minor)],
        ),
        ("entrypoint: a.lua", "entrypoints: {main: a.lua}", &[]),
        ("timeout: 10s", "timeout: 20s", &[("/limits/timeout", Minor)]),
        ("timeout: 10s", "timeout: 5s", &[("/limits/timeout", Unknown)]),
        ("{}", "limits: {memory: 1MB}", &[("/limits/memory", Unknown)]),
        ("metadata: {risk_level: low}", "metadata: {risk_level: high}", &[("/metadata/risk_level", Major)]),
        ("metadata: {risk_level: high}", "metadata: {risk_level: low}", &[("/metadata/risk_level", Minor)]),
        ("{}", "metadata: {risk_level: low}", &[("/metadata/risk_level", Unknown)]),
        ("metadata: {idempotent: true}", "{}", &[("/metadata/idempotent", Major)]),
        ("metadata: {cost: none}", "metadata: {cost: low}", &[("/metadata/cost", Minor)]),
        (
            "metadata: {estimated_duration: 1s}",
            "metadata: {estimated_duration: 2s}",
            &[("/metadata/estimated_duration", Patch)],
        ),
        ("state: []", "state: [data]", &[("/state", Minor)]),
        ("examples: []", "examples: [{description: d, inputs: {}}]", &[("/examples", Patch)]),
        ("x-a: 1", "x-a: 2", &[("", Patch)]),
        (
            "inputs: {a: {type: string, required: true}}\nforms: {f: {inputs: [a]}}",
            "inputs: {a: {type: string, required: true}}\nforms: {f: {message: m, inputs: [a]}}",
            &[("/forms/f", Patch)],
        ),
        (
            "base_url: 'https://a.example.com'\ntools: [{name: t, http: {method: GET, path: /a}}]",
            "base_url: 'https://a.example.com'\ntools: [{name: t, http: {method: GET, path: /b}}]",
            &[("/tools/t/http", Patch)],
        ),
        (
            "examples: [{description: d, inputs: {}}, {description: e, inputs: {}}]",
            "examples: [{description: d, inputs: {}}, {description: f, inputs: {}}]",
            &[("/examples", Patch)],
        ),
        ("attachments: [a.md]", "attachments: [b.md]", &[("/attachments", Patch)]),
        (
            "resources: [{uri: 'x://a', file: a.md}]",
            "resources: [{uri: 'x://b', file: a.md}]",
            &[("/resources/x:~1~1a", Major), ("/resources/x:~1~1b", Minor)],
        ),
    ] {
        check(old, new, expected);
    }
}

#[test]
fn tools_are_compared_by_their_names() {
    let tool = |name: &str, more: &str| format!("{{name: {name}, entrypoint: a.lua{more}}}");
    let tools = |tools: &[String]| format!("tools: [{}]", tools.join(", "));
    let check_tool = |old: &str, new: &str, expected: &[(&str, Change)]| {
        check(&tools(&[tool("t", old)]), &tools(&[tool("t", new)]), expected);
    };
    check(&tools(&[tool("a", "")]), &tools(&[tool("b", ""), tool("a", "")]), &[("/tools/b", Minor)]);
    check(&tools(&[tool("a", "")]), &tools(&[tool("b", "")]), &[("/tools/b", Minor), ("/tools/a", Major)]);
    let city = ", inputs: {city: {type: string, required: true}}";
    let more = ", inputs: {city: {type: string, required: true}, day: {type: integer, required: true}}";
    check_tool(city, more, &[("/tools/t/inputs/properties/day", Major)]);
    check_tool(
        ", outputs: {x: {type: string}}",
        ", outputs: {x: {type: [string, 'null']}}",
        &[("/tools/t/outputs/properties/x/type", Major)],
    );
    check_tool(", risk_level: low", ", risk_level: medium", &[("/tools/t/risk_level", Major)]);
    check_tool(
        ", requires_confirmation: false",
        ", requires_confirmation: true",
        &[("/tools/t/requires_confirmation", Major)],
    );
    check_tool(", timeout: 9s", ", timeout: 5s", &[("/tools/t/timeout", Unknown)]);
    check_tool(
        ", description: a",
        ", description: b, tags: [c]",
        &[("/tools/t/description", Patch), ("/tools/t/tags", Patch)],
    );
}

#[test]
fn aliases_of_tools_come_and_go() {
    let mut old = contract("{}");
    let mut new = old.clone();
    old.tool_aliases = vec![("search".to_owned(), vec!["find".to_owned(), "grep".to_owned()])];
    new.tool_aliases = vec![("search".to_owned(), vec!["grep".to_owned(), "look/up".to_owned()])];
    let found = compare(&old, &new).findings;
    let found: Vec<_> = found.iter().map(|finding| (finding.path.as_str(), finding.change)).collect();
    assert_eq!(found, [("/tool_aliases/search/find", Major), ("/tool_aliases/search/look~1up", Minor)]);
}

#[test]
fn ar_t13_a_version_is_large_enough_or_not() {
    let version = |version: &str, input: &str| {
        let path = "path: {type: string, required: true}";
        contract(&format!("name: x\nversion: {version}\ninputs: {{{path}{input}}}"))
    };
    let (optional, required) =
        (", deep: {type: boolean, required: false}", ", deep: {type: boolean, required: true}");
    for (old, new, input, sufficient, needed) in [
        ("1.2.0", "1.3.0", optional, true, "1.3.0"),
        ("1.2.0", "1.2.1", optional, false, "1.3.0"),
        ("1.2.0", "1.3.0", required, false, "2.0.0"),
        ("1.2.0", "2.0.0", required, true, "2.0.0"),
        ("0.2.0", "0.2.1", optional, true, "0.2.1"),
        ("0.2.0", "0.2.1", required, false, "0.3.0"),
        ("0.2.0", "0.3.0", required, true, "0.3.0"),
        ("0.0.2", "0.0.3", required, true, "0.0.3"),
        ("1.2.0", "1.2.0", "", true, "1.2.0"),
        ("1.2.0", "1.1.0", "", false, "1.2.0"),
        ("2.0.0-rc.1", "2.0.0-rc.2", required, true, "2.0.0"),
    ] {
        let comparison = compare(&version(old, ""), &version(new, input));
        let place = format!("{old} -> {new} {input}");
        assert_eq!(comparison.is_sufficient(), Some(sufficient), "{place}");
        assert_eq!(comparison.needed_version.unwrap().to_string(), needed, "{place}");
    }
    for (old, new) in [("0.0.0", "1.0.0"), ("1.0.0", "0.0.0"), ("0.0.0", "0.0.0")] {
        let comparison = compare(&version(old, ""), &version(new, required));
        assert_eq!((comparison.declared, comparison.is_sufficient()), (None, None), "{old} {new}");
        assert_eq!(comparison.required, VersionChange::Major);
    }
}

fn contract_with_inputs(schema: &Json) -> Contract {
    inputs_of_contract(schema).unwrap()
}

/// A contract with these inputs, unless a default in them does not fit.
fn inputs_of_contract(schema: &Json) -> Option<Contract> {
    let inputs = parse_input_schema(schema.clone()).ok()?;
    Some(Contract { inputs: Some(inputs), ..Contract::default() })
}

#[test]
fn hostile_schemas_take_bounded_work() {
    let alternatives = |last: usize| {
        // Each alternative differs from all others, and has alternatives itself.
        let inner = |at: usize| -> Vec<Json> {
            (0..12).map(|n| json!({"minimum": n * at, "maximum": n * at + last, "type": "number"})).collect()
        };
        let members: Vec<Json> = (1..90).map(|at| json!({"anyOf": inner(at)})).collect();
        json!({"type": "object", "properties": {"x": {"anyOf": members}}})
    };
    let nested = |innermost: Json| {
        (0..15)
            .fold(innermost, |schema, _| json!({"anyOf": [{"items": schema.clone()}, {"contains": schema}]}))
    };
    let doubled = |innermost: Json| {
        let mut defs = Map::from_iter([("d0".to_owned(), innermost)]);
        for level in 1..9 {
            let below = json!({"$ref": format!("#/$defs/d{}", level - 1)});
            defs.insert(
                format!("d{level}"),
                json!({"anyOf": [{"items": below.clone()}, {"items": {"not": below}}]}),
            );
        }
        json!({"$defs": defs, "properties": {"x": {"$ref": "#/$defs/d8"}}})
    };
    let deep =
        |innermost: Json| (0..20).fold(innermost, |schema, _| json!({"properties": {"a": {"not": schema}}}));
    let wide = |value: &str| {
        let fields = (0..3_000).map(|at| (format!("f{at}"), json!({"description": value})));
        json!({"type": "object", "properties": fields.collect::<Map<_, _>>()})
    };
    let choices =
        |from: usize| json!({"properties": {"x": {"enum": (from..from + 9_000).collect::<Vec<_>>()}}});
    for (name, old, new) in [
        ("alternatives", alternatives(1), alternatives(2)),
        ("doubled", doubled(json!({"type": "string"})), doubled(json!({"type": "integer"}))),
        ("deep", deep(json!({"minimum": 1})), deep(json!({"minimum": 2}))),
        ("wide", wide("a"), wide("b")),
        ("choices", choices(0), choices(4_500)),
        ("unlike", alternatives(1), doubled(json!({}))),
    ] {
        let began = Instant::now();
        let comparison = compare(&contract_with_inputs(&old), &contract_with_inputs(&new));
        assert!(!comparison.findings.is_empty(), "{name}");
        assert!(comparison.findings.len() <= 1_000, "{name}");
        assert!(began.elapsed() < Duration::from_mins(1), "{name}: {:?}", began.elapsed());
    }
    // One that does not fit is refused before it is compared.
    assert!(parse_input_schema(nested(json!({"type": "string"}))).is_err());
}

#[test]
fn deep_schemas_are_compared_to_their_end() {
    let or_null = |schema: Json| json!({"anyOf": [{"type": "null"}, schema]});
    let and_text = |schema: Json| json!({"allOf": [{"maxLength": 9}, schema]});
    let in_field = |schema: Json| json!({"properties": {"a": schema}});
    for (around, times, path) in [
        (&or_null as &dyn Fn(Json) -> Json, 50, "/anyOf/1"),
        (&and_text, 50, "/allOf/1"),
        (&in_field, 50, "/properties/a"),
    ] {
        let nested = |innermost: Json| (0..times).fold(innermost, |schema, _| around(schema));
        let outputs = |innermost: Json| Contract {
            outputs: Some(parse_schema(nested(innermost)).unwrap()),
            ..Contract::default()
        };
        let (old, new) = (outputs(json!({"minLength": 1})), outputs(json!({"minLength": 2})));
        let found = compare(&old, &new).findings;
        let expected = format!("/outputs{}/minLength", path.repeat(times));
        assert_eq!(
            found.iter().map(|found| (&found.path, found.change)).collect::<Vec<_>>(),
            [(&expected, Minor)]
        );
    }
}

#[test]
fn what_is_too_large_is_unknown_and_never_equal() {
    let member = |at: usize, more: usize| json!({"type": "number", "minimum": at, "maximum": at * 2 + more, "multipleOf": 3});
    let schema = |more: usize| json!({"properties": {"x": {"anyOf": (0..900).map(|at| member(at, more)).collect::<Vec<_>>()}}});
    let comparison = compare(&contract_with_inputs(&schema(0)), &contract_with_inputs(&schema(1_000_000)));
    let messages: Vec<_> = comparison.findings.iter().map(|finding| finding.message.as_str()).collect();
    assert!(comparison.unknown > 0 || comparison.required == VersionChange::Minor, "{messages:?}");
    // Without work left, nothing is said to be the same.
    let mut budget = WorkBudget::default();
    let (old, new) = (contract_with_inputs(&schema(0)), contract_with_inputs(&schema(1)));
    for _ in 0..50 {
        let mut list = FindingList::default();
        schema::compare(
            (old.inputs.as_ref(), new.inputs.as_ref()),
            Direction::Inputs,
            "",
            &mut budget,
            &mut list,
        );
        assert!(list.count(Change::Unknown) + list.count(Change::Minor) > 0);
    }
}

/// A small schema: few names and numbers, so that two of them have much in common.
fn schemas() -> impl Strategy<Value = Json> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    let kinds =
        || prop::sample::select(vec!["string", "integer", "number", "boolean", "null", "array", "object"]);
    let scalar = || {
        prop_oneof![
            Just(json!("a")),
            Just(json!("bb")),
            Just(json!(1)),
            Just(json!(2.5)),
            Just(json!(null)),
            Just(json!(true))
        ]
    };
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({})),
        kinds().prop_map(|kind| json!({"type": kind})),
        (kinds(), kinds())
            .prop_filter_map("once", |(one, two)| (one != two).then(|| json!({"type": [one, two]}))),
        prop::collection::vec(scalar(), 1..4).prop_map(|mut values| {
            values.dedup();
            values.sort_by_key(ToString::to_string);
            values.dedup();
            json!({"enum": values})
        }),
        scalar().prop_map(|value| json!({"const": value})),
        (0..4_i32, 0..4_i32)
            .prop_map(|(low, more)| json!({"type": "integer", "minimum": low, "maximum": low + more})),
        (0..4_i32).prop_map(|low| json!({"type": "number", "exclusiveMinimum": low})),
        (0..4_u8).prop_map(|length| json!({"type": "string", "minLength": length})),
        (0..4_u8).prop_map(|length| json!({"maxLength": length})),
        (1..4_u8).prop_map(|factor| json!({"type": "number", "multipleOf": factor})),
        Just(json!({"type": "string", "pattern": "^a"})),
        Just(json!({"pattern": "b"})),
        Just(json!({"type": "integer", "default": 1})),
        Just(
            json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "default": 1}}})
        ),
        Just(json!({"uniqueItems": true})),
        Just(json!({"multipleOf": 0.5})),
    ];
    leaf.prop_recursive(3, 24, 4, move |inner| {
        let fields = || prop::collection::btree_map(name(), inner.clone(), 0..3);
        let required = || prop::collection::btree_set(name(), 0..2);
        let other = || prop_oneof![Just(None), Just(Some(json!(false))), inner.clone().prop_map(Some)];
        prop_oneof![
            3 => (fields(), required(), other(), any::<bool>()).prop_map(|(fields, required, other, is_typed)| {
                let mut schema = json!({"properties": fields, "required": required});
                if let Some(other) = other {
                    schema["additionalProperties"] = other;
                }
                if is_typed {
                    schema["type"] = json!("object");
                }
                schema
            }),
            1 => (inner.clone(), 0..3_u8).prop_map(|(items, least)| json!({"type": "array", "items": items, "minItems": least})),
            1 => (inner.clone(), inner.clone()).prop_map(|(first, rest)| json!({"prefixItems": [first], "items": rest})),
            1 => inner.clone().prop_map(|item| json!({"type": "array", "contains": item})),
            1 => prop::collection::vec(inner.clone(), 1..4).prop_map(|members| json!({"anyOf": members})),
            1 => prop::collection::vec(inner.clone(), 1..3).prop_map(|members| json!({"oneOf": members})),
            1 => prop::collection::vec(inner.clone(), 1..3).prop_map(|members| json!({"allOf": members})),
            1 => inner.clone().prop_map(|schema| json!({"not": schema})),
            1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(condition, one, other)| json!({"if": condition, "then": one, "else": other})),
            1 => (fields(), inner.clone(), any::<bool>()).prop_map(|(fields, more, is_typed)| {
                let mut schema = json!({"properties": fields, "allOf": [more], "unevaluatedProperties": false});
                if is_typed {
                    schema["type"] = json!("object");
                }
                schema
            }),
            4 => (inner.clone(), inner.clone()).prop_map(|(one, other)| match (one, other) {
                (Json::Object(mut one), Json::Object(other)) => {
                    one.extend(other);
                    one.into()
                }
                (one, _) => one,
            }),
            1 => (inner.clone(), 0..3_u8, 0..3_u8).prop_map(|(item, least, more)| {
                json!({"contains": item, "minContains": least, "maxContains": least + more})
            }),
            1 => (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(first, more, is_closed)| {
                json!({"prefixItems": [first], "allOf": [more], "unevaluatedItems": !is_closed})
            }),
            1 => (fields(), name(), inner.clone(), any::<bool>()).prop_map(|(fields, name, other, is_closed)| {
                json!({"properties": fields, "patternProperties": {format!("^[{name}d]"): other}, "additionalProperties": !is_closed})
            }),
            1 => (name(), name(), inner.clone()).prop_map(|(one, other, schema)| {
                json!({"dependentRequired": {one: [other]}, "dependentSchemas": {other: schema}})
            }),
            1 => (0..3_u8, 0..3_u8, name()).prop_map(|(least, more, name)| {
                json!({"minProperties": least, "maxProperties": least + more, "propertyNames": {"enum": ["a", name]}})
            }),
            1 => (fields(), inner.clone()).prop_map(|(fields, alternative)| json!({"properties": fields, "anyOf": [alternative, {"required": ["a"]}]})),
        ]
    })
}

/// A schema that stands alone is a map.
fn whole_schema(schema: Json) -> Schema {
    let schema = match schema {
        Json::Bool(true) => json!({}),
        Json::Bool(false) => json!({"enum": []}),
        schema => schema,
    };
    parse_schema(schema).unwrap()
}

/// A schema, and one that is made of it by a small change; or two that have nothing to do with each other.
fn schema_pairs() -> impl Strategy<Value = (Json, Json)> {
    let changed = (schemas(), any::<prop::sample::Index>(), schemas())
        .prop_map(|(schema, at, other)| (schema.clone(), replace_part(schema, at, other)));
    // The same references, and in the definition behind them a change.
    let referenced = (schemas(), any::<prop::sample::Index>(), schemas(), any::<bool>()).prop_map(
        |(schema, at, other, is_beside)| {
            let whole = |definition: Json| {
                let mut field = json!({"$ref": "#/$defs/d"});
                if is_beside {
                    field["minLength"] = json!(1);
                }
                json!({"$defs": {"d": definition}, "properties": {"a": field, "b": {"anyOf": [{"$ref": "#/$defs/d"}, {"type": "null"}]}}})
            };
            (whole(schema.clone()), whole(replace_part(schema, at, other)))
        },
    );
    prop_oneof![3 => changed, 1 => referenced, 1 => (schemas(), schemas())]
}

/// The schema with one of its subschemas replaced.
fn replace_part(mut schema: Json, at: prop::sample::Index, other: Json) -> Json {
    let mut places = vec![String::new()];
    collect_places(&schema, "", &mut places);
    let place = &places[at.index(places.len())];
    if let Some(part) = schema.pointer_mut(place) {
        *part = other;
    }
    schema
}

fn collect_places(schema: &Json, at: &str, places: &mut Vec<String>) {
    for keyword in ["properties", "anyOf", "oneOf", "allOf", "prefixItems"] {
        let below: Vec<(String, &Json)> = match schema.get(keyword) {
            Some(Json::Object(parts)) => parts.iter().map(|(name, part)| (name.clone(), part)).collect(),
            Some(Json::Array(parts)) => {
                parts.iter().enumerate().map(|(n, part)| (n.to_string(), part)).collect()
            }
            _ => Vec::new(),
        };
        for (name, part) in below {
            let at = format!("{at}/{keyword}/{name}");
            places.push(at.clone());
            collect_places(part, &at, places);
        }
    }
    for keyword in ["items", "additionalProperties", "not", "if", "then", "else", "contains"] {
        if let Some(part) = schema.get(keyword).filter(|part| !part.is_array()) {
            let at = format!("{at}/{keyword}");
            places.push(at.clone());
            collect_places(part, &at, places);
        }
    }
}

fn example_values() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Json::from),
        (-1..8_i32).prop_map(Json::from),
        prop::sample::select(vec![0.5, 2.5, 3.0]).prop_map(Json::from),
        prop::sample::select(vec!["", "a", "bb", "abc", "abcd"]).prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c", "d"]), inner, 0..4)
                .prop_map(|fields| json!(fields)),
        ]
    })
}

/// What holds for all pairs would hold of a comparison that decides nothing, too.
#[test]
fn enough_pairs_are_decided() {
    let mut runner = TestRunner::deterministic();
    let (mut decided, mut one_way) = (0, 0);
    for _ in 0..400 {
        let (old, new) = schema_pairs().new_tree(&mut runner).unwrap().current();
        let (keeps_all, adds_none) = schema::total_effect(&whole_schema(old), &whole_schema(new));
        decided += usize::from(keeps_all || adds_none);
        one_way += usize::from(keeps_all != adds_none);
    }
    assert!(decided > 70 && one_way > 70, "{decided} {one_way}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(250))]

    #[test]
    fn a_schema_is_the_same_as_itself(schema in schemas()) {
        let Some(wrapped) = inputs_of_contract(&json!({"properties": {"x": schema}})) else { return Ok(()) };
        let twin = contract_with_inputs(wrapped.inputs.as_ref().unwrap().json());
        prop_assert_eq!(compare(&wrapped, &twin).findings, []);
    }

    #[test]
    fn what_is_said_to_be_accepted_still_is((old, new) in schema_pairs(), values in prop::collection::vec(example_values(), 40)) {
        let (old, new) = (whole_schema(old), whole_schema(new));
        let total = schema::total_effect(&old, &new);
        for value in values {
            let (before, after) = (old.validate(&value).is_ok(), new.validate(&value).is_ok());
            prop_assert!(!total.0 || !before || after, "keeps all, but not {}", value);
            prop_assert!(!total.1 || !after || before, "adds none, but {}", value);
        }
    }

    #[test]
    fn what_became_more_becomes_less_the_other_way((old, new) in schema_pairs()) {
        let (old, new) = (whole_schema(old), whole_schema(new));
        let (there, back) = (schema::total_effect(&old, &new), schema::total_effect(&new, &old));
        prop_assert_eq!(there, (back.1, back.0));
    }

    #[test]
    fn values_that_fitted_fit_if_no_change_is_major((old, new) in schema_pairs(), values in prop::collection::vec(example_values(), 40)) {
        let wrap = |schema: &Json| {
            let defs = schema.get("$defs").cloned().unwrap_or(json!({}));
            inputs_of_contract(&json!({"additionalProperties": false, "properties": {"x": schema}, "$defs": defs}))
        };
        let (Some(old), Some(new)) = (wrap(&old), wrap(&new)) else { return Ok(()) };
        let comparison = compare(&old, &new);
        // A new field of an object that says nothing about others is minor by the rule of the article.
        let is_new_field = |finding: &Finding| finding.change == Minor && finding.message.ends_with("is new, and optional");
        if comparison.required == VersionChange::Major || comparison.unknown > 0 || comparison.findings.iter().any(is_new_field) {
            return Ok(());
        }
        let fits = |contract: &Contract, value: &Json| {
            let schema = contract.inputs.as_ref().unwrap();
            schema.validate(&schema.with_defaults(value.clone())).is_ok()
        };
        for value in values {
            let value = json!({"x": value});
            prop_assert!(!fits(&old, &value) || fits(&new, &value), "{}", value);
        }
    }
}
