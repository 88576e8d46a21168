//! The supervisor of one run: starts a script, watches it, and kills its whole process tree. It is prepared before its request
//! arrives.
//!
//! With namespaces it is the first process, whose death kills everyone in them. Otherwise it is in a Landlock domain that keeps
//! signals inside, so that killing every process it may signal kills exactly its descendants, at once, however they fork or hide.
//! The script is in a domain of its own inside that one and can do nothing to the supervisor.

pub(super) mod launch;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, Signal, getppid, kill_process, set_child_subreaper, set_dumpable_behavior, setsid,
    test_kill_process,
};

use crate::policy::SandboxLevel;
use crate::runtimes::sandbox::linux::child;
use crate::runtimes::sandbox::linux::child::{ChildHandle, SetupError, SetupMessage};
use crate::runtimes::sandbox::linux::child_processes;
use crate::runtimes::sandbox::linux::fork_server::ipc;
use crate::runtimes::sandbox::linux::fork_server::ipc::{
    EncodedRequest, LaunchFds, LaunchMessage, SandboxProfile,
};
use crate::runtimes::sandbox::linux::layers::landlock;
use crate::runtimes::sandbox::linux::layers::namespaces::NamespaceSetup;
use crate::runtimes::sandbox::linux::memory_monitor::MemoryMonitor;
use crate::runtimes::sandbox::linux::sys;
use crate::runtimes::sandbox::{Enforcement, LaunchOutcome, LaunchRequest, ResourceUsage, SupervisorReport};

/// How long killed processes may take to exit.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A supervisor without a request.
pub(super) struct IdleSupervisor {
    /// Readable when a child has ended.
    sigchld: OwnedFd,
    kill_method: KillMethod,
    child: ChildHandle,
}

impl IdleSupervisor {
    /// Makes this process a supervisor for requests of that profile; `like` is an earlier request, and `is_first` says whether it
    /// is the first process in namespaces of its own.
    pub(super) fn new(
        kind: SandboxProfile,
        like: Option<&EncodedRequest>,
        is_first: bool,
    ) -> Result<Self, SetupError> {
        let at = |step| move |error: rustix::io::Errno| (step, std::io::Error::from(error));
        let ends = sys::sigchld_fd().map_err(|error| ("signals", error))?;
        setsid().map_err(at("session"))?;
        // Fails inside an outer sandbox, whose supervisor must be able to inspect its processes.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
        set_child_subreaper(Pid::from_raw(1)).map_err(at("reaper"))?;
        let reach = if is_first { KillMethod::Scoped } else { KillMethod::set_up(kind.level) };
        let leader = ChildHandle::fork(kind, like).map_err(|error| ("fork", error))?;
        like.into_iter().for_each(warm_up);
        Ok(Self { sigchld: ends, kill_method: reach, child: leader })
    }

    /// Whether it can kill a tree at once, however that grows.
    pub(super) fn has_scoped_kill(&self) -> bool {
        matches!(self.kill_method, KillMethod::Scoped)
    }

    /// Whether the child still waits for its request. A child that is gone, or could not be sandboxed, accepts none.
    pub(super) fn has_child(&self) -> bool {
        !is_hung_up(&self.child.setup_pipe)
    }

    /// Kills the child, which has no request.
    pub(super) fn kill_child(self) {
        self.child.kill_and_reap();
    }
}

/// Runs the request to its end and reports; `made` are the namespaces that were set up for it. Returns the supervisor's own exit
/// code: zero if nothing is left of the tree.
pub(super) fn supervise(
    order: &LaunchRequest,
    parcel: LaunchMessage,
    ready: Result<IdleSupervisor, SetupError>,
    made: Option<NamespaceSetup>,
) -> i32 {
    let started = ready.and_then(|ready| SupervisedTree::start(order, &parcel, ready, made));
    // The supervisor must not hold open what belongs to the script alone.
    let LaunchMessage {
        request: text,
        fds: LaunchFds { stdin, stdout, stderr, api, control, report },
        is_downgraded: is_lowered,
        ..
    } = parcel;
    drop((text, stdin, stdout, stderr, api));
    let mut report = File::from(report);
    let outcome = started.map(|tree| tree.run_to_end(order, &control));
    let mut said = outcome.unwrap_or_else(|(step, error)| setup_failed_report(step, child::errno(&error)));
    said.enforcement.is_downgraded = is_lowered;
    let written = ipc::encode(&said).map(|text| report.write_all(&text).is_ok());
    i32::from(!written.unwrap_or(false) || !said.enforcement.tree_gone)
}

