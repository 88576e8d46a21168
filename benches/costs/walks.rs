//! What the files of a large project cost the run of a process: each run looks for protected files in it. The sides are measured by turns.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use metier::engine::{Engine, Invocation};
use tempfile::TempDir;

use super::scripts::store;

const ROUNDS: usize = 15;

const FOLDERS: usize = 4000;
const FILES_IN_FOLDER: usize = 50;
/// How many folders change before each run.
const CHANGED_FOLDERS: usize = 10;

/// Measures a small command in an empty project and in a large one, of which a few folders have changed since the last run.
pub fn measure_projects() {
    let (empty, large, cache) = (folder(), folder(), folder());
    for number in 0..FOLDERS {
        let folder = folder_path(large.path(), number);
        fs::create_dir_all(&folder).expect("a folder");
        (0..FILES_IN_FOLDER).for_each(|file| fs::write(folder.join(format!("f{file}")), "").expect("a file"));
    }
    let engines = [&empty, &large].map(|project| Engine::builder(project.path()).build().expect("an engine"));
    let command = |project: &TempDir| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_metier"));
        command.args(["exec", "--", "true"]).current_dir(project.path()).env("XDG_CACHE_HOME", cache.path());
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        assert!(status.expect("runs").success());
    };
    let run = |engine: &Engine| {
        let outcome = engine.run(Invocation::command("true", [""; 0]));
        assert!(outcome.result.is_ok(), "{outcome:?}");
    };
    let find = || {
        let found = Command::new("find").arg(large.path()).stdout(Stdio::null()).status();
        assert!(found.expect("runs").success());
    };
    let sides: [(&str, &dyn Fn()); 5] = [
        ("walk_find", &find),
        ("walk_empty_command", &|| command(&empty)),
        ("walk_large_command", &|| command(&large)),
        ("walk_empty_host", &|| run(&engines[0])),
        ("walk_large_host", &|| run(&engines[1])),
    ];
    let mut samples: [Vec<Duration>; 5] = Default::default();
    for round in 0..ROUNDS + 2 {
        for ((_, run), samples) in sides.iter().zip(&mut samples) {
            change_folders(large.path());
            let started = Instant::now();
            run();
            // The first runs look at everything.
            if round >= 2 {
                samples.push(started.elapsed());
            }
        }
    }
    for ((side, _), samples) in sides.iter().zip(samples) {
        store(side, samples);
    }
}

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

fn folder_path(project: &Path, number: usize) -> std::path::PathBuf {
    project.join(format!("d{}/d{}", number / 50, number % 50))
}

/// Always the same: a folder that has just changed is not remembered for some seconds.
fn change_folders(project: &Path) {
    for number in 0..CHANGED_FOLDERS {
        let file = folder_path(project, number * 397).join("new");
        if file.exists() {
            fs::remove_file(file).expect("is removed");
        } else {
            fs::write(file, "").expect("a file");
        }
    }
}
