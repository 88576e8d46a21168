//! A session with a worker that answers one run after the other: a request is a line of JSON, and so is the response.
//!
//! Between runs it may produce nothing: no byte on a stream, no call of the host. If it does, it is killed, so that no run
//! receives what was meant for another.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::super::sandbox::SupervisorReport;
use crate::policy::{CancelToken, Limits, OutputPolicy};
use crate::runtimes::external::host_api::{Connections, RequestHandler};
use crate::runtimes::external::process::host_api_thread::HostApiThread;
use crate::runtimes::external::process::pipes::{OutputReader, StdinWriter};
use crate::runtimes::external::process::{CapturedOutput, Launch, ProcessTree, start_tree};

/// Bytes of an answer beside its value.
const RESPONSE_OVERHEAD: u64 = 4 << 10;

/// A living process. Dropping it kills its tree and waits until that is gone.
pub(in super::super) struct WorkerSession {
    tree: Box<dyn ProcessTree + Send>,
    exit: OwnedFd,
    stdin: StdinWriter,
    stdout: OutputReader,
    stderr: OutputReader,
    connections: Connections,
}

/// One run.
pub(in super::super) struct WorkerCall<'a> {
    /// The request, with the end of its line.
    pub(in super::super) line: Vec<u8>,
    pub(in super::super) limits: &'a Limits,
    pub(in super::super) cancel: &'a CancelToken,
    pub(in super::super) handler: &'a RequestHandler<'a>,
}

/// What came of one run.
pub(in super::super) struct WorkerReply {
    pub(in super::super) outcome: CallOutcome,
    pub(in super::super) stderr: CapturedOutput,
    /// Bytes on standard output.
    pub(in super::super) stdout_bytes: u64,
    /// Whether the process can be asked again: it lives, has said no more than its answer, and waits for nothing.
    pub(in super::super) is_reusable: bool,
}

/// How a run ended.
pub(in super::super) enum CallOutcome {
    /// With this line, without its end.
    Line(Vec<u8>),
    /// It was stopped.
    Stopped,
    /// A stream met its cap: the name of the stream.
    OutputLimit(&'static str),
    /// The process ended before it answered, or never became the program; with what its sandbox says.
    Exited(io::Result<(ExitStatus, Option<SupervisorReport>)>),
}

/// What came of waiting.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum WaitOutcome {
    /// Somebody asks.
    Called,
    /// Nobody did, nobody will, or the process ended or spoke unasked.
    Over,
}

impl WorkerSession {
    pub(in super::super) fn start(start: Launch<'_>, limits: &Limits) -> io::Result<Self> {
        let mut tree = start_tree(start, limits)?;
        let [stdin, stdout, stderr] = tree.take_stdio();
        Ok(Self {
            exit: tree.exit_fd()?,
            stdin: StdinWriter::for_lines(stdin)?,
            stdout: OutputReader::new(stdout, &response_limits(limits))?,
            stderr: OutputReader::new(stderr, limits)?,
            connections: Connections::new(tree.take_api_socket()),
            tree,
        })
    }

    /// Asks and waits for the answer; the error is that of the few descriptors a run needs.
    pub(in super::super) fn call(&mut self, asked: WorkerCall<'_>) -> io::Result<WorkerReply> {
        self.stdin.write_line(asked.line);
        let lines = std::mem::replace(&mut self.connections, Connections::new(None));
        let (end, lines) = std::thread::scope(|scope| {
            let mut door = HostApiThread::new(lines, scope, asked.handler);
            let end = self.poll_response(&mut door, asked.cancel);
            (end, door.stop())
        });
        self.connections = lines;
        // What it said before it answered is in the pipe by now.
        self.stderr.drain();
        let (end, stdout) = (end?, self.stdout.take_captured(&response_limits(asked.limits))?);
        let stderr = self.stderr.take_captured(asked.limits)?;
        let (end, is_answer) = match end {
            PollOutcome::Line(at) => {
                (CallOutcome::Line(stdout.bytes[..at].to_vec()), stdout.bytes.len() == at + 1)
            }
            PollOutcome::Stopped => (CallOutcome::Stopped, false),
            PollOutcome::OutputLimit(stream) => (CallOutcome::OutputLimit(stream), false),
            PollOutcome::Exited => (CallOutcome::Exited(self.kill_and_reap()), false),
        };
        let is_quiet = is_answer && self.stdin.is_done() && self.is_idle();
        Ok(WorkerReply { outcome: end, stderr, stdout_bytes: stdout.total_bytes, is_reusable: is_quiet })
    }

