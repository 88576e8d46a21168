//! What a run for a model finds of the packages of a project that is not trusted as a whole, in every process that its script starts.

use std::path::Path;

use crate::packages::fixture::{Answer, Project, SKILL, command, metier, project, write};
use crate::support::not_run::{find_program, not_run};

/// Says whose package it finds: as CommonJS, and as an ES module.
const REQUIRED: &str = "let whose = 'nobody'; try { whose = require('whose') } catch (error) { if (error.code !== 'MODULE_NOT_FOUND') throw error } console.log(whose)";
const IMPORTED: &str = "import('whose').then((found) => console.log(found.default), (error) => { if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error; console.log('nobody') })";

fn has_node() -> bool {
    let is_there = find_program("node").is_some();
    if !is_there {
        not_run("npm packages of the project", "node is not installed");
    }
    is_there
}

/// A skill with this script and scripts for other processes, which the user trusts, in a project with a package.
fn with_package(script: &str, text: &str) -> Project {
    let files = [("scripts/child.cjs", REQUIRED), ("scripts/child.mjs", IMPORTED)];
    let skill = project(script, text, &files)
        .file("node_modules/whose/index.js", "module.exports = 'project';\n")
        .file("node_modules/whose/tool.js", "console.log(require('whose'));\n");
    assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
    skill
}

/// What the script says in a run of a person, and in one for a model.
#[track_caller]
fn said(skill: &Project, script: &str) -> [String; 2] {
    [&["run", "x", "--script", script][..], &["run", "x", "--for-model", "--script", script]].map(|args| {
        let answer = metier(skill, None, args);
        assert_eq!(answer.code, 0, "{answer:?}");
        answer.stdout.trim().to_owned()
    })
}

#[test]
fn no_process_of_node_finds_an_npm_package_of_the_project() {
    if !has_node() {
        return;
    }
    for line in [
        format!("node -e \"{REQUIRED}\""),
        format!("node -e \"{IMPORTED}\""),
        format!("node --input-type=module -e \"{IMPORTED}\""),
        format!("echo \"{REQUIRED}\" | node"),
        format!("echo \"{IMPORTED}\" | node --input-type=module -"),
        "node \"$METIER_SKILL_DIR/scripts/child.cjs\"".to_owned(),
        "node \"$METIER_SKILL_DIR/scripts/child.mjs\"".to_owned(),
        "cd / && node \"$METIER_SKILL_DIR/scripts/child.cjs\"".to_owned(),
        "sh -c 'sh -c \"node $METIER_SKILL_DIR/scripts/child.mjs\"'".to_owned(),
        "node -r whose -e \"console.log('project')\" 2> /dev/null || echo nobody".to_owned(),
        "node --import whose -e \"console.log('project')\" 2> /dev/null || echo nobody".to_owned(),
    ] {
        assert_eq!(said(&with_package("main.sh", &line), "main.sh"), ["project", "nobody"], "{line}");
    }
    for child in ["child.cjs", "child.mjs"] {
        for options in ["{}", "{execArgv: []}", "{env: process.env}", "{env: {...process.env, MORE: '1'}}"] {
            let thread = format!(
                "const {{Worker}} = require('worker_threads'); new Worker(require.resolve('./{child}'), {options});"
            );
            assert_eq!(
                said(&with_package("main.cjs", &thread), "main.cjs"),
                ["project", "nobody"],
                "{thread}"
            );
        }
        let fork =
            format!("require('child_process').fork(require.resolve('./{child}'), [], {{execArgv: []}});");
        assert_eq!(said(&with_package("main.cjs", &fork), "main.cjs"), ["project", "nobody"], "{fork}");
    }
    for text in [REQUIRED, IMPORTED] {
        let thread =
            format!("const {{Worker}} = require('worker_threads'); new Worker({text:?}, {{eval: true}});");
        assert_eq!(said(&with_package("main.cjs", &thread), "main.cjs"), ["project", "nobody"], "{thread}");
    }
}

#[test]
fn a_skill_of_the_user_finds_none_either() {
    if !has_node() {
        return;
    }
    let project = with_package("main.sh", "");
    let folder = project.home().join(".local/share/metier/skills/mine");
    write(&folder.join("SKILL.md"), "---\nname: mine\ndescription: d\n---\n");
    write(&folder.join("scripts/main.sh"), format!("node -e \"{REQUIRED}\"\n"));
    let answer = |args: &[&str]| metier(&project, None, args).stdout.trim().to_owned();
    assert_eq!(answer(&["run", "mine"]), "project");
    assert_eq!(answer(&["run", "mine", "--for-model"]), "nobody");
}

