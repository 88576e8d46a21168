//! The supervisor of one run: starts a script, watches it, and kills its whole process tree. It is prepared before its request
//! arrives.
//!
//! With namespaces it is the first process, whose death kills everyone in them. Otherwise it is in a Landlock domain that keeps
//! signals inside, so that killing every process it may signal kills exactly its descendants, at once, however they fork or hide.
//! The script is in a domain of its own inside that one and can do nothing to the supervisor.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, getppid, kill_process, set_child_subreaper, set_dumpable_behavior, setsid,
    test_kill_process,
};

use crate::SandboxLevel;
use crate::linux::access_observer::AccessObserver;
use crate::linux::call_filter::{CallFilter, ObservedCalls};
use crate::linux::child::{ChildHandle, SetupError, SetupMessage};
use crate::linux::connections::Connections;
use crate::linux::ipc::{EncodedRequest, LaunchFds, LaunchMessage, SandboxProfile};
use crate::linux::layers::namespaces::{EnteredNamespaces, NamespaceConfig, NamespaceSetup};
use crate::linux::layers::{egress, landlock};
use crate::linux::memory_monitor::MemoryMonitor;
use crate::linux::{child_processes, ipc, sys};
use crate::{
    Enforcement, LaunchOutcome, LaunchRequest, NetworkAccess, ResourceUsage, Restrictions, SupervisorReport,
    TREE_EXIT_TIMEOUT,
};

/// How long killed processes may take until the next one of them has exited.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait for killed processes before all that live are killed once more, which takes processor time from those that exit.
const KILL_INTERVAL: [Duration; 2] = [Duration::from_micros(200), Duration::from_millis(10)];

/// A supervisor without a request.
pub(super) struct IdleSupervisor {
    /// Readable when a child has ended.
    sigchld: OwnedFd,
    kill_method: KillMethod,
    child: ChildHandle,
}

impl IdleSupervisor {
    /// Makes this process a supervisor for requests of that profile, the next of which is likely to resemble `previous`. `is_first`
    /// says whether it is the first process in namespaces of its own.
    pub(super) fn new(
        profile: SandboxProfile,
        previous: Option<&EncodedRequest>,
        is_first: bool,
    ) -> Result<Self, SetupError> {
        let at = |step| move |error: Errno| (step, std::io::Error::from(error));
        let sigchld = sys::sigchld_fd().map_err(|error| ("signals", error))?;
        setsid().map_err(at("session"))?;
        // Fails inside an outer sandbox, whose supervisor must be able to inspect its processes.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
        set_child_subreaper(Pid::from_raw(1)).map_err(at("reaper"))?;
        let kill_method = if is_first { KillMethod::Scoped } else { KillMethod::set_up(profile.level) };
        let child = ChildHandle::fork(profile, previous).map_err(|error| ("fork", error))?;
        Ok(Self { sigchld, kill_method, child })
    }

    /// Whether it can kill a tree at once, however that grows.
    pub(super) fn has_scoped_kill(&self) -> bool {
        matches!(self.kill_method, KillMethod::Scoped)
    }

    /// Whether the child still waits for its request. A child that is gone, or could not be sandboxed, accepts none.
    pub(super) fn has_child(&self) -> bool {
        !is_hung_up(&self.child.setup_pipe)
    }

    /// Tells the child that it gets a request.
    fn announce_request(&self) {
        self.child.announce_request();
    }

    /// Kills the child, which has no request.
    pub(super) fn kill_child(self) {
        self.child.kill_and_reap();
    }
}

/// A request, and where to run it.
pub(super) struct LaunchTask {
    pub(super) message: LaunchMessage,
    /// Namespaces in which this process is the first, and which it must set up; `None` if it runs among the machine's processes.
    pub(super) namespaces: Option<NamespaceConfig>,
    /// Receives a byte when the script is about to start. A supervisor that hangs up before that has started nothing.
    pub(super) ready_fd: OwnedFd,
}

impl LaunchTask {
    /// Makes this process, which was just forked, a supervisor and runs the request to its end. Returns its exit code.
    pub(super) fn run(self) -> i32 {
        let Ok(entered) = self.namespaces.map(|namespaces| namespaces.enter(None)).transpose() else {
            return 1;
        };
        let supervisor = IdleSupervisor::new(self.message.profile, None, entered.is_some());
        set_up_and_supervise(self.message, self.ready_fd, entered, supervisor)
    }
}

