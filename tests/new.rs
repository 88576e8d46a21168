//! What `metier new` promises.

use std::fs;

use serde_json::json;

use crate::support::cli::{Answer, Project};
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
use crate::support::not_run::{not_run, print_uncaptured};

/// The runtimes whose templates need no interpreter.
const IN_PROCESS: &[&str] = &[
    "lua",
    "tool-sequence",
    #[cfg(feature = "rhai-runtime")]
    "rhai",
    #[cfg(feature = "wasm-runtime")]
    "wasm",
];

/// The other runtimes with a template, the interpreter of each, and whether every machine that runs these tests must have it.
const INTERPRETED: &[(&str, &str, bool)] = &[
    ("python", "python3", true),
    ("bash", "bash", true),
    ("sh", "sh", true),
    ("node", "node", true),
    ("perl", "perl", true),
    ("typescript", "node", false),
    ("deno", "deno", false),
    ("ruby", "ruby", false),
    ("php", "php", false),
    ("zsh", "zsh", false),
    ("ksh", "ksh", false),
    ("fish", "fish", false),
];

fn every_runtime() -> impl Iterator<Item = &'static str> {
    IN_PROCESS.iter().copied().chain(INTERPRETED.iter().map(|(runtime, ..)| *runtime))
}

fn new(project: &Project, args: &[&str]) -> Answer {
    project.metier(&[&["new"], args].concat())
}

#[test]
fn a_new_skill_is_valid_in_every_profile() {
    for kind in every_runtime() {
        for profile in ["spec", "skills-ref"] {
            let project = Project::new();
            assert_eq!(new(&project, &["count-files", "--runtime", kind]).code, 0, "{kind}");
            let checked = project.metier(&["validate", ".metier", "--json", "--profile", profile]).json();
            assert_eq!(
                (&checked[0]["valid"], &checked[0]["diagnostics"]),
                (&json!(true), &json!([])),
                "{kind}"
            );
        }
    }
}

#[test]
fn it_prints_what_it_created_and_how_to_run_it() {
    let project = Project::new();
    let answer = new(&project, &["count-files", "--runtime", "lua"]);
    let place = project.path(".metier/skills/count-files").canonicalize().unwrap();
    let expected =
        format!("created {}\n  SKILL.md\n  scripts/main.lua\n  cases/basic.json\n", place.display());
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
    let answer = new(&project, &["a", "--json", "--runtime", "lua", "--product", "acme"]);
    let path = project.path(".").canonicalize().unwrap().join(".acme/skills/a");
    let files = ["SKILL.md", "scripts/main.lua", "cases/basic.json"];
    let expected = json!({"name": "a", "path": path, "files": files, "runnable": true, "reason": null});
    assert_eq!(answer.json(), expected);
    assert!(path.join("scripts/main.lua").is_file());
}

