//! A process in a sandbox: against the same one alone, in a host that holds much memory, and against bubblewrap; and the sandbox
//! alone, around a program that does nothing.
//!
//! The sides are measured by turns, for what else a machine does must not fall on one of them.

use std::hint::black_box;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use metier::engine::{Engine, Invocation};
use metier::policy::SandboxLevel;
use tempfile::TempDir;

use super::ratios;

const ROUNDS: usize = 300;

/// Names, and how a script is run by them. A side that cannot run here is not measured.
const SIDES: [(&str, Side); 7] = [
    ("true", Side::PlainTrue),
    ("true_landlock", Side::SandboxedTrue(SandboxLevel::Landlock, "landlock")),
    ("true_namespaces", Side::SandboxedTrue(SandboxLevel::Namespaces, "namespaces")),
    ("spawn", Side::PlainScript),
    ("landlock", Side::SandboxedScript(SandboxLevel::Landlock, "landlock")),
    ("namespaces", Side::SandboxedScript(SandboxLevel::Namespaces, "namespaces")),
    ("bwrap", Side::Bubblewrap),
];

#[derive(Clone, Copy)]
enum Side {
    /// `/bin/true`, alone and in the strictest sandbox of this level.
    PlainTrue,
    SandboxedTrue(SandboxLevel, &'static str),
    /// An empty script of the shell, alone and run by an engine.
    PlainScript,
    /// In this level, which reports itself by this name.
    SandboxedScript(SandboxLevel, &'static str),
    Bubblewrap,
}

pub fn measure_starts() {
    let project = TempDir::new().expect("a folder");
    let scripts = project.path().join(".metier/skills/nothing/scripts");
    std::fs::create_dir_all(&scripts).expect("a folder");
    let skill = "---\nname: nothing\ndescription: Does nothing.\n---\n";
    std::fs::write(scripts.with_file_name("SKILL.md"), skill).expect("a file");
    std::fs::write(scripts.join("main.sh"), "#!/bin/sh\n").expect("a file");
    measure_in_turns(project.path(), "");
    let ballast = vec![1_u8; 500 << 20];
    measure_in_turns(project.path(), "_large");
    drop(black_box(ballast));
    fill(project.path());
    measure_in_turns(project.path(), "_in_200000_files");
}

/// Puts 200,000 files into 4,000 folders of a project, and waits until metier remembers such folders.
fn fill(project: &Path) {
    const TIME_TO_SETTLE: Duration = Duration::from_secs(4);
    for folder in 0..4000 {
        let folder = project.join(format!("package{}/module{}/folder{folder}", folder / 200, folder / 20));
        std::fs::create_dir_all(&folder).expect("a folder");
        for file in 0..50 {
            std::fs::write(folder.join(format!("file{file}.ts")), "").expect("a file");
        }
    }
    std::thread::sleep(TIME_TO_SETTLE);
}

/// A side's name, what runs it once and says whether it could, and how long that took.
type Measured<'a> = (&'static str, Box<dyn Fn() -> bool + 'a>, Vec<Duration>);

/// Measures all sides by turns, the sandboxes with helpers that are started now.
fn measure_in_turns(project: &Path, ending: &str) {
    let mut sides: Vec<Measured<'_>> =
        SIDES.iter().map(|(name, side)| (*name, side.runner(project), Vec::new())).collect();
    let measured: Vec<bool> = sides.iter().map(|(_, run, _)| run()).collect();
    for round in 0..ROUNDS + 20 {
        for ((_, run, samples), _) in sides.iter_mut().zip(&measured).filter(|(_, measured)| **measured) {
            let time = time(|| assert!(run()));
            // What is started for the first time is started cold.
            if round >= 20 {
                samples.push(time);
            }
        }
    }
    for (name, _, mut samples) in sides {
        samples.sort_unstable();
        let median = samples.get(samples.len() / 2).copied();
        let id = format!("sandbox/{name}{ending}");
        ratios::store_median(&id, median);
        println!("{id:<24} {}", median.map_or("cannot be had here".into(), |median| format!("{median:?}")));
    }
}

impl Side {
    /// Runs the script once, and says whether it ran as it should.
    fn runner(self, project: &Path) -> Box<dyn Fn() -> bool + '_> {
        let script = project.join(".metier/skills/nothing/scripts/main.sh");
        match self {
            Self::PlainTrue => Box::new(|| succeeds(&mut Command::new("/bin/true"))),
            Self::SandboxedTrue(level, name) => {
                let engine = Engine::builder(project).sandbox_level(level).build().expect("an engine");
                Box::new(move || engine.sandbox_support().strongest.level.name() == name)
            }
            // The floor: the standard library spawns without copying the process.
            Self::PlainScript => Box::new(move || succeeds(Command::new("/bin/sh").arg(&script))),
            Self::SandboxedScript(level, name) => {
                let engine = Engine::builder(project).sandbox_level(level).build().expect("an engine");
                Box::new(move || {
                    let outcome = engine.run(Invocation::new("nothing"));
                    outcome.result.is_ok() && outcome.sandbox.is_some_and(|held| held.level.name() == name)
                })
            }
            Self::Bubblewrap => Box::new(move || succeeds(&mut bubblewrap(project, &script))),
        }
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).output().is_ok_and(|output| output.status.success())
}

fn time(work: impl FnOnce()) -> Duration {
    let started = Instant::now();
    work();
    started.elapsed()
}

/// What the sandbox shows a script, for bubblewrap to show: what programs read, the project, and a folder of the run's own.
const BOUND_PATHS: &[&str] = &[
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

fn bubblewrap(project: &Path, script: &Path) -> Command {
    let mut command = Command::new("bwrap");
    command.env_clear();
    for shown in BOUND_PATHS {
        command.args(["--ro-bind-try", shown, shown]);
    }
    // The project may lie below /tmp, which comes first.
    command.args(["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]);
    command.arg("--ro-bind").args([project, project]).arg("--chdir").arg(project);
    command.args(["--unshare-all", "--die-with-parent", "--new-session", "--", "/bin/sh"]).arg(script);
    command
}