/// Sets up the namespaces that this process has entered, writes to `ready_fd`, and runs the request to its end. Returns the
/// supervisor's own exit code.
pub(super) fn set_up_and_supervise(
    mut message: LaunchMessage,
    ready_fd: OwnedFd,
    mut entered: Option<EnteredNamespaces>,
    supervisor: Result<IdleSupervisor, SetupError>,
) -> i32 {
    supervisor.iter().for_each(IdleSupervisor::announce_request);
    let Ok(mut request) = message.request.decode() else { return 1 };
    let has_hosts = message.profile.seccomp.network == NetworkAccess::Hosts;
    if has_hosts {
        request.sandbox.files.read.extend(landlock::NETWORK_FILES.map(Into::into));
    }
    let (sandbox, network) = (&request.sandbox, message.profile.seccomp.network);
    message.is_downgraded |= message.profile.level == SandboxLevel::Namespaces && entered.is_none();
    let egress_fd = message.fds.egress.take();
    let overlay = message.fds.overlay.take();
    let set_up = |entered: &EnteredNamespaces| {
        entered.set_up(&sandbox.files, overlay.as_ref(), sandbox.limits, network, &request.program)
    };
    let setup = entered.as_ref().map(set_up).transpose();
    let egress = match (&setup, egress_fd) {
        (Ok(Some(_)), Some(host)) if has_hosts => egress::set_up(&sandbox.egress, &host),
        // Sockets may be created, and whose network that would be is not known.
        _ if has_hosts => Err(Errno::OPNOTSUPP.into()),
        // The script has no network of its own, and no other.
        _ => Ok(()),
    };
    let setup = setup.and_then(|setup| {
        let left = entered.as_mut().map_or(Ok(()), EnteredNamespaces::leave_mounts);
        left.map(|()| setup).map_err(|error| ("namespaces", error))
    });
    // Attached, or of no use.
    drop(overlay);
    let has_overlay = sandbox.files.overlay.is_some();
    // A network without hosts is there to observe what is tried, and none is as tight.
    let lacks_hosts =
        sandbox.network == NetworkAccess::Hosts && !has_hosts && !sandbox.egress.ports.is_empty();
    // If the sandbox is required, everything this machine supports must be set up, or the run fails.
    let setup = match setup {
        // It would run on the lower folder itself.
        Ok(None) if has_overlay => Err(("overlay", Errno::OPNOTSUPP.into())),
        Ok(_) if egress.is_err() => Err(("hosts", egress.err().unwrap_or_else(|| Errno::IO.into()))),
        Ok(_) if lacks_hosts && sandbox.required => Err(("hosts", Errno::OPNOTSUPP.into())),
        Ok(setup) if !sandbox.required => Ok(setup),
        Err(_) if !sandbox.required && !has_overlay => return 1,
        Err(failed) => Err(failed),
        // Only a mount can hide what lies in the project.
        Ok(None) if !sandbox.files.protected_paths.own.is_empty() => {
            Err(("own folders", Errno::OPNOTSUPP.into()))
        }
        Ok(None) if sandbox.files.protected_paths.has_denied => {
            Err(("denied paths", Errno::OPNOTSUPP.into()))
        }
        Ok(_) if message.is_downgraded => Err(("namespaces", Errno::AGAIN.into())),
        Ok(Some(setup)) if !setup.protected_paths => Err(("protected paths", Errno::NOTSUP.into())),
        Ok(setup) => Ok(setup),
    };
    let (supervisor, setup) = match setup {
        Ok(setup) => (supervisor, setup),
        Err(refused) => {
            supervisor.into_iter().for_each(IdleSupervisor::kill_child);
            (Err(refused), None)
        }
    };
    rustix::io::write(&ready_fd, b"x").ok();
    drop(ready_fd);
    message.nproc_rlimit = setup.as_ref().and_then(|setup| setup.nproc_rlimit);
    supervise(&request, message, supervisor, setup)
}

/// Runs the request to its end and reports. Returns the supervisor's own exit code: zero if nothing is left of the tree.
fn supervise(
    request: &LaunchRequest,
    message: LaunchMessage,
    supervisor: Result<IdleSupervisor, SetupError>,
    namespaces: Option<NamespaceSetup>,
) -> i32 {
    let started =
        supervisor.and_then(|supervisor| SupervisedTree::start(request, &message, supervisor, namespaces));
    // The supervisor must not hold open what belongs to the script alone.
    let LaunchMessage {
        request: encoded,
        fds: LaunchFds { stdin, stdout, stderr, api, control, report: report_fd, observations, .. },
        is_downgraded,
        ..
    } = message;
    drop((encoded, stdin, stdout, stderr, api));
    let outcome = started.map(|tree| tree.run_to_end(request, &control));
    let mut report = outcome.unwrap_or_else(|(step, error)| setup_failed_report(step, sys::errno(&error)));
    report.enforcement.is_downgraded = is_downgraded;
    // Before the report, which the host reads first.
    if let Some((file, observed)) = observations.zip(report.observations.take()) {
        // If they cannot be written, the host finds none.
        ipc::encode(&observed).and_then(|bytes| File::from(file).write_all(&bytes)).ok();
    }
    let is_sent = ipc::encode(&report).is_ok_and(|bytes| File::from(report_fd).write_all(&bytes).is_ok());
    // The host was woken on this processor, and would otherwise wait until this process has exited.
    rustix::thread::sched_yield();
    i32::from(!is_sent || !report.enforcement.has(Restrictions::TREE_GONE))
}

