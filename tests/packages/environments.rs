//! Packages that are there already: of the virtual environment of the skill, of that of the project, of the user, and of the
//! interpreter on `PATH`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::archives::wheel;
use crate::packages::fixture::{
    Answer, Project, SKILL, command, has_manager, metier, prepare, project, write,
};
use crate::packages::registry::Registry;

/// Makes a virtual environment with a module that says whose it is; false where this machine cannot.
pub fn environment(folder: &Path, whose: &str) -> bool {
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(folder).output();
    if !made.is_ok_and(|made| made.status.success()) {
        crate::support::not_run::not_run("virtual environments", "python3 cannot make one");
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
    // A folder of that name that is not an environment is none.
    std::fs::remove_file(skill.path(&format!("{SKILL}/.venv/pyvenv.cfg"))).unwrap();
    assert_eq!(said(), "project");
}

/// What a script with the permission to write can put into a project.
#[test]
fn a_run_for_a_model_takes_no_interpreter_and_no_python_package_of_the_project() {
    let script = "try:\n    from whose import NAME\nexcept ImportError:\n    NAME = 'nobody'\nprint(NAME)\n";
    let skill = project("main.py", script, &[]);
    if !environment(&skill.path(".venv"), "project") {
        return;
    }
    assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
    let path = format!("{}:{}", skill.path(".venv/bin").display(), std::env::var("PATH").unwrap());
    let said = |args: &[&str]| {
        [None, Some(path.as_str())].map(|path| {
            let mut run = command(&skill, None, args);
            let answer: Answer = run.envs(path.map(|path| ("PATH", path))).output().unwrap().into();
            assert_eq!(answer.code, 0, "{answer:?}");
            answer.stdout.trim().to_owned()
        })
    };
    assert_eq!(said(&["run", "x"]), ["project"; 2]);
    assert_eq!(said(&["run", "x", "--for-model"]), ["nobody"; 2]);
    // Who trusts the whole project trusts that as well.
    assert_eq!(said(&["run", "x", "--for-model", "--trust"]), ["project"; 2]);
    assert_eq!(metier(&skill, None, &["trust", "--folder", "--yes"]).code, 0);
    assert_eq!(said(&["run", "x", "--for-model"]), ["project"; 2]);
}

#[test]
fn a_shell_script_in_a_run_for_a_model_finds_no_command_of_the_project_on_path() {
    let skill = project("main.sh", "whose 2>/dev/null || echo nobody\n", &[]);
    let program = skill.path("bin/whose");
    write(&program, "#!/bin/sh\necho project\n");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
    let path = format!("{}:{}", skill.path("bin").display(), std::env::var("PATH").unwrap());
    let said = |args: &[&str]| {
        let answer: Answer = command(&skill, None, args).env("PATH", &path).output().unwrap().into();
        answer.stdout.trim().to_owned()
    };
    assert_eq!(said(&["run", "x"]), "project");
    assert_eq!(said(&["run", "x", "--for-model"]), "nobody");
}

#[test]
fn a_script_that_misses_a_package_of_the_project_is_told_why() {
    let skill = project("main.py", "import whose\n", &[]);
    if !environment(&skill.path(".venv"), "project") {
        return;
    }
    assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
    let answer = metier(&skill, None, &["run", "x", "--for-model"]);
    assert!(answer.code != 0 && answer.stderr.contains("no packages come from a .venv"), "{answer:?}");
}

#[test]
fn no_run_takes_a_module_of_the_standard_library_from_the_project() {
    let files = [("scripts/__init__.py", ""), ("scripts/util.py", "NAME = 'own'\n")];
    let skill = project("main.py", "from scripts.util import NAME\nprint(NAME)\n", &files);
    for module in ["runpy", "os", "sys", "json", "pkgutil", "importlib"] {
        write(&skill.path(&format!("{module}.py")), "print('planted')\n");
    }
    assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
    for args in [&["run", "x"][..], &["run", "x", "--for-model"]] {
        let answer = metier(&skill, None, args);
        assert_eq!(answer.stdout, "own\n", "{answer:?}");
    }
}

#[test]
fn a_run_for_a_model_takes_no_npm_package_of_the_project() {
    if crate::support::not_run::find_program("node").is_none() {
        return crate::support::not_run::not_run("npm packages of the project", "node is not installed");
    }
    let required = "let whose = 'nobody';\ntry { whose = require('whose'); } catch (error) { if (error.code !== 'MODULE_NOT_FOUND') throw error; }\nconsole.log(whose);\n";
    let imported = "let whose = 'nobody';\ntry { whose = (await import('whose')).default; } catch (error) { if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error; }\nconsole.log(whose);\n";
    for (script, text) in [
        ("main.cjs", required.to_owned()),
        ("main.mjs", imported.to_owned()),
        ("main.cjs", required.replace("'whose')", "'#whose')")),
        ("main.mjs", imported.replace("'whose')", "'#whose')")),
    ] {
        let is_mapped = text.contains('#');
        for place in ["", ".metier/", ".metier/skills/", "itself"] {
            let skill = project(script, &text, &[]);
            if place == "itself" || is_mapped {
                let manifest = r##"{"name": "whose", "exports": "./planted.cjs", "imports": {"#whose": "./planted.cjs"}}"##;
                write(&skill.path("package.json"), manifest);
                write(&skill.path("planted.cjs"), "module.exports = 'project';\n");
            } else {
                write(
                    &skill.path(&format!("{place}node_modules/whose/index.js")),
                    "module.exports = 'project';\n",
                );
            }
            assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
            let said = |args: &[&str]| {
                let answer = metier(&skill, None, args);
                assert_eq!(answer.code, 0, "{script} {place}: {answer:?}");
                answer.stdout.trim().to_owned()
            };
            assert_eq!(said(&["run", "x"]), "project", "{script} {place}");
            assert_eq!(said(&["run", "x", "--for-model"]), "nobody", "{script} {place}");
            if !is_mapped && place != "itself" {
                // Packages of the skill count in what is trusted.
                write(
                    &skill.path(&format!("{SKILL}/node_modules/whose/index.js")),
                    "module.exports = require('inner');\n",
                );
                write(
                    &skill.path(&format!("{SKILL}/node_modules/inner/index.js")),
                    "module.exports = 'skill';\n",
                );
                assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
                assert_eq!(said(&["run", "x", "--for-model"]), "skill", "{script} {place}");
            }
            assert_eq!(metier(&skill, None, &["trust", "--folder", "--yes"]).code, 0);
            assert_ne!(said(&["run", "x", "--for-model"]), "nobody", "{script} {place}");
        }
    }
}

#[test]
fn a_script_of_node_finds_the_client_and_its_own_modules_in_a_run_for_a_model() {
    if crate::support::not_run::find_program("node").is_none() {
        return crate::support::not_run::not_run("modules of a script of Node", "node is not installed");
    }
    for (script, text) in [
        (
            "main.cjs",
            "const {ctx} = require('metier'); const fs = require('fs'); console.log(ctx.read_file('a') + require('./own.cjs') + fs.existsSync('a'));",
        ),
        (
            "main.mjs",
            "import {ctx} from 'metier'; import fs from 'node:fs'; import own from './own.cjs'; console.log(ctx.read_file('a') + own + fs.existsSync('a'));",
        ),
    ] {
        let skill =
            project(script, text, &[("scripts/own.cjs", "module.exports = 'own';\n")]).file("a", "text ");
        assert_eq!(metier(&skill, None, &["trust", "--yes"]).code, 0);
        let answer =
            metier(&skill, None, &["run", "x", "--for-model", "--script", &format!("scripts/{script}")]);
        assert_eq!(answer.stdout, "text owntrue\n", "{script}: {answer:?}");
    }
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

/// The folder of the user for packages of the Python that is first on `PATH`.
fn user_site(project: &Project) -> PathBuf {
    let version = "import sys; print('python%d.%d' % sys.version_info[:2])";
    let said = Command::new("python3").args(["-c", version]).output().expect("python3 is needed");
    let release = String::from_utf8(said.stdout).unwrap();
    project.home().join(".local/lib").join(release.trim()).join("site-packages")
}

#[test]
fn packages_of_the_user_are_found_where_that_is_granted_and_nothing_else_of_the_home() {
    let script = "import os, sys\nfrom whose import NAME\nprint(NAME)\nfor path in sys.argv[1:]:\n    try: open(path).read(); print('read', path)\n    except OSError: pass\n    try: open(path, 'a'); print('changed', path)\n    except OSError: pass\n";
    let skill = project("main.py", script, &[]);
    let site = user_site(&skill);
    write(&site.join("whose.py"), "NAME = 'user'\n");
    let refused = metier(&skill, None, &["run", "x"]);
    assert!(refused.code != 0 && refused.stderr.contains("run with --allow user-packages"), "{refused:?}");
    let secret = skill.home().join(".local/share/keyrings/key");
    let beside = skill.home().join(".local/lib/other/site-packages/x");
    for file in [&secret, &beside] {
        write(file, "kept");
    }
    let module = site.join("whose.py");
    let files = [&secret, &beside, &module].map(|file| file.to_str().unwrap().to_owned());
    let grant = ["run", "x", "--allow", "user-packages", "--"];
    let args: Vec<&str> = grant.into_iter().chain(files.iter().map(String::as_str)).collect();
    let answer = metier(&skill, None, &args);
    assert_eq!(answer.stdout.trim(), format!("user\nread {}", files[2]), "{answer:?}");
}

#[test]
fn a_script_cannot_have_packages_of_the_project_taken_for_those_of_the_user() {
    let skill = project("main.py", "import whose\n", &[]);
    let base = skill.path("planted");
    let release = user_site(&skill).parent().unwrap().file_name().unwrap().to_owned();
    write(&base.join("lib").join(release).join("site-packages/whose.py"), "print('planted')\n");
    std::fs::create_dir_all(skill.home()).unwrap();
    std::os::unix::fs::symlink(&base, skill.home().join(".local")).unwrap();
    let data = skill.home().join("data");
    let mut run = command(&skill, None, &["run", "x", "--allow", "user-packages"]);
    let answer: Answer = run.env("METIER_DATA_DIR", data).output().unwrap().into();
    assert!(answer.code != 0 && !answer.stdout.contains("planted"), "{answer:?}");
}

#[test]
fn a_skill_that_requests_packages_of_the_user_gets_them_only_when_asked() {
    let skill = project("main.py", "from whose import NAME\nprint(NAME)\n", &[]);
    write(&user_site(&skill).join("whose.py"), "NAME = 'user'\n");
    let head = "---\nname: x\ndescription: Does it.\nallowed-tools: user-packages\n---\n";
    write(&skill.path(&format!("{SKILL}/SKILL.md")), head);
    assert!(metier(&skill, None, &["run", "x"]).code != 0);
    let answer = metier(&skill, None, &["run", "x", "--allow", "user-packages"]);
    assert_eq!(answer.stdout.trim(), "user", "{answer:?}");
}
