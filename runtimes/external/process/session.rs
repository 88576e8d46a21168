//! A process that answers one run after the other: asked by a line of JSON, answering by a line.
//!
//! Between runs nothing may come of it: no byte on a stream, no call of the host. What does come ends it, so that no run hears
//! what was meant for another.

use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::super::sandbox::Report;
use super::super::api::{Lines, Service};
use super::door::Door;
use super::stream::{Feed, Intake};
use super::{Kept, Start, Tree, started};
use crate::policy::{CancelToken, Limits, OutputPolicy};

/// Bytes of an answer beside its value.
const ENVELOPE: u64 = 4 << 10;

/// A living process. Dropping it kills its tree and waits until that is gone.
pub(in super::super) struct Session {
    tree: Box<dyn Tree + Send>,
    exit: OwnedFd,
    stdin: Feed,
    stdout: Intake,
    stderr: Intake,
    lines: Lines,
}

/// One run.
pub(in super::super) struct Asked<'a> {
    /// The request, with the end of its line.
    pub(in super::super) line: Vec<u8>,
    pub(in super::super) limits: &'a Limits,
    pub(in super::super) cancel: &'a CancelToken,
    pub(in super::super) service: &'a Service<'a>,
}

/// What came of one run.
pub(in super::super) struct Answered {
    pub(in super::super) end: End,
    pub(in super::super) stderr: Kept,
    /// Bytes on standard output.
    pub(in super::super) came: u64,
    /// Whether the process can be asked again: it lives, has said no more than its answer, and waits for nothing.
    pub(in super::super) is_quiet: bool,
}

/// How a run ended.
pub(in super::super) enum End {
    /// With this line, without its end.
    Line(Vec<u8>),
    /// It was stopped.
    Stopped,
    /// A stream met its cap: the name of the stream.
    TooMuch(&'static str),
    /// The process ended before it answered, or never became the program; with what its cage says.
    Exited(io::Result<(ExitStatus, Option<Report>)>),
}

/// What came of waiting.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) enum Waited {
    /// Somebody asks.
    Called,
    /// Nobody did, nobody will, or the process ended or spoke unasked.
    Over,
}

impl Session {
    pub(in super::super) fn start(start: Start<'_>, limits: &Limits) -> io::Result<Self> {
        let mut tree = started(start, limits)?;
        let [stdin, stdout, stderr] = tree.streams();
        Ok(Self {
            exit: tree.exit()?,
            stdin: Feed::lines(stdin)?,
            stdout: Intake::new(stdout, &of_answers(limits))?,
            stderr: Intake::new(stderr, limits)?,
            lines: Lines::new(tree.api()),
            tree,
        })
    }

    /// Asks and waits for the answer; the error is that of the few descriptors a run needs.
    pub(in super::super) fn ask(&mut self, asked: Asked<'_>) -> io::Result<Answered> {
        self.stdin.say(asked.line);
        let lines = std::mem::replace(&mut self.lines, Lines::new(None));
        let (end, lines) = std::thread::scope(|scope| {
            let mut door = Door::new(lines, scope, asked.service);
            let end = self.pump(&mut door, asked.cancel);
            (end, door.close())
        });
        self.lines = lines;
        // What it said before it answered is in the pipe by now.
        self.stderr.take_held();
        let (end, stdout) = (end?, self.stdout.renewed(&of_answers(asked.limits))?);
        let stderr = self.stderr.renewed(asked.limits)?;
        let (end, is_answer) = match end {
            Pumped::Line(at) => (End::Line(stdout.bytes[..at].to_vec()), stdout.bytes.len() == at + 1),
            Pumped::Stopped => (End::Stopped, false),
            Pumped::TooMuch(stream) => (End::TooMuch(stream), false),
            Pumped::Exited => (End::Exited(self.status()), false),
        };
        let is_quiet = is_answer && self.stdin.is_done() && self.is_quiet();
        Ok(Answered { end, stderr, came: stdout.came, is_quiet })
    }

