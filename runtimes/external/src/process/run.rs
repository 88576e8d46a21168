//! Runs one process from its start to its last byte of output, on the calling thread.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use super::host_api_thread::HostApiThread;
use super::launch::Launch;
use super::pipes::{CapturedOutput, OutputReader, StdinWriter};
use super::stdio_loop::StdioLoop;
use super::streamed::{self, StreamedOutput};
use crate::host_api::{Connections, RequestHandler};
use metier_core::host::{NetworkReport, OutputSinks, ProcessOutput, SkillContext};
use metier_core::policy::{CancelToken, Limits};
use metier_sandbox::SupervisorReport;

/// What to run.
pub(crate) struct ProcessOptions<'a> {
    pub(crate) launch: Launch<'a>,
    pub(crate) stdin: ProcessInput,
    /// Where its output goes as it comes, in place of being kept, and the run that it belongs to.
    pub(crate) sinks: Option<(&'a OutputSinks, &'a SkillContext)>,
    /// The output limit is that of each stream, the memory limit that of each process.
    pub(crate) limits: &'a Limits,
    /// Stops the process, at the deadline too.
    pub(crate) cancel: &'a CancelToken,
    /// Receives the lines of its output.
    pub(crate) observed: ProcessOutput<'a>,
    /// Answers calls of the host API. A plain process cannot make any.
    pub(crate) handler: &'a RequestHandler<'a>,
}

/// The standard input of a process: never that of the host.
pub(crate) enum ProcessInput {
    Empty,
    Bytes(Vec<u8>),
    /// What this reads, as it comes.
    Stream(Box<dyn Read + Send>),
}

/// How a process ended.
pub(crate) struct ProcessExit {
    /// The report of its supervisor, if it ran in a sandbox.
    pub(crate) report: Option<SupervisorReport>,
    pub(crate) status: ExitStatus,
    pub(crate) stdout: CapturedOutput,
    pub(crate) stderr: CapturedOutput,
    /// What it did in its network, if that had granted hosts only.
    pub(crate) network: Option<NetworkReport>,
}

impl ProcessExit {
    /// The exit of a process whose standard output says nothing about its exit.
    pub(crate) fn without_stdout(
        status: ExitStatus,
        report: Option<SupervisorReport>,
        stderr: &CapturedOutput,
        network: Option<NetworkReport>,
    ) -> Self {
        Self { report, status, stdout: CapturedOutput::default(), stderr: stderr.clone(), network }
    }

    /// The signal that ended the process.
    pub(crate) fn signal(&self) -> Option<i32> {
        self.status.signal()
    }
}

/// Runs a process until it exits, the token stops, or a stream exceeds a limit that ends the run; then kills its whole tree.
///
/// Descendants that are still running when the process exits are killed too, and the output ends with what the pipes hold at
/// that moment, so a background job cannot delay the run. A descendant of a plain process that left the process group
/// (`setsid`) survives; only a sandbox ends it. Fails if the process cannot be started or a descriptor cannot be created.
pub(crate) fn run(options: ProcessOptions<'_>) -> io::Result<ProcessExit> {
    let ProcessOptions { launch, stdin: input, sinks, limits, cancel, mut observed, handler } = options;
    let mut tree = launch.start(!matches!(input, ProcessInput::Empty), limits)?;
    let [stdin, mut stdout, mut stderr] = tree.take_stdio();
    let stdin = match input {
        ProcessInput::Empty => StdinWriter::with_input(None, Vec::new())?,
        ProcessInput::Bytes(bytes) => StdinWriter::with_input(stdin, bytes)?,
        ProcessInput::Stream(source) => {
            streamed::feed(stdin, source)?;
            StdinWriter::with_input(None, Vec::new())?
        }
    };
    let streamed = sinks
        .map(|(sinks, ctx)| StreamedOutput::start([stdout.take(), stderr.take()], sinks, ctx))
        .transpose()?;
    let mut streams = StdioLoop {
        stdin,
        stdout: OutputReader::new(stdout, limits)?,
        stderr: OutputReader::new(stderr, limits)?,
        streamed,
    };
    let (api_socket, exit) = (tree.take_api_socket(), tree.exit_fd()?);
    std::thread::scope(|scope| {
        let mut host_api = HostApiThread::new(Connections::new(api_socket), scope, handler);
        let end = streams.run(&exit, cancel, &mut host_api, &mut observed, |_| None);
        tree.kill();
        // Waits for the call that is being answered, so that nothing continues after the run.
        host_api.stop();
        end
    })?;
    let [stdout, stderr] = match streams.streamed {
        Some(streamed) => streamed.finish(cancel)?,
        None => [streams.stdout, streams.stderr].map(OutputReader::into_last_captured),
    };
    observed.finish((&stdout.bytes, stdout.truncated), (&stderr.bytes, stderr.truncated));
    let network = tree.take_network_report();
    let (status, report) = tree.reap()?;
    Ok(ProcessExit { report, status, stdout, stderr, network })
}
