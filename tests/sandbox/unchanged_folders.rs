//! Folders that have not changed are not read again, by the same host or by a later command of the user. What a script puts there is
//! protected in the next run all the same, whatever the script does to pass the folder off as the one it was.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use metier::policy::SandboxLevel;

use crate::sandbox::fixture::{self, Fixture};
use crate::support::not_run::not_run;

/// How long a folder must not have changed to be remembered.
const TIME_TO_SETTLE: Duration = Duration::from_millis(3200);

/// What a script does, where the secret is then, and the folder that is to look unchanged.
const ATTEMPTS: [(&str, &str, &str); 9] = [
    ("echo hunter2 > new; mv new one/.env; touch -r two one", "one/.env", "one"),
    ("cp -p one/b/plain saved; echo hunter2 > one/b/plain; mv one/b/plain one/b/.env", "one/b/.env", "one/b"),
    (
        "mkdir new; echo hunter2 > new/.netrc; mv two/b away; mv new two/b; touch -r away two two/b",
        "two/b/.netrc",
        "two/b",
    ),
    (
        "mkdir -p new/b; echo hunter2 > new/b/.pgpass; mv three old; mv new three; touch -r old three",
        "three/b/.pgpass",
        "three/b",
    ),
    (
        "echo hunter2 > plain; ln plain four/b/id_rsa; rm plain; touch -d '2001-01-01' four/b",
        "four/b/id_rsa",
        "four/b",
    ),
    ("rm five/b/plain; echo hunter2 > five/b/.npmrc; touch -r one five/b", "five/b/.npmrc", "five/b"),
    ("rm -r six/b; mkdir six/b; echo hunter2 > six/b/x.pem; touch -r one six/b", "six/b/x.pem", "six/b"),
    // What is secret only in a folder of that name, by a new name of the folder, and by the name of another one.
    ("mv seven/b seven/.docker; touch -r one seven/.docker seven", "seven/.docker/config.json", "seven"),
    (
        "mv eight/.docker eight/new; mv eight/b eight/.docker; mv eight/new eight/b; touch -r one eight/.docker eight/b eight",
        "eight/.docker/config.json",
        "eight",
    ),
];

/// The folders of these attempts.
fn lay_out(fixture: &Fixture) {
    for folder in ["one", "two", "three", "four", "five", "six", "seven", "eight"] {
        fixture.write(&format!("project/{folder}/b/plain"), "plain");
        fixture.write(&format!("project/{folder}/b/config.json"), "hunter2");
    }
    fixture.write("project/eight/.docker/other", "");
}

#[test]
fn what_a_script_puts_into_a_remembered_folder_is_protected_in_the_next_run() {
    if let Err(reason) = fixture::check_level(SandboxLevel::Namespaces) {
        return not_run("what a script puts into a remembered folder", &reason);
    }
    let fixture = Fixture::bash("eval \"$1\"").grant("write");
    lay_out(&fixture);
    let engine = fixture.engine();
    let run = |script: &str| fixture.result(engine.run(fixture.invocation().args([script])));
    std::thread::sleep(TIME_TO_SETTLE);
    run("true").assert_ok();
    for (script, secret, folder) in ATTEMPTS {
        let before = fs::metadata(fixture.at(&format!("project/{folder}"))).unwrap();
        run(script).assert_ok();
        let after = fs::metadata(fixture.at(&format!("project/{folder}"))).unwrap();
        assert_ne!(
            (before.ino(), before.ctime(), before.ctime_nsec()),
            (after.ino(), after.ctime(), after.ctime_nsec())
        );
        let read = run(&format!("cat {secret} || echo refused"));
        assert_eq!(read.stdout(), "refused\n", "{script}");
    }
}

/// More folders than a command must have read to remember them for later ones.
const MANY_FOLDERS: usize = 300;

/// A project of a user whose commands remember its folders.
struct ColdProject(Fixture);

impl ColdProject {
    /// `None` where there is no command.
    fn new() -> Option<Self> {
        fixture::helper()?;
        let fixture = Fixture::bash("");
        lay_out(&fixture);
        for number in 0..MANY_FOLDERS {
            fs::create_dir_all(fixture.at(&format!("project/many/{number}"))).unwrap();
        }
        fs::create_dir(fixture.at("home")).unwrap();
        std::thread::sleep(TIME_TO_SETTLE);
        Some(Self(fixture))
    }

    /// Runs a shell script in a folder by a command of its own.
    fn exec(&self, folder: &str, level: &str, grants: &[&str], script: &str) -> Output {
        self.exec_at_home("home", folder, level, grants, script)
    }

    /// The same for a user with this home folder.
    fn exec_at_home(&self, home: &str, folder: &str, level: &str, grants: &[&str], script: &str) -> Output {
        let mut command = Command::new(fixture::helper().unwrap());
        for variable in ["XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
            command.env_remove(variable);
        }
        command.env("HOME", self.0.at(home)).env("METIER_SANDBOX_LEVEL", level);
        command.args(["--project", "."]).current_dir(self.0.at(folder)).arg("exec");
        command.args(grants.iter().flat_map(|grant| ["--allow", grant]));
        command.args(["--", "bash", "-c", script]).output().unwrap()
    }