/// Decodes a request like this one and encodes a report, so that the kernel has the pages for that loaded before somebody
/// waits.
fn warm_up(like: &EncodedRequest) {
    let setup = ipc::encode(&SetupMessage::Ready(Enforcement::default()));
    drop((like.decode(), setup.map(|text| parse_setup(&text)), ipc::encode(&setup_failed_report("", 0))));
}

/// The report for a script that was not started.
fn setup_failed_report(step: &str, errno: i32) -> SupervisorReport {
    SupervisorReport {
        end: LaunchOutcome::SetupFailed { step: step.into(), errno },
        enforcement: Enforcement { tree_gone: true, ..Enforcement::default() },
        usage: ResourceUsage::default(),
        exceeded_tree_memory: false,
    }
}

/// How the tree can be killed.
enum KillMethod {
    /// All of it at once: every process that can be signalled.
    Scoped,
    /// Its children, until no more orphans arrive; and why not all at once, if the kernel returned an error.
    Walk(Option<std::io::Error>),
}

/// A script and its outcome.
struct SupervisedTree {
    child_pid: Pid,
    /// The child's status, once it is reaped: its process id may then be that of another descendant.
    wait_status: Option<i32>,
    /// Readable when a child has ended.
    sigchld: OwnedFd,
    setup_pipe: File,
    kill_method: KillMethod,
    namespaces: Option<NamespaceSetup>,
    memory_monitor: Option<MemoryMonitor>,
}

impl SupervisedTree {
    fn start(
        order: &LaunchRequest,
        parcel: &LaunchMessage,
        ready: IdleSupervisor,
        made: Option<NamespaceSetup>,
    ) -> Result<Self, SetupError> {
        let IdleSupervisor { sigchld: ends, kill_method: reach, child: leader } = ready;
        let reach = match reach.check_required(order) {
            Ok(reach) => reach,
            Err(error) => {
                leader.kill_and_reap();
                return Err(("tree", error));
            }
        };
        let watch = |most| MemoryMonitor::new(most, made.is_some_and(|made| made.private_proc));
        let memory = order.sandbox.limits.tree_memory.map(watch);
        leader.launch(parcel);
        let ChildHandle { pid: leader, setup_pipe: setup, .. } = leader;
        Ok(Self {
            child_pid: leader,
            wait_status: None,
            sigchld: ends,
            setup_pipe: setup,
            kill_method: reach,
            namespaces: made,
            memory_monitor: memory,
        })
    }

    fn run_to_end(mut self, order: &LaunchRequest, control: &OwnedFd) -> SupervisorReport {
        let until = Instant::now().checked_add(Duration::from_millis(order.timeout_ms));
        let over_memory = self.wait(until, control);
        let (left_behind, tree_gone) = self.kill_all();
        let (enforced, refused) = self.read_setup();
        let (cpu_us, memory) = sys::children_usage();
        let end = match refused {
            Some((step, errno)) => LaunchOutcome::SetupFailed { step, errno },
            None => LaunchOutcome::Exited { status: self.wait_status.unwrap_or(libc::SIGKILL) },
        };
        let made = self.namespaces.unwrap_or_default();
        let enforced = Enforcement {
            namespaces: self.namespaces.is_some(),
            read_only: self.namespaces.is_some(),
            protected_paths: made.protected_paths,
            process_limit: made.has_pid_limit || made.nproc_rlimit.is_some(),
            scoped_kill: matches!(self.kill_method, KillMethod::Scoped),
            tree_gone,
            ..enforced
        };
        let tree_memory = self.memory_monitor.map_or(0, |watch| watch.peak()).max(memory);
        SupervisorReport {
            end,
            enforcement: enforced,
            usage: ResourceUsage { cpu_us, memory, peak_tree_memory: tree_memory, left_behind },
            exceeded_tree_memory: over_memory,
        }
    }

