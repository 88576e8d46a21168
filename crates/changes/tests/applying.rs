//! Change sets are applied to a project and undone; what the user has changed meanwhile stays.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;

use metier_changes::{ApplyOptions, StoreLimits};
use std::os::fd::AsFd;
use support::{Bench, conflicts, link, make_opaque, set_mode, tree, whiteout, write};

/// A project, and a run that does something of everything to it.
fn bench() -> Bench {
    let bench = Bench::new(&[
        ("changed", "old"),
        ("gone", "gone"),
        ("mode", "mode"),
        ("becomes-folder", "file"),
        ("becomes-file/a/b", "1"),
        ("becomes-file/c", "2"),
        ("removed/x/y", "3"),
        ("removed/z", "4"),
        ("from/moved", "moved content"),
        ("stays/here", "5"),
    ]);
    link(&bench.project, "link", "changed");
    let upper = &bench.upper;
    write(upper, "changed", "new");
    whiteout(upper, "gone");
    write(upper, "mode", "mode");
    set_mode(upper, "mode", 0o700);
    make_opaque(upper, "becomes-folder");
    write(upper, "becomes-folder/inner/file", "6");
    write(upper, "becomes-file", "a file");
    whiteout(upper, "removed");
    whiteout(upper, "from/moved");
    write(upper, "to/moved", "moved content");
    link(upper, "link", "stays/here");
    link(upper, "stays/link", "../changed");
    write(upper, "stays/new", "7");
    fs::create_dir(upper.join("closed")).unwrap();
    write(upper, "closed/file", "8");
    set_mode(upper, "closed", 0o500);
    bench
}

#[test]
fn with_all_or_nothing_a_conflict_anywhere_leaves_the_project_as_it_is() {
    let bench = bench();
    let id = bench.read_and_keep();
    let apply = || {
        let options = ApplyOptions { keep_old: true, all_or_nothing: true, ..ApplyOptions::default() };
        bench.store().apply(&id, bench.project_dir().as_fd(), &options).unwrap()
    };
    for path in ["changed", "stays/new"] {
        let old = fs::read_to_string(bench.project.join(path)).ok();
        write(&bench.project, path, "somebody else's");
        let before = bench.tree();
        let report = apply();
        assert_eq!(report.applied, [] as [String; 0], "{path}");
        assert_eq!(report.conflicts.len(), 1, "{:?}", conflicts(&report));
        assert_eq!(report.conflicts[0].path, path);
        assert_eq!(bench.tree(), before, "{path}");
        match old {
            Some(old) => write(&bench.project, path, &old),
            None => fs::remove_file(bench.project.join(path)).unwrap(),
        }
    }
    let before = bench.tree();
    assert_eq!(conflicts(&apply()), [] as [String; 0], "nothing of the first attempts is in the way");
    assert_ne!(bench.tree(), before);
    assert_eq!(conflicts(&bench.undo(&id)), [] as [String; 0]);
    assert_eq!(bench.tree(), before);
}

#[test]
fn what_was_in_conflict_from_the_beginning_is_one_of_all_or_nothing() {
    let bench = Bench::new(&[("a", "1"), ("b", "1")]);
    write(&bench.upper, "a", "2");
    write(&bench.upper, "b", "2");
    let started = std::time::SystemTime::now() - Duration::from_hours(1);
    let set = bench.try_read(started, &metier_changes::ReadLimits::default()).unwrap();
    let late = set.changes.iter().filter(|change| change.conflict.is_some()).count();
    let id = bench.keep(&set).set.id;
    let options = ApplyOptions { all_or_nothing: true, ..ApplyOptions::default() };
    let before = bench.tree();
    let report = bench.store().apply(&id, bench.project_dir().as_fd(), &options).unwrap();
    assert!(late > 0 && report.conflicts.len() == late, "{:?}", conflicts(&report));
    assert_eq!((report.applied.len(), bench.tree()), (0, before));
}

