//! Virtual environments that are there: that of the skill, that of the project, and then the interpreter on `PATH`.

use std::path::Path;
use std::process::Command;

use crate::archives::wheel;
use crate::fixture::{SKILL, has_manager, metier, prepare, project};
use crate::registry::Registry;

/// Makes a virtual environment with a module that says whose it is; false where this machine cannot.
fn environment(folder: &Path, whose: &str) -> bool {
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(folder).output();
    if !made.is_ok_and(|made| made.status.success()) {
        crate::not_run::not_run("virtual environments", "python3 cannot make one");
        return false;
    }
    let lib = std::fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(lib.join("site-packages/whose.py"), format!("NAME = '{whose}'\n")).unwrap();
    true
}

#[test]
fn the_environment_of_the_skill_comes_before_that_of_the_project() {
    let script = "try:\n    from whose import NAME\nexcept ImportError:\n    NAME = 'nobody'\nprint(NAME)\n";
    let skill = project("main.py", script, &[]);
    let said = || metier(&skill, None, &["run", "x"]).stdout.trim().to_owned();
    assert_eq!(said(), "nobody");
    if !environment(&skill.path(".venv"), "project") {
        return;
    }
    assert_eq!(said(), "project");
    environment(&skill.path(&format!("{SKILL}/.venv")), "skill");
    assert_eq!(said(), "skill");
    // A folder of that name that is no environment is none.
    std::fs::remove_file(skill.path(&format!("{SKILL}/.venv/pyvenv.cfg"))).unwrap();
    assert_eq!(said(), "project");
}

#[test]
fn prepared_packages_come_before_every_environment() {
    if !has_manager("uv", "packages beside an environment") {
        return;
    }
    let registry = Registry::default()
        .python(
            "whose",
            "whose-1.0-py3-none-any.whl",
            wheel("whose", "1.0", &[], &[("whose.py", "NAME = 'prepared'\n")]),
        )
        .start();
    let skill =
        project("main.py", "from whose import NAME\nprint(NAME)\n", &[("requirements.txt", "whose\n")]);
    if !environment(&skill.path(".venv"), "project") {
        return;
    }
    prepare(&skill, &registry);
    let answer = metier(&skill, None, &["run", "x"]);
    assert_eq!(answer.stdout.trim(), "prepared", "{answer:?}");
}
