//! What `metier new` promises.
#![cfg(all(feature = "cli", feature = "lua-runtime"))]
#![allow(missing_docs)]

#[path = "support/cli.rs"]
mod cli;
#[path = "support/not_run.rs"]
#[allow(dead_code, reason = "shared with tests that need more of it")]
mod not_run;

use std::fs;

use cli::Project;
use not_run::not_run;
use serde_json::json;

/// The arguments that make each kind of skill there is.
const KINDS: &[&[&str]] = &[
    PYTHON,
    SHELL,
    &["--runtime", "lua"],
    &["--runtime", "tool-sequence"],
    #[cfg(feature = "rhai-runtime")]
    &["--runtime", "rhai"],
    #[cfg(feature = "wasm-runtime")]
    &["--runtime", "wasm"],
];
const PYTHON: &[&str] = &["--runtime", "external"];
const SHELL: &[&str] = &["--runtime", "external", "--script", "run.sh"];

fn new(project: &Project, args: &[&str]) -> cli::Answer {
    project.metier(&[&["new"], args].concat())
}

#[test]
fn a_new_skill_has_no_faults_in_any_profile() {
    for kind in KINDS {
        for profile in ["spec", "skills-ref"] {
            let project = Project::new();
            assert_eq!(new(&project, &[&["count-files"][..], kind].concat()).code, 0);
            let checked = project.metier(&["validate", ".metier", "--json", "--profile", profile]).json();
            assert_eq!(
                (&checked[0]["valid"], &checked[0]["diagnostics"]),
                (&json!(true), &json!([])),
                "{kind:?}"
            );
        }
    }
}

#[test]
fn it_says_what_it_made_and_how_to_run_it() {
    let project = Project::new();
    let answer = new(&project, &["count-files", "--runtime", "lua"]);
    let place = project.path(".metier/skills/count-files").canonicalize().unwrap();
    let expected = format!("made {}\n  SKILL.md\n  scripts/main.lua\n  cases/basic.json\n", place.display());
    assert_eq!((answer.code, answer.stdout), (0, expected));
    assert_eq!(answer.stderr, "run it: metier run count-files --input '{\"pattern\": \"*\"}'\n");
}

#[test]
fn the_command_it_names_works_from_the_same_place() {
    let project = Project::new().file("it's/x", "");
    let answer = new(&project, &["a", "--project", "it's", "--product", "acme"]);
    let expected = r"run it: metier run a --product acme --project 'it'\''s' --input";
    assert!(answer.stderr.starts_with(expected), "{}", answer.stderr);
    assert!(project.path("it's/.acme/skills/a/SKILL.md").is_file());
}

#[test]
fn the_answer_in_json_names_the_files() {
    let project = Project::new();
    let answer = new(&project, &["a", "--json", "--runtime", "external", "--product", "acme"]);
    let path = project.path(".").canonicalize().unwrap().join(".acme/skills/a");
    let expected =
        json!({"name": "a", "path": path, "files": ["SKILL.md", "scripts/main.py", "cases/basic.json"]});
    assert_eq!(answer.json(), expected);
    assert!(path.join("scripts/main.py").is_file());
}

#[test]
fn a_wrong_name_is_refused_with_the_rule_and_a_better_one() {
    for (name, rule, help) in [
        ("My_Skill", "must be lowercase", "call it `my-skill`"),
        ("a--b", "cannot contain consecutive hyphens", "call it `a-b`"),
        ("a/../b", "contains invalid characters", "call it `a-b`"),
        ("..", "contains invalid characters", ""),
        ("", "must be a non-empty string", ""),
        ("a\u{1b}[31m", "the name holds the control character U+001B", "remove it"),
        ("x\ny: z", "contains invalid characters", "call it `x-y-z`"),
        (&"a".repeat(65), "exceeds 64 character limit", "call it `aaaa"),
    ] {
        let project = Project::new();
        let answer = new(&project, &[name]);
        assert_eq!(answer.code, 2, "{name}: {}", answer.stderr);
        assert!(answer.stderr.contains(rule) && answer.stderr.contains(help), "{name}: {}", answer.stderr);
        assert!(!answer.stderr.contains('\u{1b}'));
        assert_eq!(project.tree(), [""; 0], "{name}");
    }
}

