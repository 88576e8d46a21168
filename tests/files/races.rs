//! Somebody exchanges a folder for a link that leaves, again and again, while a run works below it (F19).

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags};
use serde_json::json;

use crate::files::project::{Project, both_ways, call};

const ROUNDS: usize = 20_000;

/// Runs `work` while `swing` is by turns a folder of the project and a link to the outside.
fn while_swinging(project: &Project, work: impl Fn(usize)) {
    project.file("swing/secret.txt", "inside").link("spare", project.outside(""));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (one, other) = (project.path("swing"), project.path("spare"));
            while !done.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
            }
        });
        (0..ROUNDS).for_each(&work);
        done.store(true, Ordering::Relaxed);
    });
}

fn nothing_left(project: &Project) {
    let names: Vec<_> =
        fs::read_dir(project.outside("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["secret.txt"]);
}

#[test]
fn f19_reads_never_leave() {
    both_ways(|project| {
        let run = project.run(&[]);
        let hits = std::cell::Cell::new(0);
        while_swinging(project, |_| {
            if let Ok(text) = call(&run, "read_file", json!(["swing/secret.txt"])) {
                assert_eq!(text, "inside");
                hits.set(hits.get() + 1);
            }
        });
        assert!(hits.get() > 0, "the folder was never there");
    });
}

#[test]
fn f19_searches_never_leave() {
    both_ways(|project| {
        let run = project.run(&[]);
        while_swinging(project, |round| {
            if round % 8 == 0 {
                let rows = call(&run, "grep", json!(["secret"])).unwrap();
                assert_eq!(rows, json!([]));
            }
        });
    });
}

#[test]
fn f19_writes_and_removals_never_leave() {
    both_ways(|project| {
        let run = project.run(&[]);
        while_swinging(project, |round| {
            let result = match round % 5 {
                0 => call(&run, "write", json!(["swing/secret.txt", "inside"])),
                1 => call(&run, "append", json!(["swing/new/a.txt", "x"])),
                2 => call(&run, "mkdir", json!(["swing/deep/er"])),
                3 => call(&run, "remove", json!(["swing/secret.txt"])),
                _ => call(&run, "remove", json!(["swing/new", {"recursive": true}])),
            };
            drop(result);
        });
        nothing_left(project);
    });
}