#[test]
fn a_set_is_applied_and_undone() {
    let bench = bench();
    let before = bench.tree();
    let id = bench.read_and_keep();
    assert_eq!(bench.tree(), before, "keeping a set does nothing to the project");
    let report = bench.apply(&id, None, true);
    assert!(report.conflicts.is_empty(), "{:?}", conflicts(&report));
    let read = |path: &str| fs::read_to_string(bench.project.join(path)).unwrap();
    assert_eq!(read("changed"), "new");
    assert_eq!(read("becomes-folder/inner/file"), "6");
    assert_eq!(read("becomes-file"), "a file");
    assert_eq!(read("to/moved"), "moved content");
    assert_eq!(read("stays/link"), "new");
    assert_eq!(fs::read_link(bench.project.join("link")).unwrap().to_str(), Some("stays/here"));
    for gone in ["gone", "removed", "from/moved"] {
        assert!(!bench.project.join(gone).exists(), "{gone}");
    }
    let mode = |path: &str| bench.project.join(path).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode("mode"), mode("closed")), (0o700, 0o500));
    let applied = bench.tree();

    let found = bench.store().find(&id).unwrap();
    assert_eq!(found.applied.len(), found.set.changes.len());
    assert!(bench.apply(&id, None, true).applied.is_empty(), "what is applied is not applied again");
    let report = bench.undo(&id);
    assert!(report.conflicts.is_empty(), "{:?}", conflicts(&report));
    assert_eq!(bench.tree(), before);
    assert!(bench.store().find(&id).unwrap().applied.is_empty());
    assert!(bench.apply(&id, None, true).conflicts.is_empty());
    assert_eq!(bench.tree(), applied, "it can be applied again");
    assert!(bench.undo(&id).conflicts.is_empty());
    assert_eq!(bench.tree(), before);
}

#[test]
fn some_paths_are_applied_with_their_folders() {
    let bench = bench();
    let id = bench.read_and_keep();
    let report = bench.apply(&id, Some(&["becomes-folder/inner/file", "gone"]), true);
    assert_eq!(
        report.applied,
        ["becomes-folder", "becomes-folder/inner", "becomes-folder/inner/file", "gone"]
    );
    assert_eq!(fs::read_to_string(bench.project.join("changed")).unwrap(), "old");
    let report = bench.apply(&id, Some(&["from/moved"]), true);
    assert_eq!(report.applied, ["to", "to/moved"]);
    let options =
        ApplyOptions { paths: Some(vec!["nothing".to_owned()]), keep_old: false, ..ApplyOptions::default() };
    let error = bench.store().apply(&id, bench.project_dir().as_fd(), &options).unwrap_err();
    assert!(error.to_string().contains("no change at \"nothing\""), "{error}");
    let rest = bench.apply(&id, None, true);
    assert!(rest.applied.contains(&"changed".to_owned()) && !rest.applied.contains(&"gone".to_owned()));
}

#[test]
fn what_the_user_changed_since_is_a_conflict_and_stays() {
    let bench = bench();
    let id = bench.read_and_keep();
    write(&bench.project, "changed", "the user's");
    write(&bench.project, "gone", "the user's");
    write(&bench.project, "removed/new", "the user's");
    write(&bench.project, "to/moved", "the user's");
    set_mode(&bench.project, "mode", 0o640);
    let report = bench.apply(&id, None, false);
    assert_eq!(
        conflicts(&report),
        [
            "changed: it was changed",
            "mode: it was changed",
            "to: something is there already",
            "to/moved: something is there already",
            "removed: the folder holds something else",
            "gone: it was changed",
        ]
    );
    let sizes = |conflict: &metier_changes::Conflict| {
        [&conflict.expected, &conflict.found].map(|state| state.as_ref().map(|state| state.size))
    };
    assert_eq!(sizes(&report.conflicts[0]), [Some(3), Some(10)]);
    assert_eq!(sizes(&report.conflicts[2]), [None, Some(0)]);
    let read = |path: &str| fs::read_to_string(bench.project.join(path)).unwrap();
    for path in ["changed", "gone", "removed/new", "to/moved"] {
        assert_eq!(read(path), "the user's");
    }
    assert_eq!(read("from/moved"), "moved content", "a rename is applied as a whole or not at all");
    assert_eq!(read("becomes-file"), "a file");
}

