//! Runs one process from its start to its last byte: one thread writes its input, reads its output, stops it, and sleeps in
//! between.

mod exit_fd;
pub(super) mod host_api_thread;
pub(super) mod pipes;
mod process_group;
mod sandboxed;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, access};

use self::host_api_thread::HostApiThread;
use self::pipes::{OutputReader, StdinWriter};
use self::process_group::ProcessGroup;
use self::sandboxed::SandboxedProcess;
use super::super::sandbox::{LaunchRequest, Launcher, SupervisorReport};
use crate::policy::{CancelToken, Limits};
use crate::runtimes::external::host_api::{Connections, RequestHandler};

pub(super) use self::sandboxed::{METIER_DIRS_VISIBLE, PROTECTED_PATHS_STEP, SandboxSetupError, check_setup};
pub(super) use crate::runtimes::external::worker::session::{
    CallOutcome, WaitOutcome, WorkerCall, WorkerSession,
};

/// What to run.
pub(super) struct ProcessOptions<'a> {
    /// Program, arguments, environment, working directory, and in what they run.
    pub(super) launch: Launch<'a>,
    /// The bytes of standard input; without any it is empty, never the host's.
    pub(super) stdin: Option<Vec<u8>>,
    /// The cap of each stream and the memory of each process.
    pub(super) limits: &'a Limits,
    /// Stops it, at the deadline too.
    pub(super) cancel: &'a CancelToken,
    /// Answers what it asks of the host; a plain process has no way to ask.
    pub(super) handler: &'a RequestHandler<'a>,
}

/// How it starts.
pub(super) enum Launch<'a> {
    /// As a plain process.
    Unsandboxed(Box<Command>),
    /// In a sandbox.
    Sandboxed(&'a Launcher, Box<LaunchRequest>),
}

/// How a process ended.
pub(super) struct ProcessExit {
    /// The supervisor's report, if there was a sandbox.
    pub(super) report: Option<SupervisorReport>,
    pub(super) status: ExitStatus,
    pub(super) signal: Option<i32>,
    pub(super) stdout: CapturedOutput,
    pub(super) stderr: CapturedOutput,
}

/// What was kept of a stream: a cut never splits a character.
#[derive(Clone)]
pub(super) struct CapturedOutput {
    pub(super) bytes: Vec<u8>,
    pub(super) truncated: bool,
    /// How many bytes came.
    pub(super) total_bytes: u64,
}

impl ProcessExit {
    /// The end of a process whose output was no matter of its end.
    pub(super) fn without_stdout(
        status: ExitStatus,
        report: Option<SupervisorReport>,
        stderr: &CapturedOutput,
    ) -> Self {
        let stdout = CapturedOutput { bytes: Vec::new(), truncated: false, total_bytes: 0 };
        Self { report, status, signal: status.signal(), stdout, stderr: stderr.clone() }
    }
}

/// A started process with whatever it starts in turn.
pub(super) trait ProcessTree {
    /// Its standard streams, the first time they are asked for; input, output, error.
    fn take_stdio(&mut self) -> [Option<File>; 3];
    /// The host's end of the API, the first time it is asked for.
    fn take_api_socket(&mut self) -> Option<OwnedFd>;
    /// Readable from the moment it has exited.
    fn exit_fd(&self) -> io::Result<OwnedFd>;
    /// Kills what can be reached of it.
    fn kill(&mut self);
    /// Waits for the end, which must be about to come.
    fn reap(&mut self) -> io::Result<(ExitStatus, Option<SupervisorReport>)>;
}

/// Runs a process until it exits, the token stops, or a stream meets its cap where that ends it; then kills its whole tree.
///
/// What lives on when the leader exits is killed too, and what the pipes hold at that moment is the output: a background job
/// cannot hold up the run. Of a plain process a descendant that left the group (`setsid`) lives on; only a sandbox ends it.
/// The error is that of the start, or of the few descriptors the run needs.
pub(super) fn run(request: ProcessOptions<'_>) -> io::Result<ProcessExit> {
    let ProcessOptions { launch: start, stdin, limits, cancel, handler: service } = request;
    match start {
        Launch::Unsandboxed(mut command) => run_to_exit(
            ProcessGroup::start(&mut command, stdin.is_some(), limits)?,
            stdin,
            limits,
            cancel,
            service,
        ),
        Launch::Sandboxed(launcher, order) => run_to_exit(
            SandboxedProcess::start(launcher, &order, stdin.is_some())?,
            stdin,
            limits,
            cancel,
            service,
        ),
    }
}

/// Starts a process, as `start` has it, that is asked by lines on its standard input.
pub(super) fn start_tree(start: Launch<'_>, limits: &Limits) -> io::Result<Box<dyn ProcessTree + Send>> {
    Ok(match start {
        Launch::Unsandboxed(mut command) => Box::new(ProcessGroup::start(&mut command, true, limits)?),
        Launch::Sandboxed(launcher, order) => Box::new(SandboxedProcess::start(launcher, &order, true)?),
    })
}

fn run_to_exit(
    mut tree: impl ProcessTree,
    input: Option<Vec<u8>>,
    limits: &Limits,
    cancel: &CancelToken,
    service: &RequestHandler<'_>,
) -> io::Result<ProcessExit> {
    let [stdin, stdout, stderr] = tree.take_stdio();
    let mut pump = StdioLoop {
        stdin: StdinWriter::with_input(stdin, input.unwrap_or_default())?,
        stdout: OutputReader::new(stdout, limits)?,
        stderr: OutputReader::new(stderr, limits)?,
    };
    let (api, exit) = (tree.take_api_socket(), tree.exit_fd()?);
    std::thread::scope(|scope| {
        let mut door = HostApiThread::new(Connections::new(api), scope, service);
        let pumped = pump.run(&exit, cancel, &mut door);
        tree.kill();
        // A call under way is waited for, so that nothing goes on after the run.
        door.stop();
        pumped
    })?;
    pump.stdout.drain_and_close();
    pump.stderr.drain_and_close();
    let (status, report) = tree.reap()?;
    Ok(ProcessExit {
        report,
        status,
        signal: status.signal(),
        stdout: pump.stdout.into_captured(),
        stderr: pump.stderr.into_captured(),
    })
}

/// Whether the file may be executed by whoever runs this.
pub(super) fn is_executable(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok()
}

struct StdioLoop {
    stdin: StdinWriter,
    stdout: OutputReader,
    stderr: OutputReader,
}

impl StdioLoop {
    fn run(
        &mut self,
        exit: &OwnedFd,
        cancel: &CancelToken,
        door: &mut HostApiThread<'_, '_>,
    ) -> io::Result<()> {
        // The listener owns the only writing end: when it is called it is dropped, and the reading end hangs up.
        let (stop, stopper) = io::pipe()?;
        let _listening = cancel.on_stop(move |_| drop(stopper));
        loop {
            let mut waiting = vec![PollFd::new(exit, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
            waiting.extend(self.stdin.poll_fd());
            waiting.extend(self.stdout.poll_fd());
            waiting.extend(self.stderr.poll_fd());
            waiting.extend(door.poll_fds());
            match poll(&mut waiting, None) {
                Err(rustix::io::Errno::INTR) => continue,
                ready => ready?,
            };
            let is_over = waiting.iter().take(2).any(|end| !end.revents().is_empty());
            if is_over {
                return Ok(());
            }
            self.stdin.write_available();
            self.stdout.read_available();
            self.stderr.read_available();
            door.start_when_called();
            if self.stdout.exceeds_limit() || self.stderr.exceeds_limit() {
                return Ok(());
            }
        }
    }
}
