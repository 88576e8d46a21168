//! Packages that a person adds to a skill whose files stay as they are.

use std::fs;

use crate::packages::archives::wheel;
use crate::packages::fixture::{
    Project, SKILL, alpha_and_beta, assert_says, entries, has_manager, metier, project, store,
};
use crate::packages::registry::RunningRegistry;

fn registry() -> RunningRegistry {
    let gamma = wheel("gamma", "1.0", &[], &[("gamma.py", "VALUE = 3\n")]);
    alpha_and_beta().python("gamma", "gamma-1.0-py3-none-any.whl", gamma).start()
}

fn has_managers() -> bool {
    has_manager("uv", "packages that are added") && has_manager("npm", "packages that are added")
}

#[track_caller]
fn add(skill: &Project, registry: &RunningRegistry, packages: &[&str]) {
    let with = packages.iter().flat_map(|package| ["--with", package]);
    let args: Vec<&str> = ["prepare", "x"].into_iter().chain(with).collect();
    let answer = metier(skill, Some(registry), &args);
    assert!(answer.code == 0 && answer.stdout.contains("what is added"), "{answer:?}");
}

#[test]
fn a_package_is_added_to_a_skill_that_stays_trusted() {
    if !has_managers() {
        return;
    }
    let registry = registry();
    let skill = project("main.py", "import alpha, gamma\nprint(alpha.VALUE, gamma.VALUE)\n", &[]);
    assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
    let before = (skill.tree(), fs::read(skill.path(&format!("{SKILL}/SKILL.md"))).unwrap());
    add(&skill, &registry, &["alpha==1.0"]);
    let missing = metier(&skill, None, &["run", "x"]);
    assert!(missing.stderr.contains("gamma"), "{missing:?}");
    add(&skill, &registry, &["gamma"]);
    let asked = registry.asked().len();
    for sandbox in ["--sandbox=required", "--sandbox=off"] {
        assert_says(&skill, &[sandbox], "1 3");
    }
    assert_says(&skill, &["--for-model"], "1 3");
    assert_eq!(registry.asked().len(), asked, "a run asks no registry");
    add(&skill, &registry, &["alpha==2.0"]);
    assert_says(&skill, &["--for-model"], "2 3");
    let after = (skill.tree(), fs::read(skill.path(&format!("{SKILL}/SKILL.md"))).unwrap());
    assert_eq!(before, after, "nothing is written into the project");
}

#[test]
fn what_is_added_counts_for_these_files_of_this_skill() {
    if !has_managers() {
        return;
    }
    let registry = registry();
    let text = "import alpha\nprint(alpha.VALUE)\n";
    let skill = project("main.py", text, &[]);
    add(&skill, &registry, &["alpha"]);
    assert_says(&skill, &[], "2");
    let other = skill
        .skill(".metier/skills/y")
        .file(".metier/skills/y/scripts/main.py", format!("# another skill\n{text}"));
    assert_ne!(metier(&other, None, &["run", "y"]).code, 0);
    let changed = other.file(&format!("{SKILL}/scripts/main.py"), format!("# changed\n{text}"));
    assert_ne!(metier(&changed, None, &["run", "x"]).code, 0);
    let back = changed.file(&format!("{SKILL}/scripts/main.py"), text);
    assert_says(&back, &[], "2");
    assert_eq!(metier(&back, None, &["prepare", "--prune", "--all"]).code, 0);
    assert_eq!(entries(&back), [""; 0]);
    let nothing = metier(&back, Some(&registry), &["prepare", "x"]);
    assert!(nothing.code == 0 && nothing.stdout.is_empty(), "{nothing:?}");
}

#[test]
fn both_languages_and_shell_scripts_find_what_is_added() {
    if !has_managers() {
        return;
    }
    let text =
        "node -e \"console.log(require('beta').value)\" && python3 -c 'import alpha; print(alpha.VALUE)'\n";
    let skill = project("main.sh", text, &[]);
    add(&skill, &registry(), &["beta@^1.0.0", "alpha"]);
    assert_says(&skill, &[], "2\n2");
    let module = project("main.mjs", "import beta from 'beta';\nconsole.log(beta.value);\n", &[]);
    let missing = metier(&module, None, &["run", "x"]);
    assert!(missing.stderr.contains("(`metier prepare x --with beta@latest`)"), "{missing:?}");
    add(&module, &registry(), &["beta"]);
    assert_says(&module, &[], "2");
}

#[test]
fn what_cannot_be_prepared_is_not_added() {
    if !has_managers() {
        return;
    }
    let registry = registry();
    let skill = project("main.py", "print('runs')\n", &[]);
    for package in
        ["nowhere==1.0", "alpha==9.9", "alpha @ https://evil/x.whl", "--index-url=http://evil", "x@file:.."]
    {
        let answer = metier(&skill, Some(&registry), &["prepare", "x", &format!("--with={package}")]);
        assert_ne!(answer.code, 0, "{package}: {answer:?}");
        let added = fs::read_dir(store(&skill).join("added")).map_or(0, Iterator::count);
        assert_eq!((added, entries(&skill)), (0, Vec::new()), "{package}: {answer:?}");
    }
    assert_says(&skill, &[], "runs");
}
