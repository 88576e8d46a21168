//! `metier changes` and `metier undo`: a stored change set is listed, shown, applied, undone and discarded.
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::time::SystemTime;

use metier::changes::{ChangeSet, ChangeStore, ReadLimits, ReadRules, RunFacts};
use serde_json::json;

use crate::support::cli::{Project, write};

/// A project with a stored change set; its id.
fn project() -> (Project, String) {
    let project = Project::new().file("src/a.txt", "one\ntwo\n").file("gone.txt", "gone\n");
    let upper = tempfile::tempdir().unwrap();
    write(&upper.path().join("src/a.txt"), "one\n2\n");
    write(&upper.path().join("src/new\u{1b}[2J.txt"), "new\n");
    fs::create_dir_all(project.home()).unwrap();
    let whiteout = upper.path().join("gone.txt");
    let device = rustix::fs::FileType::CharacterDevice;
    rustix::fs::mknodat(rustix::fs::CWD, whiteout, device, rustix::fs::Mode::empty(), 0).unwrap();
    let root = project.path(".").canonicalize().unwrap();
    let (root_dir, upper_dir) = (File::open(&root).unwrap(), File::open(upper.path()).unwrap());
    let facts = RunFacts { project: root, skill: "project/.metier:x".to_owned(), started: SystemTime::now() };
    let limits = ReadLimits::default();
    let set =
        ChangeSet::read(root_dir.as_fd(), upper_dir.as_fd(), &facts, &limits, &ReadRules::default()).unwrap();
    let store = ChangeStore::open(project.home().join(".local/share/metier/changes")).unwrap();
    let id = store.keep(&set, upper_dir.as_fd()).unwrap().set.id;
    (project, id)
}

#[test]
fn a_change_set_is_listed_and_shown_without_orders_to_the_terminal() {
    let empty = Project::new();
    assert!(empty.metier(&["changes"]).stderr.contains("no change set is stored"));
    assert_eq!(empty.metier(&["changes", "list", "--json"]).json(), json!([]));
    let (project, id) = project();
    let list = project.metier(&["changes"]).stdout;
    assert!(list.starts_with(&format!("{id}  project/.metier:x  3 changes, not applied, ")), "{list}");
    let shown = project.metier(&["changes", "show", &id]).stdout;
    for line in [
        " deleted   gone.txt  5 bytes",
        " changed   src/a.txt  8 -> 6 bytes",
        " created   src/new\\u{1b}[2J.txt  4 bytes",
        " 1 created, 1 changed, 1 deleted",
        "@@ -1,2 +1,2 @@\n one\n-two\n+2",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
    let shown = project.metier(&["changes", "show", &id, "--json"]).json();
    assert_eq!(shown["change_set"]["changes"][1]["kind"], "changed");
    assert_eq!(shown["diffs"][1], json!({"path": "src/a.txt", "diff": "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"}));
}

#[test]
fn changes_are_applied_undone_and_discarded() {
    let (project, id) = project();
    let before = project.tree();
    let applied = project.metier(&["changes", "apply", &id, "./src/", "--undoable", "--json"]);
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(applied.json(), json!({"applied": ["src/a.txt", "src/new\u{1b}[2J.txt"], "conflicts": []}));
    assert_eq!(fs::read_to_string(project.path("src/a.txt")).unwrap(), "one\n2\n");
    assert!(project.path("gone.txt").exists());
    let rest = project.metier(&["changes", "apply", &id, "--undoable"]);
    assert_eq!((rest.code, &*rest.stderr), (0, "applied 1 path\n"));
    assert!(!project.path("gone.txt").exists());

    fs::write(project.path("src/a.txt"), "the user's").unwrap();
    let undone = project.metier(&["undo"]);
    assert_eq!(undone.code, 1, "{undone:?}");
    assert!(undone.stderr.starts_with("undone 2 paths\n"), "{undone:?}");
    assert!(undone.stderr.contains("not undone: src/a.txt: it was changed; expected a file of 6 bytes"));
    assert_eq!(fs::read_to_string(project.path("src/a.txt")).unwrap(), "the user's");
    assert_eq!(project.tree(), before);
    fs::write(project.path("src/a.txt"), "one\n2\n").unwrap();
    assert_eq!(project.metier(&["undo", &id]).code, 0);
    assert_eq!(fs::read_to_string(project.path("src/a.txt")).unwrap(), "one\ntwo\n");
    assert!(project.metier(&["undo"]).stderr.contains("nothing that was applied in this project"));

    assert_eq!(project.metier(&["changes", "discard", &id, "--json"]).json(), json!({"discarded": id}));
    assert_eq!(project.metier(&["changes", "--json"]).json(), json!([]));
}

#[test]
fn wrong_ids_and_paths_are_errors() {
    let (project, id) = project();
    for unknown in ["00000000000000000000000000000000", "../trust/trust", ""] {
        for action in ["show", "apply", "discard"] {
            assert_eq!(project.metier(&["changes", action, unknown]).code, 2, "{action} {unknown}");
        }
        assert_eq!(project.metier(&["undo", unknown]).code, 2, "{unknown}");
    }
    let answer = project.metier(&["changes", "apply", &id, "missing"]);
    assert!(answer.code == 2 && answer.stderr.contains("no change at \"missing\""), "{answer:?}");
    let failure = project.metier(&["undo", &id, "--json"]).json();
    assert_eq!(failure["error"]["kind"], "usage", "{failure}");
}