/// The report for a script that was not started.
fn setup_failed_report(step: &str, errno: i32) -> SupervisorReport {
    SupervisorReport {
        end: LaunchOutcome::SetupFailed { step: step.into(), errno },
        enforcement: Enforcement { restrictions: Restrictions::TREE_GONE, ..Enforcement::default() },
        usage: ResourceUsage::default(),
        exceeded_tree_memory: false,
        failed_connections: Vec::new(),
        observations: None,
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
    call_filter: Option<CallFilter>,
    /// What was observed, once nobody can make calls any more.
    observed: ObservedCalls,
}

impl SupervisedTree {
    fn start(
        request: &LaunchRequest,
        message: &LaunchMessage,
        supervisor: IdleSupervisor,
        mut namespaces: Option<NamespaceSetup>,
    ) -> Result<Self, SetupError> {
        let IdleSupervisor { sigchld, kill_method, child } = supervisor;
        let kill_method = match kill_method.check_required(request) {
            Ok(kill_method) => kill_method,
            Err(error) => {
                child.kill_and_reap();
                return Err(("tree", error));
            }
        };
        let has_private_proc = namespaces.as_ref().is_some_and(|namespaces| namespaces.private_proc);
        let shm = namespaces.as_mut().and_then(|namespaces| namespaces.shm.take());
        let limit = request.sandbox.limits.tree_memory;
        let memory_monitor = limit.map(|limit| MemoryMonitor::new(limit, has_private_proc, shm));
        child.launch(message);
        let listener = message.profile.seccomp.has_listener().then(|| child.receive_listener()).flatten();
        let network = message.profile.seccomp.network;
        let connections = || Connections::new(&request.sandbox.files, network, namespaces.as_ref());
        let has_proc = namespaces.is_none() || has_private_proc;
        let rules = request.sandbox.watch.as_ref();
        let observer = || rules.map(|rules| AccessObserver::new(rules, has_proc));
        let call_filter = listener.map(|listener| CallFilter::new(listener, connections(), observer()));
        let ChildHandle { pid: child_pid, setup_pipe, .. } = child;
        Ok(Self {
            child_pid,
            wait_status: None,
            sigchld,
            setup_pipe,
            kill_method,
            namespaces,
            memory_monitor,
            call_filter,
            observed: ObservedCalls::default(),
        })
    }

    fn run_to_end(mut self, request: &LaunchRequest, control: &OwnedFd) -> SupervisorReport {
        let until = Instant::now().checked_add(Duration::from_millis(request.timeout_ms));
        let exceeded_tree_memory = self.wait(until, control);
        let (left_behind, is_gone) = self.kill_all();
        self.end_calls();
        let (mut enforcement, failed) = self.read_setup();
        let (cpu_us, memory) = sys::children_usage();
        let end = match failed {
            Some((step, errno)) => LaunchOutcome::SetupFailed { step, errno },
            None => LaunchOutcome::Exited { status: self.wait_status.unwrap_or(libc::SIGKILL) },
        };
        let has_namespaces = self.namespaces.is_some();
        let setup = self.namespaces.unwrap_or_default();
        for (restriction, is_enforced) in [
            (Restrictions::NAMESPACES, has_namespaces),
            (Restrictions::PROTECTED_PATHS, setup.protected_paths),
            (Restrictions::PROCESS_COUNT, setup.has_pid_limit || setup.nproc_rlimit.is_some()),
            (Restrictions::SCOPED_KILL, matches!(self.kill_method, KillMethod::Scoped)),
            (Restrictions::TREE_GONE, is_gone),
        ] {
            enforcement.restrictions.set(restriction, is_enforced);
        }
        let peak_tree_memory = self.memory_monitor.map_or(0, |monitor| monitor.peak()).max(memory);
        SupervisorReport {
            end,
            enforcement,
            usage: ResourceUsage { cpu_us, memory, peak_tree_memory, left_behind },
            exceeded_tree_memory,
            failed_connections: self.observed.failed_connections,
            observations: self.observed.observations,
        }
    }

    /// Stops answering calls.
    fn end_calls(&mut self) {
        if let Some(ended) = self.call_filter.take() {
            self.observed = ended.into_observed();
        }
    }

    /// Sleeps until the child exits, the host hangs up, time is up, or the tree exceeds its memory limit, which returns true.
    fn wait(&mut self, until: Option<Instant>, control: &OwnedFd) -> bool {
        // When the child executes the program, its end of the pipe is closed.
        let mut has_begun = false;
        loop {
            let next = self.memory_monitor.as_ref().map(MemoryMonitor::next_check);
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return false;
            }
            let retry = self.call_filter.as_ref().and_then(CallFilter::retry_interval);
            let wakes =
                until.into_iter().chain(next).chain(retry.and_then(|time| now.checked_add(time))).min();
            let timeout = wakes.and_then(|at| Timespec::try_from(at.saturating_duration_since(now)).ok());
            let mut fds = Vec::with_capacity(4);
            fds.push(PollFd::new(&self.sigchld, PollFlags::IN));
            fds.push(PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN));
            fds.extend(self.call_filter.iter().flat_map(CallFilter::poll_fds));
            let ready = poll(&mut fds, timeout.as_ref());
            let events = |at: usize| fds.get(at).map_or(PollFlags::empty(), PollFd::revents);
            let [ended, hung_up] = [0, 1].map(|at| !events(at).is_empty());
            let (called, can_end) = (events(2), fds.iter().skip(3).any(|fd| !fd.revents().is_empty()));
            drop(fds);
            if retry.is_some() || can_end {
                self.call_filter.iter_mut().for_each(CallFilter::end_ready);
            }
            if called.contains(PollFlags::IN) {
                has_begun = has_begun || is_hung_up(&self.setup_pipe);
                self.call_filter.iter_mut().for_each(|filter| filter.answer_next(has_begun));
            } else if !called.is_empty() {
                // Nobody is left who could call.
                self.end_calls();
            }
            if ready.is_ok() && hung_up {
                return false;
            }
            if ready.is_ok() && ended {
                self.reap();
            }
            if self.wait_status.is_some() {
                return false;
            }
            has_begun = has_begun || is_hung_up(&self.setup_pipe);
            let is_stopped =
                || until.is_some_and(|until| until <= Instant::now()) || sys::is_readable(control.as_fd());
            if self
                .memory_monitor
                .as_mut()
                .is_some_and(|monitor| monitor.exceeds_limit(has_begun, is_stopped))
            {
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
        let [mut interval, longest_interval] = KILL_INTERVAL;
        let mut last_exit = began;
        while !is_gone && last_exit.elapsed() < EXIT_TIMEOUT && began.elapsed() < TREE_EXIT_TIMEOUT {
            self.kill();
            let more;
            (more, is_gone) = self.reap();
            if more > 0 {
                (others, last_exit) = (others + more, Instant::now());
            }
            if !is_gone {
                std::thread::sleep(interval);
                interval = longest_interval.min(interval * 2);
            }
        }
        (others, is_gone)
    }

    fn kill(&self) {
        match self.kill_method {
            KillMethod::Scoped => sys::kill_all_signalable(),
            KillMethod::Walk(_) => {
                child_processes::kill_all_except(&[]);
            }
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

fn parse_setup(mut bytes: &[u8]) -> (Enforcement, Option<(String, i32)>) {
    let mut enforcement = Enforcement::default();
    let mut failed = Some(("start".to_owned(), libc::EPIPE));
    while let Ok((message, rest)) = ipc::decode(bytes) {
        bytes = rest;
        match message {
            SetupMessage::Ready(enforced) => (enforcement, failed) = (enforced, None),
            SetupMessage::Failed { step, errno } => failed = Some((step, errno)),
        }
    }
    (enforcement, failed)
}

impl KillMethod {
    /// How this process may kill at that sandbox level.
    fn set_up(level: SandboxLevel) -> Self {
        let scoped = match level {
            SandboxLevel::LandlockUnscoped => Ok(false),
            _ => landlock::scope_signals(),
        };
        match scoped {
            Ok(true) if signals_are_scoped() => Self::Scoped,
            scoped => Self::Walk(scoped.err()),
        }
    }

    /// If it cannot kill all of a tree, and the sandbox is required, nothing is started.
    fn check_required(self, request: &LaunchRequest) -> std::io::Result<Self> {
        match self {
            Self::Walk(why) if request.sandbox.required && !child_processes::can_list() => {
                Err(why.unwrap_or_else(|| std::io::Error::from_raw_os_error(libc::EOPNOTSUPP)))
            }
            kill_method => Ok(kill_method),
        }
    }
}

/// Whether no writer is left: the child has executed the program, or has ended.
fn is_hung_up(setup_pipe: &File) -> bool {
    let mut fds = [PollFd::new(setup_pipe, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        && fds[0].revents().contains(PollFlags::HUP)
}

/// Whether signals really stay inside: neither the fork server nor process 1 may be signalled from here.
fn signals_are_scoped() -> bool {
    let refused = |pid: Option<Pid>| pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::PERM));
    refused(getppid()) && refused(Some(Pid::INIT))
}
