//! Scripts in TypeScript: which programs run them, directly and in the sandbox, and what is said where none does.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::cli::{Answer, Project};
use crate::support::not_run::{find_program, not_run};

const LEVELS: [&str; 2] = ["namespaces", "landlock"];

/// Types that are left out, a module beside it, an argument, a file of the project, and an exit code.
const SCRIPT: &str = "import { readFileSync } from 'node:fs';
import { twice, type Amount } from './amounts.ts';
interface Report { total: Amount; from: string }
const report: Report = { total: twice(21 as number), from: readFileSync('note.txt', 'utf8').trim() };
console.log(JSON.stringify(report), process.argv.slice(2));
console.error('done');
process.exit(3);
";

const MODULE: &str =
    "export type Amount = number;\nexport const twice = (amount: Amount): Amount => amount * 2;\n";

fn project(script: &str) -> Project {
    Project::new()
        .skill(".metier/skills/x")
        .file(&format!(".metier/skills/x/scripts/{script}"), SCRIPT)
        .file(".metier/skills/x/scripts/amounts.ts", MODULE)
        .file(".metier/skills/x/package.json", "{\"type\": \"module\"}")
        .file("note.txt", "a note\n")
}

/// Where `.ci/run` puts the program, or the user's own.
fn installed(name: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/typescript/node_modules/.bin").join(name);
    let own = std::fs::canonicalize(own).ok();
    own.or_else(|| (name == "bun").then(|| find_program(name)).flatten())
}

/// A folder for `PATH` in which the program has this name.
fn folder_with(program: &Path, name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("bin")).unwrap();
    let path = folder.path().join("bin").join(name);
    std::fs::hard_link(program, &path).or_else(|_| std::fs::copy(program, &path).map(drop)).unwrap();
    folder
}

fn path_with(folder: &Path) -> String {
    format!("{}:/usr/bin:/bin", folder.join("bin").display())
}

/// Runs it directly and in the sandbox, and compares.
fn runs_as_outside(name: &str, script: &str) {
    let Some(program) = installed(name) else {
        return not_run("TypeScript", &format!("{name} is not installed"));
    };
    let folder = folder_with(&program, name);
    let direct: Answer = Command::new(folder.path().join("bin").join(name))
        .args([&format!(".metier/skills/x/scripts/{script}"), "a b", "--flag"])
        .current_dir(project(script).root())
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{error}"))
        .into();
    assert_eq!(direct.code, 3, "{direct:?}");
    assert!(direct.stdout.contains("{\"total\":42,\"from\":\"a note\"}"), "{direct:?}");
    for level in LEVELS {
        let project = project(script);
        let args = ["run", "x", "--raw", "--script", script, "--", "a b", "--flag"];
        let mut command = project.command(&args);
        command.env("PATH", path_with(folder.path())).env("METIER_SANDBOX_LEVEL", level);
        let answer: Answer = command.output().unwrap().into();
        let said = |answer: &Answer| (answer.code, answer.stdout.clone(), answer.stderr.clone());
        assert_eq!(said(&answer), said(&direct), "{name} at the level {level}");
    }
}

#[test]
fn node_runs_typescript() {
    for script in ["main.ts", "main.mts"] {
        runs_as_outside("node", script);
    }
}

#[test]
fn bun_runs_typescript() {
    runs_as_outside("bun", "main.ts");
}

/// `tsx` listens on a socket with a path, so it runs without a sandbox only.
#[test]
fn tsx_takes_nothing_of_a_project_in_a_run_for_a_model() {
    let Some(tsx) = installed("tsx") else { return not_run("TypeScript", "tsx is not installed") };
    let found = |name: &str, find: &str| {
        format!(
            "let {name}: string = 'nobody'; try {{ {name} = {find} }} catch (error: any) {{ if (!/NOT_FOUND/.test(error.code)) throw error }}\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&tsx, folder.path().join("tsx")).unwrap();
    for (script, find) in [("main.mts", "(await import(NAME)).whose"), ("main.cts", "require(NAME).whose")] {
        // A folder of packages, and a name that the settings of the project map to a file.
        let finds =
            ["inFolder", "mapped"].map(|name| found(name, &find.replace("NAME", &format!("'{name}'"))));
        let project = Project::new()
            .skill(".metier/skills/x")
            .file(
                &format!(".metier/skills/x/scripts/{script}"),
                finds.concat() + "console.log(inFolder, mapped)\n",
            )
            .file("node_modules/inFolder/index.js", "exports.whose = 'project';\n")
            .file("planted.cts", "export const whose: string = 'project';\n")
            .file("tsconfig.json", r#"{"compilerOptions": {"paths": {"mapped": ["./planted.cts"]}}}"#);
        let said = |args: &[&str]| -> Answer {
            let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
            project.command(args).env("PATH", path).output().unwrap().into()
        };
        assert_eq!(said(&["trust", "--yes"]).code, 0);
        let run = ["run", "x", "--sandbox", "off"];
        assert_eq!(said(&run).stdout, "project project\n", "{script}: {:?}", said(&run));
        let for_model = said(&[&run[..], &["--for-model"]].concat());
        assert_eq!(for_model.stdout, "nobody nobody\n", "{script}: {for_model:?}");
    }
}

/// A project in which `name` is a program that says this version and runs nothing.
fn answer_with(name: &str, version: &str, script: &str) -> Answer {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join(name);
    let text = format!("#!/bin/sh\n[ \"$1\" = --version ] && echo {version} && exit\necho ran\n");
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let project = project(script);
    let mut command = project.command(&["run", "x", "--script", script]);
    command.env("PATH", folder.path()).output().unwrap().into()
}

#[test]
fn a_node_that_does_not_run_typescript_is_named_with_what_is_missing() {
    for script in ["main.ts", "main.mts", "main.cts"] {
        let answer = answer_with("node", "v20.20.2", script);
        assert_ne!(answer.code, 0);
        assert_eq!(answer.stdout, "", "{script}: {answer:?}");
        for words in
            ["is TypeScript, which Node runs from version 22.18 on", "is v20.20.2", "deno, bun or tsx"]
        {
            assert!(answer.stderr.contains(words), "{script}: {words}: {answer:?}");
        }
        assert_eq!(answer_with("node", "v22.18.0", script).stdout, "ran\n", "{script}");
    }
    assert_eq!(answer_with("node", "v20.20.2", "main.js").stdout, "ran\n", "no TypeScript");
}

#[test]
fn what_comes_before_node_runs_it() {
    assert_eq!(answer_with("tsx", "4.0.0", "main.ts").stdout, "ran\n");
    assert_eq!(answer_with("tsx", "4.0.0", "main.tsx").stdout, "ran\n");
    let answer = answer_with("node", "v24.0.0", "main.tsx");
    assert!(answer.stderr.contains("main.tsx needs deno, which is not on PATH"), "{answer:?}");
}

#[test]
fn every_program_that_is_missing_is_named() {
    for (script, program) in [
        ("main.rb", "ruby"),
        ("main.go", "go"),
        ("main.ps1", "pwsh"),
        ("main.ts", "deno"),
        ("main.php", "php"),
        ("main.fish", "fish"),
        ("main.r", "Rscript"),
    ] {
        let answer = answer_with("other", "1", script);
        let expected = format!("{script} needs {program}, which is not on PATH");
        assert!(answer.stderr.contains(&expected), "{expected}: {answer:?}");
        assert!(answer.stderr.contains("install "), "{answer:?}");
    }
}
