//! Real scripts run in a sandbox as they do outside: their interpreters, the programs they call, the files they make.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::sandbox::case::LEVELS;
use crate::sandbox::cases::lock_user_quotas;
use crate::sandbox::fixture::{self, Fixture};
use crate::sandbox::ordinary;
use crate::support::not_run::{find_program, not_run};

const PYTHON: &str = include_str!("honest/python.py");
const NODE: &str = include_str!("honest/node.cjs");
const SHELL: &str = include_str!("honest/shell.bash");
const GIT: &str = include_str!("honest/git.bash");
const PROGRAMS: &str = include_str!("honest/programs.bash");
const LOCKS: &str = include_str!("honest/locks.bash");

#[test]
fn scripts_find_what_they_need() {
    let _alone = lock_user_quotas();
    for (level, _) in [LEVELS[0], LEVELS[1]] {
        fixture::set_level(level);
        find_what_they_need();
    }
}

fn find_what_they_need() {
    for (command, fixture, said) in [
        ("python3", Fixture::python(PYTHON), "11 checks\n"),
        ("node", Fixture::node(NODE), "11 checks\n"),
        ("bash", Fixture::bash(SHELL), "33 checks\n"),
        (
            "git",
            Fixture::bash(GIT).grant("write"),
            "2\n 2 files changed, 2 insertions(+), 1 deletion(-)\nsrc/two\n",
        ),
    ] {
        if find_program(command).is_none() {
            not_run("scripts find what they need", &format!("{command} is not installed"));
            continue;
        }
        fixture.deadline(120_000).run().assert_stdout(said);
    }
}

/// Programs that skills call: what works without a grant, and what is installed of it here.
#[test]
fn programs_people_use_find_what_they_need() {
    let _alone = lock_user_quotas();
    for (level, _) in [LEVELS[0], LEVELS[1]] {
        fixture::set_level(level);
        let ran = Fixture::bash(PROGRAMS).deadline(240_000).run();
        for missing in
            ran.assert_ok().process().stderr.lines().filter_map(|line| line.strip_prefix("missing "))
        {
            not_run("programs people use", &format!("{missing} is not installed"));
        }
        ran.assert_stdout("29 programs\n");
        // A lock is one, for each who asks, also in the folders of a run that may write nowhere else; where the supervisor cannot tell whose
        // file it is, nobody is told that they have it.
        if find_program("flock").is_some() {
            Fixture::bash(LOCKS).grant("write").deadline(120_000).run().assert_stdout("held\n200\n");
            let own = if ran.is_in_namespaces() { "held\n200\n" } else { "no lock\n" };
            Fixture::bash(LOCKS).deadline(120_000).run().assert_stdout(own);
        }
    }
}

#[test]
fn programs_people_use_find_what_they_need_as_an_ordinary_user() {
    ordinary::run_as_nobody("sandbox::interpreters::programs_people_use_find_what_they_need");
}

#[test]
fn scripts_of_an_ordinary_user_find_what_they_need() {
    ordinary::run_as_nobody("sandbox::interpreters::scripts_find_what_they_need");
}

/// The system's own, where another comes first on `PATH`.
#[test]
fn the_python_of_the_system_finds_what_it_needs() {
    if !Path::new("/usr/bin/python3").exists() {
        return not_run("the system's Python", "there is no /usr/bin/python3");
    }
    let fixture = Fixture::bash("exec /usr/bin/python3 checks.py").file("project/checks.py", PYTHON);
    fixture.deadline(120_000).run().assert_stdout("11 checks\n");
}

/// An environment in the project leads to an interpreter outside of it.
#[test]
fn an_environment_in_the_project_runs() {
    let Some(python) = find_program("python3") else {
        return not_run("an environment", "python3 is not installed");
    };
    let fixture = Fixture::bash(
        ".venv/bin/python -c 'import sys, json, sqlite3, ssl; print(sys.prefix != sys.base_prefix)'
        . .venv/bin/activate && python -c 'import sys; print(sys.prefix)'",
    );
    let made = Command::new(python)
        .args(["-m", "venv", "--without-pip"])
        .arg(fixture.at("project/.venv"))
        .current_dir(fixture.at("project"))
        .output()
        .unwrap();
    if !made.status.success() {
        return not_run("an environment", &String::from_utf8_lossy(&made.stderr));
    }
    fixture.run().assert_stdout(&format!("True\n{}\n", fixture.name("project/.venv")));
}

