//! Interpreters that the embedder sets, and programs that are not their own helper program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use metier::engine::{EngineBuilder, Invocation, RunWarning};
use metier::error::ErrorKind;
use metier::policy::{SandboxLevel, SandboxMode};
use serde_json::json;

use crate::support::engine::{Project, kind, sentence, value, write};
use crate::support::not_run::{find_program, not_run};

/// A virtual environment with a module of its own; `None` where this machine makes none.
fn make_venv(folder: &Path) -> Option<PathBuf> {
    let python = find_program("python3");
    let make = |python| Command::new(python).args(["-m", "venv", "--without-pip"]).arg(folder).output().ok();
    if !python.and_then(make).is_some_and(|made| made.status.success()) {
        not_run("a virtual environment", "python3 -m venv fails here");
        return None;
    }
    let library = fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap().path();
    write(&library.join("site-packages/own_module.py"), "word = 'mine'\n");
    Some(folder.join("bin/python"))
}

/// A skill whose script imports the module.
fn importing_project(script: &str) -> Project {
    let text = "import json, own_module, sys\nprint(json.dumps([own_module.word, sys.prefix]))\n";
    Project::new()
        .skill("x", "")
        .file(&format!(".metier/skills/x/scripts/{script}"), format!("#!/usr/bin/env python3\n{text}"))
}

#[test]
fn a_script_imports_what_the_chosen_environment_has_in_both_levels() {
    let home = tempfile::tempdir().unwrap();
    let venv = fs::canonicalize(home.path()).unwrap().join("venv");
    let Some(python) = make_venv(&venv) else { return };
    for script in ["main.py", "main"] {
        let project = importing_project(script);
        let builder = |level| project.builder().sandbox_mode(SandboxMode::Required).sandbox_level(level);
        let without = builder(SandboxLevel::Namespaces).build().unwrap();
        assert_eq!(kind(&without.run(Invocation::new("x"))), ErrorKind::Script, "{script}");
        for level in [SandboxLevel::Namespaces, SandboxLevel::Landlock] {
            let engine = builder(level).interpreter("python3", &python).build().unwrap();
            let outcome = engine.run(Invocation::new("x"));
            assert!(outcome.sandbox.is_some_and(|report| report.files), "{:?}", outcome.sandbox);
            assert_eq!(value(outcome), json!(["mine", venv]), "{script}");
            let process = engine.explain(&Invocation::new("x")).unwrap().process.unwrap();
            assert_eq!(Path::new(&process.command[0]), python, "explain shows it");
            let reports = engine.diagnosis().interpreters;
            let report = reports.iter().find(|report| report.command == "python3").unwrap();
            assert_eq!(report.path.as_deref(), Some(python.as_path()), "doctor shows it");
        }
    }
}

/// The environment opens no more than itself.
#[test]
fn what_lies_beside_the_chosen_environment_stays_closed() {
    let home = tempfile::tempdir().unwrap();
    let home = fs::canonicalize(home.path()).unwrap();
    let Some(python) = make_venv(&home.join("venv")) else { return };
    write(&home.join("notes"), "secret");
    write(&home.join("venv/notes"), "secret");
    let script = format!(
        "import json\ndef reads(path):\n    try:\n        open(path).read()\n        return True\n    except OSError:\n        \
         return False\nprint(json.dumps([reads({:?}), reads({:?}), reads({:?})]))\n",
        home.join("venv/pyvenv.cfg"),
        home.join("venv/notes"),
        home.join("notes"),
    );
    let project = Project::new().skill("x", "").file(".metier/skills/x/scripts/main.py", script);
    let engine = project.builder().sandbox_mode(SandboxMode::Required).interpreter("python3", python).build();
    assert_eq!(value(engine.unwrap().run(Invocation::new("x"))), json!([true, false, false]));
}

