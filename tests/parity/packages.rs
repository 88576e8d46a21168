//! Packages that lie in the skill: a virtual environment, and `node_modules`.

use std::process::Command;

use crate::parity::work::Work;
use crate::support::cli::{Project, write};
use crate::support::not_run::not_run;

/// Where the virtual environment of the skill lies.
const ENVIRONMENT: &str = ".metier/skills/x/.venv";

/// The files of a package: a module, one below it with data, and what is known of it.
const PACKAGE: [(&str, &str); 5] = [
    ("greet/__init__.py", "from .words import WORD\ndef greet(name): return f'{WORD}, {name}'\n"),
    (
        "greet/words/__init__.py",
        "from importlib.resources import files\nWORD = files(__name__).joinpath('word.txt').read_text().strip()\n",
    ),
    ("greet/words/word.txt", "Hello\n"),
    ("greet-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: greet\nVersion: 1.2\n"),
    ("greet-1.2.dist-info/top_level.txt", "greet\n"),
];

/// A virtual environment with the package; without one where this machine cannot make it.
fn make_environment(project: &Project) {
    let folder = project.path(ENVIRONMENT);
    let output = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(&folder).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let lib = std::fs::read_dir(folder.join("lib")).unwrap().next().unwrap().unwrap().path();
    for (path, text) in PACKAGE {
        write(&lib.join("site-packages").join(path), text);
    }
}

/// Whether this machine can make virtual environments.
fn has_environments(what: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(folder.path()).output();
    let is_made = made.is_ok_and(|made| made.status.success());
    if !is_made {
        not_run(what, "python3 cannot make a virtual environment");
    }
    is_made
}

#[test]
fn packages_of_the_virtual_environment_of_a_skill_are_found() {
    if !has_environments("packages of a virtual environment") {
        return;
    }
    Work {
        what: "packages of a virtual environment",
        python: "import greet, greet.words, importlib.metadata, sys
print(greet.greet('you'), importlib.metadata.version('greet'), greet.__file__)
print(sys.prefix != sys.base_prefix, sys.prefix)",
        shell: "cd \"$(dirname \"$0\")/..\"; .venv/bin/python3 -c 'import greet; print(greet.greet(\"you\"))'
            .venv/bin/python3 -m greet; echo \"code $?\"",
        setup: Some(make_environment),
        interpreter: ".venv/bin/python3",
        ..Work::default()
    }
    .is_the_same();
}

#[test]
fn a_package_that_is_missing_ends_the_script_as_it_does_outside() {
    if !has_environments("a missing package") {
        return;
    }
    Work {
        what: "a missing package",
        python: "try: import absent\nexcept ModuleNotFoundError as error: print(error.name)\nimport greet.absent",
        node: "try { require('absent') } catch (error) { console.log(error.code) }
try { require('greet/absent') } catch (error) { console.log(error.code); process.exit(4) }",
        setup: Some(make_environment),
        interpreter: ".venv/bin/python3",
        skill: &MODULES,
        ..Work::default()
    }
    .is_the_same();
}

/// Packages of npm: of `CommonJS` with data, of ES modules behind `exports`, and below a scope.
const MODULES: [(&str, &str); 8] = [
    ("node_modules/greet/package.json", r#"{"name": "greet", "version": "1.2.0", "main": "lib/main.js"}"#),
    (
        "node_modules/greet/lib/main.js",
        "const {word} = require('@scope/words'); exports.greet = name => `${word}, ${name}`\n",
    ),
    ("node_modules/@scope/words/package.json", r#"{"name": "@scope/words", "main": "words.js"}"#),
    ("node_modules/@scope/words/words.js", "exports.word = require('./words.json').word\n"),
    ("node_modules/@scope/words/words.json", r#"{"word": "Hello"}"#),
    (
        "node_modules/pure/package.json",
        r#"{"name": "pure", "type": "module", "exports": {".": "./a.js", "./b": "./b.js"}}"#,
    ),
    ("node_modules/pure/a.js", "export const a = 1; export default import.meta.url.split('/').pop()\n"),
    ("node_modules/pure/b.js", "import greet from 'greet'; export const b = greet.greet('b')\n"),
];

#[test]
fn packages_in_the_node_modules_of_a_skill_are_found() {
    Work {
        what: "packages in node_modules",
        shell: "cd \"$(dirname \"$0\")\"; node -p \"require('greet').greet('you')\" 2>&1 || echo 'no node'",
        node: "const {greet} = require('greet'); console.log(greet('you'), require('greet/package.json').version, require.resolve('greet'))
Promise.all([import('pure'), import('pure/b')]).then(([pure, {b}]) => console.log(pure.a, pure.default, b))
try { require('pure/c') } catch (error) { console.log(error.code) }",
        skill: &MODULES,
        ..Work::default()
    }
    .is_the_same();
}
