//! A process and the group it leads: killed as a whole, reaped once, never left behind.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// A running group. Dropping it kills and reaps what [`Group::reap`] has not.
pub(super) struct Group {
    leader: Child,
    reaped: bool,
}

impl Group {
    /// Starts a command that asks for a group of its own.
    pub(super) fn start(command: &mut Command) -> io::Result<Self> {
        Ok(Self { leader: command.spawn()?, reaped: false })
    }

    /// The leader's id, which is the group's.
    pub(super) fn leader(&self) -> Pid {
        Pid::from_child(&self.leader)
    }

    /// The pipe to standard input, the first time it is asked for.
    pub(super) fn stdin(&mut self) -> Option<File> {
        self.leader.stdin.take().map(|pipe| OwnedFd::from(pipe).into())
    }

    /// The pipe from standard output, the first time it is asked for.
    pub(super) fn stdout(&mut self) -> Option<File> {
        self.leader.stdout.take().map(|pipe| OwnedFd::from(pipe).into())
    }

    /// The pipe from standard error, the first time it is asked for.
    pub(super) fn stderr(&mut self) -> Option<File> {
        self.leader.stderr.take().map(|pipe| OwnedFd::from(pipe).into())
    }

    /// Limits the data segment (heap and private mappings) of the leader and of what it starts from here on.
    ///
    /// The process already runs: what it allocates or starts before this call is not covered. Interpreters take
    /// milliseconds to get to the script, this takes microseconds, and the limit guards against accidents, not attacks.
    #[cfg(target_os = "linux")]
    pub(super) fn limit_memory(&self, bytes: u64) {
        use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
        let highest = getrlimit(Resource::Data).maximum.map_or(bytes, |maximum| maximum.min(bytes));
        let limit = Rlimit { current: Some(highest), maximum: Some(highest) };
        // A process that has exited needs no limit.
        prlimit(Some(self.leader()), Resource::Data, limit).ok();
    }

    /// Nothing limits the memory of a running process here.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn limit_memory(&self, _bytes: u64) {}

    /// Kills every process of the group at once.
    pub(super) fn kill(&mut self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // As long as the leader is not reaped, its id belongs to nobody else. A host that reaps every child itself makes
        // this fail, and then there is nobody who may safely be signalled.
        if !self.reaped && waitid(WaitId::Pid(self.leader()), look).is_ok() {
            kill_process_group(self.leader(), Signal::KILL).ok();
            // It may have joined another group.
            self.leader.kill().ok();
        }
    }

    /// Waits for the leader, which must be about to end.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.leader.wait()?;
        self.reaped = true;
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            self.leader.wait().ok();
        }
    }
}
