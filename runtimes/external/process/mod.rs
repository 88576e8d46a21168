//! One process from its start to its last byte: fed, drained and stopped by one thread that sleeps until something happens.

mod caged;
mod door;
mod exit;
mod group;
mod session;
mod stream;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, access};

use self::caged::Caged;
use self::door::Door;
use self::group::Group;
use self::stream::{Feed, Intake};
use super::super::sandbox::{Launcher, Order, Report};
use super::api::{Lines, Service};
use crate::policy::{CancelToken, Limits};

pub(super) use self::caged::{OWN_IN_SIGHT, PROTECTED, Refused, checked};
pub(super) use self::session::{Asked, End, Session, Waited};

/// What to run.
pub(super) struct Request<'a> {
    /// Program, arguments, environment, working directory, and in what they run.
    pub(super) start: Start<'a>,
    /// The bytes of standard input; without any it is empty, never the host's.
    pub(super) stdin: Option<Vec<u8>>,
    /// The cap of each stream and the memory of each process.
    pub(super) limits: &'a Limits,
    /// Stops it, at the deadline too.
    pub(super) cancel: &'a CancelToken,
    /// Answers what it asks of the host; a plain process has no way to ask.
    pub(super) service: &'a Service<'a>,
}

/// How it starts.
pub(super) enum Start<'a> {
    /// As a plain process.
    Plain(Box<Command>),
    /// In a cage.
    Caged(&'a Launcher, Box<Order>),
}

/// How a process ended.
pub(super) struct Ended {
    /// What the cage says, where there was one.
    pub(super) report: Option<Report>,
    pub(super) status: ExitStatus,
    pub(super) signal: Option<i32>,
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
}

/// What was kept of a stream: a cut never goes through a letter.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    pub(super) truncated: bool,
    /// How many bytes came.
    pub(super) came: u64,
}

impl Ended {
    /// The end of a process whose output was no matter of its end.
    pub(super) fn silently(status: ExitStatus, report: Option<Report>, stderr: &Kept) -> Self {
        let stdout = Kept { bytes: Vec::new(), truncated: false, came: 0 };
        Self { report, status, signal: status.signal(), stdout, stderr: stderr.clone() }
    }
}

/// A started process with whatever it starts in turn.
trait Tree {
    /// Its standard streams, the first time they are asked for; input, output, error.
    fn streams(&mut self) -> [Option<File>; 3];
    /// The host's end of the API, the first time it is asked for.
    fn api(&mut self) -> Option<OwnedFd>;
    /// Readable from the moment it has exited.
    fn exit(&self) -> io::Result<OwnedFd>;
    /// Kills what can be reached of it.
    fn kill(&mut self);
    /// Waits for the end, which must be about to come.
    fn reap(&mut self) -> io::Result<(ExitStatus, Option<Report>)>;
}

/// Runs a process until it exits, the token stops, or a stream meets its cap where that ends it; then kills its whole tree.
///
/// What lives on when the leader exits is killed too, and what the pipes hold at that moment is the output: a background job
/// cannot hold up the run. Of a plain process a descendant that left the group (`setsid`) lives on; only a cage ends it.
/// The error is that of the start, or of the few descriptors the run needs.
pub(super) fn run(request: Request<'_>) -> io::Result<Ended> {
    let Request { start, stdin, limits, cancel, service } = request;
    match start {
        Start::Plain(mut command) => {
            watched(Group::start(&mut command, stdin.is_some(), limits)?, stdin, limits, cancel, service)
        }
        Start::Caged(launcher, order) => {
            watched(Caged::start(launcher, &order, stdin.is_some())?, stdin, limits, cancel, service)
        }
    }
}

/// Starts a process, as `start` has it, that is asked by lines on its standard input.
fn started(start: Start<'_>, limits: &Limits) -> io::Result<Box<dyn Tree + Send>> {
    Ok(match start {
        Start::Plain(mut command) => Box::new(Group::start(&mut command, true, limits)?),
        Start::Caged(launcher, order) => Box::new(Caged::start(launcher, &order, true)?),
    })
}

fn watched(
    mut tree: impl Tree,
    input: Option<Vec<u8>>,
    limits: &Limits,
    cancel: &CancelToken,
    service: &Service<'_>,
) -> io::Result<Ended> {
    let [stdin, stdout, stderr] = tree.streams();
    let mut pump = Pump {
        stdin: Feed::whole(stdin, input.unwrap_or_default())?,
        stdout: Intake::new(stdout, limits)?,
        stderr: Intake::new(stderr, limits)?,
    };
    let (api, exit) = (tree.api(), tree.exit()?);
    std::thread::scope(|scope| {
        let mut door = Door::new(Lines::new(api), scope, service);
        let pumped = pump.run(&exit, cancel, &mut door);
        tree.kill();
        // A call under way is waited for, so that nothing goes on after the run.
        door.close();
        pumped
    })?;
    pump.stdout.take_rest();
    pump.stderr.take_rest();
    let (status, report) = tree.reap()?;
    Ok(Ended {
        report,
        status,
        signal: status.signal(),
        stdout: pump.stdout.kept(),
        stderr: pump.stderr.kept(),
    })
}

/// Whether the file may be executed by whoever runs this.
pub(super) fn is_executable(path: &Path) -> bool {
    access(path, Access::EXEC_OK).is_ok()
}

struct Pump {
    stdin: Feed,
    stdout: Intake,
    stderr: Intake,
}

impl Pump {
    fn run(&mut self, exit: &OwnedFd, cancel: &CancelToken, door: &mut Door<'_, '_>) -> io::Result<()> {
        // The listener owns the only writing end: when it is called it is dropped, and the reading end hangs up.
        let (stop, stopper) = io::pipe()?;
        let _listening = cancel.on_stop(move |_| drop(stopper));
        loop {
            let mut waiting = vec![PollFd::new(exit, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
            waiting.extend(self.stdin.waiting());
            waiting.extend(self.stdout.waiting());
            waiting.extend(self.stderr.waiting());
            waiting.extend(door.waiting());
            match poll(&mut waiting, None) {
                Err(rustix::io::Errno::INTR) => continue,
                ready => ready?,
            };
            let is_over = waiting.iter().take(2).any(|end| !end.revents().is_empty());
            if is_over {
                return Ok(());
            }
            self.stdin.give();
            self.stdout.take();
            self.stderr.take();
            door.answer();
            if self.stdout.ends_the_run() || self.stderr.ends_the_run() {
                return Ok(());
            }
        }
    }
}
