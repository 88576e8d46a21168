//! `metier doctor`: what is supported, what is wrong, and the help.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::support::cli::{Answer, Project};

fn diagnosis(project: &Project) -> Value {
    project.metier(&["doctor", "--json"]).json()
}

fn row<'a>(rows: &'a Value, key: &str, name: &str) -> &'a Value {
    rows.as_array().unwrap().iter().find(|row| row[key] == name).unwrap_or_else(|| panic!("{name}: {rows}"))
}

#[test]
fn every_key_is_always_present() {
    let diagnosis = diagnosis(&Project::new());
    let mut keys: Vec<&str> = diagnosis.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        [
            "cache",
            "configuration",
            "features",
            "findings",
            "interpreters",
            "ok",
            "packages",
            "previews",
            "problems",
            "project",
            "roots",
            "runtimes",
            "sandbox",
            "sandbox_levels",
            "settings",
            "shadowed",
            "system",
            "trust",
            "version"
        ]
    );
    assert_eq!(diagnosis["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(row(&diagnosis["features"], "name", "cli")["built_in"], json!(true));
    assert_eq!(row(&diagnosis["features"], "name", "lua-runtime")["built_in"], json!(true));
}

#[test]
fn the_sandbox_is_the_one_that_scripts_run_in() {
    let project = Project::new().shell("x", "true");
    let (diagnosis, outcome) = (diagnosis(&project), project.metier(&["run", "x", "--json"]).json());
    if cfg!(feature = "sandboxed") && cfg!(target_os = "linux") {
        assert_eq!(diagnosis["sandbox"]["strongest"], outcome["sandbox"]);
        assert!(diagnosis["sandbox"]["landlock_abi"].as_u64().unwrap() >= 3, "{diagnosis}");
        assert_eq!((&diagnosis["ok"], &diagnosis["sandbox"]["reason"]), (&json!(true), &Value::Null));
        let level = outcome["sandbox"]["level"].as_str().unwrap();
        assert_eq!(row(&diagnosis["sandbox_levels"], "name", level)["available"], json!(true));
        let previews = &diagnosis["previews"];
        assert_eq!(
            (&previews[0]["runtimes"], &previews[1]["available"]),
            (&json!(["external"]), &json!(true))
        );
        assert_eq!(previews[0]["available"], json!(level == "namespaces"), "{diagnosis}");
    } else {
        assert_eq!((&diagnosis["ok"], &diagnosis["sandbox"]["landlock_abi"]), (&json!(false), &Value::Null));
        assert_eq!(project.metier(&["doctor"]).code, 1);
    }
}

#[test]
fn the_first_line_says_whether_scripts_run_here() {
    let first_line = |answer: Answer| answer.stdout.lines().next().unwrap_or_default().to_owned();
    let project = Project::new();
    let sandbox = diagnosis(&project)["sandbox"].take();
    let line = first_line(project.metier(&["doctor"]));
    if let Some(reason) = sandbox["reason"].as_str() {
        return assert_eq!(line, format!("Python and shell skills do not run here: {reason}"));
    }
    let level = sandbox["strongest"]["level"].as_str().unwrap();
    assert_eq!(line, format!("Python and shell skills run here, level {level}"));
    let without_python = with_programs(&["doctor"], &[("bash", "echo bash 5")]);
    let expected = format!("Shell skills run here, level {level}; for Python skills, python3 is missing");
    assert_eq!(first_line(without_python), expected);
}

#[test]
fn an_apparmor_profile_is_for_the_program_at_its_path() {
    let project = Project::new().file("a b/server", "");
    let profile = |args: &[&str]| {
        let answer = project.metier(args);
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.stdout
    };
    let own = profile(&["doctor", "--apparmor"]);
    let program = std::fs::canonicalize(env!("CARGO_BIN_EXE_metier")).unwrap();
    assert!(
        own.contains(&format!(
            "\nprofile metier \"{}\" flags=(unconfined) {{\n  userns,\n",
            program.display()
        )),
        "{own}"
    );
    let other = profile(&["doctor", "--apparmor", "a b/server"]);
    let path = std::fs::canonicalize(project.path("a b/server")).unwrap();
    assert!(other.contains(&format!("\nprofile server \"{}\" flags", path.display())), "{other}");
    let absent = project.metier(&["doctor", "--apparmor=nothing/here"]);
    assert!(
        absent.code != 0 && absent.stdout.is_empty() && absent.stderr.contains("nothing/here"),
        "{absent:?}"
    );
}

#[test]
fn roots_are_counted_and_shadowed_and_broken_skills_are_named() {
    let skill = |name: &str| format!("---\nname: {name}\ndescription: d\n---\n");
    let project = Project::new()
        .lua("twice", "return 1")
        .file(".agents/skills/twice/SKILL.md", skill("twice"))
        .file(".agents/skills/once/SKILL.md", skill("once"))
        .file(".metier/skills/broken/SKILL.md", "---\nname: broken\n");
    let answer = project.metier(&["doctor", "--json"]);
    let diagnosis = answer.json();
    let root = |label: &str| row(&diagnosis["roots"], "label", label).clone();
    assert_eq!((&root(".metier")["skills"], &root(".metier")["problems"]), (&json!(1), &json!(1)));
    assert_eq!((&root(".agents")["skills"], &root(".agents")["exists"]), (&json!(2), &json!(true)));
    assert!(row(&diagnosis["roots"], "scope", "builtin")["skills"].as_u64().unwrap() >= 3);
    assert_eq!(
        diagnosis["shadowed"],
        json!([{"skill": "project/.agents:twice@0.0.0", "by": "project/.metier:twice@0.0.0"}])
    );
    assert_eq!(
        row(&diagnosis["sandbox_levels"], "name", "none")["needs"],
        "--allow exec:unsandboxed, or --sandbox off"
    );
    let findings = diagnosis["findings"].as_array().unwrap();
    let finding =
        findings.iter().find(|row| row["message"].as_str().unwrap().contains("broken/SKILL.md:1")).unwrap();
    assert_eq!(finding["severity"], "error");
    assert!(!finding["help"].as_str().unwrap().is_empty());
    assert_eq!((answer.code, &diagnosis["ok"]), (1, &json!(false)), "a skill that does not load is an error");
    let page = project.metier(&["doctor"]);
    for words in ["landlock", "python3", "(project/.agents): 2 skills", "twice@0.0.0 by", "inside metier"] {
        assert!(page.stdout.contains(words), "{words}: {}", page.stdout);
    }
    assert!(page.code == 1 && page.stderr.contains("error: ") && page.stderr.contains("help: "), "{page:?}");
}

/// The answer if `PATH` is a folder outside of the project with these programs.
fn with_programs(args: &[&str], programs: &[(&str, &str)]) -> Answer {
    let (project, folder) = (Project::new(), tempfile::tempdir().unwrap());
    for (name, script) in programs {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = project.command(args);
    command.env("PATH", folder.path()).env("SECRET", "s3cret").output().unwrap().into()
}

#[test]
fn the_version_that_an_interpreter_reports_is_not_trusted() {
    let answer = with_programs(
        &["doctor", "--json"],
        &[
            ("python3", "echo 'Python 9.9'; /usr/bin/yes"),
            ("node", "printf '\\033[31mv1\\n'"),
            ("bash", "exit 3"),
            ("ruby", "echo \"$SECRET$PWD\""),
        ],
    );
    let diagnosis = answer.json();
    let version = |name: &str| row(&diagnosis["interpreters"], "command", name)["version"].clone();
    assert_eq!(version("node"), json!("[31mv1"));
    assert_eq!(version("bash"), Value::Null);
    assert_eq!(version("ruby"), json!("/"), "neither variables of the user's nor the project");
    // One whose output does not end is given up.
    assert_eq!(version("python3"), Value::Null);
    assert_eq!(row(&diagnosis["interpreters"], "command", "perl")["path"], Value::Null);
    assert_eq!(row(&diagnosis["interpreters"], "command", "ruby")["extensions"], json!(["rb"]));
}

#[test]
fn a_missing_common_interpreter_is_a_note() {
    let answer = with_programs(&["doctor", "--json"], &[("bash", "echo bash 5")]);
    let diagnosis = answer.json();
    let notes: Vec<&str> =
        diagnosis["findings"].as_array().unwrap().iter().map(|f| f["message"].as_str().unwrap()).collect();
    assert!(notes.contains(&"python3 is not on PATH"), "{notes:?}");
    assert!(!notes.iter().any(|note| note.contains("bash") || note.contains("perl")), "{notes:?}");
    if cfg!(feature = "sandboxed") {
        assert_eq!(answer.code, 0, "{diagnosis}");
    }
}

#[test]
fn skills_that_cannot_run_are_listed_with_the_reason() {
    let project = Project::new()
        .lua("fine", "return 1")
        .skill(".metier/skills/instructions")
        .file(".metier/skills/odd/SKILL.md", "---\nname: odd\ndescription: d\nruntime: cobol\n---\n")
        .file(".metier/skills/odd/scripts/main.lua", "return 1");
    let findings = diagnosis(&project)["findings"].take();
    let messages = findings.as_array().unwrap().iter().map(|finding| finding["message"].as_str().unwrap());
    let of_project: Vec<&str> = messages.filter(|message| message.starts_with("project/")).collect();
    let [message] = of_project[..] else { panic!("{findings}") };
    assert!(message.starts_with("project/.metier:odd@0.0.0 cannot run: "), "{message}");
    let page = project.metier(&["doctor"]);
    assert!(format!("{}{}", page.stdout, page.stderr).contains(message), "{page:?}");
}

#[test]
fn no_script_of_a_skill_runs() {
    let project = Project::new().shell("x", "touch ran").file("a", "");
    let before = project.tree();
    project.metier(&["doctor"]);
    assert_eq!(project.tree(), before);
}
