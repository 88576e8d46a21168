//! A plain process with a process group of its own.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::exit_fd;
use super::process_tree::ProcessTree;
use metier_core::policy::{Limits, process_limits};
use metier_sandbox::SupervisorReport;

/// A running process group. Dropping it kills the group, and reaps the process if [`ProcessGroup::reap`] has not.
pub(super) struct ProcessGroup {
    child: Child,
    reaped: bool,
}

impl ProcessGroup {
    /// Starts a command in a process group of its own.
    pub(super) fn start(command: &mut Command, has_input: bool, limits: &Limits) -> io::Result<Self> {
        // No option set here needs a closure in the child. A closure would make the standard library fork instead of calling
        // posix_spawn, which takes 300 times as long in a host of 1 GiB.
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(if has_input { Stdio::piped() } else { Stdio::null() });
        let group = Self { child: command.spawn()?, reaped: false };
        group.apply_limits(limits);
        Ok(group)
    }

    /// The process id, which is also the id of the group.
    fn child_pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sets the limits of the process and of what it starts from here on.
    ///
    /// The process already runs, so the limits do not cover what it allocated or started before this call. Interpreters take
    /// milliseconds to reach the script, and this call takes microseconds. Without a sandbox the limits are for accidents, not
    /// for attacks.
    #[cfg(target_os = "linux")]
    fn apply_limits(&self, limits: &Limits) {
        use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
        let limits = process_limits(limits);
        let seconds = limits.cpu.map(|time| time.as_secs());
        // The hard limit is a second later, so that the process first receives the signal that names the limit.
        let all = [
            (Resource::Data, limits.memory, 0),
            (Resource::Cpu, seconds, 1),
            (Resource::Fsize, limits.file_size, 0),
            (Resource::Nofile, limits.open_files, 0),
        ];
        for (resource, soft, grace) in all {
            let Some(soft) = soft else { continue };
            let hard = soft.saturating_add(grace);
            let hard = getrlimit(resource).maximum.map_or(hard, |maximum| maximum.min(hard));
            let limit = Rlimit { current: Some(hard.min(soft)), maximum: Some(hard) };
            // This fails if the process has exited.
            prlimit(Some(self.child_pid()), resource, limit).ok();
        }
    }

    /// This system cannot limit a running process.
    #[cfg(not(target_os = "linux"))]
    fn apply_limits(&self, _limits: &Limits) {}
}

impl ProcessTree for ProcessGroup {
    fn take_stdio(&mut self) -> [Option<File>; 3] {
        let child = &mut self.child;
        [
            child.stdin.take().map(|pipe| OwnedFd::from(pipe).into()),
            child.stdout.take().map(|pipe| OwnedFd::from(pipe).into()),
            child.stderr.take().map(|pipe| OwnedFd::from(pipe).into()),
        ]
    }

    /// The standard library cannot hand down a fourth descriptor without forking the host.
    fn take_api_socket(&mut self) -> Option<OwnedFd> {
        None
    }

    fn exit_fd(&self) -> io::Result<OwnedFd> {
        exit_fd::exit_fd(self.child_pid())
    }

    fn kill(&mut self) {
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        // Until the process is reaped, no other process can get its id. If the host reaps all children by itself, this call
        // fails, and then no process can be signalled safely.
        if !self.reaped && waitid(WaitId::Pid(self.child_pid()), peek).is_ok() {
            kill_process_group(self.child_pid(), Signal::KILL).ok();
            // The process may have moved to another group.
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
