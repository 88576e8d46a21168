//! The fork server: a small process with one thread that forks a supervisor for every request, and exits with its host.
//!
//! A process that forks must copy its page tables; here there are next to none, however much memory the host has. If a supervisor
//! is killed, its remaining processes become children of the fork server, which kills them.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, lstat};
use rustix::process::{
    DumpableBehavior, Pid, Signal, kill_process, set_child_subreaper, set_dumpable_behavior, setsid,
};

use super::namespace_support::NamespaceSupport;
use crate::linux::ipc::{
    self, EncodedRequest, LaunchFds, LaunchMessage, Message, OverlayFds, SandboxProfile,
};
use crate::linux::layers::namespaces::NamespaceConfig;
use crate::linux::layers::{capabilities, landlock};
use crate::linux::standby::{MountWatcher, StandbyHandle, StandbySupervisor};
use crate::linux::supervisor::LaunchTask;
use crate::linux::sys::{self, ForkResult};
use crate::linux::{child_processes, overlay};
use crate::{FileId, RESPONSE_TIMEOUT, RemoveFolder, SandboxLevel, TREE_EXIT_TIMEOUT};

/// Serves requests from the socket that is standard input until the host hangs up.
pub(super) fn serve_stdin(remove_folder: RemoveFolder) -> ! {
    serve(&std::io::stdin(), remove_folder, SUPERVISOR_TIMEOUT)
}

/// Serves requests from this socket, the only descriptor that the process keeps. Supervisors that take longer than that to end what
/// the host has given up are killed.
pub(super) fn serve(socket: &impl AsFd, remove_folder: RemoveFolder, supervisor_timeout: Duration) -> ! {
    let Ok(socket) = sys::close_all_except(socket) else { sys::exit(1) };
    // A key pressed in the host's terminal must not reach the fork server, and no process may inspect it.
    setsid().ok();
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    set_child_subreaper(Pid::from_raw(1)).ok();
    sys::reset_signals();
    // Only scripts are started from here.
    let Ok(()) = capabilities::drop_bounding_set() else { sys::exit(1) };
    let Ok(sigchld) = sys::sigchld_fd() else { sys::exit(1) };
    let mut server = ForkServer::new(socket, sigchld, remove_folder, supervisor_timeout);
    loop {
        match server.next_action() {
            NextAction::Continue => {}
            NextAction::Exit => sys::exit(0),
            NextAction::Supervise(task) => {
                // As long as a process holds its ends, the host takes the fork server, or another run, to be alive.
                drop(server);
                sys::exit(task.run());
            }
            NextAction::StandBy(standby) => {
                drop(server);
                sys::exit(standby.wait_and_run());
            }
            NextAction::ServeOverlay(fds) => {
                drop(server);
                sys::exit(overlay::server::serve(fds));
            }
        }
    }
}

/// What this process does next.
enum NextAction {
    /// Wait for another message.
    Continue,
    /// Exit.
    Exit,
    /// This is the supervisor that was forked for this request.
    Supervise(Box<LaunchTask>),
    /// This is the supervisor that was forked to stand by.
    StandBy(StandbySupervisor),
    /// This is the process that was forked to mount an overlay of these folders and to serve it.
    ServeOverlay(OverlayFds),
}

/// How long the supervisor has the processor to itself after a start: a fork takes as long, and would delay it.
const STANDBY_DELAY: Duration = Duration::from_micros(200);

/// How long a supervisor may take to end a run that the host has given up: what it may take to kill the tree, and something for itself. The
/// host waits longer.
pub(super) const SUPERVISOR_TIMEOUT: Duration = TREE_EXIT_TIMEOUT.saturating_add(Duration::from_secs(5));

/// The fork server's handle of a supervisor that has a request.
struct SupervisorHandle {
    pid: Pid,
    /// Hangs up when the host gives up the run; `None` once it has.
    control: Option<OwnedFd>,
    /// Keeps the pipe for the report open, which the host takes for a supervisor that is still at work.
    report: Option<OwnedFd>,
    /// When it is killed if it is still there.
    kill_at: Option<Instant>,
}

