//! Packages of npm: prepared without their scripts, and then found by both kinds of modules.

use serde_json::json;

use crate::packages::archives::{integrity, npm_archive};
use crate::packages::fixture::{
    SKILL, assert_refused, entries, has_manager, metier, prepare, project, store,
};
use crate::packages::registry::{Registry, RunningRegistry};

const FILES: [(&str, &str); 2] = [
    (
        "package.json",
        r#"{"name": "alpha", "version": "1.0.0", "main": "index.js", "scripts": {"install": "touch mark", "preinstall": "touch mark", "postinstall": "touch mark", "prepare": "touch mark"}}"#,
    ),
    ("index.js", "module.exports = {value: 1};\n"),
];

fn registry() -> RunningRegistry {
    Registry::default().npm("alpha", "1.0.0", &FILES).start()
}

fn package() -> String {
    json!({"name": "x", "scripts": {"preinstall": "touch mark"}, "dependencies": {"alpha": "^1.0.0"}})
        .to_string()
}

fn lock(registry: &RunningRegistry, digest: &str, version: &str) -> String {
    let resolved = format!("{}alpha/-/alpha-1.0.0.tgz", registry.npm_registry());
    json!({
        "name": "x",
        "lockfileVersion": 3,
        "requires": true,
        "packages": {
            "": {"name": "x", "dependencies": {"alpha": "^1.0.0"}},
            "node_modules/alpha": {"version": version, "resolved": resolved, "integrity": digest, "hasInstallScript": true},
        },
    })
    .to_string()
}

fn has_mark(project: &crate::packages::fixture::Project) -> bool {
    let in_store = walkdir::WalkDir::new(store(project)).into_iter().flatten();
    project.tree().iter().any(|path| path.ends_with("mark"))
        || in_store.into_iter().any(|entry| entry.file_name() == "mark")
}

#[test]
fn a_skill_with_a_lock_is_prepared_without_the_scripts_of_its_packages() {
    if !has_manager("npm", "a skill of npm with a lock") {
        return;
    }
    let registry = registry();
    let digest = integrity(&npm_archive(&FILES));
    let script = "console.log(require('alpha').value);\n";
    let files = [("package.json", &*package()), ("package-lock.json", &lock(&registry, &digest, "1.0.0"))];
    let skill = project("main.js", script, &files);
    let before = metier(&skill, None, &["run", "x"]);
    assert!(before.code != 0 && before.stderr.contains("metier prepare x"), "{before:?}");
    let answer = prepare(&skill, &registry);
    assert!(answer.stdout.contains("  alpha@1.0.0"), "{answer:?}");
    assert!(!has_mark(&skill));
    let asked = registry.asked().len();
    for sandbox in ["--sandbox=off", "--sandbox=required"] {
        let answer = metier(&skill, None, &["run", "x", sandbox]);
        assert_eq!(answer.stdout.trim(), "1", "{answer:?}");
    }
    assert_eq!(registry.asked().len(), asked);
    assert_eq!(metier(&skill, None, &["run", "x"]).code, 0);
}

#[test]
fn a_skill_without_a_lock_gets_one_and_es_modules_find_its_packages() {
    if !has_manager("npm", "a skill of npm without a lock") {
        return;
    }
    let registry = registry();
    let script = "import alpha from 'alpha';\nconsole.log(alpha.value);\n";
    let skill = project("main.mjs", script, &[("package.json", &package())]);
    prepare(&skill, &registry);
    assert!(!has_mark(&skill));
    let answer = metier(&skill, None, &["run", "x"]);
    assert_eq!(answer.stdout.trim(), "1", "{answer:?}");
    assert!(!skill.path(&format!("{SKILL}/package-lock.json")).exists(), "nothing is written into the skill");
}

#[test]
fn a_lock_that_does_not_match_and_a_package_with_another_digest_are_refused() {
    if !has_manager("npm", "a wrong lock of npm") {
        return;
    }
    let registry = registry();
    let wrong = integrity(b"another file");
    let files = [("package.json", &*package()), ("package-lock.json", &lock(&registry, &wrong, "1.0.0"))];
    assert_refused(&project("main.js", "", &files), &registry, "do not use it before you know why");
    let digest = integrity(&npm_archive(&FILES));
    let files = [("package.json", &*package()), ("package-lock.json", &lock(&registry, &digest, "0.9.0"))];
    assert_refused(&project("main.js", "", &files), &registry, "does not match package.json");
    let git = lock(&registry, &digest, "1.0.0").replace("http://", "git+ssh://git@");
    let files = [("package.json", &*package()), ("package-lock.json", &git)];
    assert_refused(&project("main.js", "", &files), &registry, "is not an archive of a registry");
}

#[test]
fn places_are_refused_by_name_and_line() {
    let registry = registry();
    let text = "{\n\"dependencies\": {\n\"evil\": \"github:evil/evil\"\n}\n}";
    assert_refused(
        &project("main.js", "", &[("package.json", text)]),
        &registry,
        "package.json, line 3: evil is github:evil/evil",
    );
    let skill = project("main.js", "require('left-pad')\n", &[]);
    let answer = metier(&skill, None, &["run", "x"]);
    let help = "needs the npm package left-pad; if it should have it, add the line \"left-pad\": \"*\" to the dependencies of package.json";
    assert!(answer.stderr.contains(help), "{answer:?}");
    assert_eq!(entries(&skill), [""; 0]);
}
