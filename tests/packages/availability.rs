//! Whether a script has its packages: the same answer from every command, without a program that starts.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::packages::archives::wheel;
use crate::packages::fixture::{
    Answer, Project, SKILL, command, entries, has_manager, metier, prepare, project, store, write,
};
use crate::packages::registry::Registry;
use crate::support::not_run::find_program;

/// A `PATH` with the interpreters of this machine, with these programs, and with no other.
fn programs(project: &Project, names: &[&str]) -> std::path::PathBuf {
    let folder = project.home().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    for interpreter in ["python3", "node"] {
        if let Some(program) = find_program(interpreter) {
            symlink(program, folder.join(interpreter)).unwrap();
        }
    }
    for name in names {
        let program = folder.join(name);
        // Whoever starts it leaves a mark.
        write(&program, format!("#!/bin/sh\ntouch {}/started\n", project.home().display()));
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    folder
}

fn ask(project: &Project, path: &std::path::Path, args: &[&str]) -> Answer {
    let answer = command(project, None, args).env("PATH", path).output().unwrap();
    assert!(!project.home().join("started").exists(), "{args:?} started a program");
    answer.into()
}

fn packages(requirements: &Value) -> Value {
    let all = requirements.as_array().unwrap();
    let mut found = all.iter().filter(|requirement| requirement["kind"] == "packages");
    let first = found.next().unwrap_or_else(|| panic!("{requirements}")).clone();
    assert!(found.next().is_none(), "{requirements}");
    first
}

/// What `show`, `list` and an explanation say about the packages of `x`: the same.
#[track_caller]
fn state(project: &Project, path: &std::path::Path) -> Value {
    let shown = ask(project, path, &["show", "x", "--json"]).json();
    assert_eq!(shown["runnable"], json!(true), "a script may have them from elsewhere: {shown}");
    let shown = packages(&shown["requirements"]);
    let listed = ask(project, path, &["list", "--json"]).json();
    let listed = listed.as_array().unwrap().iter().find(|row| row["name"] == "x").unwrap().clone();
    assert_eq!(packages(&listed["requirements"]), shown);
    let explained = ask(project, path, &["run", "x", "--explain", "--json"]).json();
    assert_eq!(packages(&explained["requirements"]), shown);
    let catalog = ask(project, path, &["catalog", "--json", "--trust"]).json();
    assert!(catalog.as_array().unwrap().iter().any(|row| row["name"] == "x"), "{catalog}");
    shown
}

#[test]
fn packages_that_are_not_prepared_can_be() {
    let project = project("main.py", "import six", &[("requirements.txt", "six>=1 # why\nrich\n")]);
    let path = programs(&project, &["uv"]);
    let found = state(&project, &path);
    assert_eq!((&found["state"], &found["name"]), (&json!("preparable"), &json!("requirements.txt")));
    let reason = "the packages that requirements.txt names are not prepared (six>=1, rich)";
    assert_eq!(found["reason"], json!(reason));
    let page = ask(&project, &path, &["show", "x"]).stdout;
    assert!(page.contains(&format!("{reason}; run `metier prepare x`")), "{page}");
    let doctor = ask(&project, &path, &["doctor", "--json"]).stdout;
    assert!(doctor.contains(reason), "{doctor}");
    let listed = ask(&project, &path, &["list", "--json"]).json();
    assert!(listed.to_string().contains(&format!("\"warnings\":[\"{reason}\"]")), "{listed}");
}

#[test]
fn without_a_package_manager_they_are_missing() {
    let project = project("main.py", "import six", &[("requirements.txt", "six\n")]);
    let path = programs(&project, &[]);
    let found = state(&project, &path);
    assert_eq!((&found["state"], &found["required"]), (&json!("missing"), &json!(false)));
    let reason = found["reason"].as_str().unwrap();
    assert!(reason.ends_with("and uv, which prepares them, is not on PATH"), "{reason}");
}

#[test]
fn lines_that_nobody_prepares_are_named() {
    let hostile = "six\n--index-url https://evil.example\n";
    let project = project("main.py", "import six", &[("requirements.txt", hostile)]);
    let path = programs(&project, &["uv"]);
    let found = state(&project, &path);
    assert_eq!((&found["state"], &found["name"]), (&json!("missing"), &json!("requirements.txt")));
    let reason = found["reason"].as_str().unwrap();
    assert!(reason.contains("cannot be prepared") && reason.contains("--index-url"), "{reason}");
}

#[test]
fn what_an_environment_has_only_a_run_would_tell() {
    let project = project("main.py", "import six", &[("requirements.txt", "six\n")]);
    let path = programs(&project, &["uv"]);
    write(&project.path(".venv/pyvenv.cfg"), "home = /usr/bin\n");
    let found = state(&project, &path);
    assert_eq!(found["state"], json!("unchecked"), "{found}");
}

#[test]
fn packages_of_node_are_looked_for_too() {
    if find_program("node").is_none() {
        crate::support::not_run::not_run("packages of node", "node is not installed");
        return;
    }
    let project =
        project("main.js", "require('left')", &[("package.json", r#"{"dependencies": {"left": "^1"}}"#)]);
    let path = programs(&project, &["npm"]);
    let found = state(&project, &path);
    assert_eq!((&found["state"], &found["name"]), (&json!("preparable"), &json!("package.json")));
    assert!(found["reason"].as_str().unwrap().contains("(left@^1)"), "{found}");
    write(&project.path("node_modules/left/index.js"), "");
    assert_eq!(state(&project, &path)["state"], json!("unchecked"));
}

#[test]
fn a_script_that_needs_none_requires_none() {
    for (files, script) in [(&[][..], "print(1)"), (&[("requirements.txt", "# nothing\n")][..], "print(1)")] {
        let project = project("main.py", script, files);
        let path = programs(&project, &["uv"]);
        let shown = ask(&project, &path, &["show", "x", "--json"]).json();
        assert!(!shown["requirements"].to_string().contains("packages"), "{shown}");
    }
}

#[test]
fn what_is_prepared_is_there_until_somebody_changes_it() {
    if !has_manager("uv", "packages that are prepared") {
        return;
    }
    let registry = Registry::default()
        .python("alpha", "alpha-1.0-py3-none-any.whl", wheel("alpha", "1.0", &[], &[("alpha.py", "")]))
        .start();
    let project = project("main.py", "import alpha", &[("requirements.txt", "alpha\n")]);
    prepare(&project, &registry);
    let of = |args: &[&str]| packages(&metier(&project, None, args).json()["requirements"]);
    let found = of(&["show", "x", "--json"]);
    assert_eq!((&found["state"], &found["found"]), (&json!("available"), &json!("alpha==1.0")));
    assert_eq!(of(&["run", "x", "--explain", "--json"]), found);
    let [entry] = &entries(&project)[..] else { panic!("one entry") };
    write(&store(&project).join("entries").join(entry).join("files/alpha.py"), "changed = 1\n");
    let probed = metier(&project, None, &["show", "x", "--probe", "--json"]).json();
    assert_eq!(probed["runnable"], json!(false), "{probed}");
    assert!(probed["reason"].as_str().unwrap().contains("were changed since they were prepared"), "{probed}");
    assert!(std::fs::metadata(project.path(SKILL)).is_ok());
}