impl SupervisorHandle {
    /// That of the supervisor which has a request with these descriptors, unless this process could not receive them.
    fn new(pid: Pid, fds: Option<&LaunchFds>) -> Self {
        let control = fds.and_then(|fds| fds.control.try_clone().ok());
        let report = fds.and_then(|fds| fds.report.try_clone().ok());
        Self { pid, control, report, kill_at: None }
    }

    fn poll_fd(&self) -> Option<PollFd<'_>> {
        // A hang-up is always reported.
        self.control.as_ref().map(|control| PollFd::new(control, PollFlags::empty()))
    }

    /// Notes that the host has given up its run. It may take that long to end it.
    fn give_up(&mut self, timeout: Duration) {
        self.control = None;
        self.kill_at = self.kill_at.or_else(|| Instant::now().checked_add(timeout));
    }
}

struct ForkServer {
    socket: OwnedFd,
    sigchld: OwnedFd,
    /// What this machine supports.
    namespaces: NamespaceSupport,
    /// Without it no standby is kept.
    mount_watcher: Option<MountWatcher>,
    supervisors: Vec<SupervisorHandle>,
    /// How long a supervisor may take to end a run that the host has given up.
    supervisor_timeout: Duration,
    /// The pipes for the reports of supervisors that were killed, until no process of their trees is left.
    lost_reports: Vec<OwnedFd>,
    overlay_servers: Vec<Pid>,
    /// As long as there is one, it receives the requests.
    standby: Option<StandbyHandle>,
    /// A standby that is still to be forked, and when.
    pending_standby: Option<(ExpectedRequest, Instant)>,
    /// Whether there was a request before, so that another one is likely.
    has_launched_before: bool,
    /// Requests for which supervisors are preparing.
    pending_launches: Vec<PendingLaunch>,
    cleanup_list: CleanupList,
}

/// What is known of the request for which a standby is forked.
struct ExpectedRequest {
    /// As the host asks for it.
    profile: SandboxProfile,
    process_limit: Option<u64>,
    /// The request before it, if there was one that is not long.
    previous: Option<EncodedRequest>,
}

struct PendingLaunch {
    /// Receives a byte when the script is about to start.
    ready_fd: OwnedFd,
    /// `None` if the standby alone has the request.
    message: Option<LaunchMessage>,
    attempt: Attempt,
}

/// Which supervisor has the request, and so what follows if it exits before the script starts.
#[derive(Clone, Copy, PartialEq)]
enum Attempt {
    /// A standby, which something may have killed: a new supervisor gets the request.
    Standby,
    /// One in namespaces, which could not be set up: one without gets the request.
    WithNamespaces,
    /// One without namespaces: nobody else can get the request.
    WithoutNamespaces,
}

impl ForkServer {
    fn new(
        socket: OwnedFd,
        sigchld: OwnedFd,
        remove_folder: RemoveFolder,
        supervisor_timeout: Duration,
    ) -> Self {
        Self {
            socket,
            sigchld,
            namespaces: NamespaceSupport::default(),
            mount_watcher: MountWatcher::open(),
            supervisors: Vec::new(),
            supervisor_timeout,
            lost_reports: Vec::new(),
            overlay_servers: Vec::new(),
            standby: None,
            pending_standby: None,
            has_launched_before: false,
            pending_launches: Vec::new(),
            cleanup_list: CleanupList::new(remove_folder),
        }
    }

