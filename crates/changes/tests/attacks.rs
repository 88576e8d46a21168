//! What other processes and hostile change sets do while changes are applied.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use metier_changes::{ApplyOptions, ChangeStore};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use support::{Bench, conflicts, link, tree, whiteout, write};

const VARIABLE: &str = "METIER_CHANGES_FOLDER";

/// Ends the other thread, also where an assertion fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_folder_that_is_swapped_for_a_link_leads_out_of_the_project() {
    const FILES: usize = 20;
    const ROUNDS: usize = 150;
    let bench = Bench::new(&[]);
    let outside = bench.temp.path().join("outside");
    for number in 0..FILES {
        for root in [&bench.project, &outside] {
            write(root, &format!("d/e/changed{number}"), "old");
            write(root, &format!("d/e/gone{number}"), "old");
        }
        write(&bench.upper, &format!("d/e/changed{number}"), "new");
        write(&bench.upper, &format!("d/e/new{number}"), "new");
        whiteout(&bench.upper, &format!("d/e/gone{number}"));
    }
    link(&bench.temp.path().join("project"), "trap", outside.join("d").to_str().unwrap());
    let before = tree(&outside);
    let id = bench.read_and_keep();
    let is_over = AtomicBool::new(false);
    let (mut applied, mut refused) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for _ in 0..2 {
                    let (folder, trap) = (bench.project.join("d"), bench.project.join("trap"));
                    renameat_with(CWD, folder, CWD, trap, RenameFlags::EXCHANGE).unwrap();
                }
            }
        });
        let _end = EndOnDrop(&is_over);
        for _ in 0..ROUNDS {
            let report = bench.apply(&id, None, true);
            applied += report.applied.len();
            refused += report.conflicts.len();
            if !bench.store().find(&id).unwrap().applied.is_empty() {
                refused += bench.undo(&id).conflicts.len();
            }
        }
    });
    assert_eq!(tree(&outside), before);
    assert!(applied > 0 && refused > 0, "{applied} were applied, {refused} refused");
    assert!(!bench.project.join("d").is_symlink());
}

#[test]
fn files_that_somebody_writes_while_they_are_replaced_are_not_lost() {
    const ROUNDS: usize = 200;
    let bench = Bench::new(&[("file", "old")]);
    write(&bench.upper, "file", "of the skill");
    let id = bench.read_and_keep();
    let is_over = AtomicBool::new(false);
    let (mut conflicts, mut applied) = (0, 0);
    std::thread::scope(|scope| {
        // Saves as editors do: a new file in the place of the old one.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                for text in ["user", "old"] {
                    write(bench.temp.path(), "draft", text);
                    fs::rename(bench.temp.path().join("draft"), bench.project.join("file")).unwrap();
                }
            }
        });
        let _end = EndOnDrop(&is_over);
        for _ in 0..ROUNDS {
            let options = ApplyOptions { keep_old: true, ..ApplyOptions::default() };
            let report = match bench.store().apply(&id, bench.project_dir().as_fd(), &options) {
                Ok(report) => report,
                // Somebody saved over the content in the moment in which it was at the path: the set has lost it, and nobody else.
                Err(error) if error.to_string().contains("its stored content is") => break,
                Err(error) => panic!("{error}"),
            };
            conflicts += report.conflicts.len();
            applied += report.applied.len();
            if report.applied.is_empty() {
                continue;
            }
            let stored = fs::read_to_string(bench.store.join(&id).join("content/0.old")).unwrap();
            assert_eq!(stored, "old", "only what was compared is replaced");
            conflicts += bench.undo(&id).conflicts.len();
            if !bench.store().find(&id).unwrap().applied.is_empty() {
                // The user has saved since, so it stays applied.
                break;
            }
        }
    });
    assert!(conflicts > 0, "nobody interfered");
    let found = fs::read_to_string(bench.project.join("file")).unwrap();
    assert!(["user", "old", "of the skill"].contains(&&*found), "{found}");
    assert!(applied <= ROUNDS);
}

#[test]
fn a_set_that_two_apply_at_once_is_applied_once() {
    let bench = Bench::new(&[]);
    for number in 0..100 {
        write(&bench.upper, &format!("d/{number}"), "new");
    }
    let id = bench.read_and_keep();
    let reports: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| bench.apply(&id, None, true))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut counts: Vec<_> = reports.iter().map(|report| report.applied.len()).collect();
    counts.sort_unstable();
    assert_eq!(counts, [0, 0, 0, 101]);
    assert!(reports.iter().all(|report| report.conflicts.is_empty()));
}

#[test]
fn two_sets_of_one_project_do_not_overwrite_one_another() {
    let bench = Bench::new(&[("a", "old"), ("b", "old")]);
    write(&bench.upper, "a", "first");
    write(&bench.upper, "b", "first");
    let first = bench.read_and_keep();
    write(&bench.upper, "b", "second");
    let second = bench.read_and_keep();
    assert_eq!(bench.apply(&second, None, true).applied, ["b"]);
    let report = bench.apply(&first, None, true);
    assert_eq!(report.applied, ["a"]);
    assert_eq!(conflicts(&report), ["b: it was changed"]);
    assert_eq!(fs::read_to_string(bench.project.join("b")).unwrap(), "second");
}

