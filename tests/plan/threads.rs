//! A tree of plans has no more threads than one run may have, however much of it could go on side by side.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use metier::engine::Engine;
use metier::error::Result;
use metier::host::ConfigProvider;
use serde_json::{Map, Value, json};

use crate::project::{Project, x};

/// The most threads a run has.
const MOST: usize = 64;

/// Settings that take a while, and who asked for them at the same time.
#[derive(Clone, Default)]
struct Slow {
    present: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    calls: Arc<AtomicUsize>,
}

impl ConfigProvider for Slow {
    fn config(&self, _skill: &str) -> Result<Map<String, Value>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.most.fetch_max(self.present.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(4));
        self.present.fetch_sub(1, Ordering::SeqCst);
        Ok(Map::new())
    }
}

impl Slow {
    fn engine(&self, project: &Project) -> Engine {
        project.builder().config(self.clone()).build().unwrap()
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }
}

/// A contract of so many steps, all of which may run side by side.
fn wide(count: usize, step: &str) -> String {
    let steps = (0..count).map(|at| format!("- {{id: s{at}, {step}}}\n"));
    format!("concurrency: 16\nsteps:\n{}", steps.collect::<String>())
}

/// `x` calls `y` sixteen times, `y` so `z`, and `z` does `leaf` sixteen times.
fn tree(leaf: &str) -> Project {
    Project::new()
        .contract("x", "", &wide(16, "skill: y"))
        .contract("y", "", &wide(16, "skill: z"))
        .contract("z", "", &wide(16, leaf))
}

#[test]
fn a_tree_of_four_thousand_leaves_has_no_more_at_once_than_a_run_has_threads() {
    let slow = Slow::default();
    let project = tree("tool: config");
    let outcome = slow.engine(&project).run(x(&[]));
    assert_eq!(outcome.result.unwrap(), json!({}));
    assert_eq!(slow.calls.load(Ordering::SeqCst), 4096);
    assert!((2..=MOST).contains(&slow.most()), "{} at once", slow.most());
}

#[cfg(all(feature = "cli", target_os = "linux"))]
#[test]
fn a_tree_that_waits_and_asks_for_nothing_takes_no_more_threads_of_its_host() {
    let project = tree("tool: read_file, args: {path: missing}, on_failure: 'retry(9, 1s)'");
    let mut host = std::process::Command::new(env!("CARGO_BIN_EXE_metier"))
        .args(["run", "x", "--timeout", "3s"])
        .current_dir(project.path(""))
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let threads = format!("/proc/{}/task", host.id());
    let mut most = 0;
    let status = loop {
        most = most.max(std::fs::read_dir(&threads).map_or(0, Iterator::count));
        if let Some(status) = host.try_wait().unwrap() {
            break status;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(!status.success(), "it met its deadline");
    // Its main thread is one of them; the clock of deadlines is nobody's.
    assert!((16..=MOST + 2).contains(&most), "{most} threads");
}
