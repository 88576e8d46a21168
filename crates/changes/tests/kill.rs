//! A process that applies and undoes changes is killed at any moment: afterwards everything is applied, or nothing is.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{Bench, Tree, link, make_opaque, set_mode, tree, whiteout, write};
use tempfile::TempDir;

const VARIABLE: &str = "METIER_CHANGES_VICTIM";
const KILLS: usize = 150;
/// A file system that is not that of the project, where there is one.
const OTHER_FILE_SYSTEM: &str = "/dev/shm";

#[test]
fn a_kill_leaves_everything_applied_or_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let store = temp.path().join("store");
    Victim::new(temp, &store).survives_kills(0x9E37_79B9_7F4A_7C15);
}

#[test]
fn a_kill_leaves_everything_applied_or_nothing_with_a_store_elsewhere() {
    let Ok(elsewhere) = TempDir::new_in(OTHER_FILE_SYSTEM) else {
        println!("skipped: there is no {OTHER_FILE_SYSTEM}");
        return;
    };
    let temp = tempfile::tempdir().unwrap();
    Victim::new(temp, &elsewhere.path().join("store")).survives_kills(0xD1B5_4A32_D192_ED03);
}

/// A project with a stored set that is neither small nor large.
struct Victim {
    bench: Bench,
    id: String,
    before: Tree,
    after: Tree,
}

impl Victim {
    fn new(temp: TempDir, store: &Path) -> Self {
        let mut bench = Bench::in_folder(temp, &[]);
        store.clone_into(&mut bench.store);
        for number in 0..12 {
            write(&bench.project, &format!("changed/{number}"), "old");
            write(&bench.upper, &format!("changed/{number}"), &"new".repeat(number * 400));
            write(&bench.project, &format!("gone/{number}/file"), &number.to_string());
            write(&bench.project, &format!("from/{number}"), &format!("content {number}"));
            whiteout(&bench.upper, &format!("from/{number}"));
            write(&bench.upper, &format!("to/{number}"), &format!("content {number}"));
            write(&bench.upper, &format!("new/{number}/file"), &number.to_string());
            set_mode(&bench.upper, &format!("new/{number}"), 0o500);
        }
        whiteout(&bench.upper, "gone");
        link(&bench.project, "link", "from/1");
        link(&bench.upper, "link", "to/1");
        write(&bench.project, "folder/a/b", "1");
        write(&bench.upper, "folder", "a file");
        write(&bench.project, "file", "a file");
        make_opaque(&bench.upper, "file");
        write(&bench.upper, "file/a", "2");
        let before = bench.tree();
        let id = bench.read_and_keep();
        let report = bench.apply(&id, None, true);
        assert!(report.conflicts.is_empty(), "{:?}", support::conflicts(&report));
        let after = bench.tree();
        assert_ne!(before, after);
        Self { bench, id, before, after }
    }

    fn survives_kills(&self, seed: u64) {
        let mut chance = seed;
        let mut next = |bound: u64| {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (chance >> 33) % bound
        };
        let round = self.round();
        let (mut midway, mut both) = (0, [0, 0]);
        for kill in 0..20 * KILLS {
            // On a busy machine many hit a process that has not begun.
            if kill >= KILLS && midway > KILLS / 10 && both.iter().all(|count| *count > 0) {
                break;
            }
            let mut child = self.start();
            std::thread::sleep(round * u32::try_from(next(1_000)).unwrap() / 1_000);
            child.kill().unwrap();
            assert_eq!(child.wait().unwrap().code(), None, "it does not end by itself");
            midway += usize::from(self.has_journal());
            // Otherwise the next one takes it up, and is perhaps killed while it does.
            if next(2) == 0 {
                both[usize::from(self.check())] += 1;
            }
        }
        self.check();
        println!("{midway} of {KILLS} kills were midway; {both:?} ended undone and applied");
        assert!(midway > KILLS / 10, "only {midway} kills were midway");
        assert!(both.iter().all(|count| *count > 0), "{both:?}");
    }

    /// What was left is taken up; whether everything is applied afterwards.
    fn check(&self) -> bool {
        let stored = self.bench.store().find(&self.id).unwrap();
        let is_applied = !stored.applied.is_empty();
        let expected = if is_applied { &self.after } else { &self.before };
        let found = self.bench.tree();
        assert!(found == *expected, "{}", difference(&found, expected));
        assert!(!self.has_journal());
        is_applied
    }

