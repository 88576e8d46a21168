//! Out again: a definition written in its own format says the same, and what another format cannot hold is listed.

use metier::formats::{ExportFormat, ExportSource, export, import, parse};
use metier::skill::contract::Contract;
use metier::skill::{Profile, SkillLocation};
use metier_skill::formats::{instructions, load_alone};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Value, json};

/// What is written of a definition in that form, and what is lost.
fn exported(file: &str, source: &str, format: ExportFormat) -> (String, Vec<String>) {
    let (loaded, parsed) = load_alone(file, source.as_bytes(), "x");
    let (manifest, contract) = (loaded.manifest.unwrap(), parsed.contract.unwrap());
    let skill =
        ExportSource { manifest: &manifest, contract: Some(&contract), text: instructions(&contract) };
    let written = export(format, skill);
    (written.text, written.losses)
}

#[track_caller]
fn comes_back(file: &str, source: &str, format: ExportFormat) -> Contract {
    let (text, losses) = exported(file, source, format);
    assert_eq!(losses, [""; 0], "{source}");
    let before = parse(file, source.as_bytes(), None).contract.unwrap();
    let again = parse(format.file_name(), text.as_bytes(), None);
    let again = again.contract.unwrap_or_else(|| panic!("{text}: {:?}", again.diagnostics));
    assert_eq!(again, before, "{text}");
    again
}

#[test]
fn samples_come_back_as_they_were() {
    comes_back("skill.json", include_str!("samples/web-search.json"), ExportFormat::Curia);
    for format in [ExportFormat::Sweny, ExportFormat::SwenyYaml] {
        comes_back("skill.yaml", include_str!("samples/sweny-github.yaml"), format);
    }
    let persona = json!({
        "name": "critic", "description": "Criticises.", "systemPrompt": "You find faults.", "tools": ["read_file"],
        "delegates": ["coder"], "examples": [{"input": "a", "output": "b"}], "temperature": 0.5, "metadata": {"a": [1]}, "extra": {"b": null},
    });
    comes_back("skill.json", &persona.to_string(), ExportFormat::AgentsKit);
}

#[test]
fn what_a_form_cannot_hold_is_listed() {
    let curia = include_str!("samples/web-search.json");
    let lost = |format| exported("skill.json", curia, format).1;
    let persona = lost(ExportFormat::AgentsKit);
    for part in ["the version", "the schema of the input", "the risk", "the timeout", "the secrets"] {
        assert!(persona.iter().any(|lost| lost == part), "{part}: {persona:?}");
    }
    assert!(!lost(ExportFormat::FunctionCalling).iter().any(|lost| lost == "the schema of the input"));
    let constrained =
        "skill: {name: x, description: d, inputs: {n: {type: number, required: true, minimum: 1}}}";
    let (text, losses) = exported("skill.yaml", constrained, ExportFormat::Curia);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["inputs"]["n"], "number");
    assert!(losses.iter().any(|lost| lost.contains("the constraints of the input n")), "{losses:?}");
    assert!(losses.iter().any(|lost| lost.contains("the risk is not known")), "{losses:?}");
}

