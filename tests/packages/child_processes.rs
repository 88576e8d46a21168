//! What the processes that a script starts find of the packages that were prepared for its skill.

use std::fs;

use crate::packages::fixture::{
    alpha_and_beta, assert_says, entries, has_manager, metier, prepare, project, store,
};
use crate::packages::registry::RunningRegistry;

/// What a script says that runs the others of its skill: in Python, as CommonJS, and as an ES module.
const FILES: [(&str, &str); 4] = [
    (
        "scripts/child.py",
        "# /// script\n# dependencies = [\"alpha==1.0\"]\n# ///\nimport alpha\nprint('python', alpha.VALUE)\n",
    ),
    ("scripts/child.cjs", "console.log('cjs', require('beta').value);\n"),
    ("scripts/child.mjs", "import beta from 'beta';\nconsole.log('mjs', beta.value);\n"),
    ("package.json", r#"{"name": "x", "dependencies": {"beta": "1.0.0"}}"#),
];

const SHELL: &str =
    "cd \"$METIER_SKILL_DIR/scripts\" && python3 child.py && node child.cjs && node child.mjs\n";

const ALL: &str = "python 1\ncjs 2\nmjs 2";

fn registry() -> RunningRegistry {
    alpha_and_beta().start()
}

fn has_managers() -> bool {
    has_manager("uv", "packages of child processes") && has_manager("npm", "packages of child processes")
}

#[test]
fn processes_of_other_languages_find_the_packages_of_their_skill() {
    if !has_managers() {
        return;
    }
    let registry = registry();
    let python = format!("import subprocess\nsubprocess.run(['sh', '-c', {SHELL:?}], check=True)\n");
    let node = format!("require('child_process').execSync({SHELL:?}, {{stdio: 'inherit'}});\n");
    for (name, text) in [("main.sh", SHELL), ("main.py", &python), ("main.cjs", &node)] {
        let skill = project(name, text, &FILES);
        let before = metier(&skill, None, &["run", "x", "--script", name]);
        assert!(before.code != 0 && before.stdout.is_empty(), "{before:?}");
        let help = "scripts/child.py names it; prepare the packages of the skill (`metier prepare x`)";
        assert!(name != "main.sh" || before.stderr.contains(help), "{before:?}");
        prepare(&skill, &registry);
        for sandbox in ["--sandbox=required", "--sandbox=off"] {
            assert_says(&skill, &["--script", name, sandbox], ALL);
        }
        assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
        assert_says(&skill, &["--script", name, "--for-model"], ALL);
    }
}

#[test]
fn a_script_finds_its_own_packages_before_those_of_the_others() {
    if !has_managers() {
        return;
    }
    let own = "# /// script\n# dependencies = [\"alpha==2.0\"]\n# ///\nimport alpha\nprint(alpha.VALUE)\n";
    let skill = project("main.py", own, &FILES);
    prepare(&skill, &registry());
    assert_says(&skill, &["--script", "main.py"], "2");
    assert_says(&skill, &["--script", "child.py"], "python 1");
}

#[test]
fn packages_of_a_process_that_somebody_changed_end_the_run() {
    if !has_managers() {
        return;
    }
    let skill = project("main.sh", SHELL, &FILES);
    prepare(&skill, &registry());
    for entry in entries(&skill) {
        let module = store(&skill).join("entries").join(entry).join("files/alpha.py");
        if module.exists() {
            fs::write(module, "VALUE = 'evil'\n").unwrap();
        }
    }
    let answer = metier(&skill, None, &["run", "x", "--script", "main.sh"]);
    assert!(answer.stdout.is_empty() && answer.stderr.contains("were changed"), "{answer:?}");
}

#[test]
fn no_process_finds_or_changes_the_packages_of_another_skill() {
    if !has_managers() {
        return;
    }
    let skill = project("main.sh", SHELL, &FILES);
    prepare(&skill, &registry());
    let folder = store(&skill).join("entries");
    let text = format!(
        "python3 -c 'import alpha' 2> /dev/null || echo nothing\nls {} 2> /dev/null || echo closed\n",
        folder.display()
    );
    let other = skill.skill(".metier/skills/y").file(".metier/skills/y/scripts/main.sh", &text);
    let answer = metier(&other, None, &["run", "y"]);
    assert_eq!(answer.stdout.trim(), "nothing\nclosed", "{answer:?}");
    let text = format!(
        "{SHELL}python3 -c \"import alpha; open(alpha.__file__, 'w')\" || rm -r {}/*/files/*",
        folder.display()
    );
    let own = other.file(".metier/skills/x/scripts/main.sh", &text);
    let answer = metier(&own, None, &["run", "x", "--script", "main.sh", "--allow", "write"]);
    assert!(answer.code != 0 && answer.stdout.starts_with(ALL), "{answer:?}");
    assert!(answer.stderr.contains("Error") && answer.stderr.contains("alpha.py"), "{answer:?}");
    assert_says(&own, &["--script", "child.py"], "python 1");
}
