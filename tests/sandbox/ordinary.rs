//! A test run again by a user without any power.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::sandbox::{attackers, fixture};
use crate::support::not_run::{print_uncaptured, record};

/// The user whom every system gives to what belongs to nobody.
const NOBODY: u32 = 65_534;

/// Runs the test of this name again, in a process of an ordinary user's with folders of its own. Whoever is an ordinary user has
/// run it as one already.
pub fn run_as_nobody(test: &str) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    copy_tests(home.path());
    let mut command = Command::new(home.path().join("tests"));
    set_environment(&mut command, home.path(), test);
    let ended = command.gid(NOBODY).uid(NOBODY).output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    for line in error.lines() {
        match line.strip_prefix("not run: ") {
            Some(line) => record(line),
            None if line.starts_with("sandbox:") => print_uncaptured(line),
            None => {}
        }
    }
    assert!(ended.status.success() && out.contains("1 passed"), "{out}\n{error}");
}

/// Copies what the tests need into a folder of that user's: neither programs nor sources need lie where others may read.
pub fn copy_tests(home: &Path) {
    let here = |name: &str| home.join(name);
    fs::copy(std::env::current_exe().unwrap(), here("tests")).unwrap();
    fs::create_dir(here("attackers")).unwrap();
    for source in fs::read_dir(attackers::sources()).unwrap() {
        let source = source.unwrap();
        fs::copy(source.path(), here("attackers").join(source.file_name())).unwrap();
    }
    if let Some(helper) = fixture::helper() {
        fs::copy(helper, here("helper")).unwrap();
    }
    fs::create_dir(here("tmp")).unwrap();
    change_owner(home, NOBODY);
}

/// The arguments and the environment of the tests in such a folder.
pub fn set_environment(command: &mut Command, home: &Path, test: &str) {
    if fixture::helper().is_some() {
        command.env(fixture::HELPER_VARIABLE, home.join("helper"));
    }
    command
        .args(["--exact", test, "--nocapture"])
        .env(attackers::SOURCES_VARIABLE, home.join("attackers"))
        .env("HOME", home)
        .env("TMPDIR", home.join("tmp"))
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(home);
}

/// Makes a folder and what is in it a user's.
pub fn change_owner(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    let is_folder = path.is_dir();
    fs::set_permissions(path, Permissions::from_mode(if is_folder { 0o700 } else { 0o500 })).unwrap();
    if is_folder {
        for entry in fs::read_dir(path).unwrap() {
            change_owner(&entry.unwrap().path(), user);
        }
    }
}
