//! A folder of the project's on `PATH`, as npm, direnv and active environments have it: what a stranger put there opens nothing
//! and runs nowhere but in a sandbox.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cli::{Answer, Project};
use super::not_run::{find_program, not_run};

const IS_SANDBOXED: bool = cfg!(all(feature = "sandboxed", target_os = "linux"));

/// A project with a skill that shows files, and a folder beside it that nobody granted.
struct PathFixture {
    project: Project,
    beside: tempfile::TempDir,
}

impl PathFixture {
    fn new() -> Self {
        let shows = "for file; do cat \"$file\" 2> /dev/null || echo refused; done";
        let stage =
            Self { project: Project::new().shell("shows", shows), beside: tempfile::tempdir().unwrap() };
        for (path, text) in [("key", "KEY\n"), ("private/share/db", "DB\n"), ("private/lib/notes", "NOTES\n")]
        {
            stage.beside(path, text);
        }
        stage.beside("private/bin/x", "#!/bin/sh\necho x\n");
        stage
    }

    /// A file beside the project, executable.
    fn beside(&self, path: &str, text: &str) -> PathBuf {
        executable(self.beside.path().join(path), text)
    }

    fn link(&self, target: &str, path: &str) {
        let path = self.project.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(self.beside.path().join(target), path).unwrap();
    }

    fn command(&self, args: &[&str], folders: &[&str]) -> Command {
        let mut path: Vec<PathBuf> = folders.iter().map(|folder| self.project.path(folder)).collect();
        path.extend(["/usr/local/bin", "/usr/bin", "/bin"].map(Into::into));
        let mut command = self.project.command(args);
        command.env("PATH", std::env::join_paths(path).unwrap());
        command
    }

    fn metier(&self, args: &[&str], folders: &[&str]) -> Answer {
        self.command(args, folders).output().unwrap().into()
    }

    /// What the skill shows of these files beside the project.
    fn shows(&self, files: &[&str], folders: &[&str]) -> String {
        let files = files.iter().map(|file| self.beside.path().join(file).to_str().unwrap().to_owned());
        let files: Vec<String> = files.collect();
        let mut args = vec!["run", "shows", "--"];
        args.extend(files.iter().map(String::as_str));
        self.metier(&args, folders).stdout
    }
}

