//! Real scripts run in a cage as they do outside: their interpreters, the programs they call, the files they make.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::case::TIERS;
use crate::not_run::{found, not_run};
use crate::ordinary;
use crate::stage::{self, Stage};

const PYTHON: &str = include_str!("honest/python.py");
const NODE: &str = include_str!("honest/node.cjs");
const SHELL: &str = include_str!("honest/shell.bash");
const GIT: &str = include_str!("honest/git.bash");

#[test]
fn scripts_find_what_they_need() {
    for (tier, _) in [TIERS[0], TIERS[1]] {
        stage::set_tier(tier);
        find_what_they_need();
    }
}

fn find_what_they_need() {
    for (command, stage, said) in [
        ("python3", Stage::python(PYTHON), "11 checks\n"),
        ("node", Stage::node(NODE), "11 checks\n"),
        ("bash", Stage::bash(SHELL), "34 checks\n"),
        (
            "git",
            Stage::bash(GIT).grant("write"),
            "2\n 2 files changed, 2 insertions(+), 1 deletion(-)\nsrc/two\n",
        ),
    ] {
        if found(command).is_none() {
            not_run("scripts find what they need", &format!("{command} is not installed"));
            continue;
        }
        stage.deadline(120_000).run().says(said);
    }
}

#[test]
fn scripts_of_an_ordinary_user_find_what_they_need() {
    ordinary::run("interpreters::scripts_find_what_they_need");
}

/// The system's own, where another comes first on `PATH`.
#[test]
fn the_python_of_the_system_finds_what_it_needs() {
    if !Path::new("/usr/bin/python3").exists() {
        return not_run("the system's Python", "there is no /usr/bin/python3");
    }
    let stage = Stage::bash("exec /usr/bin/python3 checks.py").file("project/checks.py", PYTHON);
    stage.deadline(120_000).run().says("11 checks\n");
}

/// An environment in the project leads to an interpreter outside of it.
#[test]
fn an_environment_in_the_project_runs() {
    let Some(python) = found("python3") else { return not_run("an environment", "python3 is not installed") };
    let stage = Stage::bash(
        ".venv/bin/python -c 'import sys, json, sqlite3, ssl; print(sys.prefix != sys.base_prefix)'
        . .venv/bin/activate && python -c 'import sys; print(sys.prefix)'",
    );
    let made = Command::new(python)
        .args(["-m", "venv", "--without-pip"])
        .arg(stage.at("project/.venv"))
        .current_dir(stage.at("project"))
        .output()
        .unwrap();
    if !made.status.success() {
        return not_run("an environment", &String::from_utf8_lossy(&made.stderr));
    }
    stage.run().says(&format!("True\n{}\n", stage.name("project/.venv")));
}

/// Shells call other interpreters, wherever the user's are.
#[test]
fn a_shell_script_calls_the_interpreters_of_the_user() {
    for command in ["python3", "node"] {
        let Some(path) = found(command) else {
            not_run("a shell script that calls an interpreter", &format!("{command} is not installed"));
            continue;
        };
        let version = Command::new(&path).arg("--version").output().unwrap();
        Stage::bash(&format!("{command} --version")).run().says(&String::from_utf8_lossy(&version.stdout));
    }
}

/// What lies beside a link to an interpreter in `~/.local/bin` is not the interpreter's.
#[test]
fn a_link_to_an_interpreter_does_not_open_what_lies_around_it() {
    const HOME: &str = "METIER_CAGE_HOME";
    if let Some(home) = std::env::var_os(HOME) {
        let keys = Path::new(&home).join(".local/share/keyrings/login");
        let own = Path::new(&home).join("other/lib/own");
        let stage = Stage::bash("python3; for file; do cat \"$file\" 2>/dev/null || echo refused; done");
        let (keys, own) = (keys.to_str().unwrap(), own.to_str().unwrap());
        stage.args(&[keys, own]).run().says("ran\nrefused\nown\n");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let here = |path: &str| home.path().join(path);
    for folder in [".local/bin", ".local/share/keyrings", "other/bin", "other/lib"] {
        std::fs::create_dir_all(here(folder)).unwrap();
    }
    std::fs::write(here(".local/share/keyrings/login"), "keys\n").unwrap();
    std::fs::write(here("other/lib/own"), "own\n").unwrap();
    std::fs::write(here("other/bin/python3"), "#!/bin/sh\necho ran\n").unwrap();
    std::fs::set_permissions(here("other/bin/python3"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(here("other/bin/python3"), here(".local/bin/python3")).unwrap();
    let path = format!("{}:/usr/bin:/bin", here(".local/bin").display());
    let ended = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "interpreters::a_link_to_an_interpreter_does_not_open_what_lies_around_it",
            "--nocapture",
        ])
        .env(HOME, home.path())
        .env("HOME", home.path())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}
