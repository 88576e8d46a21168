//! A process and the group it leads: killed as a whole, reaped once, never left behind.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::super::super::sandbox::SupervisorReport;
use crate::policy::Limits;
use crate::runtimes::external::process::{ProcessTree, exit_fd};

/// A running group. Dropping it kills and reaps what [`ProcessGroup::reap`] has not.
pub(super) struct ProcessGroup {
    child: Child,
    reaped: bool,
}

impl ProcessGroup {
    /// Starts a command as the leader of a group of its own.
    pub(super) fn start(command: &mut Command, has_input: bool, limits: &Limits) -> io::Result<Self> {
        // Neither a new group nor anything else here takes a closure in the child: that would fork, which costs a host of
        // 1 GiB 300 times as much as posix_spawn.
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
        let group = Self { child: command.spawn()?, reaped: false };
        group.apply_limits(limits);
        Ok(group)
    }

    /// The leader's id, which is the group's.
    fn child_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Holds the leader, and what it starts from here on, to its limits.
    ///
    /// The process already runs: what it allocates or starts before this call is not covered. Interpreters take
    /// milliseconds to get to the script, this takes microseconds, and the limits guard against accidents, not attacks.
    #[cfg(target_os = "linux")]
    fn apply_limits(&self, limits: &Limits) {
        use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
        let limits = limits.clone().for_process();
        let seconds = limits.cpu.map(|time| time.as_secs());
        // A second of grace, so that the signal that says so comes first.
        let all = [
            (Resource::Data, limits.memory, 0),
            (Resource::Cpu, seconds, 1),
            (Resource::Fsize, limits.file_size, 0),
            (Resource::Nofile, limits.open_files, 0),
        ];
        for (resource, most, grace) in all {
            let Some(most) = most else { continue };
            let last = most.saturating_add(grace);
            let highest = getrlimit(resource).maximum.map_or(last, |maximum| maximum.min(last));
            let limit = Rlimit { current: Some(highest.min(most)), maximum: Some(highest) };
            // A process that has exited needs no limit.
            prlimit(Some(self.child_pid()), resource, limit).ok();
        }
    }

    /// Nothing limits a running process here.
    #[cfg(not(target_os = "linux"))]
    fn apply_limits(&self, _limits: &Limits) {}
}

impl ProcessTree for ProcessGroup {
    fn take_stdio(&mut self) -> [Option<File>; 3] {
        let leader = &mut self.child;
        [
            leader.stdin.take().map(|pipe| OwnedFd::from(pipe).into()),
            leader.stdout.take().map(|pipe| OwnedFd::from(pipe).into()),
            leader.stderr.take().map(|pipe| OwnedFd::from(pipe).into()),
        ]
    }

    /// A descriptor beyond the standard streams takes a fork of the host to hand down.
    fn take_api_socket(&mut self) -> Option<OwnedFd> {
        None
    }

    fn exit_fd(&self) -> io::Result<OwnedFd> {
        exit_fd::exit_fd(self.child_pid())
    }

    fn kill(&mut self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // As long as the leader is not reaped, its id belongs to nobody else. A host that reaps every child itself makes
        // this fail, and then there is nobody who may safely be signalled.
        if !self.reaped && waitid(WaitId::Pid(self.child_pid()), look).is_ok() {
            kill_process_group(self.child_pid(), Signal::KILL).ok();
            // It may have joined another group.
            self.child.kill().ok();
        }
    }

    fn reap(&mut self) -> io::Result<(ExitStatus, Option<SupervisorReport>)> {
        let status = self.child.wait()?;
        self.reaped = true;
        Ok((status, None))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            self.child.wait().ok();
        }
    }
}