#[test]
fn what_a_script_names_by_its_path_runs_with_its_own_packages() {
    if !has_node() {
        return;
    }
    for line in [
        "node node_modules/whose/tool.js",
        "node -e \"console.log(require('./node_modules/whose'))\"",
        "ls node_modules | grep -q whose && echo project",
        // A script that takes the setting of its run away from a process that it starts, or the environment from a thread.
        "NODE_OPTIONS= node \"$METIER_SKILL_DIR/scripts/child.cjs\"",
    ] {
        assert_eq!(said(&with_package("main.sh", line), "main.sh"), ["project"; 2], "{line}");
    }
}

#[test]
fn a_package_above_the_project_and_those_of_the_skill_are_found() {
    if !has_node() {
        return;
    }
    for (script, text) in [("main.cjs", REQUIRED), ("main.mjs", IMPORTED)] {
        let skill = with_package(script, text);
        let above = skill.root().parent().unwrap().join("node_modules/whose/index.js");
        write(&above, "module.exports = 'above';\n");
        // What lies above the project cannot be read in the sandbox, and without one it is found.
        let unsandboxed = ["run", "x", "--for-model", "--sandbox", "off", "--allow", "exec:unsandboxed"];
        let answer = metier(&skill, None, &unsandboxed);
        assert_eq!(answer.stdout.trim(), "above", "{answer:?}");
        write(&skill.path(&format!("{SKILL}/node_modules/whose/index.js")), "module.exports = 'skill';\n");
        assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
        assert_eq!(said(&skill, script), ["skill"; 2]);
    }
}

/// A version before 18.19, which has no hooks for ES modules, behaves as this one without them.
#[test]
fn a_node_without_hooks_runs_commonjs_alone() {
    if !has_node() {
        return;
    }
    let skill = with_package("main.cjs", REQUIRED);
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("runtimes/external/src/host_api/register.cjs");
    let old = "const Module = require('module'); Module.register = Module.registerHooks = undefined;";
    write(&skill.path("old.cjs"), old);
    let (root, folder) = (skill.root().canonicalize().unwrap(), skill.path(SKILL).canonicalize().unwrap());
    let boundary = serde_json::json!({"skill": folder, "projects": [root]});
    let run = |arguments: &[&str]| -> Answer {
        let mut node = std::process::Command::new("node");
        node.arg("--require").arg(skill.path("old.cjs")).arg("--require").arg(&clients).args(arguments);
        node.env("METIER_NODE_BOUNDARY", boundary.to_string()).current_dir(&root);
        node.output().unwrap().into()
    };
    let script = |name: &str| format!("{}/scripts/{name}", folder.display());
    for arguments in [&[script("child.cjs").as_str()][..], &["-e", REQUIRED]] {
        assert_eq!(run(arguments).stdout.trim(), "nobody", "{arguments:?}");
    }
    write(&folder.join("scripts/dynamic.cjs"), IMPORTED);
    for arguments in
        [&[script("child.mjs").as_str()][..], &[&script("dynamic.cjs")], &["-e", IMPORTED], &["-"]]
    {
        let answer = run(arguments);
        let is_refused = answer.stderr.contains("runs no ES module and no thread of a skill");
        assert!(answer.code != 0 && is_refused && answer.stdout.is_empty(), "{arguments:?}: {answer:?}");
    }
}

#[test]
fn a_python_that_a_script_starts_has_no_environment_of_the_project() {
    let skill =
        project("main.sh", "python3 -c 'import whose' 2> /dev/null && echo project || echo nobody\n", &[]);
    if !crate::packages::environments::environment(&skill.path(".venv"), "project") {
        return;
    }
    assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
    let path = format!("{}:{}", skill.path(".venv/bin").display(), std::env::var("PATH").unwrap());
    let said = |args: &[&str]| {
        let mut run = command(&skill, None, args);
        let run = run.env("PATH", &path).env("VIRTUAL_ENV", skill.path(".venv"));
        let answer: Answer = run.output().unwrap().into();
        answer.stdout.trim().to_owned()
    };
    assert_eq!(said(&["run", "x"]), "project");
    assert_eq!(said(&["run", "x", "--for-model"]), "nobody");
}

#[test]
fn a_package_json_of_the_skill_decides_about_the_kind_of_its_modules() {
    if !has_node() {
        return;
    }
    let skill = project("main.js", "console.log(typeof require);\n", &[("package.json", "{}")])
        .file("package.json", r#"{"type": "module"}"#);
    assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
    assert_eq!(said(&skill, "main.js"), ["function"; 2]);
}
