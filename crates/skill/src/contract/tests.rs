//! What a contract says, and what is told about one that is wrong.

use serde_json::{Value as Json, json};

use super::*;
use crate::{SkillLocation, load as load_skill};

/// `code line:column` of everything found.
fn found(text: &str) -> Vec<String> {
    let told = parse(text.as_bytes()).diagnostics;
    told.iter().map(|found| format!("{} {}:{}", found.code, found.line, found.column)).collect()
}

fn contract(text: &str) -> Contract {
    let parsed = parse(text.as_bytes());
    parsed.contract.unwrap_or_else(|| panic!("{:?}", parsed.diagnostics))
}

fn inputs(text: &str) -> Json {
    contract(&format!("inputs:\n{text}")).inputs.unwrap().json().clone()
}

#[test]
fn keys_stand_below_skill_or_at_the_top_and_not_in_both() {
    assert_eq!(contract("skill: {name: a, version: '1.2.0'}"), contract("name: a\nversion: '1.2.0'"));
    assert_eq!(found("skill: {name: a}\nversion: '1'"), ["contract-mixed-root 2:1"]);
    assert_eq!(found("- a"), ["not-a-map 1:1"]);
    assert_eq!(found(""), ["not-a-map 1:1"]);
    assert_eq!(found("skill: 7"), ["contract-value 1:8"]);
}

#[test]
fn what_runs_and_how_much_it_takes_is_read() {
    let contract = contract(
        "skill:
  runtime: lua
  entrypoint: ./scripts/main.lua
  entrypoints:
    check: scripts/check.lua
    fix: {path: scripts/fix.wasm, function: fix_all, description: mends}
  timeout: 5s
  limits: {deadline: 1m, memory: 32MB, operations: 10k, output: 1MB}
",
    );
    assert_eq!(contract.entrypoint.as_ref().unwrap().path, "scripts/main.lua");
    assert_eq!(contract.entrypoint_by_name("check").unwrap().path, "scripts/check.lua");
    assert_eq!(contract.entrypoint_by_name("fix").unwrap().function.as_deref(), Some("fix_all"));
    assert_eq!(contract.entrypoint_by_name("main").unwrap().path, "scripts/main.lua");
    assert!(contract.entrypoint_by_name("other").is_none());
    let bounds = &contract.limits;
    assert_eq!(bounds.timeout, Some(std::time::Duration::from_secs(5)), "the shorter of two");
    assert_eq!(
        (bounds.memory, bounds.operations, bounds.output),
        (Some(32 << 20), Some(10_000), Some(1 << 20))
    );
}

#[test]
fn constraints_stand_flat_or_nested_in_either_spelling() {
    let flat =
        "  a: {type: string, required: true, min_length: 1, maxLength: 9, pattern: '^x', enum: [xa, xb]}";
    let nested = "  a:\n    type: string\n    required: true\n    validation: {minLength: 1, max_length: 9, pattern: '^x', enum: [xa, xb]}";
    assert_eq!(inputs(flat), inputs(nested));
    assert_eq!(
        inputs(flat),
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "additionalProperties": false,
            "required": ["a"],
            "properties": {"a": {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^x", "enum": ["xa", "xb"]}},
        })
    );
    assert_eq!(
        found("inputs:\n  a: {type: string, required: false, pattern: a, validation: {pattern: b}}"),
        ["constraint-twice 2:63"]
    );
    assert_eq!(
        found("inputs: {a: {type: string, required: false, pattern: a, validation: {pattern: a}}}"),
        [""; 0]
    );
}

