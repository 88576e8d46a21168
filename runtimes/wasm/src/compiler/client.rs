//! The client of the compiler process, which is started in an empty sandbox, compiles one module, and is killed when its run
//! is over.

use std::fs::File;
use std::io::{self, ErrorKind as Io, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, ioctl_fionbio};

use super::compilation::CompileError;
use crate::compiler::protocol::MAX_RESPONSE_BYTES;
use crate::compiler::server::COMPILER_ARGUMENT;
use crate::module_source::ModuleSource;
use crate::services::PluginServices;
use metier_core::error::{ErrorKind, Hint, SkillError};
use metier_core::host::file_id;
use metier_core::policy::CancelToken;
use metier_sandbox::{
    self, EgressSockets, FileRules, LaunchOutcome, LaunchRequest, Launcher, NetworkAccess, PinnedPath,
    ResourceLimits, SandboxPolicy, SupervisorReport,
};

/// The memory limit of one compilation in bytes. A module of 16 MiB from common tool chains takes less.
const MEMORY_LIMIT: u64 = 1 << 30;

/// The limit of processor time in seconds, if nothing stops the process before.
const CPU_SECONDS: u64 = 120;

/// The timeout in milliseconds, if the host does not kill the process before.
const TIMEOUT_MS: u64 = 600_000;

/// The maximum number of threads that compile at a time; each takes memory of its own.
const MAX_THREADS: usize = 8;

/// The hint if the machine offers no sandbox to compile in.
const MACHINE_HELP: &str = "see in the diagnosis what this machine offers";

/// The number of bytes that are read before the token is checked again.
const READ_BYTES: usize = 1 << 20;

/// The libraries that a program reads to start. Once started, the compiler denies itself these as well.
const LIBRARIES: [&str; 7] =
    ["/usr/lib", "/usr/lib32", "/usr/lib64", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache"];

/// Sends this request to a compiler process and returns its response.
pub(super) fn send_request(
    shared: &PluginServices,
    source: &ModuleSource,
    request: &[u8],
    cancel: &CancelToken,
) -> Result<Vec<u8>, CompileError> {
    let launcher = &shared.launcher;
    if !metier_sandbox::HAS_LAUNCHER {
        return Err(CompileError::no_sandbox());
    }
    let program = launcher.server_program().ok_or_else(CompileError::no_program)?;
    let failed = |error: io::Error| {
        let sentence = format!("failed to compile {} in a sandbox: {error}", source.label);
        CompileError::NoCompiler(
            SkillError::new(ErrorKind::SandboxUnavailable, sentence)
                .with_help(MACHINE_HELP)
                .with_hint(Hint::Diagnosis),
        )
    };
    let mut order = launch_request(&program, launcher).map_err(failed)?;
    let mut ended = run_compiler(launcher, &order, request, cancel).map_err(failed)?;
    if ended.lacks_landlock() {
        // Before it reads the module, the compiler restricts itself to less than any file rule would.
        order.sandbox.required = false;
        ended = run_compiler(launcher, &order, request, cancel).map_err(failed)?;
    }
    cancel.check().map_err(CompileError::Failed)?;
    ended.into_response(&source.label)
}

fn launch_request(program: &Path, launcher: &Launcher) -> io::Result<LaunchRequest> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    let read = LIBRARIES.iter().map(Into::into).collect();
    let program = pin_program(program, launcher)?;
    Ok(LaunchRequest {
        program: program.path.clone(),
        args: vec![COMPILER_ARGUMENT.into()],
        environment: vec![
            ("RAYON_NUM_THREADS".into(), threads.to_string().into()),
            // The stack of each thread in bytes: functions are compiled there.
            ("RUST_MIN_STACK".into(), (4 << 20).to_string().into()),
        ],
        folder: "/".into(),
        sandbox: SandboxPolicy {
            files: FileRules { read, own: vec![program], ..FileRules::default() },
            network: NetworkAccess::Blocked,
            egress: EgressSockets::default(),
            allow_flock: false,
            allow_local_sockets: false,
            // Whatever sandbox the run requires for its own processes, this one always requires it, wherever the kernel has one.
            required: true,
            limits: ResourceLimits {
                memory: Some(MEMORY_LIMIT),
                tree_memory: Some(MEMORY_LIMIT),
                processes: Some(64),
                cpu_seconds: Some(CPU_SECONDS),
                file_size: Some(0),
                open_files: Some(64),
            },
            watch: None,
        },
        cleanup_dirs: Vec::new(),
        timeout_ms: TIMEOUT_MS,
    })
}

/// Pins the program as it is now. A file that replaces it later is not started: its machine code would run in the host.
fn pin_program(program: &Path, launcher: &Launcher) -> io::Result<PinnedPath> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", program.display()));
    let path: PathBuf = std::fs::canonicalize(program).map_err(named)?;
    // The symlink leads to the running program even if its file was replaced.
    let about = if launcher.uses_current_program() { Path::new("/proc/self/exe") } else { &path }.metadata();
    let about = about.map_err(named)?;
    Ok(PinnedPath { path: path.into(), file_id: Some(file_id(&about)) })
}

/// The result of a compiler process that has ended.
struct CompilerExit {
    report: Option<SupervisorReport>,
    stdout: Vec<u8>,
    /// The beginning of its standard error.
    stderr: Vec<u8>,
}

