//! The process that compiles: started in a sandbox with nothing in it, given one module, and killed when its run is over.

use std::fs::File;
use std::io::{self, ErrorKind as Io, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};

use super::Failure;
use super::message::LARGEST;
use super::process::COMPILER;
use crate::error::{ErrorKind, SkillError};
use crate::executor::Script;
use crate::policy::CancelToken;
use crate::runtimes::Shared;
use crate::runtimes::sandbox::{Cage, Ceilings, End, Exactly, FileRules, Launcher, Order, Report};

/// Bytes of memory that one compilation may take. A module of 16 MiB as tool chains make them takes less.
const MEMORY: u64 = 1 << 30;

/// Seconds of processor time, should nobody stop it before.
const CPU_SECONDS: u64 = 120;

/// Milliseconds until it is killed, should the host not say so before.
const DEADLINE_MS: u64 = 600_000;

/// Threads that compile at a time; each takes memory of its own.
const THREADS: usize = 8;

/// Bytes that are read before it is asked again whether the run goes on.
const TURN: usize = 1 << 20;

/// What a program reads to be started at all. Once it has, it shuts these out as well.
const LIBRARIES: [&str; 7] =
    ["/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"];

/// The answer of a compiler that was given this request.
pub(super) fn answer(
    shared: &Shared,
    script: &Script,
    request: &[u8],
    cancel: &CancelToken,
) -> Result<Vec<u8>, Failure> {
    let launcher = shared.launcher();
    if cfg!(not(all(feature = "sandboxed", target_os = "linux"))) {
        return Err(Failure::no_sandbox());
    }
    let program = launcher.program().ok_or_else(Failure::no_program)?;
    let failed = |error: io::Error| {
        let sentence = format!("failed to compile {} in a sandbox: {error}", script.path);
        Failure::NoHelper(
            SkillError::new(ErrorKind::SandboxUnavailable, sentence)
                .with_help("`metier doctor` says what this machine offers"),
        )
    };
    let order = order(&program, launcher).map_err(failed)?;
    let ended = run(launcher, &order, request, cancel).map_err(failed)?;
    cancel.check().map_err(Failure::Failed)?;
    ended.answer(&script.path)
}

fn order(program: &Path, launcher: &Launcher) -> io::Result<Order> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let read = LIBRARIES.iter().map(Into::into).collect();
    let program = exactly(program, launcher)?;
    Ok(Order {
        program: program.path.clone(),
        args: vec![COMPILER.into()],
        environment: vec![
            ("RAYON_NUM_THREADS".into(), threads.to_string().into()),
            // Bytes of stack of each: functions are compiled there.
            ("RUST_MIN_STACK".into(), (4 << 20).to_string().into()),
        ],
        folder: "/".into(),
        cage: Cage {
            files: Some(FileRules { read, own: vec![program], ..FileRules::default() }),
            shut_network: true,
            may_lock: false,
            guard_calls: true,
            // Whatever the run allows its own processes, this one is never without.
            required: true,
            ceilings: Ceilings {
                memory: Some(MEMORY),
                tree_memory: Some(MEMORY),
                processes: Some(64),
                cpu_seconds: Some(CPU_SECONDS),
                file_size: Some(0),
                open_files: Some(64),
            },
        },
        leftovers: Vec::new(),
        deadline_ms: DEADLINE_MS,
    })
}

/// The program as it is now. What takes its place later is not started: its machine code would run in the host.
fn exactly(program: &Path, launcher: &Launcher) -> io::Result<Exactly> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", program.display()));
    let path: PathBuf = std::fs::canonicalize(program).map_err(named)?;
    // The link leads to the running program even when its file was replaced.
    let about = if launcher.is_itself() { Path::new("/proc/self/exe") } else { &path }.metadata();
    let about = about.map_err(named)?;
    Ok(Exactly { path: path.into(), identity: Some((about.dev(), about.ino())) })
}

/// A compiler that has ended.
struct Ended {
    report: Option<Report>,
    answer: Vec<u8>,
    /// The beginning of what it said on standard error.
    said: Vec<u8>,
}