#[test]
fn numbers_lists_and_objects_have_theirs() {
    let text = "  n: {type: integer, minimum: 0, maximum: 10, multiple_of: 2, required: false}
  l: {type: array, min_items: 1, unique_items: true, items: {type: number}, default: [1]}
  o: {type: object, required: true, properties: {x: {type: string, required: true}, y: {type: boolean}}}
  p: {type: object, required: [x], properties: {x: {type: string}}}";
    let schema = inputs(text);
    assert_eq!(
        schema["properties"]["n"],
        json!({"type": "integer", "minimum": 0, "maximum": 10, "multipleOf": 2})
    );
    assert_eq!(
        schema["properties"]["l"],
        json!({"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "number"}, "default": [1]})
    );
    let object = json!({"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}, "y": {"type": "boolean"}}});
    assert_eq!(schema["properties"]["o"], object);
    assert_eq!(
        schema["properties"]["p"],
        json!({"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}})
    );
    assert_eq!(schema["required"], json!(["o"]));
}

#[test]
fn names_keep_their_order() {
    let contract = contract("inputs: {z: {required: true}, a: {required: true}, m: {required: true}}");
    assert_eq!(contract.inputs.unwrap().names(), ["z", "a", "m"]);
}

#[test]
fn a_json_schema_is_taken_as_it_is_and_closed_where_it_says_nothing() {
    let raw = "  type: object\n  properties: {type: {type: string}}";
    assert_eq!(
        inputs(raw),
        json!({"type": "object", "properties": {"type": {"type": "string"}}, "additionalProperties": false})
    );
    let open = "  type: object\n  properties: {a: {}}\n  additionalProperties: true";
    assert_eq!(inputs(open)["additionalProperties"], json!(true));
    let combined = "  type: object\n  properties: {a: {}}\n  allOf: [{properties: {b: {}}}]";
    assert_eq!(inputs(combined)["unevaluatedProperties"], json!(false));
    assert_eq!(inputs("  type: object"), json!({"type": "object"}), "what declares nothing stays open");
    let outputs = contract("outputs: {type: array, items: {type: string}}").outputs.unwrap();
    assert_eq!(outputs.json(), &json!({"type": "array", "items": {"type": "string"}}));
}

#[test]
fn both_notations_accept_the_same_values() {
    let notation =
        contract("inputs: {a: {type: integer, minimum: 1, required: true}, b: {type: string, default: x}}");
    let raw = contract(
        "inputs: {type: object, required: [a], properties: {a: {type: integer, minimum: 1}, b: {type: string, default: x}}}",
    );
    for value in [
        json!({"a": 1}),
        json!({"a": 0}),
        json!({}),
        json!({"a": 1, "c": 1}),
        json!(1),
        json!({"a": 2, "b": 3}),
    ] {
        let fits = |contract: &Contract| {
            let schema = contract.inputs.as_ref().unwrap();
            schema.validate(&schema.with_defaults(value.clone())).is_ok()
        };
        assert_eq!(fits(&notation), fits(&raw), "{value}");
    }
}

#[test]
fn faults_of_inputs_are_reported_where_they_stand() {
    for (text, told) in [
        ("inputs:\n  a: string", "contract-value 2:3"),
        ("inputs:\n  a: {type: strnig, required: true}", "contract-value 2:13"),
        ("inputs:\n  a: {type: string, required: maybe}", "contract-value 2:31"),
        ("inputs:\n  a: {type: string, required: true, min_length: -1}", "contract-value 2:49"),
        ("inputs:\n  a: {type: string, required: true, min_lenght: 1}", "constraint-unknown 2:37"),
        ("inputs:\n  a: {type: integer, required: true, minimum: 5, maximum: 1}", "constraint-empty 2:47"),
        (
            "inputs:\n  a: {type: string, required: true, min_length: 5, max_length: 1}",
            "constraint-empty 2:49",
        ),
        ("inputs:\n  a: {type: number, required: true, multiple_of: 0}", "schema-invalid 2:50"),
        ("inputs:\n  a: {required: true, enum: []}", "constraint-empty 2:29"),
        ("inputs:\n  a: {type: number, required: true, min_length: 1}", "constraint-idle 2:49"),
        ("inputs:\n  a: {type: string, required: true, enum: [1.0, b]}", "constraint-idle 2:43"),
        ("inputs:\n  a: {type: string}", "input-undecided 2:3"),
        ("inputs:\n  a: {type: string, required: true, default: x}", "input-required-default 2:3"),
        ("inputs:\n  a: {type: string, default: 5}", "default-invalid 2:30"),
        ("inputs:\n  a: {type: number, default: .nan}", "contract-value 2:30"),
        ("inputs:\n  a: {type: string, required: true, pattern: '('}", "schema-invalid 2:46"),
        ("inputs:\n  a: {type: string, required: true, pattern: '(?=a)b'}", "schema-invalid 2:46"),
        ("inputs:\n  type: object\n  properties: {a: {type: 5}}", "schema-invalid 3:26"),
        ("inputs:\n  type: object\n  properties: {a: {$ref: 'file:///etc/passwd'}}", "schema-reference 3:26"),
        ("inputs:\n  $ref: 'https://example.com/schema.json'", "schema-reference 2:9"),
        ("inputs: 5", "contract-value 1:9"),
    ] {
        assert_eq!(found(text), [told], "{text}");
    }
}

#[test]
fn faults_elsewhere_are_reported_where_they_stand() {
    for (text, told) in [
        ("naem: x", "contract-key 1:1"),
        ("frobnicate: x", "key-unknown 1:1"),
        ("inptus: {}", "contract-key 1:1"),
        ("time-out: 5s", "contract-key 1:1"),
        ("version: latest", "version-not-semantic 1:10"),
        ("entrypoint: ../x.lua", "entrypoint-outside 1:13"),
        ("entrypoint: /bin/sh", "entrypoint-outside 1:13"),
        ("entrypoint: {function: f}", "contract-value 1:13"),
        ("timeout: soon", "contract-value 1:10"),
        ("limits: {memory: lots}", "contract-value 1:18"),
        ("limits: {memroy: 1MB}", "contract-key 1:10"),
        ("permissions: ['filesystem:read']", "permission-unknown 1:15"),
        ("permissions: read", "contract-value 1:14"),
        ("dependencies: {tools: [{version: '>=1'}]}", "dependency-invalid 1:24"),
        ("dependencies: {tools: [{name: helm, version: newest}]}", "dependency-invalid 1:46"),
        ("dependencies: {tools: [../helm]}", "dependency-invalid 1:24"),
        ("metadata: {idempotent: maybe}", "contract-value 1:24"),
        ("steps: []\ncomposed_of: []", "contract-value 2:14"),
        ("outputs_from: x", "contract-value 1:15"),
        ("state: data", "contract-value 1:8"),
        ("state: ['']", "contract-value 1:9"),
        ("state: [.]", "contract-value 1:9"),
        ("state: [/]", "contract-value 1:9"),
        ("state: [./scripts]", "contract-value 1:9"),
        ("state: [data/../scripts]", "contract-value 1:9"),
        ("state: [/etc]", "contract-value 1:9"),
        ("state: [scripts]", "contract-value 1:9"),
        ("state: [scripts/cache]", "contract-value 1:9"),
        ("state: [SCRIPTS/cache]", "contract-value 1:9"),
        ("state: [ſcripts/cache]", "contract-value 1:9"),
        ("state: ['scripts.']", "contract-value 1:9"),
        ("state: [Skill.md]", "contract-value 1:9"),
        ("state: [skill.yaml]", "contract-value 1:9"),
        ("state: [skill.yml]", "contract-value 1:9"),
        ("concurrency: 4", "contract-value 1:14"),
        ("a: \"\\u001b[2J\"", "control-character 1:4"),
    ] {
        assert_eq!(found(text), [told], "{text}");
    }
    assert_eq!(
        contract("state: [data, cache/pages/, scripts2, .state]").state,
        ["data", "cache/pages", "scripts2", ".state"]
    );
    assert_eq!(found("steps: []\noutputs_from: x\nconcurrency: 4"), [""; 0], "what plans are made of");
    assert_eq!(contract("composed_of: [{skill: x}]").steps, Some(StepsForm::ComposedOf));
}

#[test]
fn forms_resources_and_attachments_are_read() {
    let contract = contract(
        "inputs: {name: {type: string, required: true}, n: {type: integer, default: 1}}
forms:
  who: {message: Who?, inputs: [name]}
  more: {inputs: [n]}
tools: [{name: day, entrypoint: scripts/a.lua, inputs: {date: {type: string, required: true}}}]
resources:
  - {uri: 'notes://today', name: Today, mime_type: text/plain, file: ./notes//a.md}
  - {uri: 'notes://day/{date}', tool: day}
attachments: [a.png]
",
    );
    let forms: Vec<&str> = contract.forms.iter().map(|form| form.name.as_str()).collect();
    assert_eq!(forms, ["who", "more"]);
    let fields: Vec<_> = contract.forms[1].fields().collect();
    let expected = json!({"type": "integer", "default": 1});
    assert_eq!((fields[0].0, &Json::from(fields[0].1.clone())), ("n", &expected));
    let json = serde_json::to_value(&contract).unwrap();
    assert_eq!(json["forms"][0], json!({"name": "who", "message": "Who?", "inputs": ["name"]}));
    assert_eq!(json["resources"][0]["file"], "notes/a.md");
    assert_eq!(
        (&json["resources"][1]["uri"], &json["resources"][1]["tool"]),
        (&json!("notes://day/{date}"), &json!("day"))
    );
    assert_eq!(json["attachments"], json!(["a.png"]));
}

#[test]
fn forms_and_resources_that_cannot_be_are_reported_at_their_line() {
    let inputs = "inputs: {name: {type: string, required: true}, o: {type: object, required: true}}\n";
    for (form, expected) in [
        ("  who: {inputs: [nam]}", "form-invalid 3:18"),
        ("  who: {inputs: [o]}", "form-invalid 3:18"),
        ("  who: {inputs: [name, name]}", "form-invalid 3:24"),
        ("  who: {inputs: []}", "form-invalid 3:3"),
        ("  who: {message: m}", "form-invalid 3:3"),
        ("  approval: {inputs: [name]}", "form-invalid 3:3"),
        ("  a b: {inputs: [name]}", "form-invalid 3:3"),
        ("  who: {inputs: name}", "form-invalid 3:3"),
        ("  who: {inputs: [name], mesage: m}", "contract-key 3:25"),
    ] {
        let told = found(&format!("{inputs}forms:\n{form}"));
        assert_eq!(told.first().map(String::as_str), Some(expected), "{form}: {told:?}");
    }
    let long = format!("  who: {{message: {}, inputs: [name]}}", "m".repeat(501));
    assert_eq!(found(&format!("{inputs}forms:\n{long}")), ["form-invalid 3:3"]);
    assert_eq!(found("forms: {who: {inputs: [name]}}"), ["form-invalid 1:24"], "there are no inputs");
    let many: Vec<String> = (0..17).map(|n| format!("  f{n}: {{inputs: [name]}}")).collect();
    assert_eq!(found(&format!("{inputs}forms:\n{}", many.join("\n"))), ["form-invalid 19:3"]);
    let wide = format!("  who: {{inputs: [{}]}}", vec!["name"; 33].join(", "));
    assert_eq!(found(&format!("{inputs}forms:\n{wide}")), ["form-invalid 3:3"]);
    let tools = "tools:
  - {name: t, entrypoint: scripts/a.lua, inputs: {x: {type: string, required: true}, n: {type: integer, required: false}}}
  - {name: c, entrypoint: scripts/a.lua, requires_confirmation: true}
";
    for (resource, expected) in [
        ("{uri: 'skill://x/y', file: a}", "resource-invalid 5:11"),
        ("{uri: 'https://x.org/y', file: a}", "resource-invalid 5:11"),
        ("{uri: 'today', file: a}", "resource-invalid 5:11"),
        ("{file: a}", "resource-invalid 5:5"),
        ("{uri: 'n://a'}", "resource-invalid 5:5"),
        ("{uri: 'n://a', file: a, tool: t}", "resource-invalid 5:26"),
        ("{uri: 'n://a', file: ../a}", "resource-invalid 5:26"),
        ("{uri: 'n://{x}', file: a}", "resource-invalid 5:28"),
        ("{uri: 'n://a', tool: u}", "resource-invalid 5:26"),
        ("{uri: 'n://a', tool: t}", "resource-invalid 5:26"),
        ("{uri: 'n://a', tool: c}", "resource-invalid 5:26"),
        ("{uri: 'n://{x}/{n}', tool: t}", "resource-invalid 5:32"),
        ("{uri: 'n://{x}/{y}', tool: t}", "resource-invalid 5:32"),
        ("{uri: 'n://a', file: a, mime_type: text}", "resource-invalid 5:40"),
        ("{uri: 'n://a', file: a, mimetype: text/plain}", "contract-key 5:29"),
    ] {
        let told = found(&format!("{tools}resources:\n  - {resource}"));
        assert_eq!(told, [expected], "{resource}");
    }
    let twice = "resources:\n  - {uri: 'n://a', file: a}\n  - {uri: 'n://a', file: b}";
    assert_eq!(found(twice), ["resource-invalid 3:11"]);
    assert_eq!(
        found("attachments: [a.png, ./a.png, /b]"),
        ["resource-invalid 1:22", "resource-invalid 1:31"]
    );
    assert_eq!(found("resource: []"), ["contract-key 1:1"]);
    assert_eq!(found("form: {}"), ["contract-key 1:1"]);
}

#[test]
fn unknown_keys_are_kept() {
    let contract = contract("owner: {team: tools}\nmetadata: {tier: 2}\n");
    assert_eq!(Json::from(contract.unknown), json!({"owner": {"team": "tools"}}));
    assert_eq!(Json::from(contract.metadata.unknown), json!({"tier": 2}));
}

#[test]
fn words_of_other_systems_are_kept_and_ask_for_nothing() {
    let text = "permissions: [write:out, 'filesystem:write (when dry_run=false)']\nmetadata: {permissions: [read, write:out]}";
    let parsed = parse(text.as_bytes());
    assert_eq!(parsed.diagnostics[0].help.as_deref(), Some("write `write`"));
    let asks = parsed.contract.unwrap().permissions.unwrap();
    let told: Vec<_> =
        asks.iter().map(|ask| (ask.text.as_str(), ask.permission.is_some(), ask.when.as_deref())).collect();
    let expected = [
        ("write:out", true, None),
        ("filesystem:write", false, Some("when dry_run=false")),
        ("read", true, None),
    ];
    assert_eq!(told, expected);
}

#[test]
fn examples_are_validated_against_inputs_and_outputs() {
    let base = "inputs: {n: {type: integer, required: true}}\noutputs: {m: {type: integer, required: true}, k: {type: string, required: true}}\n";
    let with = |example: &str| found(&format!("{base}examples:\n  - {example}"));
    assert_eq!(with("{inputs: {n: 1}, expected_output: {m: 2}}"), [""; 0], "a part of the value is enough");
    assert_eq!(with("{inputs: {n: x}}"), ["example-invalid 4:14"]);
    assert_eq!(with("{inputs: {}}"), ["example-invalid 4:14"]);
    assert_eq!(with("{inputs: {n: 1}, expected_output: {m: x}}"), ["example-invalid 4:39"]);
}

#[test]
fn a_schema_without_defaults_has_none_that_could_be_wrong() {
    for inputs in [
        "{type: string}",
        "{type: array, items: {type: integer}}",
        "{type: object, minProperties: 1, properties: {a: {}}}",
        "{type: object, properties: {a: {}, b: {}}, anyOf: [{required: [a]}, {required: [b]}]}",
        "{type: object, required: [b], properties: {a: {default: 1}, b: {}}, minProperties: 3}",
        "{type: object, properties: {a: {$ref: '#/$defs/n', default: 1}}, $defs: {n: {type: integer}}}",
        "{o: {type: object, required: true, properties: {x: {default: 1}, y: {type: integer, required: true}}}}",
    ] {
        assert_eq!(found(&format!("inputs: {inputs}")), [""; 0], "{inputs}");
    }
}

#[test]
fn a_default_is_validated_against_its_own_schema_as_it_will_stand() {
    for (inputs, told) in [
        (
            "{type: object, properties: {a: {$ref: '#/$defs/n', default: x}}, $defs: {n: {type: integer}}}",
            "1:69",
        ),
        ("{a: {type: object, default: {b: 5}, required: [z], properties: {b: {}, z: {}}}}", "1:37"),
        ("{a: {type: object, required: false, properties: {b: {type: integer, default: x}}}}", "1:86"),
        (
            "{a: {type: object, default: {}, properties: {b: {type: object, default: {}, required: [c]}}}}",
            "1:37",
        ),
    ] {
        let all = found(&format!("inputs: {inputs}"));
        assert_eq!(all[0], format!("default-invalid {told}"), "{inputs}: {all:?}");
        let parsed = load(format!("inputs: {inputs}").as_bytes());
        let schema = parsed.contract.unwrap().inputs.unwrap();
        assert!(matches!(schema.validate(&json!({})), Err(ValidationFailure::InvalidSchema(_))), "{inputs}");
    }
    let filled = "{a: {type: object, default: {}, required: [b], properties: {b: {default: 1}}}}";
    assert_eq!(found(&format!("inputs: {filled}")), [""; 0], "what is inside is put in before");
}

#[test]
fn a_part_of_a_value_is_validated_against_what_parts_can_break() {
    for outputs in [
        "{type: object, anyOf: [{required: [a]}, {required: [b]}]}",
        "{type: object, oneOf: [{properties: {k: {const: 1}}}, {properties: {k: {type: string}}}]}",
        "{type: object, minProperties: 2, not: {maxProperties: 1}}",
        "{type: object, if: {properties: {a: {const: 1}}}, then: {required: [b]}}",
        "{type: object, dependentRequired: {a: [b]}, properties: {o: {const: {x: 1}}}}",
        "{type: object, properties: {l: {type: array, items: {anyOf: [{required: [a]}]}}}}",
    ] {
        for part in ["{}", "{a: 1}", "{o: {}}", "{l: [{}]}"] {
            let text = format!("outputs: {outputs}\nexamples: [{{inputs: {{}}, expected_output: {part}}}]");
            assert_eq!(found(&text), [""; 0], "{text}");
        }
    }
    for (outputs, part) in [
        ("{type: object, allOf: [{properties: {a: {type: string}}}]}", "{a: 1}"),
        (
            "{type: object, anyOf: [{properties: {a: {type: string}}}, {properties: {a: {type: 'null'}}}]}",
            "{a: 1}",
        ),
        ("{type: object, additionalProperties: {type: string}}", "{a: 1}"),
        ("{type: object, properties: {a: {enum: [2, 3]}}}", "{a: 1}"),
    ] {
        let text = format!("outputs: {outputs}\nexamples: [{{inputs: {{}}, expected_output: {part}}}]");
        assert_eq!(found(&text).len(), 1, "{text}");
    }
}

#[test]
fn defaults_are_put_in_where_nothing_is() {
    let contract = contract(
        "inputs:
  a: {type: integer, default: 1}
  o: {type: object, required: false, properties: {b: {type: integer, default: 2}}}
  l: {type: array, required: false, items: {type: object, properties: {c: {default: 3}}}}",
    );
    let inputs = contract.inputs.unwrap();
    assert_eq!(inputs.with_defaults(json!({})), json!({"a": 1}));
    assert_eq!(inputs.with_defaults(json!({"a": null, "o": {}})), json!({"a": null, "o": {"b": 2}}));
    assert_eq!(inputs.with_defaults(json!({"l": [{}]})), json!({"a": 1, "l": [{}]}));
    assert_eq!(inputs.with_defaults(json!([1])), json!([1]));
    let inside = self::contract("inputs: {a: {type: object, default: {}, properties: {b: {default: 1}}}}");
    assert_eq!(
        inside.inputs.unwrap().with_defaults(json!({})),
        json!({"a": {"b": 1}}),
        "in what was put in, too"
    );
}

#[test]
fn what_both_files_name_agrees_or_names_both_places() {
    let skill = "---\nname: x\ndescription: d\nallowed-tools: write:out Bash\nmetadata:\n  version: \"1.0\"\n  runtime: lua\n  entrypoint: scripts/a.lua\n---\n";
    let manifest = load_skill(skill.as_bytes(), SkillLocation { directory: "x", file_name: "SKILL.md" })
        .manifest
        .unwrap();
    let told = |text: &str| -> Vec<String> {
        let parsed = load_with_manifest(text.as_bytes(), &manifest);
        assert_eq!(parsed.contract.is_none(), !parsed.diagnostics.is_empty(), "{text}");
        parsed.diagnostics.iter().map(ToString::to_string).collect()
    };
    let same = "name: x\nversion: 1.0.0\ndescription: another\nruntime: lua\nentrypoint: ./scripts/a.lua\npermissions: [read, write:out]";
    assert_eq!(told(same), [""; 0]);
    let error = |rest: &str| format!("{}contract-disagrees]: {rest}", "");
    for (text, place, sentence) in [
        ("name: y", "1:7", "name is `y` here, and `x` in SKILL.md:2"),
        ("version: 1.1.0", "1:10", "version is 1.1.0 here, and 1.0.0 in SKILL.md:6"),
        ("runtime: rhai", "1:10", "runtime is `rhai` here, and `lua` in SKILL.md:7"),
        (
            "entrypoint: scripts/b.lua",
            "1:13",
            "entrypoint is `scripts/b.lua` here, and `scripts/a.lua` in SKILL.md:8",
        ),
        ("permissions: [write]", "1:14", "permissions is `write` here, and `write:out` in SKILL.md:4"),
        ("permissions: []", "1:14", "permissions is none here, and `write:out` in SKILL.md:4"),
    ] {
        assert_eq!(told(text), [format!("{place}: error[{}", error(sentence))], "{text}");
    }
}

#[test]
fn a_signature_is_one_line() {
    let contract = contract(
        "inputs:
  path: {type: string, required: true}
  deep: {type: boolean, default: false}
  kind: {type: string, enum: [a, b], required: false}
outputs:
  total: {type: integer, required: true}
  rows: {type: array, items: {type: object, properties: {name: {type: string}}}}",
    );
    let (inputs, outputs) = (contract.inputs.unwrap(), contract.outputs.unwrap());
    assert_eq!(signature::parameters(&inputs), r#"path: string, deep: boolean = false, kind?: "a" | "b""#);
    assert_eq!(signature::type_name(&outputs), "{total: integer, rows?: [{name?: string}]}");
}

/// The lines, each with its number after the first `p`, so that no key is given twice.
fn numbered(lines: &str) -> String {
    let number = |(at, line): (usize, &str)| line.replacen('p', &format!("p{at}"), 1);
    lines.split_inclusive('\n').enumerate().map(number).collect()
}

#[test]
fn slips_in_keywords_of_a_schema_are_reported() {
    for (text, told, meant) in [
        (
            "inputs: {type: object, properties: {a: {type: string, maxLenght: 3}}}",
            "key-typo 1:55",
            "maxLength",
        ),
        ("inputs: {type: object, requierd: [a]}", "key-typo 1:24", "required"),
        ("outputs: {type: object, propertys: {a: {}}}", "key-typo 1:25", "properties"),
        ("outputs: {type: array, items: {min_length: 1}}", "key-typo 1:32", "minLength"),
        (
            "outputs: {type: object, anyOf: [{addtionalProperties: false}]}",
            "key-typo 1:34",
            "additionalProperties",
        ),
    ] {
        let parsed = parse(text.as_bytes());
        assert!(parsed.contract.is_some(), "a slip is a warning");
        let [found] = &parsed.diagnostics[..] else { panic!("{text}: {:?}", parsed.diagnostics) };
        assert_eq!(format!("{} {}:{}", found.code, found.line, found.column), told, "{text}");
        assert_eq!(found.help, Some(format!("did you mean `{meant}`?")), "{text}");
    }
    for fine in [
        "inputs: {type: object, properties: {requierd: {}, maxLenght: {type: string}}}",
        "inputs: {type: object, x-order: 1, note: n, markdownDescription: m, discriminator: {}, nullable: true}",
        "outputs: {type: object, default: {requierd: 1}, examples: [{propertys: 1}], const: {maxLenght: 1}}",
    ] {
        assert_eq!(found(fine), [""; 0], "{fine}");
    }
    let many = "    p: {maxLenght: 1}\n".repeat(500);
    let many = numbered(&many);
    let told = found(&format!("inputs:\n  type: object\n  properties:\n{many}"));
    assert!(told.len() <= 50, "{}", told.len());
}

#[test]
fn an_example_with_an_unknown_key_is_refused_with_a_suggestion() {
    for key in
        ["expected", "expect", "expect_output", "expected_outputs", "expectedOutput", "output", "outputs"]
    {
        let parsed = parse(format!("examples: [{{inputs: {{}}, {key}: {{b: 1}}}}]").as_bytes());
        let [found] = &parsed.diagnostics[..] else { panic!("{key}: {:?}", parsed.diagnostics) };
        assert_eq!((found.code, found.severity), ("example-invalid", crate::Severity::Error), "{key}");
        assert_eq!(found.message, format!("`{key}` is not a key of an example"));
        assert_eq!(found.help.as_deref(), Some("did you mean `expected_output`?"), "{key}");
        assert!(parsed.contract.is_some(), "the skill runs all the same");
    }
    let parsed = parse(b"examples: [{inputs: {}, weather: fine}]");
    assert_eq!(
        parsed.diagnostics[0].help.as_deref(),
        Some("an example has name, description, inputs and expected_output")
    );
}

#[test]
fn examples_that_do_not_fit_are_reported_up_to_a_number() {
    let examples = "  - {inputs: {n: x, m: y}, expected_output: {k: 1}}\n".repeat(200);
    let text = format!(
        "inputs: {{n: {{type: integer, required: true}}}}\noutputs: {{k: {{type: string}}}}\nexamples:\n{examples}"
    );
    assert_eq!(found(&text).len(), 50);
}

#[test]
fn constraints_by_their_everyday_names_are_reported_in_ours() {
    for (parameter, meant) in [
        ("type: integer, min: 1", "minimum"),
        ("type: number, max: 1", "maximum"),
        ("type: string, min: 1", "min_length"),
        ("type: array, max: 1", "max_items"),
        ("min: 1", "minimum"),
        ("type: string, choices: [a]", "enum"),
        ("type: string, regex: a", "pattern"),
        ("type: string, min_lenght: 1", "min_length"),
    ] {
        let parsed = parse(format!("inputs: {{a: {{required: true, {parameter}}}}}").as_bytes());
        let help = parsed.diagnostics[0].help.as_deref();
        assert_eq!(help, Some(format!("did you mean `{meant}`?").as_str()), "{parameter}");
    }
}

#[test]
fn a_flag_in_words_is_reported_as_true_or_false() {
    for (word, flag) in
        [("yes", "true"), ("On", "true"), ("'true'", "true"), ("no", "false"), ("off", "false")]
    {
        let parsed = parse(format!("inputs: {{a: {{type: string, required: {word}}}}}").as_bytes());
        let found = &parsed.diagnostics[0];
        assert_eq!(found.message, "required must be true or false", "{word}");
        assert_eq!(found.help, Some(format!("write `{flag}`, without quotes")), "{word}");
    }
    assert_eq!(parse(b"inputs: {a: {required: maybe}}").diagnostics[0].help, None);
}

#[test]
fn a_flood_of_findings_ends_and_what_blocks_is_always_among_them() {
    let flood =
        |keys: &str| parse(format!("{keys}inputs:\n{}", numbered(&"  p: x\n".repeat(4_000))).as_bytes());
    let parsed = flood("");
    assert_eq!(parsed.diagnostics.len(), 101);
    let last = parsed.diagnostics.last().unwrap();
    assert_eq!((last.code, last.message.as_str()), ("findings-left-out", "3900 more findings are left out"));
    let undecided = numbered(&"  p: {}\n".repeat(1_000));
    let parsed = parse(format!("inputs:\n{undecided}outputs: 5\n").as_bytes());
    assert!(
        parsed.contract.is_none() && parsed.blocking_diagnostic().is_some(),
        "{:?}",
        parsed.diagnostics.last()
    );
    let examples = "- {zz: 1}\n".repeat(1_500);
    let parsed = parse(format!("inputs:\n{undecided}examples:\n{examples}").as_bytes());
    let is_error = |found: &crate::Diagnostic| found.code == "example-invalid";
    assert!(parsed.contract.is_some() && parsed.diagnostics.iter().any(is_error));
}