#[test]
fn undo_restores_what_nobody_changed_since() {
    let bench = bench();
    let before = bench.tree();
    let id = bench.read_and_keep();
    bench.apply(&id, None, true);
    write(&bench.project, "changed", "the user's");
    write(&bench.project, "becomes-folder/inner/mine", "the user's");
    write(&bench.project, "gone", "the user's");
    let report = bench.undo(&id);
    let mut found = conflicts(&report);
    found.sort();
    assert_eq!(
        found,
        [
            "becomes-folder/inner: the folder holds something else",
            "becomes-folder: the folder holds something else",
            "changed: it was changed",
            "gone: something is there already",
        ]
    );
    let mut expected = before.clone();
    let after = bench.tree();
    for path in ["changed", "becomes-folder", "becomes-folder/inner", "becomes-folder/inner/mine", "gone"] {
        expected.insert(path.into(), after[std::path::Path::new(path)].clone());
    }
    assert_eq!(after, expected);
}

#[test]
fn without_the_old_contents_nothing_is_undone() {
    let bench = Bench::new(&[("a", "old")]);
    write(&bench.upper, "a", "new");
    let id = bench.read_and_keep();
    bench.apply(&id, None, false);
    let error = bench.store().undo(&id, bench.project_dir().as_fd()).unwrap_err();
    assert!(error.to_string().contains("what it replaced was not stored"), "{error}");
    assert_eq!(fs::read_dir(bench.store.join(&id).join("content")).unwrap().count(), 0);
}

#[test]
fn other_names_of_a_file_are_not_written_through() {
    let bench = Bench::new(&[("a", "old"), ("m", "mode")]);
    for name in ["a", "m"] {
        fs::hard_link(bench.project.join(name), bench.temp.path().join(name)).unwrap();
    }
    write(&bench.upper, "a", "new");
    write(&bench.upper, "m", "mode");
    set_mode(&bench.upper, "m", 0o755);
    // A script could still write to a file that has a second name.
    fs::hard_link(bench.upper.join("a"), bench.temp.path().join("second")).unwrap();
    let id = bench.read_and_keep();
    bench.apply(&id, None, false);
    assert_eq!(fs::read_to_string(bench.temp.path().join("a")).unwrap(), "old");
    assert_eq!(bench.temp.path().join("m").metadata().unwrap().mode() & 0o777, 0o644);
    assert_eq!(bench.project.join("a").metadata().unwrap().nlink(), 1);
    fs::write(bench.temp.path().join("second"), "later").unwrap();
    assert_eq!(fs::read_to_string(bench.project.join("a")).unwrap(), "new");
}

#[test]
fn no_program_gets_the_rights_of_its_owner() {
    let bench = Bench::new(&[]);
    write(&bench.upper, "program", "x");
    set_mode(&bench.upper, "program", 0o6755);
    fs::create_dir(bench.upper.join("folder")).unwrap();
    set_mode(&bench.upper, "folder", 0o3777);
    support::set_attribute(&bench.upper, "program", "user.overlay.origin", b"x");
    let id = bench.read_and_keep();
    bench.apply(&id, None, false);
    let mode = |path: &str| bench.project.join(path).metadata().unwrap().mode() & 0o7777;
    assert_eq!((mode("program"), mode("folder")), (0o755, 0o777));
    let mut names = [0; 64];
    assert_eq!(rustix::fs::listxattr(bench.project.join("program"), &mut names).unwrap(), 0);
}

#[test]
fn a_set_is_applied_to_its_own_project_only() {
    let bench = Bench::new(&[]);
    write(&bench.upper, "a", "1");
    let id = bench.read_and_keep();
    let other = tempfile::tempdir().unwrap();
    let dir = fs::File::open(other.path()).unwrap();
    let error = bench.store().apply(&id, dir.as_fd(), &ApplyOptions::default()).unwrap_err();
    assert!(error.to_string().contains("another project"), "{error}");
    assert!(tree(other.path()).is_empty());
}