fn executable(path: PathBuf, text: &str) -> PathBuf {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_link_from_the_project_opens_nothing_of_what_it_leads_to() {
    if !IS_SANDBOXED {
        return not_run("links on PATH", "this build has no sandbox");
    }
    let secrets = ["key", "private/share/db", "private/lib/notes", "private/bin/x"];
    let refused = "refused\n".repeat(secrets.len());
    // A file, a program, what lies beside one, and the parts of an environment.
    let stage = PathFixture::new();
    stage.link("key", "bin/node");
    stage.link("private/bin/x", "bin/python3");
    stage.link("private/bin/x", "env/bin/python");
    stage.link("private/lib", "env/lib");
    stage.link("private/share", "env/share");
    assert_eq!(stage.shows(&secrets, &["bin", "env/bin"]), refused);
    // What would run the script itself is not opened either.
    stage.link("private/bin/x", "bin/bash");
    let ran = stage.metier(&["run", "shows"], &["bin"]);
    assert!(ran.code != 0 && !ran.stdout.contains('x'), "{ran:?}");
    // The folder itself is a link, or lies behind one.
    let stage = PathFixture::new();
    stage.link("private/bin", "bin");
    stage.link("private", "linked");
    stage.link("", "away");
    stage.beside("private/bin/python3", "#!/bin/sh\n");
    stage.beside("private/bin/node", "#!/bin/sh\n");
    assert_eq!(stage.shows(&secrets, &["bin", "linked/bin", "away/private/bin"]), refused);
    // A link of the user's leads to one in the project.
    let stage = PathFixture::new();
    stage.link("private/bin/x", "tools/python3");
    fs::create_dir_all(stage.beside.path().join("mine/bin")).unwrap();
    symlink(stage.project.path("tools/python3"), stage.beside.path().join("mine/bin/python3")).unwrap();
    symlink(stage.beside.path().join("mine/bin"), stage.project.path("here")).unwrap();
    assert_eq!(stage.shows(&secrets, &["here"]), refused);
    // A version manager's root is its own as a whole, but not where a stranger says that there is one.
    let stage = PathFixture::new();
    stage.beside("private/shims/python3", "#!/bin/sh\n");
    fs::create_dir_all(stage.beside.path().join("private/versions")).unwrap();
    stage.link("private/shims/python3", "bin/python3");
    assert_eq!(stage.shows(&secrets, &["bin"]), refused);
}

/// An environment somebody made in the project leads to an interpreter with all its parts, and to no environment of another's.
#[test]
fn a_link_from_the_project_opens_an_interpreter_and_nothing_that_only_looks_like_one() {
    if !IS_SANDBOXED {
        return not_run("links on PATH", "this build has no sandbox");
    }
    let stage = PathFixture::new();
    stage.beside("python/bin/python3.9", "#!/bin/sh\ncat \"${0%/bin/*}/lib/python3.9/os.py\"\n");
    stage.beside("python/lib/python3.9/os.py", "OS\n");
    stage.beside("python/notes", "NOTES\n");
    stage.link("python/bin/python3.9", "env/bin/python3");
    assert_eq!(stage.shows(&["python/lib/python3.9/os.py", "python/notes"], &["env/bin"]), "OS\nrefused\n");
    let stage = PathFixture::new();
    stage.beside("other/bin/python3", "#!/bin/sh\n");
    stage.beside("other/lib/python3.9/site-packages/own.py", "OWN\n");
    stage.link("other/bin/python3", "env/bin/python3");
    assert_eq!(stage.shows(&["other/lib/python3.9/site-packages/own.py"], &["env/bin"]), "refused\n");
}

#[test]
fn an_active_environment_in_the_project_runs() {
    let Some(python) = find_program("python3") else {
        return not_run("an environment", "python3 is not installed");
    };
    if !IS_SANDBOXED {
        return not_run("an environment", "this build has no sandbox");
    }
    let stage = PathFixture::new();
    let made = Command::new(python)
        .args(["-m", "venv", "--without-pip"])
        .arg(stage.project.path(".venv"))
        .output()
        .unwrap();
    if !made.status.success() {
        return not_run("an environment", &String::from_utf8_lossy(&made.stderr));
    }
    let packages = fs::read_dir(stage.project.path(".venv/lib")).unwrap().next().unwrap().unwrap().path();
    fs::write(packages.join("site-packages/own.py"), "word = 'mine'\n").unwrap();
    let says = "import own, ssl, sqlite3, sys; print(own.word, sys.prefix != sys.base_prefix)";
    let skill = ".metier/skills/says";
    let stage = PathFixture {
        project: stage.project.skill(skill).file(&format!("{skill}/scripts/run.py"), says),
        ..stage
    };
    let ran = stage.metier(&["run", "says"], &[".venv/bin"]);
    assert_eq!((ran.stdout.as_str(), ran.code), ("mine True\n", 0), "{ran:?}");
    // What it says of its version, it says in a sandbox.
    let explained = stage.metier(&["run", "says", "--explain", "--json"], &[".venv/bin"]).json();
    let version = explained["process"]["interpreter_version"].as_str().unwrap_or_default().to_owned();
    assert!(version.starts_with("Python 3"), "{explained}");
}

/// A program of the project's that leaves a trace wherever it may.
fn plant_program(stage: &PathFixture) -> PathBuf {
    let trace = stage.beside.path().join("trace");
    let text = format!(
        "#!/bin/sh\nid > {0}\nid > {1}/trace\necho Planted 1\n",
        trace.display(),
        stage.project.path("").display()
    );
    for name in ["python3", "node", "git", "ruby"] {
        executable(stage.project.path("bin").join(name), &text);
    }
    trace
}

fn left_traces(stage: &PathFixture, trace: &Path) -> bool {
    trace.exists() || stage.project.path("trace").exists()
}

#[test]
fn a_program_of_the_project_never_runs_outside_of_a_sandbox_to_be_asked_something() {
    let stage = PathFixture::new();
    let trace = plant_program(&stage);
    let skill = ".metier/skills/says";
    let stage = PathFixture {
        project: stage.project.skill(skill).file(&format!("{skill}/scripts/run.py"), "print('ran')"),
        ..stage
    };
    let doctor = stage.metier(&["doctor", "--json"], &["bin"]).json();
    let rows = doctor["interpreters"].as_array().unwrap();
    let version = &rows.iter().find(|row| row["command"] == "ruby").unwrap()["version"];
    assert_eq!(version.as_str(), IS_SANDBOXED.then_some("Planted 1"), "{doctor}");
    for args in [
        &["run", "says", "--explain"][..],
        &["run", "says", "--explain", "--allow", "write"],
        &["run", "says", "--explain", "--sandbox", "off"],
        &["run", "says", "--explain", "--allow", "exec:unsandboxed"],
    ] {
        stage.metier(args, &["bin"]);
        assert!(!left_traces(&stage, &trace), "{args:?}");
    }
}

#[test]
fn a_script_outside_of_a_sandbox_is_run_by_no_program_of_the_project() {
    let Some(_) = find_program("python3") else { return not_run("a plain run", "python3 is not installed") };
    let stage = PathFixture::new();
    let trace = plant_program(&stage);
    let skill = ".metier/skills/says";
    let stage = PathFixture {
        project: stage.project.skill(skill).file(&format!("{skill}/scripts/run.py"), "print('ran')"),
        ..stage
    };
    let ran = stage.metier(&["run", "says", "--sandbox", "off"], &["bin"]);
    assert!(!left_traces(&stage, &trace), "{ran:?}");
    if ran.code == 0 {
        assert_eq!(ran.stdout, "ran\n");
    } else {
        // There is none elsewhere in the folders of this test.
        assert!(ran.stderr.contains("python3") && ran.stderr.contains("project"), "{ran:?}");
    }
}

#[test]
fn the_history_of_a_case_is_made_by_no_program_of_the_project() {
    if find_program("git").is_none() {
        return not_run("a history", "git is not installed");
    }
    let stage = PathFixture::new();
    let trace = plant_program(&stage);
    let case = r#"{"git": [{"message": "m", "files": {"a": "a"}}], "expect": {"value": "refused\n"}, "args": ["/etc/shadow"]}"#;
    let stage =
        PathFixture { project: stage.project.file(".metier/skills/shows/cases/a.json", case), ..stage };
    for folders in [&["bin"][..], &["bin", "."]] {
        let tested = stage.metier(&["test", "shows"], folders);
        assert!(!left_traces(&stage, &trace), "{tested:?}");
        assert!(tested.code == 0 || !IS_SANDBOXED, "{tested:?}");
    }
}
