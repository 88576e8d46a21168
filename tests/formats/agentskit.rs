//! The JSON forms of AgentsKit, by the numbers of the acceptance cases.

use metier::skill::contract::DefinitionFormat;
use serde_json::{Value, json};

use crate::formats::{contract, refused};

/// A skill with these keys besides those that each has.
fn skill(more: &Value) -> Value {
    let mut skill =
        json!({"name": "researcher", "description": "Finds sources.", "systemPrompt": "You find sources."});
    skill.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    skill
}

fn read(more: &Value) -> metier::skill::contract::Contract {
    contract("skill.json", &skill(more).to_string())
}

#[test]
fn ak_a01_a_skill_is_what_a_model_becomes() {
    let read = read(&json!({
        "tools": ["web_search", "read_file"], "delegates": ["critic"], "temperature": 0.3,
        "examples": [{"input": "q", "output": "a"}], "metadata": {"deep": [1, {"x": null}], "__proto__": {"y": 1}},
    }));
    assert_eq!(read.format, DefinitionFormat::AgentsKit);
    let persona = read.persona.unwrap();
    assert_eq!(persona.instructions, "You find sources.");
    assert_eq!(
        (persona.tools, persona.delegates),
        (vec!["web_search".to_owned(), "read_file".into()], vec!["critic".to_owned()])
    );
    assert_eq!((persona.temperature, persona.examples.len()), (Some(0.3), 1));
    assert_eq!(read.metadata.unknown["deep"], json!([1, {"x": null}]));
    assert!(read.metadata.unknown.contains_key("__proto__"), "AK-A06");
    let asks: Vec<String> = read.permissions.unwrap().iter().map(|ask| ask.text.clone()).collect();
    assert_eq!(asks, ["tool:web_search", "tool:read_file"], "only what is listed can be called");
}

#[test]
fn ak_a02_names_texts_and_temperatures_are_checked() {
    for (wrong, rule) in [
        (json!({"name": "bad name!"}), "S1"),
        (json!({"name": " researcher"}), "S1"),
        (json!({"name": "researcher\n"}), "S1"),
        (json!({"systemPrompt": "\u{feff}"}), "S3"),
        (json!({"description": "a\nb"}), "S2"),
        (json!({"systemPrompt": "  "}), "S3"),
        (json!({"systemPrompt": 5}), "S3"),
        (json!({"temperature": -1}), "S8"),
        (json!({"temperature": 2.01}), "S8"),
        (json!({"temperature": 3}), "S8"),
        (json!({"temperature": "warm"}), "S8"),
        (json!({"onActivate": "x"}), "S9"),
        (json!({"run": "x"}), "S10"),
        (json!({"execute": null}), "S10"),
        (json!({"metadata": [1]}), "S12"),
    ] {
        refused("skill.json", &skill(&wrong).to_string(), &format!("AK_SKILL_INVALID, {rule}:"));
    }
    refused("skill.json", &skill(&json!({"description": ""})).to_string(), "`description` must be");
    for temperature in [0.0, 2.0] {
        read(&json!({"temperature": temperature}));
    }
}

#[test]
fn ak_a03_references_are_lists_of_names() {
    for wrong in [
        json!("web_search"),
        json!(null),
        json!(["not a tool"]),
        json!([1]),
        json!(["a", "a"]),
        json!([null]),
    ] {
        refused("skill.json", &skill(&json!({"tools": wrong})).to_string(), "AK_SKILL_INVALID, S5:");
        refused("skill.json", &skill(&json!({"delegates": wrong})).to_string(), "AK_SKILL_INVALID, S6:");
    }
}

#[test]
fn ak_a04_examples_are_pairs_of_texts() {
    for wrong in [
        json!(42),
        json!(null),
        json!(["x"]),
        json!([{"input": "a"}]),
        json!([{"input": "a", "output": "b", "name": "c"}]),
        json!([{"input": "a", "output": " "}]),
        json!([{"input": 1, "output": "b"}]),
    ] {
        refused("skill.json", &skill(&json!({"examples": wrong})).to_string(), "AK_SKILL_INVALID, S4:");
    }
}

#[test]
fn ak_a06_a_name_of_prototypes_is_a_name() {
    assert_eq!(read(&json!({"name": "__proto__"})).name.as_deref(), Some("__proto__"));
}

#[test]
fn ak_a07_versions_of_packages_are_strict() {
    let package = |version: &str| {
        json!({"version": version, "skill": skill(&json!({})), "tags": ["a"], "publisher": "p"}).to_string()
    };
    for version in ["1.0.0", "1.0.0-alpha.1", "1.0.0+build.5"] {
        let read = contract("skill.json", &package(version));
        assert_eq!(read.format, DefinitionFormat::AgentsKitPackage);
        assert_eq!(
            (read.version.unwrap().to_string(), read.publication.tags),
            (version.to_owned(), vec!["a".to_owned()])
        );
    }
    for version in ["01.2.3", "1.2.3-", "1.2.3-01", "v1", "1.2"] {
        refused("skill.json", &package(version), "is not a semantic version");
    }
    let ordered = [
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
    ];
    let versions = ordered.map(|text| contract("skill.json", &package(text)).version.unwrap());
    assert!(versions.is_sorted() && versions[0] < versions[7]);
}