/// Runs the compiler until it ends, has answered too much, or the token stops, which kills it.
fn run(launcher: &Launcher, order: &Order, request: &[u8], cancel: &CancelToken) -> io::Result<Ended> {
    let (stdin, feed) = io::pipe()?;
    let (answer, stdout) = io::pipe()?;
    let (said, stderr) = io::pipe()?;
    // The listener owns the only writing end: when it is called it is dropped, and the reading end hangs up.
    let (stop, stopper) = io::pipe()?;
    let mut feed = Feed { pipe: Some(waitless(feed.into())?), rest: request };
    let mut answer = Intake { pipe: Some(waitless(answer.into())?), bytes: Vec::new(), most: LARGEST };
    let mut said = Intake { pipe: Some(waitless(said.into())?), bytes: Vec::new(), most: 4 << 10 };
    let started = launcher.start(order, [stdin.into(), stdout.into(), stderr.into()], None)?;
    let _listening = cancel.on_stop(move |_| drop(stopper));
    loop {
        let mut waiting =
            vec![PollFd::new(&started.report, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
        waiting.extend(feed.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        waiting.extend([&answer, &said].into_iter().filter_map(Intake::waiting));
        match poll(&mut waiting, None) {
            Err(Errno::INTR) => continue,
            ready => ready?,
        };
        if waiting.iter().take(2).any(|end| !end.revents().is_empty()) {
            break;
        }
        feed.give();
        answer.take(TURN);
        said.take(TURN);
        if answer.is_full() {
            break;
        }
    }
    let report = started.ended();
    answer.take(LARGEST);
    said.take(LARGEST);
    Ok(Ended { report, answer: answer.bytes, said: said.bytes })
}

impl Ended {
    fn answer(self, file: &str) -> Result<Vec<u8>, Failure> {
        let failed = |kind, what: &str| {
            Err(Failure::Failed(SkillError::new(kind, format!("failed to compile {file}: {what}"))))
        };
        let smaller = |failure: Result<_, Failure>| match failure {
            Err(Failure::Failed(error)) => Err(Failure::Failed(
                error.with_help("make the module smaller, or split its largest functions"),
            )),
            other => other,
        };
        if self.answer.len() > LARGEST {
            let what = format!("it comes to more than {} MiB of machine code", LARGEST >> 20);
            return smaller(failed(ErrorKind::InvalidSkill, &what));
        }
        let Some(report) = &self.report else {
            return failed(ErrorKind::Unavailable, "the process that watches the compiler was killed");
        };
        let status = match &report.end {
            End::Refused { step, errno } => {
                let why = io::Error::from_raw_os_error(*errno);
                let sentence = format!("failed to compile {file} in a sandbox: {step}: {why}");
                let error = SkillError::new(ErrorKind::SandboxUnavailable, sentence);
                let help = "`metier doctor` says what this machine offers";
                return Err(Failure::NoHelper(error.with_help(help)));
            }
            End::Ran { status } => ExitStatus::from_raw(*status),
        };
        if status.success() {
            return Ok(self.answer);
        }
        let said = String::from_utf8_lossy(&self.said);
        // What the standard library says before it aborts.
        if report.over_memory || said.contains("memory allocation of ") {
            let what = format!("it takes more than {} MiB of memory", MEMORY >> 20);
            return smaller(failed(ErrorKind::Memory, &what));
        }
        if status.signal() == Some(rustix::process::Signal::XCPU.as_raw()) {
            let what = format!("it takes more than {CPU_SECONDS} s of processor time");
            return smaller(failed(ErrorKind::Cpu, &what));
        }
        let last: String = said.lines().last().unwrap_or_default().chars().take(300).collect();
        let said = if last.is_empty() { last } else { format!(" ({last})") };
        failed(ErrorKind::InvalidSkill, &format!("the compiler crashed on it: {status}{said}"))
    }
}

/// What is still to be written into a pipe.
struct Feed<'a> {
    pipe: Option<File>,
    rest: &'a [u8],
}

impl Feed<'_> {
    fn give(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.write(self.rest) {
            Ok(taken) if taken < self.rest.len() => self.rest = &self.rest[taken..],
            Err(error) if matches!(error.kind(), Io::WouldBlock | Io::Interrupted) => {}
            _ => self.pipe = None,
        }
    }
}

/// What came out of a pipe, and no more than one byte beyond what may.
struct Intake {
    pipe: Option<File>,
    bytes: Vec<u8>,
    most: usize,
}

impl Intake {
    fn waiting(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN))
    }

    fn is_full(&self) -> bool {
        self.bytes.len() > self.most
    }

    /// Takes what is there, for one turn. Beyond what may come nobody reads on, which holds up the writer.
    fn take(&mut self, turn: usize) {
        let asked = (self.most + 1).saturating_sub(self.bytes.len()).min(turn);
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.take(asked as u64).read_to_end(&mut self.bytes) {
            Ok(came) if came == asked && asked > 0 => {}
            Err(error) if matches!(error.kind(), Io::WouldBlock | Io::Interrupted) => {}
            _ => self.pipe = None,
        }
    }
}

fn waitless(pipe: OwnedFd) -> io::Result<File> {
    ioctl_fionbio(&pipe, true)?;
    Ok(File::from(pipe))
}