    fn has_journal(&self) -> bool {
        self.bench.store.join(&self.id).join("journal.json").exists()
    }

    /// How long it takes to apply and to undo once.
    fn round(&self) -> Duration {
        let began = Instant::now();
        for _ in 0..4 {
            self.bench.undo(&self.id);
            self.bench.apply(&self.id, None, true);
        }
        began.elapsed() / 4
    }

    /// Starts a process that applies and undoes until it is killed.
    fn start(&self) -> Child {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "victim", "--nocapture"])
            .env(
                VARIABLE,
                format!("{}\n{}\n{}", self.bench.store.display(), self.bench.project.display(), self.id),
            )
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("ready")), "it did not start");
        child
    }
}

#[test]
#[ignore = "is started by the other tests, and ends only when it is killed"]
fn victim() {
    use std::os::fd::AsFd;
    let variable = std::env::var(VARIABLE).expect("is started by the other tests");
    let [store, project, id] = variable.split('\n').collect::<Vec<_>>().try_into().unwrap();
    let project = fs::File::open(project).unwrap();
    println!("ready");
    loop {
        let store = metier_changes::ChangeStore::open(store).unwrap();
        let report = if store.find(id).unwrap().applied.is_empty() {
            let options = metier_changes::ApplyOptions { keep_old: true, ..Default::default() };
            store.apply(id, project.as_fd(), &options).unwrap()
        } else {
            store.undo(id, project.as_fd()).unwrap()
        };
        assert!(report.conflicts.is_empty(), "{:?}", support::conflicts(&report));
    }
}

#[test]
fn a_kill_while_a_set_is_stored_leaves_no_part_of_it() {
    let bench = Bench::new(&[]);
    write(&bench.upper, "a", "1");
    let id = bench.read_and_keep();
    let folder = |suffix: &str| bench.store.join(format!("{}{suffix}", "0".repeat(32)));
    for suffix in [".new", ".discarded"] {
        write(&folder(suffix), "content/0", "1");
    }
    assert_eq!(bench.store().list().unwrap().len(), 1);
    let names = tree(&bench.store).into_keys().filter(|path| path.components().count() == 1);
    assert_eq!(names.filter(|path| path != Path::new("changes.lock")).collect::<Vec<_>>(), [Path::new(&id)]);
}

#[test]
fn a_set_whose_project_was_moved_after_a_kill_waits_for_it() {
    use std::os::fd::AsFd;
    let temp = tempfile::tempdir().unwrap();
    let store = temp.path().join("store");
    let victim = Victim::new(temp, &store);
    let mut child = victim.start();
    while !victim.has_journal() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // It may have been at its end; then the journal of another attempt is as good.
    let journal = victim.bench.store.join(&victim.id).join("journal.json");
    if !victim.has_journal() {
        let text = r#"{"serial": 1000000, "keeps_removed": true, "staging": null, "operations": []}"#;
        fs::write(&journal, text).unwrap();
    }
    let moved = victim.bench.temp.path().join("moved");
    fs::rename(&victim.bench.project, &moved).unwrap();
    fs::create_dir(&victim.bench.project).unwrap();
    let store = victim.bench.store();
    assert!(journal.exists() && tree(&victim.bench.project).is_empty());
    let error = store.undo(&victim.id, fs::File::open(&moved).unwrap().as_fd()).unwrap_err().to_string();
    assert!(error.contains("was interrupted"), "{error}");
    assert!(store.discard(&victim.id).is_err());
    fs::remove_dir(&victim.bench.project).unwrap();
    fs::rename(&moved, &victim.bench.project).unwrap();
    victim.check();
}

fn difference(found: &Tree, expected: &Tree) -> String {
    let differ = |path: &&std::path::PathBuf| found.get(*path) != expected.get(*path);
    let paths: std::collections::BTreeSet<_> = found.keys().chain(expected.keys()).filter(differ).collect();
    let lines = paths.iter().map(|path| {
        format!("{}: {:?}, expected {:?}", path.display(), found.get(*path), expected.get(*path))
    });
    lines.collect::<Vec<_>>().join("\n")
}