#[test]
fn ak_a15_a_manifest_lacks_nothing() {
    let manifest = |more: Value| {
        let mut manifest = json!({"manifestVersion": "2026-04", "name": "pack", "version": "1.0.0"});
        manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        manifest
    };
    let read = contract("skill.json", &manifest(json!({
        "skills": [skill(&json!({}))],
        "tools": [{"name": "find", "inputSchema": {"type": "object"}, "requiresConfirmation": true, "tags": ["x"]}],
    })).to_string());
    assert_eq!(read.format, DefinitionFormat::AgentsKitManifest);
    assert_eq!((read.name.as_deref(), read.tools.len()), (Some("researcher"), 1));
    assert!(read.tools[0].requires_confirmation);
    let tools_only = contract("skill.json", &manifest(json!({"tools": [{"name": "find"}]})).to_string());
    assert_eq!(tools_only.name.as_deref(), Some("pack"));
    for (key, words) in [("version", "needs `version`"), ("name", "needs `name`")] {
        let mut without = manifest(json!({}));
        without.as_object_mut().unwrap().shift_remove(key);
        refused("skill.json", &without.to_string(), words);
    }
    for (wrong, words) in [
        (json!({"manifestVersion": "2025-01"}), "`manifestVersion` must be"),
        (json!({"tools": [{"description": "x"}]}), "needs `name`"),
        (json!({"tools": [{"name": "a"}, {"name": "a"}]}), "T1"),
        (json!({"tools": [{"name": "not a name"}]}), "T1"),
        (json!({"tools": [{"name": " t"}]}), "T1"),
        (json!({"tools": [{"name": "t", "inputSchema": "x"}]}), "inputSchema must be"),
        (json!({"skills": [{"name": "a", "description": "d"}]}), "needs `systemPrompt`"),
        (json!({"skills": [skill(&json!({})), skill(&json!({"name": "b"}))]}), "several skills"),
    ] {
        refused("skill.json", &manifest(wrong).to_string(), words);
    }
}

#[test]
fn ak_12_a_skill_in_a_manifest_needs_no_description_and_a_manifest_no_strict_version() {
    let manifest = |more: Value| {
        let mut manifest = json!({
            "manifestVersion": "2026-04", "name": "pack", "version": "1.0.0",
            "skills": [{"name": "researcher", "systemPrompt": "Be thorough."}],
        });
        manifest.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        manifest.to_string()
    };
    assert_eq!(contract("skill.json", &manifest(json!({}))).description, None);
    let described = contract("skill.json", &manifest(json!({"description": "Of the pack."})));
    assert_eq!(described.description.as_deref(), Some("Of the pack."));
    for version in ["1", "v1", "latest", "1.0.0-01"] {
        let parsed =
            metier::formats::parse("skill.json", manifest(json!({"version": version})).as_bytes(), None);
        assert!(
            parsed.contract.is_some() && !parsed.diagnostics.is_empty(),
            "{version}: {:?}",
            parsed.diagnostics
        );
    }
}

#[test]
fn ak_14_the_version_of_a_package_is_strict_and_exact() {
    let package = |version: &str| json!({"version": version, "skill": skill(&json!({}))}).to_string();
    contract("skill.json", &package("9007199254740991.0.0"));
    for version in [" 1.0.0", "1.0.0\n", "v1.0.0", "1.0", "9007199254740992.0.0", "18446744073709551615.0.0"]
    {
        refused("skill.json", &package(version), "is not a semantic version");
    }
}

#[test]
fn s12_a_number_that_no_reader_holds_is_no_reason_to_deny_that_there_is_an_object() {
    let source =
        skill(&json!({})).to_string().replacen('{', "{\"metadata\": {\"n\": 18446744073709551616}, ", 1);
    let found = crate::formats::refusals("skill.json", &source);
    assert!(found.len() == 1 && !found[0].contains("must be an object"), "{found:?}");
}

#[test]
fn s2_a_block_of_yaml_with_one_line_is_one_line() {
    let source = |description: &str| {
        format!("name: researcher\nsystemPrompt: Be thorough.\ndescription: {description}\n")
    };
    for written in ["|\n  Finds sources.", ">\n  Finds\n  sources.", "Finds sources."] {
        let read = contract("skill.yaml", &source(written));
        assert_eq!(read.description.as_deref(), Some("Finds sources."), "{written}");
    }
    refused("skill.yaml", &source("|\n  Finds\n  sources."), "S2");
    refused("skill.json", &skill(&json!({"description": "Finds sources.\n"})).to_string(), "S2");
}