    /// Waits until somebody asks by this pipe, which hangs up when nobody will; no longer than this, and only while the process
    /// keeps still.
    pub(in super::super) fn wait(&mut self, called: &PipeReader, patience: Duration) -> Waited {
        // By a time that is fixed: what is no reason to end must not be one to wait anew. Without one it waits as long as it takes.
        let until = Instant::now().checked_add(patience);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Waited::Over;
            }
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let ready = {
                let mut waiting =
                    vec![PollFd::new(called, PollFlags::IN), PollFd::new(&self.exit, PollFlags::IN)];
                waiting.extend(self.stdout.waiting());
                waiting.extend(self.stderr.waiting());
                waiting.extend(self.lines.waiting());
                poll(&mut waiting, left.as_ref())
            };
            match ready {
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return Waited::Over,
                Ok(_) if !self.is_quiet() => return Waited::Over,
                Ok(_) if is_ready(called, PollFlags::IN) => return Waited::Called,
                // A line was dropped whose process is gone.
                Ok(_) => {}
            }
        }
    }

    fn pump(&mut self, door: &mut Door<'_, '_>, cancel: &CancelToken) -> io::Result<Pumped> {
        // The listener owns the only writing end: when it is called it is dropped, and the reading end hangs up.
        let (stop, stopper) = io::pipe()?;
        let _listening = cancel.on_stop(move |_| drop(stopper));
        let mut searched = 0;
        loop {
            let mut waiting = vec![PollFd::new(&self.exit, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
            waiting.extend(self.stdin.waiting());
            waiting.extend(self.stdout.waiting());
            waiting.extend(self.stderr.waiting());
            waiting.extend(door.waiting());
            match poll(&mut waiting, None) {
                Err(rustix::io::Errno::INTR) => continue,
                ready => ready?,
            };
            let has_come = |at: usize| waiting.get(at).is_some_and(|end| !end.revents().is_empty());
            let (has_exited, is_stopped) = (has_come(0), has_come(1));
            if is_stopped {
                return Ok(Pumped::Stopped);
            }
            self.stdin.give();
            self.stderr.take();
            if has_exited {
                self.stdout.take_held();
            } else {
                self.stdout.take();
            }
            door.answer();
            let new = self.stdout.bytes().get(searched..).unwrap_or_default();
            if let Some(end) = new.iter().position(|byte| *byte == b'\n') {
                return Ok(Pumped::Line(searched + end));
            }
            searched += new.len();
            for (name, stream) in [("standard output", &self.stdout), ("standard error", &self.stderr)] {
                if stream.ends_the_run() {
                    return Ok(Pumped::TooMuch(name));
                }
            }
            if has_exited {
                return Ok(Pumped::Exited);
            }
        }
    }

    /// Whether it lives and has nothing to say.
    pub(in super::super) fn is_quiet(&mut self) -> bool {
        let streams = [self.stdout.waiting(), self.stderr.waiting()];
        let are_still = streams.into_iter().all(|end| end.is_some_and(|end| !is_ready_now(end)));
        are_still && self.stdin.is_open() && !is_ready(&self.exit, PollFlags::IN) && self.lines.are_quiet()
    }

    /// Ends it, where it has not ended.
    fn status(&mut self) -> io::Result<(ExitStatus, Option<Report>)> {
        self.tree.kill();
        self.tree.reap()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.status().ok();
    }
}

enum Pumped {
    /// Where its end is.
    Line(usize),
    Stopped,
    TooMuch(&'static str),
    Exited,
}

/// The limits of a stream of answers: there is no use in half of one.
fn of_answers(limits: &Limits) -> Limits {
    let output = limits.output.saturating_add(ENVELOPE);
    limits.clone().output(output).on_output(OutputPolicy::Kill)
}

fn is_ready(end: &impl std::os::fd::AsFd, flags: PollFlags) -> bool {
    is_ready_now(PollFd::new(end, flags))
}

fn is_ready_now(end: PollFd<'_>) -> bool {
    const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [end], Some(&AT_ONCE)).is_ok_and(|ready| ready > 0)
}
