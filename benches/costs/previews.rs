//! What a copy of the project, an observer, and applying changes cost a command. The sides are measured by turns.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::scripts::store;

const ROUNDS: usize = 40;

/// Files that a script opens, and that another one creates.
pub const FILES: u32 = 2000;

/// A project, and a folder for the data of the commands in it.
struct Stage {
    project: TempDir,
    data: TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = || TempDir::new().expect("a folder");
        Self { project: folder(), data: folder() }
    }

    fn metier(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metier"));
        command.current_dir(self.project.path()).env("METIER_DATA_DIR", self.data.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }
}

/// A side's name, and the arguments of `metier exec`.
type Side<'a> = (&'static str, &'a [&'a str]);

/// Measures commands in a copy of the project and watched ones, and what they change.
pub fn measure_commands() {
    let stage = Stage::new();
    fs::write(stage.project.path().join("many"), "").expect("a file");
    let opens = format!("i=0; while [ $i -lt {FILES} ]; do i=$((i + 1)); : <many; done");
    measure(
        &stage,
        &[
            ("command", &["--", "true"]),
            ("command_in_copy", &["--preview", "--", "true"]),
            ("command_watched", &["--watch", "--", "true"]),
        ],
    );
    measure(
        &stage,
        &[("opens", &["--", "sh", "-c", &opens]), ("opens_watched", &["--watch", "--", "sh", "-c", &opens])],
    );
    measure_apply();
}

fn measure(stage: &Stage, sides: &[Side<'_>]) {
    let mut samples: Vec<Vec<Duration>> = vec![Vec::new(); sides.len()];
    for round in 0..ROUNDS + 3 {
        for ((_, args), samples) in sides.iter().zip(&mut samples) {
            let started = Instant::now();
            let status = stage.metier().arg("exec").args(*args).status().expect("runs");
            if !status.success() {
                println!("{args:?} cannot be run here");
                return;
            }
            // What is started for the first time is started cold.
            if round >= 3 {
                samples.push(started.elapsed());
            }
        }
    }
    for ((side, _), samples) in sides.iter().zip(samples) {
        store(side, samples);
    }
}

/// Small files in one folder: applied to a project, and copied.
fn measure_apply() {
    let (mut applied, mut copied) = (Vec::new(), Vec::new());
    let creates =
        format!("mkdir made; i=0; while [ $i -lt {FILES} ]; do i=$((i + 1)); echo $i >made/$i; done");
    for _ in 0..7 {
        let stage = Stage::new();
        let args = ["exec", "--preview", "--keep-changes", "--json", "--", "sh", "-c", &creates];
        let output = stage.metier().args(args).stdout(Stdio::piped()).output().expect("runs");
        let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let Some(id) = outcome["changes"]["id"].as_str() else {
            println!("a copy of the project cannot be had here");
            return;
        };
        let started = Instant::now();
        assert!(stage.metier().args(["changes", "apply", id]).status().expect("runs").success());
        applied.push(started.elapsed());
        let started = Instant::now();
        let mut copy = Command::new("cp");
        assert!(
            copy.args(["-r", "made", "copy"])
                .current_dir(stage.project.path())
                .status()
                .expect("runs")
                .success()
        );
        copied.push(started.elapsed());
    }
    store("apply", applied);
    store("copy", copied);
}
