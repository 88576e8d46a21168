//! A process in a cage: against the same one alone, in a host that holds much memory, and against bubblewrap.
//!
//! The sides are measured by turns, for what else a machine does must not fall on one of them.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use metier::executor::{Script, SkillExecutor, SkillInput, SkillRuntime};
use metier::host::{Files, SkillContext};
use metier::policy::{CancelToken, Watchdog};
use tempfile::TempDir;

use super::ratios;

const ROUNDS: usize = 300;

pub fn starts() {
    let project = TempDir::new().expect("a folder");
    let (spawn, metier, bwrap) = by_turns(project.path());
    // Two of them, so that a helper that was started when the host was small cannot be what is measured.
    let ballast = vec![1_u8; 500 << 20];
    let (_, large, _) = by_turns(project.path());
    drop(black_box(ballast));
    for (id, median) in
        [("cage/spawn", spawn), ("cage/metier", metier), ("cage/bwrap", bwrap), ("cage/metier_large", large)]
    {
        ratios::keep(id, median);
        println!("{id:<24} {}", median.map_or("not measured".into(), |median| format!("{median:?}")));
    }
    if bwrap.is_none() {
        println!("bubblewrap is not installed or cannot make namespaces here; nothing is compared with it");
    }
}

/// The medians of a process alone, in a cage with a helper of its own, and in bubblewrap where there is one.
fn by_turns(project: &Path) -> (Option<Duration>, Option<Duration>, Option<Duration>) {
    let caged = Caged::new(project);
    let has_bwrap = in_bubblewrap(project);
    let [mut spawn, mut metier, mut bwrap] = [const { Vec::new() }; 3];
    for round in 0..ROUNDS + 20 {
        let timed = [
            time(|| assert!(alone(project))),
            time(|| caged.run()),
            if has_bwrap { time(|| assert!(in_bubblewrap(project))) } else { Duration::ZERO },
        ];
        // What is started for the first time is started cold.
        if round >= 20 {
            for (samples, time) in [&mut spawn, &mut metier, &mut bwrap].into_iter().zip(timed) {
                samples.push(time);
            }
        }
    }
    let median = |mut samples: Vec<Duration>| {
        samples.sort_unstable();
        Some(samples[samples.len() / 2])
    };
    (median(spawn), median(metier), if has_bwrap { median(bwrap) } else { None })
}

fn time(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

/// The floor: the standard library spawns without copying the process.
fn alone(project: &Path) -> bool {
    let mut command = Command::new("/bin/sh");
    command.arg(project.join(SCRIPT)).stdin(Stdio::null());
    command.output().expect("starts").status.success()
}

/// A script that does nothing.
const SCRIPT: &str = "script";
const SOURCE: &[u8] = b"#!/bin/sh\n";

/// A skill of that script, in the cage any script has.
struct Caged {
    executor: Box<dyn SkillExecutor>,
    files: std::path::PathBuf,
    watchdog: Watchdog,
}

impl Caged {
    fn new(project: &Path) -> Self {
        std::fs::write(project.join(SCRIPT), SOURCE).expect("a file");
        let script = Script {
            skill: "bench".into(),
            path: SCRIPT.into(),
            folder: Some(project.to_owned()),
            source: SOURCE.into(),
            function: None,
        };
        let executor = metier::load(SkillRuntime::External, &script).expect("loads");
        Self { executor, files: project.to_owned(), watchdog: Watchdog::new() }
    }

    fn run(&self) {
        let token = CancelToken::new();
        let _armed = self.watchdog.arm(Instant::now() + Duration::from_secs(30), &token);
        let project = Files::open(&self.files).expect("opens");
        let context = SkillContext::builder("bench").cancel(token).project(project).build();
        self.executor.execute_with_context(SkillInput::default(), Some(&context)).expect("runs");
        let held = context.take_reports().1.expect("a report");
        assert!(held.files && held.tree_kill, "it did not run in a cage: {held:?}");
    }
}

/// What the cage shows a script, for bubblewrap to show: what programs read, the project, and a folder of the run's own.
const SHOWN: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/passwd",
    "/etc/group",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/timezone",
    "/etc/nsswitch.conf",
    "/etc/mime.types",
    "/etc/alternatives",
    "/sys/devices/system/cpu",
];

/// Runs the script in bubblewrap; no success where that cannot be.
fn in_bubblewrap(project: &Path) -> bool {
    let mut command = Command::new("bwrap");
    command.env_clear().stdin(Stdio::null());
    for shown in SHOWN {
        command.args(["--ro-bind-try", shown, shown]);
    }
    // The project may lie below /tmp, which comes first.
    command.args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]);
    command.arg("--ro-bind").args([project, project]).arg("--chdir").arg(project);
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--", "/bin/sh"]);
    command.arg(project.join(SCRIPT));
    command.output().is_ok_and(|output| output.status.success())
}