#[test]
fn the_store_is_private_and_bounded() {
    let bench = Bench::new(&[]);
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        write(&bench.upper, name, "0123456789");
        let set = bench.read();
        let upper = fs::File::open(&bench.upper).unwrap();
        let limits = StoreLimits { bytes: 25, ..StoreLimits::default() };
        ids.push(bench.store().with_limits(limits).keep(&set, upper.as_fd()).unwrap().set.id);
    }
    let listed: Vec<_> = bench.store().list().unwrap().into_iter().map(|stored| stored.set.id).collect();
    assert_eq!(listed.len(), 2);
    assert!(listed.contains(&ids[2]));
    for (path, text) in tree(&bench.store) {
        let is_content = path.iter().any(|part| part == "content") && path.components().count() > 2;
        assert!(is_content || text.starts_with("folder 700") || text.starts_with("600"), "{path:?}: {text}");
    }
    let error = bench.store().with_limits(StoreLimits { bytes: 5, ..StoreLimits::default() });
    write(&bench.upper, "d", "0123456789");
    let set = bench.read();
    let error = error.keep(&set, fs::File::open(&bench.upper).unwrap().as_fd()).unwrap_err();
    assert!(error.to_string().contains("holds 10 bytes"), "{error}");
    bench.store().discard(&ids[2]).unwrap();
    assert!(bench.store().find(&ids[2]).is_err());
    let old = StoreLimits { age: Duration::ZERO, ..StoreLimits::default() };
    assert_eq!(bench.store().with_limits(old).prune().unwrap(), 0, "they are not a second old");
    assert!(bench.store().find("../../etc").is_err());
}

#[test]
fn a_stored_change_has_a_diff_before_and_after_it_is_applied() {
    let bench = Bench::new(&[("a", "one\ntwo\n"), ("gone", "x\n"), ("binary", "old")]);
    write(&bench.upper, "a", "one\n2\n");
    whiteout(&bench.upper, "gone");
    write(&bench.upper, "binary", "\0");
    write(&bench.upper, "new", "y\n");
    let id = bench.read_and_keep();
    let diffs = || -> Vec<_> {
        let set = bench.store().find(&id).unwrap().set;
        let project = bench.store().open_project(&set).unwrap();
        let diff = |index| {
            let diff = bench.store().text_diff(&set, index, project.as_fd(), 99);
            diff.unwrap().map(|diff| diff.to_string())
        };
        (0..set.changes.len()).map(diff).collect()
    };
    let text = |text: &str| Some(text.to_owned());
    let expected = [
        text("@@ -1,2 +1,2 @@\n one\n-two\n+2\n"),
        None,
        text("@@ -1 +0,0 @@\n-x\n"),
        text("@@ -0,0 +1 @@\n+y\n"),
    ];
    assert_eq!(diffs(), expected);
    bench.apply(&id, None, true);
    assert_eq!(diffs(), expected);
    bench.undo(&id);
    assert_eq!(diffs(), expected);
    write(&bench.project, "a", "the user's");
    assert_eq!(diffs()[0], None);
}

#[test]
fn a_closed_folder_that_is_not_removed_is_closed_again() {
    let bench = Bench::new(&[("closed/a", "1")]);
    set_mode(&bench.project, "closed", 0o555);
    whiteout(&bench.upper, "closed");
    let id = bench.read_and_keep();
    set_mode(&bench.project, "closed", 0o755);
    write(&bench.project, "closed/new", "the user's");
    set_mode(&bench.project, "closed", 0o555);
    let report = bench.apply(&id, None, true);
    assert_eq!(report.applied, ["closed/a"]);
    assert_eq!(conflicts(&report), ["closed: the folder holds something else"]);
    assert_eq!(bench.project.join("closed").metadata().unwrap().mode() & 0o777, 0o555);
    set_mode(&bench.project, "closed", 0o755);
}
