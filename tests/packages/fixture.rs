//! A project with a skill, a user with a configuration, and the command.

use std::path::PathBuf;
use std::process::Command;

use crate::packages::archives::wheel;
use crate::packages::registry::{Registry, RunningRegistry};
pub use crate::support::cli::{Answer, Project, write};
use crate::support::not_run::{find_program, not_run};

pub const SKILL: &str = ".metier/skills/x";

/// Whether the package manager is installed; a test that needs it and does not find it says so.
pub fn has_manager(name: &str, what: &str) -> bool {
    let is_there = find_program(name).is_some() || installed_programs().join(name).is_file();
    if !is_there {
        not_run(what, &format!("{name} is not installed"));
    }
    is_there
}

/// Where `.ci/run` installs uv.
fn installed_programs() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/target/python-packages/bin"))
}

/// A skill with this script and these other files.
pub fn project(script: &str, text: &str, files: &[(&str, &str)]) -> Project {
    let project = Project::new().skill(SKILL).file(&format!("{SKILL}/scripts/{script}"), text);
    files.iter().fold(project, |project, (path, text)| project.file(&format!("{SKILL}/{path}"), text))
}

/// The command of a user whose configuration names this registry.
pub fn command(project: &Project, registry: Option<&RunningRegistry>, args: &[&str]) -> Command {
    let mut command = project.command(args);
    for (name, _) in std::env::vars() {
        let is_of_manager =
            ["PIP_", "UV_", "npm_config_", "NPM_CONFIG_"].iter().any(|start| name.starts_with(start));
        if is_of_manager || name == "VIRTUAL_ENV" {
            command.env_remove(name);
        }
    }
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:{}", installed_programs().display()));
    if let Some(registry) = registry {
        command.env("UV_DEFAULT_INDEX", registry.python_index());
        command.env("npm_config_registry", registry.npm_registry());
    }
    command
}

pub fn metier(project: &Project, registry: Option<&RunningRegistry>, args: &[&str]) -> Answer {
    command(project, registry, args).output().unwrap().into()
}

/// Prepares the skill; it must succeed.
pub fn prepare(project: &Project, registry: &RunningRegistry) -> Answer {
    let answer = metier(project, Some(registry), &["prepare", "x"]);
    assert_eq!(answer.code, 0, "{answer:?}");
    answer
}

/// Prepares the skill, which must fail with these words.
pub fn assert_refused(project: &Project, registry: &RunningRegistry, words: &str) -> Answer {
    let answer = metier(project, Some(registry), &["prepare", "x"]);
    assert!(answer.code != 0 && answer.stderr.contains(words), "{words}: {answer:?}");
    assert_eq!(entries(project), [""; 0], "{answer:?}");
    answer
}

pub fn store(project: &Project) -> PathBuf {
    project.home().join(".local/share/metier/packages")
}

/// The names of the entries in the store.
pub fn entries(project: &Project) -> Vec<String> {
    let names = std::fs::read_dir(store(project).join("entries")).into_iter().flatten();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Nothing of a preparation is left but entries and requests.
pub fn assert_tidy(project: &Project) {
    let names = std::fs::read_dir(store(project)).into_iter().flatten();
    let mut names: Vec<String> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.retain(|name| name != "lock");
    assert!(names == ["added", "entries", "requests"] || names.is_empty(), "{names:?}");
}

/// A registry with two versions of a package of Python, `alpha`, and one of a package of Node, `beta`.
pub fn alpha_and_beta() -> Registry {
    let wheel = |version, text| wheel("alpha", version, &[], &[("alpha.py", text)]);
    let files = [
        ("package.json", r#"{"name": "beta", "version": "1.0.0", "main": "index.js"}"#),
        ("index.js", "module.exports = {value: 2};\n"),
    ];
    Registry::default()
        .python("alpha", "alpha-1.0-py3-none-any.whl", wheel("1.0", "VALUE = 1\n"))
        .python("alpha", "alpha-2.0-py3-none-any.whl", wheel("2.0", "VALUE = 2\n"))
        .npm("beta", "1.0.0", &files)
}

#[track_caller]
pub fn assert_says(skill: &Project, args: &[&str], expected: &str) {
    let answer = metier(skill, None, &[&["run", "x"], args].concat());
    assert_eq!(answer.stdout.trim(), expected, "{args:?}: {answer:?}");
}
