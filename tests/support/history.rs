//! A git history from a list: the same commits, down to their hashes, on every machine.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// One commit: its message, the files it writes, the tag it gets.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    message: String,
    #[serde(default)]
    files: BTreeMap<String, String>,
    tag: Option<String>,
}

/// Author, committer and configuration, so that nothing of the machine gets into a hash.
const FIXED: [(&str, &str); 6] = [
    ("GIT_AUTHOR_NAME", "Ann"),
    ("GIT_AUTHOR_EMAIL", "ann@example.org"),
    ("GIT_COMMITTER_NAME", "Ann"),
    ("GIT_COMMITTER_EMAIL", "ann@example.org"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_CONFIG_GLOBAL", "/dev/null"),
];
/// The first commit's time: 2026-01-31, noon. Each later one is a minute younger.
const NOON: u64 = 1_769_860_800;

/// Makes a repository in `folder` with these commits, oldest first.
pub fn write_history(folder: &Path, commits: &[Commit]) {
    git(folder, NOON, &["init", "--quiet", "--initial-branch=main"]);
    for (commit, time) in commits.iter().zip((NOON..).step_by(60)) {
        for (path, text) in &commit.files {
            std::fs::write(folder.join(path), text).unwrap();
        }
        git(folder, time, &["add", "--all"]);
        git(folder, time, &["commit", "--quiet", "--allow-empty", "--message", &commit.message]);
        if let Some(tag) = &commit.tag {
            git(folder, time, &["tag", tag]);
        }
    }
}

fn git(folder: &Path, time: u64, args: &[&str]) {
    let time = format!("{time} +0000");
    let done = Command::new("git")
        .args(args)
        .current_dir(folder)
        // Run from a git hook, the tests would otherwise write into the repository of that hook.
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .envs(FIXED)
        .envs([("GIT_AUTHOR_DATE", &time), ("GIT_COMMITTER_DATE", &time)])
        .output()
        .unwrap();
    assert!(done.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&done.stderr));
}
