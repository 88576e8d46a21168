//! Prints how long it takes to apply change sets, next to what `cp -r` takes for the same files.
//!
//! `cargo run --release -p metier-changes --example apply_speed [FOLDER [STORE]]`; with a store on another file system each file is copied
//! twice.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

#[cfg(unix)]
fn main() {
    use std::fs::{self, File};
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::time::{Duration, Instant, SystemTime};

    use metier_changes::{
        ApplyOptions, ChangeSet, ChangeStore, ReadLimits, ReadRules, RunFacts, StoreLimits,
    };

    const TRIES: u32 = 5;

    fn small_files(upper: &Path) {
        for folder in 0..100 {
            let folder = upper.join(format!("d{folder}"));
            fs::create_dir(&folder).unwrap();
            for file in 0..100 {
                fs::write(folder.join(format!("file{file}")), "x".repeat(1_000)).unwrap();
            }
        }
    }

    fn large_file(upper: &Path) {
        let mut file = File::create(upper.join("large")).unwrap();
        for _ in 0..500 {
            file.write_all(&vec![7; 1_000_000]).unwrap();
        }
    }

    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let root = tempfile::tempdir_in(arguments.next().unwrap_or_else(std::env::temp_dir)).unwrap();
    let root = root.path().canonicalize().unwrap();
    let elsewhere = arguments.next().map(|folder| tempfile::tempdir_in(folder).unwrap());
    let store = elsewhere.as_ref().map_or(root.join("store"), |elsewhere| elsewhere.path().join("store"));
    let store = ChangeStore::open(store).unwrap();
    let store = store.with_limits(StoreLimits { bytes: 4 << 30, ..StoreLimits::default() });
    for (title, fill) in
        [("10,000 files of 1,000 bytes", small_files as fn(&Path)), ("one file of 500 MB", large_file)]
    {
        let [mut copy, mut read, mut keep, mut apply, mut undo] = [Duration::MAX; 5];
        for _ in 0..TRIES {
            let (project, upper, target) = (root.join("project"), root.join("upper"), root.join("target"));
            for folder in [&project, &upper, &target] {
                fs::remove_dir_all(folder).ok();
                fs::create_dir(folder).unwrap();
            }
            fill(&upper);
            let measure = |best: &mut Duration, work: &mut dyn FnMut()| {
                let began = Instant::now();
                work();
                *best = (*best).min(began.elapsed());
            };
            measure(&mut copy, &mut || {
                assert!(Command::new("cp").arg("-r").args([&upper, &target]).status().unwrap().success());
            });
            let (project_dir, upper_dir) = (File::open(&project).unwrap(), File::open(&upper).unwrap());
            let facts =
                RunFacts { project: project.clone(), skill: "test".to_owned(), started: SystemTime::now() };
            let mut set = None;
            measure(&mut read, &mut || {
                let limits = ReadLimits::default();
                let found = ChangeSet::read(
                    project_dir.as_fd(),
                    upper_dir.as_fd(),
                    &facts,
                    &limits,
                    &ReadRules::default(),
                );
                set = Some(found.unwrap());
            });
            let set = set.unwrap();
            measure(&mut keep, &mut || drop(store.keep(&set, upper_dir.as_fd()).unwrap()));
            let options = ApplyOptions { keep_old: true, ..ApplyOptions::default() };
            measure(&mut apply, &mut || {
                let report = store.apply(&set.id, project_dir.as_fd(), &options).unwrap();
                assert_eq!((report.applied.len(), report.conflicts.len()), (set.changes.len(), 0));
            });
            measure(&mut undo, &mut || drop(store.undo(&set.id, project_dir.as_fd()).unwrap()));
            store.discard(&set.id).unwrap();
        }
        let ratio = copy.as_secs_f64() / apply.as_secs_f64();
        println!(
            "{title}: cp -r {copy:.1?}, apply {apply:.1?} ({:.0} % of the speed of cp), read {read:.1?}, keep {keep:.1?}, undo {undo:.1?}",
            ratio * 100.0
        );
    }
}

#[cfg(not(unix))]
fn main() {
    println!("change sets are applied on Unix only");
}
