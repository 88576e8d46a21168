//! A run that is killed at any moment is taken up again: no finished step is repeated, and none is lost.
#![cfg(all(unix, feature = "cli"))]
#![allow(missing_docs)]

#[path = "support/cli.rs"]
mod cli;

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cli::Project;
use serde_json::{Value, json};

const KILLS: usize = 200;
const STEPS: usize = 30;

#[test]
fn two_hundred_kills_repeat_no_finished_step_and_lose_none() {
    let mut chance = Chance(0x9E37_79B9_7F4A_7C15);
    let mut project = project();
    let started = Instant::now();
    assert!(run(&project).wait().unwrap().success());
    let whole_run = started.elapsed();
    let (mut kills, mut midway, mut ends) = (0, 0, 0);
    while kills < KILLS {
        let (finished_before, done_before) = (finished(&project), done(&project));
        let mut child = run(&project);
        if kills % 2 == 0 {
            std::thread::sleep(whole_run * u32::try_from(chance.below(1000)).unwrap() / 1000);
        } else {
            let enough = finished_before.len() + chance.below(4);
            while finished(&project).len() < enough && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        child.kill().unwrap();
        let was_killed = child.wait().unwrap().code().is_none();
        let (finished_after, done_after) = (finished(&project), done(&project));
        assert!(finished_before.is_subset(&finished_after), "a finished step was lost");
        for at in 0..STEPS {
            let times = done_after[at] - done_before[at];
            let allowed = usize::from(!finished_before.contains(&at));
            assert!(
                times <= allowed,
                "step {at} ran {times} times in one run, finished before: {}",
                allowed == 0
            );
            assert!(
                !finished_after.contains(&at) || done_after[at] > 0,
                "step {at} finished without being run"
            );
        }
        kills += usize::from(was_killed);
        midway += usize::from(was_killed && !finished_after.is_empty() && finished_after.len() < STEPS);
        if !was_killed {
            assert_eq!(finished_after.len(), STEPS, "a run that ended has finished all");
            ends += 1;
            project = self::project();
        }
    }
    assert!(run(&project).wait().unwrap().success(), "what is left after the last kill still ends well");
    assert_eq!(finished(&project).len(), STEPS);
    assert!(midway > 0, "{ends} runs ended, and no kill met one between its steps");
}

/// A plan whose steps each leave a line in a file of their own.
fn project() -> Project {
    let step = |at| json!({"id": format!("s{at}"), "tool": "append", "args": {"path": format!("out/s{at}"), "content": "once\n"}});
    let steps: Vec<Value> = (0..STEPS).map(step).collect();
    Project::new()
        .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n")
        .file(".metier/skills/x/scripts/sequence.json", json!(steps).to_string())
        .file("out/.keep", "")
}

/// Starts a run; all of a project have the same journal.
fn run(project: &Project) -> Child {
    let mut command = project.command(&["run", "x", "--allow", "write", "--journal", "journal"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The steps that have finished, as the whole lines of the journal say, read without the help of what wrote them.
fn finished(project: &Project) -> BTreeSet<usize> {
    let text = std::fs::read(project.path("journal/x.journal")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut finished = BTreeSet::new();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let record = line.split_once(' ').and_then(|(_, rest)| rest.split(['\t', '\n']).next()).unwrap();
        let record: Value = serde_json::from_str(record).unwrap();
        if record["state"] == "done" {
            let step = usize::try_from(record["step"].as_u64().unwrap()).unwrap();
            assert!(finished.insert(step), "step {step} was written down twice");
        }
    }
    finished
}

/// How often each step did its work.
fn done(project: &Project) -> Vec<usize> {
    let text = |at| std::fs::read_to_string(project.path(&format!("out/s{at}"))).unwrap_or_default();
    (0..STEPS).map(|at| text(at).lines().count()).collect()
}

/// Numbers that look like chance, the same in every run of the test.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }
}
