//! The stub: starts one script and watches it, and leaves nothing of its tree alive.
//!
//! It stands in a Landlock domain that keeps signals inside, so that killing everyone it may signal kills exactly its
//! descendants, at once, however they fork or hide. The script is in a domain of its own inside that one and can do nothing
//! to the stub.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, getppid, pidfd_open, set_child_subreaper, set_dumpable_behavior,
    setsid, test_kill_process,
};

use super::super::sandbox::{End, Enforced, Order, Report, Used};
use super::files;
use super::leader::{self, Setup};
use super::system::{self, Side};
use super::wire::Ends;

/// How long killed processes may take to go.
const GONE: Duration = Duration::from_secs(5);

/// Runs the order to its end, reports, and answers with the stub's own exit code.
pub(super) fn watch(order: &Order, ends: Ends) -> i32 {
    let Ends { stdin, stdout, stderr, api, control, report } = ends;
    let mut report = File::from(report);
    let outcome = Tree::start(order, [stdin, stdout, stderr], api).map(|tree| tree.ended(order, &control));
    let said = outcome.unwrap_or_else(|(step, error)| Report {
        end: End::Refused { step: step.into(), errno: error.raw_os_error().unwrap_or(0) },
        enforced: Enforced::default(),
        used: Used::default(),
    });
    let written = serde_json::to_vec(&said).map(|text| report.write_all(&text).is_ok());
    i32::from(!written.unwrap_or(false))
}

/// A script and what came of it.
struct Tree {
    leader: Pid,
    exit: OwnedFd,
    setup: File,
    scoped: bool,
}

type Failed = (&'static str, std::io::Error);

impl Tree {
    fn start(order: &Order, streams: [OwnedFd; 3], api: Option<OwnedFd>) -> Result<Self, Failed> {
        let at = |step| move |error: rustix::io::Errno| (step, std::io::Error::from(error));
        system::reap_automatically(false);
        setsid().map_err(at("session"))?;
        set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(at("privacy"))?;
        set_child_subreaper(Pid::from_raw(1)).map_err(at("reaper"))?;
        let scoped = order.cage.files.is_some() && files::keep_signals_inside() && nobody_else_is_in_reach();
        let (setup, report) = std::io::pipe().map_err(|error| ("pipe", error))?;
        match system::fork().map_err(|error| ("fork", error))? {
            Side::Child => leader::become_program(order, streams, api, report.into()),
            Side::Parent(leader) => {
                drop((streams, api, report));
                let exit = pidfd_open(leader, PidfdFlags::empty()).map_err(at("pidfd"))?;
                Ok(Self { leader, exit, setup: File::from(OwnedFd::from(setup)), scoped })
            }
        }
    }

    fn ended(mut self, order: &Order, control: &OwnedFd) -> Report {
        let until = Instant::now().checked_add(Duration::from_millis(order.deadline_ms));
        self.wait(until, control);
        let (status, left_behind, tree_gone) = self.kill_all();
        let (enforced, refused) = self.setup();
        let (cpu_us, memory) = system::used_by_children();
        let end = match refused {
            Some((step, errno)) => End::Refused { step, errno },
            None => End::Ran { status },
        };
        let enforced = Enforced { scoped_kill: self.scoped, tree_gone, ..enforced };
        Report { end, enforced, used: Used { cpu_us, memory, left_behind } }
    }

    /// Sleeps until the leader exits, the host hangs up, or time is up.
    fn wait(&self, until: Option<Instant>, control: &OwnedFd) {
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            let timeout = left.and_then(|left| Timespec::try_from(left).ok());
            let mut waiting = [
                PollFd::from_borrowed_fd(self.exit.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN),
            ];
            match poll(&mut waiting, timeout.as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                _ => return,
            }
        }
    }

    /// Kills whatever lives and reaps it: the leader's status, how many others there were, and whether all are gone.
    fn kill_all(&self) -> (i32, u32, bool) {
        let (mut status, mut others) = (None, 0);
        let began = Instant::now();
        loop {
            self.kill();
            loop {
                match system::reap() {
                    // Once the leader is reaped, its number may be that of another descendant.
                    Ok(Some((pid, ended))) if status.is_none() && pid == self.leader.as_raw_pid() => {
                        status = Some(ended);
                    }
                    Ok(Some(_)) => others += 1,
                    Ok(None) => break,
                    // No child is left, and as the reaper of its tree the stub would have them all.
                    Err(_) => return (status.unwrap_or(libc::SIGKILL), others, true),
                }
            }
            if began.elapsed() > GONE {
                return (status.unwrap_or(libc::SIGKILL), others, false);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    fn kill(&self) {
        if self.scoped {
            system::kill_everyone();
            return;
        }
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        for child in children.split_whitespace().filter_map(|pid| pid.parse().ok().and_then(Pid::from_raw)) {
            rustix::process::kill_process(child, rustix::process::Signal::KILL).ok();
        }
    }

    /// What the leader said before it became the program, and why it did not, if so.
    fn setup(&mut self) -> (Enforced, Option<(String, i32)>) {
        let mut said = String::new();
        self.setup.read_to_string(&mut said).ok();
        let mut enforced = Enforced::default();
        let mut refused = Some(("start".to_owned(), libc::EPIPE));
        for line in said.lines().filter_map(|line| serde_json::from_str(line).ok()) {
            match line {
                Setup::Ready(held) => (enforced, refused) = (held, None),
                Setup::Failed { step, errno } => refused = Some((step, errno)),
            }
        }
        (enforced, refused)
    }
}

/// Whether signals really stay inside: neither the helper nor the first process of all may be signalled from here.
fn nobody_else_is_in_reach() -> bool {
    let refused =
        |pid: Option<Pid>| pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::PERM));
    refused(getppid()) && refused(Some(Pid::INIT))
}
