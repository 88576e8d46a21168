//! A plug-in for clients that know nothing of metier: the skills as they are, and a server that runs them.

use serde_json::{Value, json};

use crate::support::cli::Project;

fn json_of(project: &Project, path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(project.path(path)).unwrap()).unwrap()
}

fn skill(project: Project, name: &str, frontmatter: &str, script: &str) -> Project {
    let folder = format!(".metier/skills/{name}");
    project
        .file(
            &format!("{folder}/SKILL.md"),
            format!("---\nname: {name}\ndescription: Does {name}.\n{frontmatter}---\n"),
        )
        .file(&format!("{folder}/scripts/main.lua"), script)
}

#[test]
fn a_plugin_has_the_files_of_its_skills_and_of_those_that_they_call() {
    let project = Project::new();
    let project = skill(
        project,
        "outer",
        "license: MIT\nallowed-tools: skill:inner\n",
        "return ctx.skill('inner', {})",
    );
    let project =
        skill(project, "inner", "", "return 1").file(".metier/skills/inner/references/a.md", "text");
    let project = skill(project, "other", "", "return 1");
    let answer = project.metier(&["export", "outer", "--as", "plugin", "--out", "made/plugin"]);
    assert_eq!(answer.code, 1, "the folder around it must exist: {answer:?}");
    std::fs::create_dir(project.path("made")).unwrap();
    let answer = project.metier(&["export", "outer", "--as", "plugin", "--out", "made/plugin", "--json"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert_eq!(answer.json()["skills"], json!(["outer", "inner"]));
    assert_eq!(
        answer.json()["files"],
        json!([
            "mcp.json",
            "plugin.json",
            "skills/inner/SKILL.md",
            "skills/inner/references/a.md",
            "skills/inner/scripts/main.lua",
            "skills/outer/SKILL.md",
            "skills/outer/scripts/main.lua",
        ])
    );
    let manifest = json_of(&project, "made/plugin/plugin.json");
    assert_eq!(
        manifest,
        json!({
            "$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json",
            "name": "outer",
            "version": "0.0.0",
            "description": "Does outer.",
            "license": "MIT",
        })
    );
    let server = json_of(&project, "made/plugin/mcp.json")["mcpServers"]["outer"].clone();
    assert_eq!((&server["type"], &server["command"]), (&json!("stdio"), &json!("metier")));
    assert_eq!(std::fs::read_dir(project.path("made")).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn what_clients_would_skip_is_not_exported() {
    let valid = "---\nname: x\ndescription: d\n---\n";
    for (file, text, expected) in [
        ("SKILL.md", "---\nname: x\ndescription: d\nmodel: fast\n---\n", "would skip the skill x"),
        ("skill.md", valid, "would not find the skill x"),
    ] {
        let project = Project::new()
            .file(&format!(".metier/skills/x/{file}"), text)
            .file(".metier/skills/x/scripts/main.lua", "return 1");
        let answer = project.metier(&["export", "x", "--as", "plugin", "--out", "plugin"]);
        assert!(answer.code != 0 && answer.stderr.contains(expected), "{answer:?}");
        let checked = project.metier(&["validate", "--profile", "agent-plugins", ".metier/skills/x"]);
        assert_eq!(checked.code, 1, "{checked:?}");
        assert!(!project.path("plugin").exists());
    }
    // A folder of another name is skipped too; the plug-in has the skill in the right one.
    let project = Project::new().file(".metier/skills/folder/SKILL.md", valid);
    let checked = project.metier(&["validate", "--profile", "agent-plugins", ".metier/skills/folder"]);
    assert_eq!(checked.code, 1, "{checked:?}");
    assert_eq!(project.metier(&["export", "x", "--as", "plugin", "--out", "plugin"]).code, 0);
    let checked = project.metier(&["validate", "--profile", "agent-plugins", "plugin/skills"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    let project = Project::new().file(".metier/skills/x/SKILL.md", valid);
    let checked = project.metier(&["validate", "--profile", "agent-plugins", ".metier/skills/x"]);
    assert_eq!(checked.code, 0, "{checked:?}");
}

#[test]
fn nothing_is_overwritten_and_no_half_of_a_plugin_is_left() {
    let project = skill(Project::new(), "x", "", "return 1").file("there/kept", "").link("x", "dangling");
    for out in ["there", "dangling"] {
        let answer = project.metier(&["export", "x", "--as", "plugin", "--out", out]);
        assert_eq!(answer.code, 2, "{answer:?}");
        assert!(answer.stderr.contains("exists already"), "{answer:?}");
    }
    let project = project.link("SKILL.md", ".metier/skills/x/linked.md");
    let answer = project.metier(&["export", "x", "--as", "plugin", "--out", "plugin"]);
    assert!(answer.code != 0 && answer.stderr.contains("is a link"), "{answer:?}");
    let left: Vec<_> =
        std::fs::read_dir(project.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("export")), "{left:?}");
    let answer =
        project.metier(&["export", "x", "--as", "plugin", "--out", "p", "--plugin-name", "Not Valid"]);
    assert_eq!(answer.code, 2, "{answer:?}");
}