    /// Waits for the next event and handles it.
    fn next_action(&mut self) -> NextAction {
        let requests = self.standby.as_ref().map_or(&self.socket, |standby| &standby.socket);
        let mut fds = vec![PollFd::new(requests, PollFlags::IN), PollFd::new(&self.sigchld, PollFlags::IN)];
        fds.extend(self.pending_launches.iter().map(|launch| PollFd::new(&launch.ready_fd, PollFlags::IN)));
        fds.extend(self.supervisors.iter().filter_map(SupervisorHandle::poll_fd));
        let kills = self.supervisors.iter().filter_map(|supervisor| supervisor.kill_at);
        let wake = self.pending_standby.iter().map(|(_, when)| *when).chain(kills).min();
        let left = wake.map(|when| when.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let ready: Vec<bool> = match poll(&mut fds, timeout.as_ref()) {
            Err(_) => return NextAction::Continue,
            Ok(_) => fds.iter().map(|fd| !fd.revents().is_empty()).collect(),
        };
        drop(fds);
        let controls = ready.iter().skip(2 + self.pending_launches.len());
        self.note_given_up(controls.copied());
        self.kill_unresponsive();
        if !ready.contains(&true) {
            let now = Instant::now();
            let standby = self.pending_standby.take_if(|(_, when)| *when <= now);
            return standby.map_or(NextAction::Continue, |(expected, _)| self.fork_standby(expected));
        }
        // A standby that has ended may have said before what became of its request.
        if self.standby.as_ref().is_some_and(|standby| sys::is_readable(standby.socket.as_fd())) {
            return self.receive_from_standby();
        }
        if ready[1] {
            self.reap();
        }
        let mut pending = ready[2..].iter().take(self.pending_launches.len());
        if let Some(index) = pending.position(|ready| *ready) {
            let launch = self.pending_launches.swap_remove(index);
            return self.on_supervisor_ready(launch);
        }
        if ready[0] && self.standby.is_none() { self.receive_request() } else { NextAction::Continue }
    }

    fn receive_request(&mut self) -> NextAction {
        match ipc::receive(&self.socket) {
            Ok(Message::Launch(message)) => {
                // From here on the request belongs to this process, and must not be given to another one.
                if ipc::send_taken(&self.socket) {
                    return self.launch(*message);
                }
            }
            Ok(Message::Prepare(profile, process_limit)) => return self.prepare(profile, process_limit),
            Ok(Message::MountOverlay(fds)) => return self.start_overlay_server(fds),
            Ok(Message::Shutdown) => return self.shut_down(),
            // A host of another release, which has started nothing here.
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return self.shut_down(),
            // This process has too many descriptors to receive more. Without a report its pipe hangs up.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                ipc::send_taken(&self.socket);
                return NextAction::Continue;
            }
            Ok(Message::Disconnected | Message::Accepted(_)) | Err(_) => {}
        }
        self.clean_up_after_host();
        self.shut_down()
    }