    /// Waits until somebody asks by this pipe, which hangs up when nobody will; no longer than this, and only while the process
    /// keeps still.
    pub(in super::super) fn wait_for_call(&mut self, called: &PipeReader, patience: Duration) -> WaitOutcome {
        // By a time that is fixed: what is no reason to end must not be one to wait anew. Without one it waits as long as it
        // takes.
        let until = Instant::now().checked_add(patience);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return WaitOutcome::Over;
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let ready = {
                let mut waiting =
                    vec![PollFd::new(called, PollFlags::IN), PollFd::new(&self.exit, PollFlags::IN)];
                waiting.extend(self.stdout.poll_fd());
                waiting.extend(self.stderr.poll_fd());
                waiting.extend(self.connections.poll_fds());
                poll(&mut waiting, left.as_ref())
            };
            match ready {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return WaitOutcome::Over,
                Ok(_) if !self.is_idle() => return WaitOutcome::Over,
                Ok(_) if is_ready(called, PollFlags::IN) => return WaitOutcome::Called,
                // A line was dropped whose process is gone.
                Ok(_) => {}
            }
        }
    }

    fn poll_response(
        &mut self,
        door: &mut HostApiThread<'_, '_>,
        cancel: &CancelToken,
    ) -> io::Result<PollOutcome> {
        // The listener owns the only writing end: when it is called it is dropped, and the reading end hangs up.
        let (stop, stopper) = io::pipe()?;
        let _listening = cancel.on_stop(move |_| drop(stopper));
        let mut searched = 0;
        loop {
            let mut waiting = vec![PollFd::new(&self.exit, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
            waiting.extend(self.stdin.poll_fd());
            waiting.extend(self.stdout.poll_fd());
            waiting.extend(self.stderr.poll_fd());
            waiting.extend(door.poll_fds());
            match poll(&mut waiting, None) {
                Err(rustix::io::Errno::INTR) => continue,
                ready => ready?,
            };
            let has_come = |at: usize| waiting.get(at).is_some_and(|end| !end.revents().is_empty());
            let (has_exited, is_stopped) = (has_come(0), has_come(1));
            if is_stopped {
                return Ok(PollOutcome::Stopped);
            }
            self.stdin.write_available();
            self.stderr.read_available();
            if has_exited {
                self.stdout.drain();
            } else {
                self.stdout.read_available();
            }
            door.start_when_called();
            let new = self.stdout.bytes().get(searched..).unwrap_or_default();
            if let Some(end) = new.iter().position(|byte| *byte == b'\n') {
                return Ok(PollOutcome::Line(searched + end));
            }
            searched += new.len();
            for (name, stream) in [("standard output", &self.stdout), ("standard error", &self.stderr)] {
                if stream.exceeds_limit() {
                    return Ok(PollOutcome::OutputLimit(name));
                }
            }
            if has_exited {
                return Ok(PollOutcome::Exited);
            }
        }
    }

    /// Whether it lives and has nothing to say.
    pub(in super::super) fn is_idle(&mut self) -> bool {
        let streams = [self.stdout.poll_fd(), self.stderr.poll_fd()];
        let are_still = streams.into_iter().all(|end| end.is_some_and(|end| !is_ready_now(end)));
        are_still
            && self.stdin.is_open()
            && !is_ready(&self.exit, PollFlags::IN)
            && self.connections.are_idle()
    }

    /// Ends it, where it has not ended.
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

enum PollOutcome {
    /// Where its end is.
    Line(usize),
    Stopped,
    OutputLimit(&'static str),
    Exited,
}

/// The limits of a stream of answers: there is no use in half of one.
fn response_limits(limits: &Limits) -> Limits {
    let output = limits.output.saturating_add(RESPONSE_OVERHEAD);
    limits.clone().output(output).on_output(OutputPolicy::Kill)
}

fn is_ready(end: &impl std::os::fd::AsFd, flags: PollFlags) -> bool {
    is_ready_now(PollFd::new(end, flags))
}

fn is_ready_now(end: PollFd<'_>) -> bool {
    const NO_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [end], Some(&NO_WAIT)).is_ok_and(|ready| ready > 0)
}
