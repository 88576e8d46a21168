//! A server that is killed in the middle of its calls leaves nothing behind that the next one would meet.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::cli::Project;
use crate::processes::{processes, wait_until};

/// What lies in a folder, by name.
fn names_in(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).collect()
}

fn mounts() -> usize {
    std::fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count()
}

#[test]
fn a_server_that_is_killed_mid_call_leaves_no_process_folder_or_mount() {
    let temp = tempfile::TempDir::new().unwrap();
    let project = Project::new()
        .shell("tree", "touch $TMPDIR/mine; sleep 3987.651 & (sleep 3987.652) & wait")
        .lua("hello", "return 'hello'")
        .trusted();
    let environment = [("TMPDIR", temp.path().to_str().unwrap())];
    let mounted = mounts();
    for _ in 0..3 {
        let mut server = project.http_server_with(&[], &environment);
        let mut session = server.session("2025-11-25");
        let _calls: Vec<_> = (0..3)
            .map(|_| server.start("tools/call", json!({"name": "tree", "arguments": {}})))
            .chain([session.start("tools/call", json!({"name": "tree", "arguments": {}})).1])
            .collect();
        wait_until(|| processes("3987.65") == 8);
        server.child.kill().unwrap();
        server.child.wait().unwrap();
        wait_until(|| processes("3987.65") == 0);
    }
    wait_until(|| names_in(temp.path()).is_empty());
    assert_eq!(mounts(), mounted);
    let server = project.http_server_with(&[], &environment);
    assert_eq!(server.text("hello", json!({})), "hello");
    assert_eq!(server.stop().0, Some(0));
}
