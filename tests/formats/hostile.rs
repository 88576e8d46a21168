//! Definitions made to mislead: several formats at once, sizes, depths, equal keys, odd letters.

use std::time::{Duration, Instant};

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::formats::parse;
use serde_json::json;

use crate::formats::{refusals, refused};
use crate::support::engine::{Project, kind, sentence};

#[test]
fn three_formats_in_one_folder_run_as_none_of_them() {
    let curia = json!({"name": "x", "description": "d", "version": "1.0.0", "action_risk": "none"});
    let sweny = json!({"id": "y", "name": "Y", "description": "d", "category": "git", "config": {}, "instruction": "i"});
    for with_skill_file in [true, false] {
        let project = Project::new()
            .file(".metier/skills/x/skill.json", curia.to_string())
            .file(".metier/skills/x/skill.yaml", "skill: {name: z, description: d}")
            .file(".metier/skills/x/skill.yml", sweny.to_string())
            .file(".metier/skills/x/scripts/main.lua", "return 1");
        let project = if with_skill_file { project.skill("x", "") } else { project };
        let outcome = project.run(&[]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
        let message = sentence(&outcome);
        assert!(message.contains("skill.yaml and skill.yml and skill.json"), "{message}");
    }
}

#[test]
fn keys_of_two_formats_in_one_file_are_in_neither() {
    let both = json!({"name": "x", "systemPrompt": "y", "action_risk": "none", "description": "d", "version": "1.0.0"});
    refused("skill.json", &both.to_string(), "format-mixed");
    let third = json!({"id": "x", "category": "git", "systemPrompt": "y", "manifestVersion": "2026-04"});
    refused("skill.yaml", &third.to_string(), "format-mixed");
}

#[test]
fn a_definition_of_megabytes_is_refused_unread() {
    let large = format!(
        "{{\"name\": \"x\", \"action_risk\": \"low\", \"description\": \"{}\"}}",
        "x".repeat(4 << 20)
    );
    let started = Instant::now();
    refused("skill.json", &large, "contract-too-large");
    let project = Project::lua("return 1").file(".metier/skills/x/skill.json", &large);
    let outcome = project.run(&[]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn depth_and_width_have_bounds_in_both_syntaxes() {
    for (file, open, close) in
        [("skill.json", "[", "]"), ("skill.json", "{\"a\":", "}"), ("skill.yaml", "[", "]")]
    {
        let deep = format!("{{\"action_risk\": {}{}}}", open.repeat(40_000), close.repeat(40_000));
        refused(file, &deep, "yaml-too-deep");
    }
    refused("skill.json", &format!("{{\"action_risk\": [{}1]}}", "1,".repeat(60_000)), "yaml-too-big");
}

#[test]
fn the_second_of_two_equal_keys_cannot_lower_a_risk() {
    for source in [
        r#"{"name": "x", "description": "d", "version": "1.0.0", "action_risk": "critical", "action_risk": "none"}"#,
        r#"{"name": "x", "description": "d", "version": "1.0.0", "action_risk": "critical", "action\u005frisk": "none"}"#,
    ] {
        refused("skill.json", source, "yaml-duplicate-key");
    }
}

#[test]
fn letters_that_only_look_right_are_not_right() {
    let with = |key: &str, value: &str| {
        json!({"name": "x", "description": "d", "version": "1.0.0", "action_risk": "none", key: value})
            .to_string()
    };
    // A Cyrillic а, a zero width space, a full-width letter, text that runs backwards.
    refused("skill.json", &with("аction_risk", "critical"), "is not a key");
    refused("skill.json", &with("name", "x\u{200b}y"), "`name` must be");
    refused("skill.json", &with("name", "x\u{202e}y"), "`name` must be");
    refused("skill.json", &with("action_risk", "nоne"), "`action_risk` must be");
    refused("skill.json", &with("name", "a\u{0}b"), "control character");
    assert!(refusals("skill.json", &with("sensitivity", "ｎormal"))[0].contains("`sensitivity` must be"));
}

#[test]
fn skills_of_three_formats_that_need_each_other_end() {
    // A contract with a step that calls a Curia skill, whose name is that of a persona that delegates to the contract.
    let persona = json!({"name": "b", "description": "d", "systemPrompt": "p", "delegates": ["a"]});
    let curia = json!({"name": "c", "description": "d", "version": "1.0.0", "action_risk": "none"});
    let project = Project::new()
        .file(".metier/skills/a/skill.yaml", "skill: {name: a, description: d, composed_of: [{skill: a}]}")
        .file(".metier/skills/b/skill.json", persona.to_string())
        .file(".metier/skills/c/skill.json", curia.to_string());
    let engine = project.engine();
    for name in ["a", "b", "c"] {
        assert!(engine.run(Invocation::new(name)).result.is_err(), "{name}");
    }
}

#[test]
fn every_cut_of_a_definition_has_an_answer() {
    for (file, source) in [
        ("skill.json", include_str!("samples/web-search.json")),
        ("skill.yaml", include_str!("samples/sweny-github.yaml")),
        ("skill.yaml", include_str!("samples/deploy-application.yaml")),
    ] {
        for end in (0..source.len()).filter(|end| source.is_char_boundary(*end)) {
            let parsed = parse(file, &source.as_bytes()[..end], None);
            assert_eq!(
                parsed.contract.is_some(),
                parsed.diagnostics.iter().all(|found| !found.blocks),
                "{end}"
            );
        }
    }
}
