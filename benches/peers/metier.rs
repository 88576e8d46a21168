//! metier's side of the comparison with its peers: prints what one call of the work with that number takes, in nanoseconds.
//!
//! `benches/peers/compare` runs this and the peer's side by turns.

mod work;

use std::path::Path;
use std::time::{Duration, Instant};

use metier::executor::{RuntimeId, Script, SkillInput};
use metier::host::{Files, SkillContext};
use metier::policy::CancelToken;
use metier_core::policy::Watchdog;
use serde_json::Value;

fn main() {
    // Processes in sandboxes are started by this very program, as by the `metier` command.
    metier::helper_main();
    // Whoever runs all benchmarks gets this side alone.
    let numbers: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let all = || (0..work::WORK.len()).collect();
    for number in if numbers.is_empty() { all() } else { numbers } {
        let work = &work::WORK[number];
        eprintln!("{}", work.name);
        println!("{}", time(work));
    }
}

fn time(work: &work::Work) -> u128 {
    let project = tempfile::tempdir().expect("a folder");
    let file = project.path().join(work::FILE);
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    std::fs::write(file, work::content()).expect("a file");
    let executor =
        metier::ScriptLoader::new().load(runtime(work), &script(work, project.path())).expect("loads");
    let input: Value = serde_json::from_str(work::INPUT).expect("is JSON");
    let watchdog = Watchdog::new();
    work::median(|| {
        let token = CancelToken::new();
        let _armed = watchdog.arm(Instant::now() + Duration::from_secs(30), &token);
        let mut context = SkillContext::builder("peers").cancel(token);
        if work.in_project {
            context = context.project(Files::open(project.path()).expect("opens"));
        }
        executor.execute_with_context(SkillInput::from(input.clone()), Some(&context.build())).expect("runs");
    })
}

fn runtime(work: &work::Work) -> RuntimeId {
    RuntimeId::new(work.runtime)
}

fn script(work: &work::Work, project: &Path) -> Script {
    let (path, source) = match work.runtime {
        "external" => ("scripts/main.sh", "#!/bin/sh\necho '{}'\n".to_owned()),
        "wasm" => ("scripts/main.wat", work.script.to_owned()),
        _ => ("scripts/main", work.script.to_owned()),
    };
    let on_disk = project.join(path);
    std::fs::create_dir_all(project.join("scripts")).expect("a folder");
    std::fs::write(on_disk, &source).expect("a file");
    let mut script = Script::new("peers", path, source.into_bytes());
    script.folder = Some(project.to_owned());
    script
}