#[test]
fn a_wrong_name_is_refused_with_the_rule_and_a_better_one() {
    for (name, rule, help) in [
        ("My_Skill", "must be lowercase", "call it `my-skill`"),
        ("a--b", "cannot contain consecutive hyphens", "call it `a-b`"),
        ("a/../b", "contains invalid characters", "call it `a-b`"),
        ("..", "contains invalid characters", ""),
        ("", "must be a non-empty string", ""),
        ("a\u{1b}[31m", "the name contains the control character U+001B", "remove it"),
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
    assert!(answer.stderr.contains(".metier/skills/a already exists"), "{}", answer.stderr);
    assert_eq!(fs::read_to_string(project.path(".metier/skills/a/SKILL.md")).unwrap(), "mine");
    assert_eq!(
        project.tree(),
        [".metier", ".metier/skills", ".metier/skills/a", ".metier/skills/a/SKILL.md"]
    );
}

#[test]
fn a_runtime_without_a_template_is_refused_with_those_there_are() {
    for (args, words) in [
        (&["a", "--runtime", "tool-sequence", "--script", "x.json"][..], "call it sequence.json"),
        (&["a", "--runtime", "lau"], "did you mean `lua`?"),
        (&["a", "--runtime", "pyhton"], "did you mean `python`?"),
        (&["a", "--runtime", "cobol"], "lua, rhai, wasm, tool-sequence, python, bash"),
        (&["a", "--runtime", "python", "--script", "x.js"], "use one of these extensions: py"),
        (&["a", "--script", "x.cobol"], "no template for a script that is called x.cobol"),
        (&["a", "--script", "../x.lua"], "cannot be the name of a script"),
    ] {
        let project = Project::new();
        let answer = new(&project, args);
        assert_eq!(answer.code, 2, "{args:?}: {}", answer.stderr);
        assert!(answer.stderr.contains(words), "{args:?}: {}", answer.stderr);
        assert_eq!(project.tree(), [""; 0]);
    }
}

#[test]
fn the_name_of_the_script_alone_chooses_the_language() {
    for (script, line) in [
        ("run.js", "#!/usr/bin/env node"),
        ("run.py", "#!/usr/bin/env python3"),
        ("run.sh", "#!/usr/bin/env bash"),
        ("run.ts", "#!/usr/bin/env node"),
        ("run.pl", "#!/usr/bin/env perl"),
    ] {
        let project = Project::new();
        assert_eq!(new(&project, &["a", "--script", script]).code, 0, "{script}");
        let text = fs::read_to_string(project.path(".metier/skills/a/scripts").join(script)).unwrap();
        assert_eq!(text.lines().next(), Some(line), "{script}");
    }
}

#[test]
fn a_skill_can_be_created_in_the_current_folder() {
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

#[cfg(unix)]
#[test]
fn no_skill_is_made_where_a_link_of_the_project_leads() {
    for (link, target) in [
        (".metier", "../elsewhere"),
        (".metier", ".git"),
        (".metier", "src"),
        (".metier/skills", "../.git/hooks"),
        (".metier/skills", "../src"),
        (".metier/skills", "../missing"),
    ] {
        for args in [&["a"][..], &["a.lua"], &["a", "--runtime", "python"]] {
            let project = Project::new().file(".git/hooks/x", "").file("src/x", "");
            std::fs::create_dir_all(project.path(link).parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(target, project.path(link)).unwrap();
            let before = project.tree();
            let answer = new(&project, args);
            assert!(answer.code == 1 && answer.stderr.contains("is a link to"), "{link} {target} {answer:?}");
            assert!(answer.stderr.contains("--here=DIR"), "{answer:?}");
            assert_eq!(project.tree(), before, "{link} {target}");
        }
    }
}

#[test]
fn a_new_skill_in_process_passes_its_case() {
    for runtime in IN_PROCESS {
        passes_its_case(runtime, "basic");
    }
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_new_skill_of_an_interpreter_passes_its_case() {
    for (runtime, program, is_required) in INTERPRETED {
        let title = format!("a new skill in {runtime}");
        let created = Project::new().metier(&["new", "a", "--runtime", runtime, "--json"]).json();
        if created["runnable"] == true {
            passes_its_case(runtime, "basic");
        } else if *is_required {
            not_run(&title, &format!("{program} is not installed"));
        } else {
            // No machine has all interpreters: this one reports which is missing, and that is a result as well.
            let reason = created["reason"].as_str().unwrap();
            assert!(reason.contains(program), "{runtime}: {reason}");
            print_uncaptured(&format!("{title}: {reason}"));
        }
    }
}

fn passes_its_case(runtime: &str, case: &str) {
    let project = Project::new();
    assert_eq!(new(&project, &["a", "--runtime", runtime]).code, 0, "{runtime}");
    let tested = project.metier(&["test", "a", "--case", case]);
    assert_eq!(tested.stdout.lines().last(), Some("1 passed, 0 failed, 0 not run"), "{runtime}: {tested:?}");
    // Without an input or arguments it lists the top of the project; a plan needs its input.
    let args = if runtime == "tool-sequence" { &["--input", r#"{"pattern": "*"}"#][..] } else { &[] };
    let ran = project.metier(&[&["run", "a"], args].concat());
    assert!(ran.code == 0 || runtime == "wasm", "{runtime}: {ran:?}");
}

/// Runs `metier new` where only these programs are on `PATH`.
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
fn new_with_programs(args: &[&str], programs: &[(&str, &str)]) -> Answer {
    use std::os::unix::fs::PermissionsExt;

    let (project, folder) = (Project::new(), tempfile::tempdir().unwrap());
    for (name, text) in programs {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let answer = project.command(args).env("PATH", folder.path()).output().unwrap().into();
    assert!(project.path(".metier/skills/a/SKILL.md").is_file(), "{answer:?}");
    answer
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_missing_interpreter_is_reported_and_the_skill_is_created() {
    let answer = new_with_programs(&["new", "a", "--runtime", "ruby"], &[]);
    assert_eq!(answer.code, 0, "{answer:?}");
    for words in ["ruby, which is not on PATH", "cannot run on this machine yet", "run it: metier run a"] {
        assert!(answer.stderr.contains(words), "{words}: {answer:?}");
    }
    let answer = new_with_programs(&["new", "a", "--runtime", "ruby", "--json"], &[]).json();
    assert_eq!(answer["runnable"], false);
    assert!(answer["reason"].as_str().unwrap().contains("ruby"), "{answer}");
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_node_that_cannot_run_typescript_is_reported() {
    let node = |version: &str| {
        let program = format!("#!/bin/sh\necho {version}\n");
        new_with_programs(&["new", "a", "--runtime", "typescript", "--json"], &[("node", &program)]).json()
    };
    let old = node("v20.20.2");
    assert_eq!(old["runnable"], false, "{old}");
    let reason = old["reason"].as_str().unwrap();
    assert!(
        reason.contains("which Node runs from version 22.18 on") && reason.contains("v20.20.2"),
        "{reason}"
    );
    assert_eq!(node("v22.18.0")["runnable"], true);
}

#[test]
fn a_new_plan_has_the_signature_that_it_shows() {
    let project = Project::new();
    let created = new(&project, &["a", "--runtime", "tool-sequence"]).stdout;
    assert!(
        created.ends_with("\n  SKILL.md\n  skill.yaml\n  scripts/sequence.json\n  cases/basic.json\n"),
        "{created}"
    );
    let shown = project.metier(&["show", "a", "--json"]).json();
    assert_eq!(shown["signature"], "a(pattern: string) -> {pattern: string, files: [string]}");
    assert_eq!(project.metier(&["test", "a"]).code, 0);
    assert_eq!(project.metier(&["run", "a", "--input", "{\"patern\": \"*\"}"]).code, 2);
}
