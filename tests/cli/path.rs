//! A folder of the project on `PATH`, as npm, direnv and active environments have it: untrusted programs in it open nothing and
//! run only in a sandbox.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::cli::{Answer, Project};
use crate::support::not_run::{find_program, not_run};

const IS_SANDBOXED: bool = cfg!(all(feature = "sandboxed", target_os = "linux"));

/// A project with a skill that shows files, and a folder beside it that nobody granted.
struct PathFixture {
    project: Project,
    beside: tempfile::TempDir,
}

impl PathFixture {
    fn new() -> Self {
        let shows = "for file; do cat \"$file\" 2> /dev/null || echo refused; done";
        let fixture =
            Self { project: Project::new().shell("shows", shows), beside: tempfile::tempdir().unwrap() };
        for (path, text) in [("key", "KEY\n"), ("private/share/db", "DB\n"), ("private/lib/notes", "NOTES\n")]
        {
            fixture.beside(path, text);
        }
        fixture.beside("private/bin/x", "#!/bin/sh\necho x\n");
        fixture
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
fn a_link_from_the_project_does_not_open_its_target() {
    if !IS_SANDBOXED {
        return not_run("links on PATH", "this build has no sandbox");
    }
    let secrets = ["key", "private/share/db", "private/lib/notes", "private/bin/x"];
    let refused = "refused\n".repeat(secrets.len());
    // A file, a program, what lies beside one, and the parts of an environment.
    let fixture = PathFixture::new();
    fixture.link("key", "bin/node");
    fixture.link("private/bin/x", "bin/python3");
    fixture.link("private/bin/x", "env/bin/python");
    fixture.link("private/lib", "env/lib");
    fixture.link("private/share", "env/share");
    assert_eq!(fixture.shows(&secrets, &["bin", "env/bin"]), refused);
    // What would run the script itself is not opened either.
    fixture.link("private/bin/x", "bin/bash");
    let ran = fixture.metier(&["run", "shows"], &["bin"]);
    assert!(ran.code != 0 && !ran.stdout.contains('x'), "{ran:?}");
    // The folder itself is a link, or lies behind one.
    let fixture = PathFixture::new();
    fixture.link("private/bin", "bin");
    fixture.link("private", "linked");
    fixture.link("", "away");
    fixture.beside("private/bin/python3", "#!/bin/sh\n");
    fixture.beside("private/bin/node", "#!/bin/sh\n");
    assert_eq!(fixture.shows(&secrets, &["bin", "linked/bin", "away/private/bin"]), refused);
    // A link of the user's leads to one in the project.
    let fixture = PathFixture::new();
    fixture.link("private/bin/x", "tools/python3");
    fs::create_dir_all(fixture.beside.path().join("mine/bin")).unwrap();
    symlink(fixture.project.path("tools/python3"), fixture.beside.path().join("mine/bin/python3")).unwrap();
    symlink(fixture.beside.path().join("mine/bin"), fixture.project.path("here")).unwrap();
    assert_eq!(fixture.shows(&secrets, &["here"]), refused);
    // A version manager's root is its own as a whole, but not where a stranger says that there is one.
    let fixture = PathFixture::new();
    fixture.beside("private/shims/python3", "#!/bin/sh\n");
    fs::create_dir_all(fixture.beside.path().join("private/versions")).unwrap();
    fixture.link("private/shims/python3", "bin/python3");
    assert_eq!(fixture.shows(&secrets, &["bin"]), refused);
}

/// An environment somebody made in the project leads to an interpreter with all its parts, and to no environment of another's.
#[test]
fn a_link_from_the_project_opens_only_a_real_interpreter() {
    if !IS_SANDBOXED {
        return not_run("links on PATH", "this build has no sandbox");
    }
    let fixture = PathFixture::new();
    fixture.beside("python/bin/python3.9", "#!/bin/sh\ncat \"${0%/bin/*}/lib/python3.9/os.py\"\n");
    fixture.beside("python/lib/python3.9/os.py", "OS\n");
    fixture.beside("python/notes", "NOTES\n");
    fixture.link("python/bin/python3.9", "env/bin/python3");
    assert_eq!(fixture.shows(&["python/lib/python3.9/os.py", "python/notes"], &["env/bin"]), "OS\nrefused\n");
    let fixture = PathFixture::new();
    fixture.beside("other/bin/python3", "#!/bin/sh\n");
    fixture.beside("other/lib/python3.9/site-packages/own.py", "OWN\n");
    fixture.link("other/bin/python3", "env/bin/python3");
    assert_eq!(fixture.shows(&["other/lib/python3.9/site-packages/own.py"], &["env/bin"]), "refused\n");
}

#[test]
fn an_active_environment_in_the_project_runs() {
    let Some(python) = find_program("python3") else {
        return not_run("an environment", "python3 is not installed");
    };
    if !IS_SANDBOXED {
        return not_run("an environment", "this build has no sandbox");
    }
    let fixture = PathFixture::new();
    let made = Command::new(python)
        .args(["-m", "venv", "--without-pip"])
        .arg(fixture.project.path(".venv"))
        .output()
        .unwrap();
    if !made.status.success() {
        return not_run("an environment", &String::from_utf8_lossy(&made.stderr));
    }
    let packages = fs::read_dir(fixture.project.path(".venv/lib")).unwrap().next().unwrap().unwrap().path();
    fs::write(packages.join("site-packages/own.py"), "word = 'mine'\n").unwrap();
    let script = "import own, ssl, sqlite3, sys; print(own.word, sys.prefix != sys.base_prefix)";
    let skill = ".metier/skills/says";
    let fixture = PathFixture {
        project: fixture.project.skill(skill).file(&format!("{skill}/scripts/run.py"), script),
        ..fixture
    };
    let ran = fixture.metier(&["run", "says"], &[".venv/bin"]);
    assert_eq!((ran.stdout.as_str(), ran.code), ("mine True\n", 0), "{ran:?}");
    // What it says of its version, it says in a sandbox.
    let explained = fixture.metier(&["run", "says", "--explain", "--json"], &[".venv/bin"]).json();
    let version = explained["process"]["interpreter_version"].as_str().unwrap_or_default().to_owned();
    assert!(version.starts_with("Python 3"), "{explained}");
}

/// A program of the project's that leaves a trace wherever it may.
fn plant_program(fixture: &PathFixture) -> PathBuf {
    let trace = fixture.beside.path().join("trace");
    let text = format!(
        "#!/bin/sh\nid > {0}\nid > {1}/trace\necho Planted 1\n",
        trace.display(),
        fixture.project.path("").display()
    );
    for name in ["python3", "node", "git", "ruby"] {
        executable(fixture.project.path("bin").join(name), &text);
    }
    trace
}

fn left_traces(fixture: &PathFixture, trace: &Path) -> bool {
    trace.exists() || fixture.project.path("trace").exists()
}

#[test]
fn a_program_of_the_project_is_asked_its_version_only_in_a_sandbox() {
    let fixture = PathFixture::new();
    let trace = plant_program(&fixture);
    let skill = ".metier/skills/says";
    let fixture = PathFixture {
        project: fixture.project.skill(skill).file(&format!("{skill}/scripts/run.py"), "print('ran')"),
        ..fixture
    };
    let doctor = fixture.metier(&["doctor", "--json"], &["bin"]).json();
    let rows = doctor["interpreters"].as_array().unwrap();
    let version = &rows.iter().find(|row| row["command"] == "ruby").unwrap()["version"];
    assert_eq!(version.as_str(), IS_SANDBOXED.then_some("Planted 1"), "{doctor}");
    for args in [
        &["run", "says", "--explain"][..],
        &["run", "says", "--explain", "--allow", "write"],
        &["run", "says", "--explain", "--sandbox", "off"],
        &["run", "says", "--explain", "--allow", "exec:unsandboxed"],
    ] {
        fixture.metier(args, &["bin"]);
        assert!(!left_traces(&fixture, &trace), "{args:?}");
    }
}

#[test]
fn a_script_outside_of_a_sandbox_is_not_run_by_a_program_of_the_project() {
    let Some(_) = find_program("python3") else { return not_run("a plain run", "python3 is not installed") };
    let fixture = PathFixture::new();
    let trace = plant_program(&fixture);
    let skill = ".metier/skills/says";
    let fixture = PathFixture {
        project: fixture.project.skill(skill).file(&format!("{skill}/scripts/run.py"), "print('ran')"),
        ..fixture
    };
    let ran = fixture.metier(&["run", "says", "--sandbox", "off"], &["bin"]);
    assert!(!left_traces(&fixture, &trace), "{ran:?}");
    if ran.code == 0 {
        assert_eq!(ran.stdout, "ran\n");
    } else {
        // There is none elsewhere in the folders of this test.
        assert!(ran.stderr.contains("python3") && ran.stderr.contains("project"), "{ran:?}");
    }
}

#[test]
fn the_history_of_a_case_is_not_created_by_a_program_of_the_project() {
    if find_program("git").is_none() {
        return not_run("a history", "git is not installed");
    }
    let fixture = PathFixture::new();
    let trace = plant_program(&fixture);
    let case = r#"{"git": [{"message": "m", "files": {"a": "a"}}], "expect": {"value": "refused\n"}, "args": ["/etc/shadow"]}"#;
    let fixture =
        PathFixture { project: fixture.project.file(".metier/skills/shows/cases/a.json", case), ..fixture };
    for folders in [&["bin"][..], &["bin", "."]] {
        let tested = fixture.metier(&["test", "shows"], folders);
        assert!(!left_traces(&fixture, &trace), "{tested:?}");
        assert!(tested.code == 0 || !IS_SANDBOXED, "{tested:?}");
    }
}

/// A shim takes some 50 ms to find the version, and in a sandbox it sees only part of what it reads.
#[test]
fn the_version_of_a_version_manager_runs_in_place_of_its_shim() {
    if !IS_SANDBOXED {
        return not_run("the version of a version manager", "this build has no sandbox");
    }
    let fixture = PathFixture::new();
    let shim = "#!/bin/sh\nexport PYENV_ROOT=x\necho the shim ran\n";
    fixture.beside("pyenv/shims/python", shim);
    let shims = fixture.beside("pyenv/shims/python3", shim);
    let shims = shims.parent().unwrap().to_str().unwrap().to_owned();
    fixture.beside("pyenv/version", "3.1.1\n");
    for version in ["3.1.1", "3.2.2"] {
        let path = format!("pyenv/versions/{version}/bin/python3");
        fixture
            .beside(&path, &format!("#!/bin/sh\n[ \"$(command -v python3)\" = \"$0\" ] && echo {version}\n"));
    }
    let skill = ".metier/skills/says";
    let fixture = PathFixture {
        project: fixture.project.skill(skill).file(&format!("{skill}/scripts/run.py"), ""),
        ..fixture
    };
    let ran = || fixture.metier(&["run", "says"], &[&shims]);
    assert_eq!(ran().stdout, "3.1.1\n", "{:?}", ran());
    fs::write(fixture.project.path(".python-version"), "3.2\n").unwrap();
    assert_eq!(ran().stdout, "3.2.2\n", "{:?}", ran());
    let doctor = fixture.metier(&["doctor", "--json"], &[&shims]).json();
    let rows = doctor["interpreters"].as_array().unwrap();
    let path = rows.iter().find(|row| row["command"] == "python3").unwrap()["path"].as_str().unwrap();
    assert!(path.ends_with("versions/3.2.2/bin/python3"), "{path}");
    // The shim says best what is wrong.
    fs::write(fixture.project.path(".python-version"), "3.3.3\n").unwrap();
    assert_eq!(ran().stdout, "the shim ran\n", "{:?}", ran());
}
