//! One process from its start to its last byte: fed, drained and stopped by one thread that sleeps until something happens.

mod exit;
mod group;
mod stream;

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Access, access};

use self::group::Group;
use self::stream::{Feed, Intake};
use crate::policy::{CancelToken, Limits};

/// What to run.
pub(super) struct Request<'a> {
    /// Program, arguments, environment, working directory.
    pub(super) command: Command,
    /// The bytes of standard input; without any it is empty, never the host's.
    pub(super) stdin: Option<Vec<u8>>,
    /// The cap of each stream and the memory of each process.
    pub(super) limits: &'a Limits,
    /// Stops it, at the deadline too.
    pub(super) cancel: &'a CancelToken,
}

/// How a process ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) signal: Option<i32>,
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
}

/// What was kept of a stream.
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    pub(super) truncated: bool,
}

/// Runs a process until it exits, the token stops, or a stream meets its cap; then kills its whole group.
///
/// What lives on in the group when the leader exits is killed too, and what the pipes hold at that moment is the output: a
/// background job cannot hold up the run. A descendant that left the group (`setsid`) lives on; only a sandbox ends it.
/// The error is that of the start, or of the few descriptors the run needs.
pub(super) fn run(request: Request<'_>) -> io::Result<Ended> {
    let Request { mut command, stdin, limits, cancel } = request;
    // Neither a new group nor anything else here takes a closure in the child: that would fork, which costs a host of
    // 1 GiB 300 times as much as posix_spawn.
    command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.stdin(if stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    let mut group = Group::start(&mut command)?;
    group.limit_memory(limits.memory.unwrap_or(Limits::MEMORY_PROCESS));
    let mut pump = Pump {
        stdin: Feed::new(group.stdin(), stdin.unwrap_or_default())?,
        stdout: Intake::new(group.stdout(), limits.output)?,
        stderr: Intake::new(group.stderr(), limits.output)?,
    };
    pump.run(&group, cancel)?;
    group.kill();
    pump.stdout.take_rest();
    pump.stderr.take_rest();
    let status = group.reap()?;
    Ok(Ended { status, signal: status.signal(), stdout: pump.stdout.kept(), stderr: pump.stderr.kept() })
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
    fn run(&mut self, group: &Group, cancel: &CancelToken) -> io::Result<()> {
        let exit = exit::signal(group.leader())?;
        // The listener owns the only writing end: when it is called it is dropped, and the reading end hangs up.
        let (stop, stopper) = io::pipe()?;
        let _listening = cancel.on_stop(move |_| drop(stopper));
        loop {
            let mut waiting = vec![PollFd::new(&exit, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
            waiting.extend(self.stdin.waiting());
            waiting.extend(self.stdout.waiting());
            waiting.extend(self.stderr.waiting());
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
            if self.stdout.is_full() || self.stderr.is_full() {
                return Ok(());
            }
        }
    }
}
