//! A session with a process that answers one run after the other: a request is a line, and so is its response.
//!
//! Between runs the process must not write to a stream or call the host. If it does, it is killed, so that no run receives what
//! was meant for another.

use std::io::{self, PipeReader};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::host_api::{Connections, RequestHandler};
use crate::process::host_api_thread::HostApiThread;
use crate::process::launch::Launch;
use crate::process::pipes::{CapturedOutput, OutputReader, StdinWriter};
use crate::process::process_tree::ProcessTree;
use crate::process::stdio_loop::{StdioEnd, StdioLoop};
use metier_core::host::{NetworkReport, OutputStream, ProcessOutput};
use metier_core::policy::{CancelToken, Limits, OutputPolicy};
use metier_sandbox::SupervisorReport;

/// Bytes that a response may have besides its value.
const RESPONSE_OVERHEAD: u64 = 4 << 10;

/// A running process. Dropping this kills its tree and waits until all of it is gone.
pub(crate) struct WorkerSession {
    tree: Box<dyn ProcessTree>,
    exit: OwnedFd,
    stdio: StdioLoop,
    connections: Connections,
}

/// One run.
pub(crate) struct WorkerCall<'a> {
    /// The request, with its newline and what follows it.
    pub(crate) request: Vec<u8>,
    pub(crate) limits: &'a Limits,
    pub(crate) cancel: &'a CancelToken,
    /// Receives the lines of its output.
    pub(crate) observed: ProcessOutput<'a>,
    pub(crate) handler: &'a RequestHandler<'a>,
}

/// What one run produced.
pub(crate) struct WorkerReply {
    pub(crate) outcome: CallOutcome,
    pub(crate) stderr: CapturedOutput,
    /// The number of bytes on standard output.
    pub(crate) stdout_bytes: u64,
    /// What it did in its network, if that has granted hosts only.
    pub(crate) network: Option<NetworkReport>,
    /// Whether the process can be called again: it runs, and has written nothing but its response.
    pub(crate) is_reusable: bool,
}

/// How a run ended.
pub(crate) enum CallOutcome {
    /// The response, without its newline.
    Line(Vec<u8>),
    /// The run was cancelled or timed out.
    Stopped,
    OutputLimit(OutputStream),
    /// The process exited before it responded, or its sandbox could not be set up.
    Exited(io::Result<(ExitStatus, Option<SupervisorReport>)>),
}

/// The result of waiting for the next run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// There is another run.
    Called,
    /// There is none, or the process exited or wrote something.
    Over,
}

impl WorkerSession {
    pub(crate) fn start(launch: Launch<'_>, limits: &Limits) -> io::Result<Self> {
        let mut tree = launch.start(true, limits)?;
        let [stdin, stdout, stderr] = tree.take_stdio();
        Ok(Self {
            exit: tree.exit_fd()?,
            stdio: StdioLoop {
                stdin: StdinWriter::for_lines(stdin)?,
                stdout: OutputReader::new(stdout, &response_limits(limits))?,
                stderr: OutputReader::new(stderr, limits)?,
                streamed: None,
            },
            connections: Connections::new(tree.take_api_socket()),
            tree,
        })
    }

    /// Sends a request and waits for its response. Fails if a descriptor cannot be created.
    pub(crate) fn call(&mut self, mut call: WorkerCall<'_>) -> io::Result<WorkerReply> {
        self.stdio.stdin.write_request(call.request);
        // Runs that share a process may have other limits of output.
        self.stdio.stdout.set_limits(&response_limits(call.limits));
        self.stdio.stderr.set_limits(call.limits);
        let connections = std::mem::replace(&mut self.connections, Connections::new(None));
        let (end, connections) = std::thread::scope(|scope| {
            let mut host_api = HostApiThread::new(connections, scope, call.handler);
            let end = self.wait_for_response(&mut host_api, call.cancel, &mut call.observed);
            (end, host_api.stop())
        });
        self.connections = connections;
        // What the process wrote before its response is in the pipe by now.
        self.stdio.stderr.drain();
        let end = end?;
        let stdout = self.stdio.stdout.take_captured(&response_limits(call.limits))?;
        let stderr = self.stdio.stderr.take_captured(call.limits)?;
        call.observed.finish((&stdout.bytes, stdout.truncated), (&stderr.bytes, stderr.truncated));
        let (outcome, is_whole_output) = match end {
            StdioEnd::Found(at) => {
                (CallOutcome::Line(stdout.bytes[..at].to_vec()), stdout.bytes.len() == at + 1)
            }
            StdioEnd::Stopped => (CallOutcome::Stopped, false),
            StdioEnd::OutputLimit(stream) => (CallOutcome::OutputLimit(stream), false),
            StdioEnd::Exited => (CallOutcome::Exited(self.kill_and_reap()), false),
        };
        let is_reusable = is_whole_output && self.stdio.stdin.is_done() && self.is_idle();
        let network = self.tree.take_network_report();
        Ok(WorkerReply { outcome, stderr, stdout_bytes: stdout.total_bytes, network, is_reusable })
    }

