//! `metier diff`: two versions of a skill, by paths and by names, and whether the change of the version is large enough.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::cli::{Answer, Project};

const OLD: &str = "skill:
  version: 1.2.0
  permissions: [read]
  inputs:
    city: {type: string, required: true}
  outputs:
    degrees: {type: number, required: true}
";

/// A project with two versions of a skill, the new one with this contract.
fn project(new: &str) -> Project {
    let skill = |version: &str| {
        format!("---\nname: forecast\ndescription: d\nmetadata: {{version: {version}}}\n---\n")
    };
    let version = new.lines().find_map(|line| line.trim().strip_prefix("version: ")).unwrap_or("1.2.0");
    Project::new()
        .file(".metier/skills/forecast/SKILL.md", skill("1.2.0"))
        .file(".metier/skills/forecast/skill.yaml", OLD)
        .file(".metier/skills/next/SKILL.md", skill(version))
        .file(".metier/skills/next/skill.yaml", new)
}

fn diff(new: &str, more: &[&str]) -> Answer {
    let args = [&["diff", ".metier/skills/forecast", ".metier/skills/next"], more].concat();
    project(new).metier(&args)
}

fn with_input(version: &str, input: &str) -> String {
    OLD.replace("1.2.0", version).replace("  outputs:", &format!("    {input}\n  outputs:"))
}

#[test]
fn the_change_of_the_version_is_large_enough_or_the_command_fails() {
    // AR-23, AR-T13
    let optional = "days: {type: integer, default: 3}";
    let required = "days: {type: integer, required: true}";
    for (new, code, stdout) in [
        (OLD.to_owned(), 0, "version 1.2.0 -> 1.2.0; the contracts need no new version\n"),
        (
            with_input("1.3.0", optional),
            0,
            "minor    /inputs/properties/days: `days` is new, and optional\n\
             version 1.2.0 -> 1.3.0; the changes need at least 1.3.0 (minor)\n",
        ),
        (
            with_input("1.2.1", optional),
            1,
            "minor    /inputs/properties/days: `days` is new, and optional\n\
             version 1.2.0 -> 1.2.1; the changes need at least 1.3.0 (minor)\n",
        ),
        (
            with_input("1.3.0", required),
            1,
            "major    /inputs/properties/days: `days` is new, and required\n\
             version 1.2.0 -> 1.3.0; the changes need at least 2.0.0 (major)\n",
        ),
        (
            OLD.replace("1.2.0", "1.1.0"),
            1,
            "version 1.2.0 -> 1.1.0, which is lower; the contracts need no new version\n",
        ),
    ] {
        let answer = diff(&new, &[]);
        assert_eq!(
            (answer.code, answer.stdout.as_str(), answer.stderr.as_str()),
            (code, stdout, ""),
            "{new}"
        );
    }
}

#[test]
fn findings_are_sorted_by_what_they_need() {
    let new = OLD
        .replace("1.2.0", "1.2.1")
        .replace("[read]", "[read, write:out]")
        .replace("type: string, required: true", "type: [string, integer], required: true, description: c")
        .replace("type: number", "type: number, pattern: a")
        + "  timeout: 9s\n";
    let answer = diff(&new, &[]);
    let changes: Vec<_> = answer.stdout.lines().filter_map(|line| line.split_once("  ")).collect();
    assert_eq!(
        changes
            .iter()
            .map(|(change, rest)| (change.trim(), rest.trim().split(": ").next().unwrap()))
            .collect::<Vec<_>>(),
        [
            ("major", "/permissions/write:out"),
            ("unknown", "/limits/timeout"),
            ("minor", "/inputs/properties/city/type"),
            ("patch", "/inputs/properties/city/description"),
        ],
        "{answer:?}"
    );
    assert!(answer.stdout.contains("\n1 difference cannot be judged here"), "{answer:?}");
}