/// Runs the compiler until it ends, its response is too long, or the token stops, which kills it.
fn run_compiler(
    launcher: &Launcher,
    order: &LaunchRequest,
    request: &[u8],
    cancel: &CancelToken,
) -> io::Result<CompilerExit> {
    let (stdin, feed) = io::pipe()?;
    let (answer, stdout) = io::pipe()?;
    let (said, stderr) = io::pipe()?;
    // The listener owns the only writing end: when it is called it is dropped, and the reading end hangs up.
    let (stop, stopper) = io::pipe()?;
    let mut feed = RequestWriter { pipe: Some(set_nonblocking(feed.into())?), remaining: request };
    let mut answer = BoundedReader {
        pipe: Some(set_nonblocking(answer.into())?),
        bytes: Vec::new(),
        max_bytes: MAX_RESPONSE_BYTES,
    };
    let mut said =
        BoundedReader { pipe: Some(set_nonblocking(said.into())?), bytes: Vec::new(), max_bytes: 4 << 10 };
    let started = launcher.start(order, [stdin.into(), stdout.into(), stderr.into()], None)?;
    let _listening = cancel.on_stop(move |_| drop(stopper));
    loop {
        let mut waiting =
            vec![PollFd::new(&started.report, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
        waiting.extend(feed.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        waiting.extend([&answer, &said].into_iter().filter_map(BoundedReader::poll_fd));
        match poll(&mut waiting, None) {
            Err(Errno::INTR) => continue,
            ready => ready?,
        };
        if waiting.iter().take(2).any(|end| !end.revents().is_empty()) {
            break;
        }
        feed.write_available();
        answer.read_available(READ_BYTES);
        said.read_available(READ_BYTES);
        if answer.is_over_limit() {
            break;
        }
    }
    let report = started.kill_and_wait();
    answer.read_available(MAX_RESPONSE_BYTES);
    said.read_available(MAX_RESPONSE_BYTES);
    Ok(CompilerExit { report, stdout: answer.bytes, stderr: said.bytes })
}

impl CompilerExit {
    /// Whether nothing was started, because the kernel has neither namespaces nor all of Landlock.
    fn lacks_landlock(&self) -> bool {
        let end = self.report.as_ref().map(|report| &report.end);
        matches!(end, Some(LaunchOutcome::SetupFailed { step, .. }) if step == "files" || step == "signals")
    }

    fn into_response(self, file: &str) -> Result<Vec<u8>, CompileError> {
        let failed = |kind, what: &str| {
            Err(CompileError::Failed(SkillError::new(kind, format!("failed to compile {file}: {what}"))))
        };
        let smaller = |failure: Result<_, CompileError>| match failure {
            Err(CompileError::Failed(error)) => Err(CompileError::Failed(
                error.with_help("make the module smaller, or split its largest functions"),
            )),
            other => other,
        };
        if self.stdout.len() > MAX_RESPONSE_BYTES {
            let what = format!("it comes to more than {} MiB of machine code", MAX_RESPONSE_BYTES >> 20);
            return smaller(failed(ErrorKind::InvalidSkill, &what));
        }
        let Some(report) = &self.report else {
            return failed(ErrorKind::Unavailable, "the process that watches the compiler was killed");
        };
        let status = match &report.end {
            LaunchOutcome::SetupFailed { step, errno } => {
                let error = io::Error::from_raw_os_error(*errno);
                let refusal = metier_sandbox::machine().and_then(|machine| machine.refusal(step));
                let why = refusal.map_or_else(|| format!("{step}: {error}"), |refusal| refusal.reason);
                let sentence = format!("failed to compile {file} in a sandbox: {why}");
                let error = SkillError::new(ErrorKind::SandboxUnavailable, sentence);
                let error = error.with_help(MACHINE_HELP).with_hint(Hint::Diagnosis);
                return Err(CompileError::NoCompiler(error));
            }
            LaunchOutcome::Exited { status } => ExitStatus::from_raw(*status),
        };
        if status.success() {
            return Ok(self.stdout);
        }
        let said = String::from_utf8_lossy(&self.stderr);
        // The message of the standard library before it aborts.
        if report.exceeded_tree_memory || said.contains("memory allocation of ") {
            let what = format!("it takes more than {} MiB of memory", MEMORY_LIMIT >> 20);
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

/// Bytes that are still to be written into a pipe.
struct RequestWriter<'a> {
    pipe: Option<File>,
    remaining: &'a [u8],
}

impl RequestWriter<'_> {
    fn write_available(&mut self) {
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.write(self.remaining) {
            Ok(taken) if taken < self.remaining.len() => self.remaining = &self.remaining[taken..],
            Err(error) if matches!(error.kind(), Io::WouldBlock | Io::Interrupted) => {}
            _ => self.pipe = None,
        }
    }
}

/// Bytes that were read from a pipe, at most one more than allowed.
struct BoundedReader {
    pipe: Option<File>,
    bytes: Vec<u8>,
    max_bytes: usize,
}

impl BoundedReader {
    fn poll_fd(&self) -> Option<PollFd<'_>> {
        self.pipe.as_ref().map(|pipe| PollFd::new(pipe, PollFlags::IN))
    }

    fn is_over_limit(&self) -> bool {
        self.bytes.len() > self.max_bytes
    }

    /// Reads the available bytes, for one turn. Beyond the maximum nothing is read, which blocks the writer.
    fn read_available(&mut self, turn: usize) {
        let asked = (self.max_bytes + 1).saturating_sub(self.bytes.len()).min(turn);
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.take(asked as u64).read_to_end(&mut self.bytes) {
            Ok(came) if came == asked && asked > 0 => {}
            Err(error) if matches!(error.kind(), Io::WouldBlock | Io::Interrupted) => {}
            _ => self.pipe = None,
        }
    }
}

fn set_nonblocking(pipe: OwnedFd) -> io::Result<File> {
    ioctl_fionbio(&pipe, true)?;
    Ok(File::from(pipe))
}