#[test]
fn no_other_program_takes_the_place_of_one_that_is_missing() {
    let project = Project::new().skill("x", "").file(".metier/skills/x/scripts/main.sh", "echo 1\n");
    let engine = project.builder().interpreter("bash", project.path("none/bash")).build().unwrap();
    let outcome = engine.run(Invocation::new("x"));
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    assert!(sentence(&outcome).contains("none/bash, which is not a program"), "{}", sentence(&outcome));
    let reason = engine.availability(engine.registry().find("x").unwrap()).reason.unwrap();
    assert_eq!(reason.kind(), ErrorKind::Unavailable);
    let reports = engine.diagnosis().interpreters;
    assert_eq!(reports.iter().find(|report| report.command == "bash").unwrap().path, None);
}

#[test]
fn a_program_set_for_a_later_command_of_a_language_is_the_only_one() {
    for (command, script) in [("sh", "main.sh"), ("bun", "main.ts"), ("tsx", "main.ts")] {
        let project =
            Project::new().skill("x", "").file(&format!(".metier/skills/x/scripts/{script}"), "echo 1\n");
        let engine = project.builder().interpreter(command, project.path("none/own")).build().unwrap();
        let outcome = engine.run(Invocation::new("x"));
        assert_eq!(kind(&outcome), ErrorKind::Unavailable, "{command}");
        assert!(sentence(&outcome).contains("none/own, which is not a program"), "{}", sentence(&outcome));
    }
}

#[test]
fn a_program_of_the_project_runs_in_a_sandbox_only() {
    let Some(bash) = find_program("bash") else { return not_run("bash", "it is not installed") };
    let project = Project::new().skill("x", "").file(".metier/skills/x/scripts/main.sh", "echo 1\n");
    fs::copy(bash, project.path("bash")).unwrap();
    let engine = project.builder().interpreter("bash", project.path("bash")).build().unwrap();
    let outcome = engine.run(Invocation::new("x").sandbox_mode(SandboxMode::Off));
    assert_eq!(kind(&outcome), ErrorKind::Unavailable);
    assert!(sentence(&outcome).contains("comes from the project"), "{}", sentence(&outcome));
}

#[test]
fn only_a_known_command_gets_a_program_and_only_by_an_absolute_path() {
    let project = Project::new();
    let failure = |builder: EngineBuilder| builder.build().map(drop).unwrap_err();
    let unknown = failure(project.builder().interpreter("python-of-mine", "/usr/bin/python3"));
    assert_eq!(unknown.kind(), ErrorKind::Usage);
    assert!(unknown.help().unwrap().contains("python3"), "{:?}", unknown.help());
    assert_eq!(failure(project.builder().interpreter("python3", "bin/python")).kind(), ErrorKind::Usage);
}

/// The program of this test has no `helper_main`.
#[test]
fn a_run_that_pays_for_a_missing_helper_program_says_so() {
    let script = "metier ctx read_file a.txt && exit 9\necho \"[$?]\"\n";
    let project = Project::lua("return 1").skill("sh", "").file(".metier/skills/sh/scripts/main.sh", script);
    let builder = || project.builder().sandbox_mode(SandboxMode::Required);
    let engine = builder().build().unwrap();
    let outcome = engine.run(Invocation::new("sh"));
    assert_eq!(outcome.warnings, [RunWarning::NoHelperProgram]);
    assert_eq!(serde_json::to_value(&outcome).unwrap()["warnings"], json!(["no-helper-program"]));
    let stderr = outcome.process.as_ref().unwrap().stderr.clone();
    assert!(stderr.contains("helper_main()"), "`metier ctx` says why it does not work: {stderr}");
    assert_eq!(value(outcome), json!([3]));
    assert_eq!(engine.run(Invocation::new("x")).warnings, [], "a script in this process pays nothing");
}

#[cfg(feature = "cli")]
#[test]
fn a_run_with_a_helper_program_has_no_warning() {
    let project = Project::shell("", "echo 1\n");
    let builder = project.builder().sandbox_mode(SandboxMode::Required).helper(env!("CARGO_BIN_EXE_metier"));
    let outcome = builder.build().unwrap().run(Invocation::new("x"));
    assert_eq!(outcome.warnings, []);
    assert_eq!(value(outcome), json!(1));
}