    /// Sleeps until the child exits, the host hangs up, time is up, or the tree exceeds its memory limit, which returns true.
    fn wait(&mut self, until: Option<Instant>, control: &OwnedFd) -> bool {
        loop {
            let next = self.memory_monitor.as_ref().map(MemoryMonitor::next_check);
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return false;
            }
            let wakes = until.into_iter().chain(next).min();
            let timeout = wakes.and_then(|at| Timespec::try_from(at.saturating_duration_since(now)).ok());
            let mut waiting = [
                PollFd::new(&self.sigchld, PollFlags::IN),
                PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN),
            ];
            let ready = poll(&mut waiting, timeout.as_ref());
            let [ended, hung_up] = waiting.map(|end| !end.revents().is_empty());
            if ready.is_ok() && hung_up {
                return false;
            }
            if ready.is_ok() && ended {
                self.reap();
            }
            if self.wait_status.is_some() {
                return false;
            }
            // When it executes the program, its end of the pipe is closed.
            let has_begun = is_hung_up(&self.setup_pipe);
            let is_stopped =
                || until.is_some_and(|until| until <= Instant::now()) || is_readable(control.as_fd());
            if self.memory_monitor.as_mut().is_some_and(|watch| watch.exceeds_limit(has_begun, is_stopped)) {
                return true;
            }
        }
    }

    /// Reaps every ended child: how many there were besides the script's process, and whether no child is left.
    fn reap(&mut self) -> (u32, bool) {
        // Reading it makes it readable again for the next child that ends.
        rustix::io::read(&self.sigchld, &mut [0; 128]).ok();
        let mut others = 0;
        loop {
            match sys::reap() {
                Ok(Some((pid, ended)))
                    if self.wait_status.is_none() && pid == self.child_pid.as_raw_pid() =>
                {
                    self.wait_status = Some(ended);
                }
                Ok(Some(_)) => others += 1,
                Ok(None) => return (others, false),
                // No child is left, and as the subreaper of its tree the supervisor would have any that remained.
                Err(_) => return (others, true),
            }
        }
    }

    /// Kills and reaps all that live: how many there were besides the script's process, and whether all are gone.
    fn kill_all(&mut self) -> (u32, bool) {
        let began = Instant::now();
        // A process without children has no descendants. Checking that costs less than killing all, which visits every process.
        let (mut others, mut is_gone) = self.reap();
        while !is_gone && began.elapsed() < KILL_TIMEOUT {
            self.kill();
            let (more, now_gone) = self.reap();
            (others, is_gone) = (others + more, now_gone);
            if !is_gone {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        (others, is_gone)
    }

    fn kill(&self) {
        match self.kill_method {
            KillMethod::Scoped => sys::kill_all_signalable(),
            KillMethod::Walk(_) => child_processes::kill_all_except(&[]),
        }
        // A child that no list shows can be killed by its process id, which is not reused until it is reaped.
        if self.wait_status.is_none() {
            kill_process(self.child_pid, Signal::KILL).ok();
        }
    }

    /// What the child reported before it executed the program, and why it did not, if so. Nobody is left who could report more.
    fn read_setup(&mut self) -> (Enforcement, Option<(String, i32)>) {
        let mut text = [0; 512];
        let length = self.setup_pipe.read(&mut text).unwrap_or(0);
        parse_setup(&text[..length])
    }
}

fn parse_setup(mut text: &[u8]) -> (Enforcement, Option<(String, i32)>) {
    let mut enforced = Enforcement::default();
    let mut refused = Some(("start".to_owned(), libc::EPIPE));
    while let Ok((next, behind)) = ipc::decode(text) {
        text = behind;
        match next {
            SetupMessage::Ready(held) => (enforced, refused) = (held, None),
            SetupMessage::Failed { step, errno } => refused = Some((step, errno)),
        }
    }
    (enforced, refused)
}

impl KillMethod {
    /// How this process may kill at that sandbox level.
    fn set_up(tier: SandboxLevel) -> Self {
        let scoped = match tier {
            SandboxLevel::LandlockUnscoped => Ok(false),
            _ => landlock::scope_signals(),
        };
        match scoped {
            Ok(true) if signals_are_scoped() => Self::Scoped,
            scoped => Self::Walk(scoped.err()),
        }
    }

    /// If it cannot kill all of a tree, and the sandbox is required, nothing is started.
    fn check_required(self, order: &LaunchRequest) -> std::io::Result<Self> {
        match self {
            Self::Walk(why) if order.sandbox.required && !child_processes::can_list() => {
                Err(why.unwrap_or_else(|| std::io::Error::from_raw_os_error(libc::EOPNOTSUPP)))
            }
            reach => Ok(reach),
        }
    }
}

/// Whether no writer is left: the child has executed the program, or has ended.
fn is_hung_up(setup: &File) -> bool {
    let mut end = [PollFd::new(setup, PollFlags::IN)];
    poll(&mut end, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        && end[0].revents().contains(PollFlags::HUP)
}

/// Whether there is anything to read at this end, even if only that the other end hung up.
fn is_readable(end: BorrowedFd<'_>) -> bool {
    let mut end = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
    poll(&mut end, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Whether signals really stay inside: neither the fork server nor process 1 may be signalled from here.
fn signals_are_scoped() -> bool {
    let refused =
        |pid: Option<Pid>| pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::PERM));
    refused(getppid()) && refused(Some(Pid::INIT))
}