/// What lies beside an activated environment is not the environment's, and neither is what lies beside the interpreter that it
/// leads to.
#[test]
fn an_activated_environment_opens_no_more_than_its_own_parts() {
    const HOME: &str = "METIER_SANDBOX_ENVIRONMENT";
    if let Some(home) = std::env::var_os(HOME) {
        let at = |path: &str| Path::new(&home).join(path).to_str().unwrap().to_owned();
        let fixture = Fixture::bash(
            "python3 -c 'import own; print(own.word)'; for file; do cat \"$file\" 2> /dev/null || echo refused; done; echo $PATH",
        );
        let ran = fixture
            .args(&[&at("envs/one/notes"), &at("envs/notes"), &at("work/notes"), &at("work/lib/own")])
            .run();
        let path = std::env::var("PATH").unwrap();
        let reachable =
            path.split(':').filter(|folder| !folder.ends_with("elsewhere")).collect::<Vec<_>>().join(":");
        let said = ran.stdout().to_owned();
        let (client, rest) = said.trim_end().rsplit_once('\n').map(|(said, path)| (path, said)).unwrap();
        assert_eq!(rest, "mine\nrefused\nrefused\nrefused\nown");
        assert!(client.ends_with(&reachable), "{client} is not {reachable}");
        return;
    }
    let Some(python) = find_program("python3") else {
        return not_run("an environment", "python3 is not installed");
    };
    let home = tempfile::tempdir().unwrap();
    let here = |path: &str| home.path().join(path);
    let made =
        Command::new(&python).args(["-m", "venv", "--without-pip"]).arg(here("envs/one")).output().unwrap();
    if !made.status.success() {
        return not_run("an environment", &String::from_utf8_lossy(&made.stderr));
    }
    let real =
        Command::new(&python).args(["-c", "import sys; print(sys._base_executable)"]).output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    // The environment leads to a link in a folder of the user's, and that one to the interpreter.
    for folder in ["work/bin", "work/lib", "elsewhere"] {
        std::fs::create_dir_all(here(folder)).unwrap();
    }
    for (path, text) in
        [("envs/one/notes", "n"), ("envs/notes", "n"), ("work/notes", "n"), ("work/lib/own", "own\n")]
    {
        std::fs::write(here(path), text).unwrap();
    }
    std::os::unix::fs::symlink(real.trim(), here("work/bin/python3")).unwrap();
    std::fs::remove_file(here("envs/one/bin/python3")).ok();
    std::os::unix::fs::symlink(here("work/bin/python3"), here("envs/one/bin/python3")).unwrap();
    let packages = std::fs::read_dir(here("envs/one/lib"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path()
        .join("site-packages");
    std::fs::write(packages.join("own.py"), "word = 'mine'\n").unwrap();
    let path = format!("{}:{}:/usr/bin:/bin", here("envs/one/bin").display(), here("elsewhere").display());
    let ended = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "sandbox::interpreters::an_activated_environment_opens_no_more_than_its_own_parts",
            "--nocapture",
        ])
        .env(HOME, home.path())
        .env("HOME", home.path())
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// Shells call other interpreters, wherever the user's are.
#[test]
fn a_shell_script_calls_the_interpreters_of_the_user() {
    for command in ["python3", "node"] {
        let Some(path) = find_program(command) else {
            not_run("a shell script that calls an interpreter", &format!("{command} is not installed"));
            continue;
        };
        let version = Command::new(&path).arg("--version").output().unwrap();
        Fixture::bash(&format!("{command} --version"))
            .run()
            .assert_stdout(&String::from_utf8_lossy(&version.stdout));
    }
}

/// What lies beside a link to an interpreter in `~/.local/bin` is not the interpreter's.
#[test]
fn a_link_to_an_interpreter_does_not_open_what_lies_around_it() {
    const HOME: &str = "METIER_SANDBOX_HOME";
    if let Some(home) = std::env::var_os(HOME) {
        let keys = Path::new(&home).join(".local/share/keyrings/login");
        let own = Path::new(&home).join("other/lib/own");
        let fixture = Fixture::bash("python3; for file; do cat \"$file\" 2>/dev/null || echo refused; done");
        let (keys, own) = (keys.to_str().unwrap(), own.to_str().unwrap());
        fixture.args(&[keys, own]).run().assert_stdout("ran\nrefused\nown\n");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let here = |path: &str| home.path().join(path);
    for folder in [".local/bin", ".local/share/keyrings", "other/bin", "other/lib"] {
        std::fs::create_dir_all(here(folder)).unwrap();
    }
    std::fs::write(here(".local/share/keyrings/login"), "keys\n").unwrap();
    std::fs::write(here("other/lib/own"), "own\n").unwrap();
    std::fs::write(here("other/bin/python3"), "#!/bin/sh\necho ran\n").unwrap();
    std::fs::set_permissions(here("other/bin/python3"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink(here("other/bin/python3"), here(".local/bin/python3")).unwrap();
    let path = format!("{}:/usr/bin:/bin", here(".local/bin").display());
    // Whatever the environment says of where the user is at home.
    for set in [Some(home.path()), Some(Path::new("/nowhere")), None] {
        let mut again = Command::new(std::env::current_exe().unwrap());
        again
            .args([
                "--exact",
                "sandbox::interpreters::a_link_to_an_interpreter_does_not_open_what_lies_around_it",
                "--nocapture",
            ])
            .env(HOME, home.path())
            .env("PATH", &path);
        match set {
            Some(set) => again.env("HOME", set),
            None => again.env_remove("HOME"),
        };
        let ended = again.output().unwrap();
        assert!(ended.status.success(), "{set:?}: {}", String::from_utf8_lossy(&ended.stderr));
    }
}