    /// Waits until a byte arrives in `called`, which hangs up when there will be no further run. Ends after `max_wait`, and when
    /// the process exits or writes something.
    pub(crate) fn wait_for_call(&mut self, called: &PipeReader, max_wait: Duration) -> WaitOutcome {
        // The end is a fixed time, because an event that does not end the wait must not prolong it. An end that is too far away
        // to be a time is none.
        let until = Instant::now().checked_add(max_wait);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return WaitOutcome::Over;
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let ready = {
                let mut fds =
                    vec![PollFd::new(called, PollFlags::IN), PollFd::new(&self.exit, PollFlags::IN)];
                fds.extend(self.stdio.stdout.poll_fd());
                fds.extend(self.stdio.stderr.poll_fd());
                fds.extend(self.connections.poll_fds());
                poll(&mut fds, left.as_ref())
            };
            match ready {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return WaitOutcome::Over,
                Ok(_) if !self.is_idle() => return WaitOutcome::Over,
                Ok(_) if is_readable(called) => return WaitOutcome::Called,
                // A connection was closed by its process.
                Ok(_) => {}
            }
        }
    }

    fn wait_for_response(
        &mut self,
        host_api: &mut HostApiThread<'_, '_>,
        cancel: &CancelToken,
        observed: &mut ProcessOutput<'_>,
    ) -> io::Result<StdioEnd> {
        let mut searched = 0;
        let mut line_end = |output: &[u8]| {
            let new = output.get(searched..).unwrap_or_default();
            let end = new.iter().position(|byte| *byte == b'\n').map(|end| searched + end);
            searched = output.len();
            end
        };
        let end = self.stdio.run(&self.exit, cancel, host_api, observed, &mut line_end)?;
        if end != StdioEnd::Exited {
            return Ok(end);
        }
        // The response may be the last that the process wrote.
        self.stdio.stdout.drain();
        self.stdio.stderr.drain();
        let response = line_end(self.stdio.stdout.bytes()).map(StdioEnd::Found);
        Ok(response.or_else(|| self.stdio.exceeded_stream().map(StdioEnd::OutputLimit)).unwrap_or(end))
    }

    /// Whether the process runs and has written nothing.
    pub(crate) fn is_idle(&mut self) -> bool {
        let streams = [self.stdio.stdout.poll_fd(), self.stdio.stderr.poll_fd()];
        streams.into_iter().all(|fd| fd.is_some_and(|fd| !is_ready(fd)))
            && self.stdio.stdin.is_open()
            && !is_readable(&self.exit)
            && self.connections.are_idle()
    }

    /// Kills the process: how it ended, if nobody has learned that before.
    pub(crate) fn end(mut self) -> io::Result<(ExitStatus, Option<SupervisorReport>)> {
        self.kill_and_reap()
    }

    fn kill_and_reap(&mut self) -> io::Result<(ExitStatus, Option<SupervisorReport>)> {
        self.tree.kill();
        self.tree.reap()
    }
}

impl Drop for WorkerSession {
    fn drop(&mut self) {
        self.kill_and_reap().ok();
    }
}

/// The limits of standard output. A truncated response would be useless, so the output policy is always to end the run.
fn response_limits(limits: &Limits) -> Limits {
    let output = limits.output.saturating_add(RESPONSE_OVERHEAD);
    limits.clone().output(output).on_output(OutputPolicy::Kill)
}

fn is_readable(fd: &impl AsFd) -> bool {
    is_ready(PollFd::new(fd, PollFlags::IN))
}

fn is_ready(fd: PollFd<'_>) -> bool {
    const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [fd], Some(&NO_WAIT)).is_ok_and(|ready| ready > 0)
}