#[test]
fn json_has_the_same_for_programs() {
    let answer = diff(&with_input("1.2.1", "days: {type: integer, default: 3}"), &["--json"]);
    assert_eq!(answer.code, 1);
    let mut json = answer.json();
    for side in ["old", "new"] {
        let path = json[side].as_object_mut().unwrap().shift_remove("path").unwrap();
        assert!(path.as_str().unwrap().ends_with("SKILL.md"), "{path}");
    }
    assert_eq!(
        json,
        json!({
            "old": {"name": "forecast", "version": "1.2.0"},
            "new": {"name": "forecast", "version": "1.2.1"},
            "findings": [{
                "path": "/inputs/properties/days",
                "change": "minor",
                "message": "`days` is new, and optional",
            }],
            "left_out": 0,
            "unknown": 0,
            "required": "minor",
            "declared": "patch",
            "needed_version": "1.3.0",
            "sufficient": false,
        })
    );
}

#[test]
fn skills_are_named_by_paths_and_by_names() {
    let project = project(&with_input("1.3.0", "days: {type: integer, default: 3}"))
        .file("alone/skill.yaml", OLD.replace("1.2.0", "1.4.0"))
        .file("json/skill.json", r#"{"skill": {"name": "json", "description": "d", "version": "1.2.0"}}"#);
    for (old, new) in [
        (".metier/skills/forecast/SKILL.md", ".metier/skills/next/skill.yaml"),
        (".metier/skills/forecast/skill.yaml", "forecast@1.3.0"),
        ("forecast@1.2.0", "forecast@^1.3"),
        ("project:forecast@1.2.0", "project/.metier:forecast@1.3.0"),
    ] {
        let answer = project.metier(&["diff", old, new]);
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(
            answer.stdout.ends_with("version 1.2.0 -> 1.3.0; the changes need at least 1.3.0 (minor)\n"),
            "{answer:?}"
        );
    }
    let answer = project.metier_in(".metier/skills/next", &["diff", "../forecast", "skill.yaml"]);
    assert!(answer.stdout.contains("1.2.0 -> 1.3.0"), "{answer:?}");
    let alone = project.metier(&["diff", "alone", "alone/skill.yaml", "--json"]).json();
    assert_eq!((&alone["findings"], &alone["old"]["version"]), (&json!([]), &json!("1.4.0")));
    let json = project.metier(&["diff", "json/skill.json", "json", "--json"]).json();
    assert_eq!(json["old"]["name"], json!("json"));
    let builtin = project.metier(&["diff", "word-count", "word-count", "--strict"]);
    assert_eq!(builtin.code, 0, "{builtin:?}");
}

#[test]
fn two_skills_with_other_names_are_no_versions_of_one() {
    let project = Project::new().lua("a", "return 1").lua("b", "return 1");
    let json = project.metier(&["diff", "a", "b", "--json"]).json();
    assert_eq!(json["findings"][0]["path"], json!("/name"));
    assert_eq!(json["required"], json!("major"));
}

#[test]
fn what_only_skill_md_says_is_compared_too() {
    let skill = |version: &str, tools: &str| {
        format!(
            "---\nname: a\ndescription: d\nallowed-tools: {tools}\nmetadata: {{version: {version}}}\n---\n"
        )
    };
    let project = Project::new()
        .file("old/SKILL.md", skill("1.0.0", "Read write:out"))
        .file("new/SKILL.md", skill("1.0.1", "Read write net:example.com"));
    let json = project.metier(&["diff", "old", "new", "--json"]).json();
    let paths: Vec<&Value> =
        json["findings"].as_array().unwrap().iter().map(|finding| &finding["path"]).collect();
    assert_eq!(paths, ["/permissions/write", "/permissions/net:example.com"], "{json}");
    assert_eq!((&json["required"], &json["sufficient"]), (&json!("major"), &json!(false)));
}

#[test]
fn programs_that_only_skill_md_names_are_needed_too() {
    let skill = |bins: &str| {
        format!(
            "---\nname: a\ndescription: d\nmetadata: {{version: 1.0.0, openclaw: {{requires: {{bins: [{bins}]}}}}}}\n---\n"
        )
    };
    let project = Project::new().file("old/SKILL.md", skill("git")).file("new/SKILL.md", skill("git, jq"));
    let answer = project.metier(&["diff", "old", "new"]);
    let expected = "major    /dependencies/tools/jq: the program `jq` is required now\n\
                    version 1.0.0 -> 1.0.0; the changes need at least 2.0.0 (major)\n";
    assert_eq!((answer.code, answer.stdout.as_str()), (1, expected), "{answer:?}");
}

#[test]
fn the_page_shows_what_is_printed() {
    let new = with_input("1.3.0", "days: {type: integer, required: true}") + "    wind: {type: number}\n";
    let answer = diff(&new, &[]);
    assert!(include_str!("../../docs/contract.md").contains(&answer.stdout), "{answer:?}");
}

#[test]
fn without_a_version_nothing_is_judged_unless_strict() {
    let skill = |version: &str| format!("---\nname: a\ndescription: d\n{version}---\n");
    let project = Project::new()
        .file("old/SKILL.md", skill(""))
        .file("old/skill.yaml", "inputs: {a: {type: string, required: true}}")
        .file("new/SKILL.md", skill("metadata: {version: 2.0.0}\n"))
        .file("new/skill.yaml", "inputs: {a: {type: integer, required: true}}");
    for (old, new, sentence) in [
        (
            "old",
            "new",
            "the old one has no version, so the change of the version cannot be judged; the changes are major\n",
        ),
        (
            "new",
            "old",
            "the new one has no version, so the change of the version cannot be judged; the changes need at least 3.0.0 (major)\n",
        ),
        (
            "old",
            "old",
            "neither has a version, so the change of the version cannot be judged; the contracts need no new version\n",
        ),
    ] {
        let answer = project.metier(&["diff", old, new]);
        assert!(answer.stdout.ends_with(sentence), "{answer:?}");
        assert_eq!(answer.code, 0, "{answer:?}");
        assert_eq!(project.metier(&["diff", old, new, "--strict"]).code, 1, "{old} {new}");
    }
    let json = project.metier(&["diff", "old", "new", "--json"]).json();
    assert_eq!(
        (&json["declared"], &json["sufficient"], &json["old"]["version"]),
        (&json!(null), &json!(null), &json!(null))
    );
}

#[test]
fn what_cannot_be_judged_fails_only_if_strict() {
    let base = OLD.replace("type: string", "type: string, pattern: '^[a-z]+$'");
    let new = OLD.replace("1.2.0", "1.3.0").replace("type: string", "type: string, pattern: '^[a-z0-9]+$'");
    let project = project(&new).file(".metier/skills/forecast/skill.yaml", base);
    let answer = project.metier(&["diff", "forecast@1.2.0", "forecast@1.3.0"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    assert!(answer.stdout.contains("unknown  /inputs/properties/city/pattern: cannot tell"), "{answer:?}");
    assert_eq!(project.metier(&["diff", "forecast@1.2.0", "forecast@1.3.0", "--strict"]).code, 1);
}

#[test]
fn what_is_no_skill_is_reported() {
    let project = Project::new()
        .lua("good", "return 1")
        .file("empty/readme.txt", "")
        .file("broken/SKILL.md", "---\nname: broken\n")
        .file("wrong/SKILL.md", "---\nname: wrong\ndescription: d\n---\n")
        .file("wrong/skill.yaml", "inputs: {a: {type: strin}}\n")
        .file("tool/SKILL.md", "---\nname: tool\ndescription: d\n---\n")
        .file(
            "tool/skill.yaml",
            "tools: [{name: t, entrypoint: a.lua, inputs: {a: {type: string, pattern: '('}}}]",
        )
        .file("a.lua", "return 1");
    for (target, code, text) in [
        ("nothing", 3, "no skill is called `nothing`"),
        ("goood", 3, "did you mean `good`?"),
        ("no/such/folder", 3, "there is no skill in no/such/folder"),
        ("empty", 3, "there is no skill in empty"),
        ("a.lua", 3, "there is no skill in a.lua"),
        ("broken", 3, "does not load"),
        ("broken/SKILL.md", 3, "does not load"),
        ("wrong", 3, "skill.yaml:1:"),
        ("tool", 3, "invalid schema"),
        ("good@^7", 3, "no skill `good` has a version that fits `^7`"),
    ] {
        for args in [["diff", target, "good"], ["diff", "good", target]] {
            let answer = project.metier(&args);
            assert_eq!((answer.code, answer.stdout.as_str()), (code, ""), "{answer:?}");
            assert!(answer.stderr.contains(text), "{text}: {answer:?}");
        }
        let json = project.metier(&["diff", target, "good", "--json"]);
        assert_eq!((json.code, json.json()["ok"].clone()), (code, json!(false)), "{json:?}");
    }
    assert_eq!(project.metier(&["diff", "good"]).code, 2);
}

#[test]
fn hostile_files_change_nothing_about_that() {
    let huge = format!("x: {}", "y".repeat(300 * 1024));
    let deep = format!("inputs: {}", "{a: ".repeat(5_000));
    let project = Project::new()
        .lua("good", "return 1")
        .file("huge/SKILL.md", "---\nname: huge\ndescription: d\n---\n")
        .file("huge/skill.yaml", huge)
        .file("deep/SKILL.md", "---\nname: deep\ndescription: d\n---\n")
        .file("deep/skill.yaml", deep)
        .file("bytes/SKILL.md", "---\nname: bytes\ndescription: d\n---\n")
        .file("bytes/skill.yaml", "name: \u{0}\u{1b}[31m")
        .file("pipe/readme", "");
    let made = Command::new("mkfifo").arg(project.path("pipe/SKILL.md")).status();
    assert!(made.unwrap().success());
    for target in ["huge", "deep", "bytes", "pipe"] {
        let answer = project.metier(&["diff", target, "good"]);
        assert_eq!((answer.code, answer.stdout.as_str()), (3, ""), "{answer:?}");
        assert!(!answer.stderr.contains('\u{1b}'), "{answer:?}");
    }
    // Names that would act on the terminal are spelled out.
    let fields = |name: &str| {
        format!(
            "name: a\ndescription: d\nversion: 1.0.0\noutputs: {{type: object, properties: {{\"{name}\": {{type: string}}}}}}\n"
        )
    };
    let project =
        Project::new().file("old/skill.yaml", fields("a")).file("new/skill.yaml", fields("x\\u202ey"));
    let answer = project.metier(&["diff", "old", "new"]);
    assert_eq!(answer.code, 1, "{answer:?}");
    assert!(answer.stdout.contains("x\\u{202e}y") && !answer.stdout.contains('\u{202e}'), "{answer:?}");
}

#[test]
fn a_schema_that_could_explode_ends_soon() {
    let schema = |last: usize| {
        let alternatives: Vec<Value> = (0..60)
            .map(|at| json!({"type": "object", "required": [format!("f{}", at % 7)], "minProperties": at + last, "properties": {"a": {"maximum": at + last}}}))
            .collect();
        let tools: Vec<Value> = (0..8)
            .map(|at| json!({"name": format!("t{at}"), "entrypoint": "a.lua", "inputs": {"type": "object", "properties": {"x": {"anyOf": &alternatives}}}}))
            .collect();
        json!({"skill": {"name": "a", "description": "d", "version": format!("1.{last}.0"), "tools": tools}})
            .to_string()
    };
    let project = Project::new().file("old/skill.json", schema(0)).file("new/skill.json", schema(1));
    let began = std::time::Instant::now();
    let answer = project.metier(&["diff", "old", "new", "--json"]);
    assert!([0, 1].contains(&answer.code), "{answer:?}");
    assert!(began.elapsed() < std::time::Duration::from_mins(1), "{:?}", began.elapsed());
    assert!(answer.json()["findings"].as_array().unwrap().len() >= 8, "{answer:?}");
}