    fn cache(&self) -> PathBuf {
        self.0.at("home/.cache/metier/folder-listings")
    }

    /// The entries of the cache: path, mode, inode and content.
    fn entries(&self) -> Vec<(PathBuf, u32, u64, Vec<u8>)> {
        let entries = fs::read_dir(self.cache()).into_iter().flatten().map(|entry| entry.unwrap().path());
        let entry = |path: PathBuf| {
            let about = fs::metadata(&path).unwrap();
            let content = fs::read(&path).unwrap();
            (path, about.permissions().mode() & 0o777, about.ino(), content)
        };
        entries.map(entry).collect()
    }
}

#[test]
fn what_a_script_puts_into_a_folder_that_an_earlier_command_remembered_is_protected() {
    if let Err(reason) = fixture::check_level(SandboxLevel::Namespaces) {
        return not_run("a remembered folder in a command", &reason);
    }
    let Some(project) = ColdProject::new() else {
        return not_run("a remembered folder in a command", "there is no command line");
    };
    let run = |script: &str| {
        let output = project.exec("project", "namespaces", &["write"], script);
        assert!(output.status.success(), "{script}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    run("true");
    let first = project.entries();
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].1, 0o600);
    for (script, secret, _) in ATTEMPTS {
        run(script);
        assert_eq!(run(&format!("cat {secret} || echo refused")), "refused\n", "{script}");
    }
    // Without it, each of them would have read as many folders, and written it anew.
    assert_eq!(project.entries(), first);
    // One that was damaged is written anew.
    fs::write(&first[0].0, &first[0].3[..first[0].3.len() - 1]).unwrap();
    assert_eq!(run("cat one/.env || echo refused"), "refused\n");
    assert_ne!(project.entries()[0].2, first[0].2);
    assert_eq!(run("cat one/.env || echo refused"), "refused\n");
}

#[test]
fn no_script_reaches_what_is_remembered_of_folders() {
    if let Err(reason) = fixture::check_level(SandboxLevel::Namespaces) {
        return not_run("what is remembered of folders", &reason);
    }
    let Some(project) = ColdProject::new() else {
        return not_run("what is remembered of folders", "there is no command line");
    };
    assert!(project.exec("project", "namespaces", &["read"], "true").status.success());
    let entries = project.entries();
    let key = fs::read(project.0.at("home/.local/state/metier/wasm-cache.key")).unwrap();
    assert_eq!(entries.len(), 1);
    let cache = project.cache();
    let (cache, entry) = (cache.to_str().unwrap(), entries[0].0.to_str().unwrap());
    let attack = format!(
        "cat {entry} && echo reached; cp {entry} own; echo forged > {entry}; rm -f {entry}; ln -f {entry} own
        echo forged > {cache}/forged; mv {cache} {cache}.old; rm -rf {cache}
        cat {cache}/../../../.local/state/metier/wasm-cache.key && echo reached
        ls {cache} | grep -q . && echo reached; echo ran"
    );
    fs::create_dir(project.0.at("another-home")).unwrap();
    for level in ["namespaces", "landlock"] {
        // Where it is covered, the script runs; what leads there by a permission is refused.
        for (home, folder, grants, is_covered) in [
            ("home", "home", &["write"][..], true),
            ("home", "home", &["write", "write:.cache/metier/folder-listings"], true),
            ("home", "home/.cache", &["write"], true),
            ("home", "home/.cache/metier", &["write"], true),
            ("home", ".", &["write"], true),
            // A host that has others knows these by their names.
            ("another-home", "home", &["write"], true),
            ("another-home", "home/.cache", &["write"], true),
            ("home", "project", &["write", "home-write:.cache"], false),
            ("home", "project", &["home:.cache"], false),
            ("home", "project", &["home-write:.cache/metier"], false),
            ("home", "project", &["home-write:.cache/metier/folder-listings"], false),
        ] {
            let output = project.exec_at_home(home, folder, level, grants, &attack);
            let (printed, what) =
                (String::from_utf8_lossy(&output.stdout), format!("{level} {home} {folder} {grants:?}"));
            assert!(!printed.contains("reached"), "{what}: {output:?}");
            let is_expected = is_covered && level == "namespaces";
            assert_eq!(printed.contains("ran"), is_expected, "{what}: {output:?}");
            assert_eq!(project.entries(), entries, "{what}: {output:?}");
            let key_now = fs::read(project.0.at("home/.local/state/metier/wasm-cache.key")).unwrap();
            assert_eq!(key_now, key, "{what}");
            fs::remove_file(project.0.at(&format!("{folder}/own"))).ok();
        }
    }
    assert!(project.exec("project", "namespaces", &["read"], "true").status.success());
    assert_eq!(project.entries(), entries, "it is still used");
    // Nothing is remembered of a project in which the cache lies.
    for number in 0..MANY_FOLDERS {
        fs::create_dir_all(project.0.at(&format!("home/many/{number}"))).unwrap();
    }
    std::thread::sleep(TIME_TO_SETTLE);
    assert!(project.exec("home", "namespaces", &["read"], "true").status.success());
    assert_eq!(project.entries(), entries);
}
