//! The attacks on files, in projects that lie on other file systems than most.

use std::process::Command;

use crate::sandbox::case::{CASE_VARIABLE, LEVEL_VARIABLE};
use crate::support::not_run::{find_program, not_run, print_uncaptured};

/// As in containers: the files of an image below, what was changed above.
#[test]
fn attacks_on_files_are_held_on_overlayfs() {
    if !rustix::process::geteuid().is_root() {
        return print_uncaptured("left to root: overlayfs, which only root mounts");
    }
    if find_program("unshare").is_none() {
        return not_run("attacks on overlayfs", "unshare is not installed");
    }
    let folder = tempfile::tempdir().unwrap();
    // An overlay cannot lie above another one.
    let mounts = "mount -t tmpfs tmpfs \"$0\" && cd \"$0\" && mkdir lower upper work merged \
        && mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay merged \
        && chmod 1777 merged && cd / && TMPDIR=$0/merged exec \"$@\"";
    for (level, cases) in
        [("namespaces", "F"), ("landlock", "F"), ("landlock", "K"), ("older namespaces without", "F")]
    {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", mounts])
            .arg(folder.path())
            .arg(std::env::current_exe().unwrap());
        let output = command
            .args(["--exact", "sandbox::every_attack_is_held", "--nocapture"])
            .env(CASE_VARIABLE, cases)
            .env(LEVEL_VARIABLE, level)
            .output()
            .unwrap();
        let (out, error) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains("1 passed"), "{out}\n{error}");
        for level in error.lines().filter(|line| line.starts_with("sandbox:")) {
            print_uncaptured(&format!("{level}, on overlayfs"));
        }
    }
}