#[test]
fn names_and_descriptions_that_yaml_reads_otherwise_are_quoted() {
    for (name, description) in
        [("null", "a: b # c"), ("true", "- x"), ("123", "{{script}}\n\"q\""), ("技能", "é")]
    {
        let project = Project::new();
        let answer = new(&project, &[name, "--description", description]);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        let checked = project.metier(&["validate", ".metier/skills", "--json"]).json();
        assert_eq!((&checked[0]["name"], &checked[0]["valid"]), (&json!(name), &json!(true)));
    }
    let long = "a".repeat(2000);
    let answer = new(&Project::new(), &["x", "--description", &long]);
    assert!(answer.code == 2 && answer.stderr.contains("description exceeds 1024"), "{}", answer.stderr);
}

#[test]
fn nothing_is_overwritten() {
    let project = Project::new().file(".metier/skills/a/SKILL.md", "mine");
    let answer = new(&project, &["a"]);
    assert_eq!(answer.code, 2);
    assert!(answer.stderr.contains(".metier/skills/a exists already"), "{}", answer.stderr);
    assert_eq!(fs::read_to_string(project.path(".metier/skills/a/SKILL.md")).unwrap(), "mine");
    assert_eq!(
        project.tree(),
        [".metier", ".metier/skills", ".metier/skills/a", ".metier/skills/a/SKILL.md"]
    );
}

#[test]
fn runtimes_without_a_template_are_told_from_those_that_do_not_exist() {
    for (args, code, words) in [
        (&["a", "--runtime", "tool-sequence", "--script", "x.json"][..], 2, "call it sequence.json"),
        (&["a", "--runtime", "lau"], 2, "did you mean `lua`?"),
        (&["a", "--runtime", "python"], 2, "no runtime is called `python`"),
        (&["a", "--runtime", "external", "--script", "x.rb"], 2, "one of: py, sh"),
        (&["a", "--script", "../x.lua"], 2, "is not a name for a script"),
    ] {
        let project = Project::new();
        let answer = new(&project, args);
        assert_eq!(answer.code, code, "{args:?}: {}", answer.stderr);
        assert!(answer.stderr.contains(words), "{args:?}: {}", answer.stderr);
        assert_eq!(project.tree(), [""; 0]);
    }
}

#[test]
fn a_skill_can_be_made_where_one_stands() {
    let project = Project::new().file("skills/README.md", "");
    assert_eq!(new(&project, &["a", "--here=skills"]).code, 0);
    assert_eq!(project.metier_in("skills", &["new", "--here", "b"]).code, 0);
    assert!(project.path("skills/a/SKILL.md").is_file() && project.path("skills/b/SKILL.md").is_file());
}

#[cfg(unix)]
#[test]
fn a_project_cannot_send_new_skills_elsewhere() {
    let (project, elsewhere) = (Project::new(), Project::new());
    std::os::unix::fs::symlink(elsewhere.path("."), project.path(".metier")).unwrap();
    assert_eq!(new(&project, &["a"]).code, 1);
    assert_eq!(elsewhere.tree(), [""; 0]);
}

/// Runs a script as the case beside it says, and compares the values.
#[cfg(unix)]
fn plays_its_case(program: &str, kind: &[&str], script: &str) {
    use std::io::Write;
    use std::process::{Command, Stdio};

    let project = Project::new();
    assert_eq!(new(&project, &[&["a"], kind].concat()).code, 0);
    let folder = project.path(".metier/skills/a");
    let case: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.join("cases/basic.json")).unwrap()).unwrap();
    for (path, text) in case["files"].as_object().unwrap() {
        fs::write(project.path(path), text.as_str().unwrap()).unwrap();
    }
    let args = case["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap());
    let mut command = Command::new(program);
    command.arg(folder.join("scripts").join(script)).args(args).current_dir(project.path("."));
    let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
        return not_run("the cases of a new skill", &format!("{program} is missing"));
    };
    let _ = child.stdin.take().unwrap().write_all(case["input"].to_string().as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value, case["expect"]["value"]);
}

#[cfg(unix)]
#[test]
fn the_scripts_of_external_skills_play_their_cases() {
    plays_its_case("python3", PYTHON, "main.py");
    plays_its_case("sh", SHELL, "run.sh");
}

#[test]
fn a_plan_is_made_with_the_signature_that_it_shows() {
    let project = Project::new();
    let made = new(&project, &["a", "--runtime", "tool-sequence"]).stdout;
    assert!(
        made.ends_with("\n  SKILL.md\n  skill.yaml\n  scripts/sequence.json\n  cases/basic.json\n"),
        "{made}"
    );
    let shown = project.metier(&["show", "a", "--json"]).json();
    assert_eq!(shown["signature"], "a(pattern: string) -> {pattern: string, files: [string]}");
    assert_eq!(project.metier(&["test", "a"]).code, 0);
    assert_eq!(project.metier(&["run", "a", "--input", "{\"patern\": \"*\"}"]).code, 2);
}
