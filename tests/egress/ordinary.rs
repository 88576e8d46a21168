//! The same tests as a user without any power.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::egress::fixture::{HELPER_VARIABLE, helper};
use crate::egress::go_client;
use crate::support::not_run::{not_run, record};

/// The user whom every system gives to what belongs to nobody.
const NOBODY: u32 = 65_534;

#[test]
fn everything_holds_for_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        return not_run("the tests of an ordinary user", "these are that user's already");
    }
    let home = tempfile::tempdir().unwrap();
    let at = |name: &str| home.path().join(name);
    fs::create_dir(at("tmp")).unwrap();
    fs::copy(std::env::current_exe().unwrap(), at("tests")).unwrap();
    let mut command = Command::new(at("tests"));
    if let Some(helper) = helper() {
        fs::copy(helper, at("helper")).unwrap();
        command.env(HELPER_VARIABLE, at("helper"));
    }
    if let Some(client) = go_client::program() {
        fs::copy(client, at("go-client")).unwrap();
        command.env(go_client::CLIENT_VARIABLE, at("go-client"));
    }
    for name in
        ["", "tmp", "tests", "helper", "go-client"].iter().map(|name| at(name)).filter(|path| path.exists())
    {
        chown(&name, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(&name, Permissions::from_mode(0o700)).unwrap();
    }
    command
        .args(["egress::", "--skip", "everything_holds_for_an_ordinary_user", "--nocapture"])
        .env("HOME", home.path())
        .env("TMPDIR", at("tmp"))
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(home.path());
    let ended = command.gid(NOBODY).uid(NOBODY).output().unwrap();
    let (out, error) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    error.lines().filter_map(|line| line.strip_prefix("not run: ")).for_each(record);
    assert!(ended.status.success() && out.contains("test result: ok"), "{out}\n{error}");
}