    /// The standby has received a request, or has ended. From now on this process receives the requests.
    fn receive_from_standby(&mut self) -> NextAction {
        let Some(standby) = self.standby.take() else { return NextAction::Continue };
        match ipc::receive(&standby.socket) {
            Ok(Message::Accepted(message)) => {
                match standby.wait_status {
                    None => {
                        let fds = message.as_ref().map(|message| &message.fds);
                        self.supervisors.push(SupervisorHandle::new(standby.pid, fds));
                    }
                    Some(0) => {}
                    Some(_) => {
                        self.kill_orphans();
                    }
                }
                if let Some(Ok(request)) = message.as_ref().map(|message| message.request.decode()) {
                    self.cleanup_list.add(request.cleanup_dirs);
                }
                let message = message.map(|message| *message);
                let (ready_fd, attempt) = (standby.socket, Attempt::Standby);
                self.pending_launches.push(PendingLaunch { ready_fd, message, attempt });
                NextAction::Continue
            }
            // The request does not fit.
            Ok(Message::Launch(message)) => {
                standby.kill_and_reap();
                if ipc::send_taken(&self.socket) { self.launch(*message) } else { NextAction::Continue }
            }
            // The standby waits for the next request.
            Ok(Message::MountOverlay(fds)) => {
                self.standby = Some(standby);
                self.start_overlay_server(fds)
            }
            // It does not fit, and this process has too many descriptors to receive it.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                standby.kill_and_reap();
                ipc::send_taken(&self.socket);
                NextAction::Continue
            }
            Ok(Message::Shutdown) => {
                standby.kill_and_reap();
                self.shut_down()
            }
            _ => {
                let has_failed = standby.kill_and_reap();
                self.kill_orphans();
                // Another one would fail in the same way, unless it gets other namespaces.
                if has_failed && !self.namespaces.refute() {
                    self.mount_watcher = None;
                }
                NextAction::Continue
            }
        }
    }

    /// Forks a process that mounts an overlay. Without an answer its socket hangs up.
    fn start_overlay_server(&mut self, fds: OverlayFds) -> NextAction {
        if !ipc::send_taken(&self.socket) {
            return NextAction::Continue;
        }
        match sys::fork() {
            Ok(ForkResult::Child) => return NextAction::ServeOverlay(fds),
            Ok(ForkResult::Parent(pid)) => self.overlay_servers.push(pid),
            Err(_) => {}
        }
        NextAction::Continue
    }

    fn shut_down(&mut self) -> NextAction {
        self.standby.take().map(StandbyHandle::kill_and_reap);
        NextAction::Exit
    }

    /// Forks a standby for a request that is still on its way.
    fn prepare(&mut self, profile: SandboxProfile, process_limit: Option<u64>) -> NextAction {
        if profile.level == SandboxLevel::Namespaces {
            self.namespaces.assume();
        }
        self.fork_standby(ExpectedRequest { profile, process_limit, previous: None })
    }

    fn launch(&mut self, mut message: LaunchMessage) -> NextAction {
        message.profile = self.supported_profile(message.profile);
        let encoded = message.request.try_clone();
        let next = self.start_supervisor(message);
        if !matches!(next, NextAction::Continue) {
            return next;
        }
        // The supervisor reads the same request, and does not wait for this.
        if let Ok(request) = encoded.and_then(|encoded| encoded.decode()) {
            self.cleanup_list.add(request.cleanup_dirs);
        }
        next
    }

    /// A supervisor has reported that the script starts next, or exited before.
    fn on_supervisor_ready(&mut self, launch: PendingLaunch) -> NextAction {
        let PendingLaunch { ready_fd, message, attempt } = launch;
        let is_ready = rustix::io::read(&ready_fd, &mut [0; 1]) == Ok(1);
        let Some(message) = message else { return NextAction::Continue };
        // One that was killed because it did not end, or whose host is gone.
        if !is_ready && sys::is_readable(message.fds.control.as_fd()) {
            return NextAction::Continue;
        }
        match attempt {
            _ if is_ready && message.profile.level == SandboxLevel::Namespaces => self.namespaces.confirm(),
            _ if is_ready => {}
            Attempt::WithNamespaces if self.namespaces.refute() => return self.start_again(message),
            Attempt::Standby => {
                self.namespaces.refute();
                return self.start_again(message);
            }
            Attempt::WithNamespaces => return self.start_without_namespaces(message, SandboxLevel::Landlock),
            // Without a report its pipe hangs up, which the host understands.
            Attempt::WithoutNamespaces => return NextAction::Continue,
        }
        // Any earlier it would have delayed the supervisor that has a request.
        let LaunchMessage { requested, request, fds, .. } = message;
        drop(fds);
        let sandbox = request.decode().map(|request| request.sandbox).unwrap_or_default();
        self.expect_another(requested, sandbox.limits.processes, request);
        NextAction::Continue
    }

    /// A script was started. If it was not the first one, another one like it is likely to follow: a standby is forked for it soon.
    fn expect_another(
        &mut self,
        profile: SandboxProfile,
        process_limit: Option<u64>,
        previous: EncodedRequest,
    ) {
        if !std::mem::replace(&mut self.has_launched_before, true) {
            return;
        }
        let expected = ExpectedRequest { profile, process_limit, previous: previous.into_inline() };
        self.pending_standby = Some((expected, Instant::now() + STANDBY_DELAY));
    }

    /// The profile, reduced to what this machine supports.
    fn supported_profile(&mut self, profile: SandboxProfile) -> SandboxProfile {
        let has_none = profile.level == SandboxLevel::Namespaces && !self.namespaces.may_be_available();
        let level = if has_none { SandboxLevel::Landlock } else { profile.level };
        let has_own_netns = level == SandboxLevel::Namespaces
            && self.namespaces.config().is_none_or(NamespaceConfig::can_have_own_netns);
        let profile = profile.at_level(level, landlock::kernel_abi());
        if has_own_netns { profile } else { profile.without_hosts() }
    }

    fn start_supervisor(&mut self, message: LaunchMessage) -> NextAction {
        match (message.profile.level, self.namespaces.config()) {
            (SandboxLevel::Namespaces, Some(config)) => self.fork_supervisor(message, Some(config)),
            (SandboxLevel::Namespaces, None) => {
                self.start_without_namespaces(message, SandboxLevel::Landlock)
            }
            (level, _) => self.start_without_namespaces(message, level),
        }
    }

    /// Starts a supervisor with what the machine was found to support.
    fn start_again(&mut self, mut message: LaunchMessage) -> NextAction {
        message.profile = self.supported_profile(message.profile);
        self.start_supervisor(message)
    }

    fn start_without_namespaces(&mut self, mut message: LaunchMessage, level: SandboxLevel) -> NextAction {
        message.is_downgraded = message.profile.level != level;
        message.profile = message.profile.at_level(level, landlock::kernel_abi()).without_hosts();
        self.fork_supervisor(message, None)
    }

    fn fork_supervisor(&mut self, message: LaunchMessage, namespaces: Option<NamespaceConfig>) -> NextAction {
        let forked =
            std::io::pipe().and_then(|pipe| Ok((pipe, self.namespaces.fork(namespaces, message.profile)?)));
        match forked {
            Ok(((_, ready_fd), ForkResult::Child)) => {
                let ready_fd = ready_fd.into();
                NextAction::Supervise(Box::new(LaunchTask { message, namespaces, ready_fd }))
            }
            Ok(((ready_fd, _), ForkResult::Parent(supervisor))) => {
                self.supervisors.push(SupervisorHandle::new(supervisor, Some(&message.fds)));
                let attempt = match namespaces {
                    Some(_) => Attempt::WithNamespaces,
                    None => Attempt::WithoutNamespaces,
                };
                let (ready_fd, message) = (ready_fd.into(), Some(message));
                self.pending_launches.push(PendingLaunch { ready_fd, message, attempt });
                NextAction::Continue
            }
            Err(_) if self.namespaces.refute() => self.start_again(message),
            Err(_) if namespaces.is_some() => self.start_without_namespaces(message, SandboxLevel::Landlock),
            // Without a report its pipe hangs up, which the host understands.
            Err(_) => NextAction::Continue,
        }
    }

    /// Forks a supervisor that stands by for such a request.
    fn fork_standby(&mut self, expected: ExpectedRequest) -> NextAction {
        let ExpectedRequest { profile: requested, process_limit, previous } = expected;
        let profile = self.supported_profile(requested);
        // A supervisor that can kill a tree only generation by generation does so depending on the request.
        if profile.level == SandboxLevel::LandlockUnscoped || self.standby.is_some() {
            return NextAction::Continue;
        }
        let namespaces = self.namespaces.config().filter(|_| profile.level == SandboxLevel::Namespaces);
        if profile.level == SandboxLevel::Namespaces && namespaces.is_none() {
            // What this machine supports could not be found out just now.
            return NextAction::Continue;
        }
        let valid_until = self.namespaces.next_detection();
        let (Some(mounts), Ok((socket, standby_socket))) = (&self.mount_watcher, ipc::socket_pair()) else {
            return NextAction::Continue;
        };
        // From now on changes count.
        mounts.has_changed();
        match self.namespaces.fork(namespaces, profile) {
            Ok(ForkResult::Child) => {
                let (Ok(requests), Ok(mount_watcher)) = (self.socket.try_clone(), mounts.try_clone()) else {
                    sys::exit(1)
                };
                return NextAction::StandBy(StandbySupervisor {
                    requests,
                    server: standby_socket,
                    valid_until,
                    mount_watcher,
                    requested,
                    profile,
                    process_limit,
                    previous,
                    namespaces,
                });
            }
            Ok(ForkResult::Parent(pid)) => {
                self.standby = Some(StandbyHandle { pid, socket, wait_status: None });
            }
            Err(_) => {
                self.namespaces.refute();
            }
        }
        NextAction::Continue
    }

    /// Reaps supervisors that have ended, and kills the orphans of those that were killed.
    fn reap(&mut self) {
        rustix::io::read(&self.sigchld, &mut [0; 128]).ok();
        let mut has_orphans = false;
        while let Ok(Some((pid, status))) = sys::reap() {
            if let Some(standby) = self.standby.as_mut().filter(|standby| standby.pid.as_raw_pid() == pid) {
                // What it has said is received next.
                standby.wait_status = Some(status);
                continue;
            }
            if let Some(index) = self.overlay_servers.iter().position(|server| server.as_raw_pid() == pid) {
                self.overlay_servers.swap_remove(index);
                continue;
            }
            let index = self.supervisors.iter().position(|supervisor| supervisor.pid.as_raw_pid() == pid);
            has_orphans |= status != 0 || index.is_none();
            let ended = index.map(|index| self.supervisors.swap_remove(index));
            self.lost_reports.extend(ended.and_then(|ended| ended.report).filter(|_| status != 0));
        }
        if has_orphans && !self.kill_orphans() {
            self.lost_reports.clear();
        }
    }

    /// Kills what supervisors have left behind. Returns whether there was anything.
    fn kill_orphans(&self) -> bool {
        let standby = self.standby.as_ref().map(|standby| standby.pid);
        let supervisors = self.supervisors.iter().map(|supervisor| supervisor.pid);
        let own: Vec<Pid> = supervisors.chain(self.overlay_servers.iter().copied()).chain(standby).collect();
        child_processes::kill_all_except(&own)
    }

    /// Notes which runs the host has given up, by whether each control pipe is ready that was polled.
    fn note_given_up(&mut self, controls: impl Iterator<Item = bool>) {
        let polled = self.supervisors.iter_mut().filter(|supervisor| supervisor.control.is_some());
        for (supervisor, _) in polled.zip(controls).filter(|(_, is_hung_up)| *is_hung_up) {
            supervisor.give_up(self.supervisor_timeout);
        }
    }

    /// Kills supervisors that have not ended what the host has given up. That ends the processes of their namespaces; others become
    /// children of this process, which kills them.
    fn kill_unresponsive(&mut self) {
        let now = Instant::now();
        for supervisor in &mut self.supervisors {
            if supervisor.kill_at.take_if(|when| *when <= now).is_some() {
                // Its process id is not reused before it is reaped.
                kill_process(supervisor.pid, Signal::KILL).ok();
            }
        }
    }

    /// The host was killed: once every tree is gone, its cleanup directories are removed.
    fn clean_up_after_host(&mut self) {
        let began = Instant::now();
        self.pending_launches.clear();
        for supervisor in &mut self.supervisors {
            supervisor.give_up(self.supervisor_timeout);
        }
        while !self.supervisors.is_empty() && began.elapsed() < TREE_EXIT_TIMEOUT + RESPONSE_TIMEOUT {
            let mut fds = [PollFd::new(&self.sigchld, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).ok();
            self.kill_unresponsive();
            self.reap();
        }
        self.cleanup_list.remove_all();
    }
}

/// Above this number the list is pruned. A run that is over has usually removed its own.
const PRUNE_ABOVE: usize = 256;

/// Directories, each once.
pub(super) struct CleanupList {
    folders: VecDeque<(PathBuf, FileId)>,
    remove: RemoveFolder,
}

impl CleanupList {
    pub(super) fn new(remove: RemoveFolder) -> Self {
        Self { folders: VecDeque::new(), remove }
    }

    pub(super) fn add(&mut self, paths: Vec<OsString>) {
        for path in paths {
            let found = folder_at(Path::new(&path)).map(|id| (PathBuf::from(path), id));
            self.folders.extend(found.filter(|found| !self.folders.contains(found)));
        }
        if self.folders.len() > PRUNE_ABOVE {
            self.folders.retain(|(path, id)| folder_at(path) == Some(*id));
        }
    }

    /// Removes those that are still there.
    fn remove_all(&self) {
        for (path, id) in &self.folders {
            (self.remove)(path, *id);
        }
    }
}

/// The folder at this path now, if it is one.
fn folder_at(path: &Path) -> Option<FileId> {
    let found = lstat(path).ok().filter(|found| FileType::from_raw_mode(found.st_mode).is_dir())?;
    Some(FileId::from_stat(&found))
}