#[test]
fn a_skill_md_that_is_written_is_valid_for_every_client() {
    for (file, source) in [
        ("skill.json", include_str!("samples/web-search.json")),
        ("skill.yaml", include_str!("samples/sweny-github.yaml")),
        ("skill.yaml", include_str!("samples/validate-helm-chart.yaml")),
    ] {
        let (text, _) = exported(file, source, ExportFormat::SkillMd);
        let name = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap();
        let parsed =
            metier::skill::parse(text.as_bytes(), SkillLocation { directory: name, file_name: "SKILL.md" });
        for profile in [Profile::Spec, Profile::SkillsRef, Profile::AgentPlugins] {
            assert!(
                parsed.is_valid(profile),
                "{text}: {:?}",
                parsed.diagnostics(profile).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn a_file_with_several_skills_becomes_several_folders() {
    let workflow = "nodes: []\nskills:\n  triage: {instruction: Sort them.}\n  notes: {description: d, mcp: {url: \"https://a.example/mcp\"}}\n";
    let made = import("workflow.yaml", workflow.as_bytes()).unwrap();
    let names: Vec<&str> = made.iter().map(|skill| skill.name.as_str()).collect();
    assert_eq!(names, ["triage", "notes"]);
    let text = String::from_utf8(made[0].files[0].1.clone()).unwrap();
    assert!(text.contains("Custom skill: triage") && text.contains("Sort them."), "SW-T06: {text}");
    let skill = |name: &str| json!({"name": name, "description": "d", "systemPrompt": "p"});
    let manifest = json!({"manifestVersion": "2026-04", "name": "m", "version": "1.0.0", "skills": [skill("a"), skill("b")]});
    assert_eq!(import("m.json", manifest.to_string().as_bytes()).unwrap().len(), 2);
    let error = import("workflow.yaml", b"nodes: []\nskills: {X: {instruction: i}}").unwrap_err();
    assert!(
        error.message().starts_with("failed to import workflow.yaml: the skill `X`: `id` must be"),
        "{error}"
    );
    for wrong in ["nodes: []\nskills: {x: {}}", "nodes: []\nskills: {\"../x\": {instruction: i}}"] {
        assert!(import("workflow.yaml", wrong.as_bytes()).is_err(), "SW-09: {wrong}");
    }
}

#[test]
fn ak_12_each_folder_of_a_manifest_has_all_that_the_manifest_says() {
    let skill = |name: &str| json!({"name": name, "systemPrompt": "p"});
    let mut manifest = json!({
        "manifestVersion": "2026-04", "name": "m", "version": "1.2.3", "publisher": "p", "homepage": "https://a.example",
        "description": "Of the pack.", "metadata": {"x": 1},
        "tools": [{"name": "find", "inputSchema": {"type": "object"}, "requiresConfirmation": true}],
        "skills": [skill("a"), skill("b")],
    });
    let made = import("m.json", manifest.to_string().as_bytes()).unwrap();
    for (made, name) in made.iter().zip(["a", "b"]) {
        assert_eq!(made.name, name);
        let (_, written) = made.files.iter().find(|(path, _)| path == "skill.json").unwrap();
        manifest["skills"] = json!([skill(name)]);
        assert_eq!(serde_json::from_slice::<Value>(written).unwrap(), manifest);
    }
}

fn input_type() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "string",
        "number",
        "integer",
        "boolean",
        "object",
        "timestamp",
        "string[]",
        "object[]",
    ]);
    let description = prop::option::of("[a-zA-Z|,. ]{0,12}[a-z]");
    (name, any::<bool>(), description).prop_map(|(name, optional, description)| {
        let mark = if optional { "?" } else { "" };
        description.map_or(format!("{name}{mark}"), |text| format!("{name}{mark} ({})", text.trim()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_curia_manifest_comes_back(
        inputs in prop::collection::btree_map("[a-z]{1,8}", input_type(), 0..6),
        outputs in prop::collection::btree_map("[a-z]{1,8}", ".{0,20}".prop_filter("printable", |text| !text.chars().any(char::is_control)), 0..4),
        risk in prop_oneof![(0_u8..=100).prop_map(|score| json!(score)), prop::sample::select(vec!["none", "low", "medium", "high", "critical"]).prop_map(|level| json!(level))],
        elevated in any::<bool>(),
        timeout in 1_u32..1_000_000,
        secrets in prop::collection::btree_set("[a-z_]{1,12}", 0..3),
        permissions in prop::collection::btree_set("[a-z]{2,8}:[a-z]{2,8}", 0..3),
        enrichment in any::<bool>(),
    ) {
        let mut manifest = json!({
            "name": "x", "description": "Does it.", "version": "1.2.3", "action_risk": risk, "timeout": timeout,
            "sensitivity": if elevated { "elevated" } else { "normal" }, "inputs": inputs, "outputs": outputs,
            "secrets": secrets, "permissions": permissions, "capabilities": ["bus"],
        });
        if enrichment {
            manifest["entity_enrichment"] = json!({"param": "who", "default": "agent"});
        }
        comes_back("skill.json", &manifest.to_string(), ExportFormat::Curia);
    }

    #[test]
    fn every_skill_object_comes_back(
        id in "[a-z]{1,5}(-[a-z]{1,5}){0,2}",
        instruction in prop::option::of("[ -~]{0,40}[a-z]"),
        tools in prop::collection::btree_set("[a-z_]{1,10}", 1..4),
        aliases in prop::collection::btree_map("[a-z_]{1,8}", prop::collection::vec("[a-z_]{1,8}", 1..3), 0..3),
    ) {
        let tools: Vec<Value> = tools.iter().map(|name| json!({"name": name, "description": "d", "input_schema": {"type": "object"}})).collect();
        let mut object = json!({
            "id": id, "name": "A Label", "description": "Does it.", "category": "data", "tools": tools, "mcpAliases": aliases,
            "config": {"KEY": {"description": "k", "required": true, "env": "KEY"}},
            "mcp": {"command": "server", "args": ["-x"], "env": {"KEY": "what it is"}},
        });
        if let Some(instruction) = &instruction {
            object["instruction"] = json!(instruction.trim());
        }
        comes_back("skill.json", &object.to_string(), ExportFormat::Sweny);
    }

    #[test]
    fn every_persona_comes_back(
        name in "[a-z_][a-z0-9_-]{0,12}",
        prompt in "[ -~]{0,30}[a-z][ -~\n]{0,30}",
        tools in prop::collection::btree_set("[a-z_]{1,10}", 0..4),
        delegates in prop::collection::btree_set("[a-z_]{1,10}", 0..3),
        turns in prop::collection::vec(("[ -~]{0,10}[a-z]", "[ -~]{0,10}[a-z]"), 0..3),
        temperature in prop::option::of(0_u8..=20),
        extra in any::<bool>(),
    ) {
        let turns: Vec<Value> = turns.iter().map(|(input, output)| json!({"input": input, "output": output})).collect();
        let mut persona = json!({"name": name, "description": "Does it.", "systemPrompt": prompt, "tools": tools, "delegates": delegates, "examples": turns});
        if let Some(temperature) = temperature {
            persona["temperature"] = json!(f64::from(temperature) / 10.0);
        }
        if extra {
            persona["extra"] = json!({"a": [null, 1.5, "x"]});
            persona["metadata"] = json!({"version": "1", "deep": {"a": []}});
        }
        comes_back("skill.json", &persona.to_string(), ExportFormat::AgentsKit);
    }
}