#[test]
fn a_stored_set_with_a_path_out_of_the_project_or_into_a_repository_is_not_applied() {
    for path in ["../escaped", ".git/hooks/post-commit", "a/../../escaped", "/tmp/escaped-by-metier"] {
        let bench = Bench::new(&[]);
        write(&bench.upper, "name-to-replace", "x");
        let id = bench.read_and_keep();
        let file = bench.store.join(&id).join("set.json");
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace("name-to-replace", path)).unwrap();
        let options = ApplyOptions::default();
        let error = bench.store().apply(&id, bench.project_dir().as_fd(), &options).unwrap_err().to_string();
        assert!(error.contains("not a path in the project") || error.contains("repository"), "{error}");
        assert!(bench.tree().is_empty() && !bench.temp.path().join("escaped").exists());
        assert!(!Path::new("/tmp/escaped-by-metier").exists());
    }
}

#[test]
fn a_damaged_set_is_an_error_and_harms_no_other() {
    let bench = Bench::new(&[]);
    write(&bench.upper, "a", "1");
    let good = bench.read_and_keep();
    write(&bench.upper, "b", "2");
    let bad = bench.read_and_keep();
    for (file, text) in [("set.json", "{"), ("state.json", "[]"), ("journal.json", "nonsense")] {
        fs::write(bench.store.join(&bad).join(file), text).unwrap();
        bench.store().find(&good).unwrap();
    }
    assert!(bench.store().find(&bad).unwrap_err().to_string().contains(&bad));
    assert_eq!(bench.store().list().unwrap().len(), 1);
    assert_eq!(bench.apply(&good, None, false).applied, ["a"]);
    fs::remove_file(bench.store.join(&good).join("set.json")).unwrap();
    fs::create_dir(bench.store.join(&good).join("set.json")).unwrap();
    assert!(bench.store().find(&good).is_err());
}

#[test]
fn content_that_is_missing_applies_nothing() {
    let bench = Bench::new(&[]);
    write(&bench.upper, "a", "1");
    write(&bench.upper, "b", "2");
    let id = bench.read_and_keep();
    fs::remove_file(bench.store.join(&id).join("content/1")).unwrap();
    let options = ApplyOptions::default();
    let error = bench.store().apply(&id, bench.project_dir().as_fd(), &options).unwrap_err().to_string();
    assert!(error.contains("b: its content is not stored any more"), "{error}");
    assert!(bench.tree().is_empty());
    assert_eq!(bench.apply(&id, Some(&["a"]), false).applied, ["a"]);
}

/// The project is on a file system with little space, the store on another one.
#[test]
fn a_full_disk_is_an_error_and_everything_is_taken_back() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("small")).unwrap();
    let mount = "mount -t tmpfs -o size=256k tmpfs small";
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-c", script]).current_dir(root.path()).env(VARIABLE, root.path());
        command.output()
    };
    let probe = in_namespace(mount);
    if !probe.as_ref().is_ok_and(|probe| probe.status.success()) {
        println!("skipped: no file system can be mounted here: {probe:?}");
        return;
    }
    let test = std::env::current_exe().unwrap();
    let script = format!("{mount} && {} --ignored --exact full_disk", test.display());
    let ran = in_namespace(&script).unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
    assert!(String::from_utf8_lossy(&ran.stdout).contains("1 passed"));
}

#[test]
#[ignore = "is started by another test, in a mount namespace"]
fn full_disk() {
    let root = std::env::var(VARIABLE).expect("is started by another test");
    let root = Path::new(&root);
    let small = root.join("small");
    // The upper folder and the store have space, the project has none.
    let mut bench = Bench::in_folder(tempfile::tempdir_in(&small).unwrap(), &[("a", "old"), ("b", "old")]);
    bench.upper = root.join("upper");
    bench.store = root.join("store");
    write(&bench.upper, "a", &"new".repeat(30_000));
    write(&bench.upper, "b", &"new".repeat(30_000));
    write(&bench.upper, "c", &"new".repeat(30_000));
    let before = bench.tree();
    let id = bench.read_and_keep();
    let apply = |paths: Option<Vec<String>>, store: &ChangeStore| {
        let options = ApplyOptions { paths, keep_old: true, ..ApplyOptions::default() };
        store.apply(&id, bench.project_dir().as_fd(), &options)
    };
    let error = apply(None, &bench.store()).unwrap_err().to_string();
    assert!(error.contains("No space left") && error.contains("the project is as it was"), "{error}");
    assert_eq!(bench.tree(), before);
    assert!(apply(Some(vec!["a".to_owned()]), &bench.store()).unwrap().conflicts.is_empty());
    bench.undo(&id);
    assert_eq!(bench.tree(), before);

    // The store has none.
    let mut bench = Bench::in_folder(tempfile::tempdir_in(root).unwrap(), &[("big", &"old".repeat(50_000))]);
    bench.store = small.join("store");
    write(&bench.upper, "big", "new");
    let id = bench.read_and_keep();
    write(&small, "filler", &"x".repeat(150_000));
    let before = bench.tree();
    let options = ApplyOptions { keep_old: true, ..ApplyOptions::default() };
    let error = bench.store().apply(&id, bench.project_dir().as_fd(), &options).unwrap_err().to_string();
    assert!(error.contains("No space left") && error.contains("the project is as it was"), "{error}");
    assert_eq!(bench.tree(), before);
    assert_eq!(bench.apply(&id, None, false).applied, ["big"]);
}
