//! The fork server: a small process with one thread that forks a supervisor for every request, and exits with its host.
//!
//! A process that forks must copy its page tables; here there are next to none, however much memory the host has. If a supervisor
//! is killed, its remaining processes become children of the fork server, which kills them.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, set_child_subreaper, set_dumpable_behavior, setsid};

use crate::policy::SandboxLevel;
use crate::runtimes::sandbox::RESPONSE_TIMEOUT;
use crate::runtimes::sandbox::linux::child_processes;
use crate::runtimes::sandbox::linux::cleanup_list::CleanupList;
use crate::runtimes::sandbox::linux::fork_server::ipc;
use crate::runtimes::sandbox::linux::fork_server::ipc::{
    EncodedRequest, LaunchMessage, Message, SandboxProfile,
};
use crate::runtimes::sandbox::linux::layers::capabilities;
use crate::runtimes::sandbox::linux::layers::namespaces::{NamespaceConfig, NamespaceSupport};
use crate::runtimes::sandbox::linux::standby::{MountWatcher, StandbyHandle, StandbySupervisor};
use crate::runtimes::sandbox::linux::supervisor::launch::LaunchTask;
use crate::runtimes::sandbox::linux::sys;
use crate::runtimes::sandbox::linux::sys::ForkResult;

/// Serves requests from the socket that is standard input until the host hangs up.
pub(in crate::runtimes::sandbox::linux) fn serve_stdin() -> ! {
    serve(&std::io::stdin())
}

/// Serves requests from this socket, the only descriptor that the process keeps.
pub(in crate::runtimes::sandbox::linux) fn serve(socket: &impl AsFd) -> ! {
    let Ok(socket) = sys::close_all_except(socket) else { sys::exit(1) };
    // A key pressed in the host's terminal must not reach the fork server, and no process may inspect it.
    setsid().ok();
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    set_child_subreaper(Pid::from_raw(1)).ok();
    sys::reset_signals();
    // Only scripts are started from here.
    let Ok(()) = capabilities::drop_bounding_set() else { sys::exit(1) };
    let Ok(ended) = sys::sigchld_fd() else { sys::exit(1) };
    let mut helper = ForkServer::new(socket, ended);
    loop {
        match helper.next_action() {
            NextAction::Continue => {}
            NextAction::Exit => sys::exit(0),
            NextAction::Supervise(task) => {
                // As long as a process holds its ends, the host takes the fork server, or another run, to be alive.
                drop(helper);
                sys::exit(task.run());
            }
            NextAction::StandBy(waiting) => {
                drop(helper);
                sys::exit(waiting.wait_and_run());
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
}

/// How long the supervisor has the processor to itself after a start: a fork takes as long, and would delay it.
const STANDBY_DELAY: Duration = Duration::from_micros(200);

struct ForkServer {
    socket: OwnedFd,
    sigchld: OwnedFd,
    /// What this machine supports.
    namespaces: NamespaceSupport,
    /// Without it no standby is kept.
    mount_watcher: Option<MountWatcher>,
    supervisors: Vec<Pid>,
    standby: Option<StandbyHandle>,
    /// A standby that is still to be forked: for which profile, the previous request, and when.
    pending_standby: Option<(SandboxProfile, EncodedRequest, Instant)>,
    /// Whether there was a request before, so that another one is likely.
    has_launched_before: bool,
    /// Requests for which supervisors are preparing.
    pending_launches: Vec<PendingLaunch>,
    cleanup_list: CleanupList,
}

struct PendingLaunch {
    /// Receives a message when the script is about to start.
    ready_fd: OwnedFd,
    message: LaunchMessage,
    /// Whether no other supervisor can get the request, and whether it was given to a standby, which something may have killed.
    is_last_attempt: bool,
    used_standby: bool,
}

impl ForkServer {
    fn new(socket: OwnedFd, ended: OwnedFd) -> Self {
        Self {
            socket,
            sigchld: ended,
            namespaces: NamespaceSupport::default(),
            mount_watcher: MountWatcher::open(),
            supervisors: Vec::new(),
            standby: None,
            pending_standby: None,
            has_launched_before: false,
            pending_launches: Vec::new(),
            cleanup_list: CleanupList::default(),
        }
    }

    /// Waits for the next event and handles it.
    fn next_action(&mut self) -> NextAction {
        let mut waiting =
            vec![PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.sigchld, PollFlags::IN)];
        waiting.extend(self.pending_launches.iter().map(|one| PollFd::new(&one.ready_fd, PollFlags::IN)));
        let left =
            self.pending_standby.as_ref().map(|(_, _, when)| when.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut waiting, timeout.as_ref()) {
            Err(_) => return NextAction::Continue,
            Ok(0) => {
                drop(waiting);
                return self
                    .pending_standby
                    .take()
                    .map_or(NextAction::Continue, |(kind, like, _)| self.fork_standby(kind, like));
            }
            Ok(_) => {}
        }
        let ready: Vec<bool> = waiting.iter().map(|end| !end.revents().is_empty()).collect();
        drop(waiting);
        if ready[1] {
            self.reap();
        }
        if let Some(number) = ready[2..].iter().position(|ready| *ready) {
            let begun = self.pending_launches.swap_remove(number);
            return self.on_supervisor_ready(begun);
        }
        if ready[0] { self.receive_request() } else { NextAction::Continue }
    }

    fn receive_request(&mut self) -> NextAction {
        match ipc::receive(&self.socket) {
            Ok(Message::Launch(parcel)) => {
                // From here on the request belongs to this process, and must not be given to another one.
                if rustix::io::write(&self.socket, b"taken").is_ok() {
                    return self.launch(*parcel);
                }
            }
            Ok(Message::Shutdown) => return self.shut_down(),
            // A host of another release, which has started nothing here.
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return self.shut_down(),
            // This process has too many descriptors to receive more. Without a report its pipe hangs up.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                rustix::io::write(&self.socket, b"taken").ok();
                return NextAction::Continue;
            }
            Ok(Message::Disconnected) | Err(_) => {}
        }
        self.clean_up_after_host();
        self.shut_down()
    }

    fn shut_down(&mut self) -> NextAction {
        self.standby.take().into_iter().for_each(StandbyHandle::kill_and_reap);
        NextAction::Exit
    }

    fn launch(&mut self, mut parcel: LaunchMessage) -> NextAction {
        parcel.profile = self.supported_profile(parcel.profile);
        let text = parcel.request.try_clone();
        let next = self.start_supervisor(parcel);
        if !matches!(next, NextAction::Continue) {
            return next;
        }
        // The supervisor reads the same request, and does not wait for this.
        if let Ok(order) = text.and_then(|text| text.decode()) {
            self.cleanup_list.add(order.cleanup_dirs);
        }
        next
    }

    /// A supervisor has reported that the script starts next, or exited before.
    fn on_supervisor_ready(
        &mut self,
        PendingLaunch { ready_fd: said, message: parcel, is_last_attempt: is_last, used_standby: has_waited }: PendingLaunch,
    ) -> NextAction {
        let goes_on = rustix::io::read(&said, &mut [0; 1]) == Ok(1);
        if !goes_on {
            if has_waited {
                return self.start_supervisor(parcel);
            }
            let tier = if parcel.profile.level == SandboxLevel::Namespaces {
                SandboxLevel::Landlock
            } else {
                parcel.profile.level
            };
            // Without a report its pipe hangs up, which the host understands.
            return if is_last { NextAction::Continue } else { self.start_without_namespaces(parcel, tier) };
        }
        // Any earlier it would have delayed the supervisor that has a request.
        let LaunchMessage { profile: kind, request: text, fds: ends, .. } = parcel;
        drop(ends);
        // A supervisor that can kill a tree only generation by generation does so depending on the request.
        let is_worth_it = kind.level != SandboxLevel::LandlockUnscoped && self.standby.is_none();
        if std::mem::replace(&mut self.has_launched_before, true) && is_worth_it {
            self.pending_standby = Some((kind, text, Instant::now() + STANDBY_DELAY));
        }
        NextAction::Continue
    }

    /// The profile, reduced to what this machine supports.
    fn supported_profile(&mut self, kind: SandboxProfile) -> SandboxProfile {
        let has_none = kind.level == SandboxLevel::Namespaces && !self.namespaces.may_be_available();
        SandboxProfile { level: if has_none { SandboxLevel::Landlock } else { kind.level }, ..kind }
    }

    fn start_supervisor(&mut self, parcel: LaunchMessage) -> NextAction {
        if let Some(spare) = self.standby.take() {
            // A standby sees the machine as it was when it was forked.
            let is_late = self.mount_watcher.as_ref().is_none_or(MountWatcher::has_changed);
            if !is_late && spare.submit(&parcel) {
                self.supervisors.push(spare.pid);
                self.pending_launches.push(PendingLaunch {
                    ready_fd: spare.into_ready_fd(),
                    message: parcel,
                    is_last_attempt: false,
                    used_standby: true,
                });
                return NextAction::Continue;
            }
            spare.kill_and_reap();
        }
        match (parcel.profile.level, self.namespaces.config()) {
            (SandboxLevel::Namespaces, Some(all)) => self.fork_supervisor(parcel, Some(all)),
            (SandboxLevel::Namespaces, None) => self.start_without_namespaces(parcel, SandboxLevel::Landlock),
            (tier, _) => self.start_without_namespaces(parcel, tier),
        }
    }

    fn start_without_namespaces(&mut self, mut parcel: LaunchMessage, tier: SandboxLevel) -> NextAction {
        parcel.is_downgraded = parcel.profile.level != tier;
        parcel.profile.level = tier;
        self.fork_supervisor(parcel, None)
    }

    fn fork_supervisor(&mut self, parcel: LaunchMessage, namespaces: Option<NamespaceConfig>) -> NextAction {
        match std::io::pipe().and_then(|ends| Ok((ends, self.namespaces.fork(namespaces, parcel.profile)?))) {
            Ok(((_, says), ForkResult::Child)) => NextAction::Supervise(Box::new(LaunchTask {
                message: parcel,
                namespaces,
                ready_fd: says.into(),
            })),
            Ok(((said, _), ForkResult::Parent(stub))) => {
                self.supervisors.push(stub);
                let is_last = namespaces.is_none();
                self.pending_launches.push(PendingLaunch {
                    ready_fd: said.into(),
                    message: parcel,
                    is_last_attempt: is_last,
                    used_standby: false,
                });
                NextAction::Continue
            }
            Err(_) if namespaces.is_some() => self.start_without_namespaces(parcel, SandboxLevel::Landlock),
            // Without a report its pipe hangs up, which the host understands.
            Err(_) => NextAction::Continue,
        }
    }

    /// Forks a supervisor that stands by for a request of that profile.
    fn fork_standby(&mut self, kind: SandboxProfile, like: EncodedRequest) -> NextAction {
        let (Some(mounts), Ok((ours, theirs))) = (&self.mount_watcher, ipc::socket_pair()) else {
            return NextAction::Continue;
        };
        // From now on changes count.
        mounts.has_changed();
        self.namespaces.enter_shared_netns();
        let namespaces = self.namespaces.config().filter(|_| kind.level == SandboxLevel::Namespaces);
        match self.namespaces.fork(namespaces, kind) {
            Ok(ForkResult::Child) => {
                return NextAction::StandBy(StandbySupervisor::new(theirs, kind, like, namespaces));
            }
            Ok(ForkResult::Parent(pid)) => self.standby = Some(StandbyHandle::new(pid, ours, kind)),
            Err(_) => {}
        }
        NextAction::Continue
    }

    /// Reaps supervisors that have ended, and kills the orphans of those that were killed.
    fn reap(&mut self) {
        rustix::io::read(&self.sigchld, &mut [0; 128]).ok();
        let mut is_well = true;
        while let Ok(Some((pid, status))) = sys::reap() {
            if self.standby.take_if(|spare| spare.pid.as_raw_pid() == pid).is_some() {
                // It had no request, and left nothing. Another one would fail in the same way.
                self.mount_watcher = None;
                continue;
            }
            let stub = self.supervisors.iter().position(|stub| stub.as_raw_pid() == pid);
            is_well &= status == 0 && stub.is_some();
            if let Some(number) = stub {
                self.supervisors.swap_remove(number);
            }
        }
        if !is_well {
            let known: Vec<Pid> = self
                .supervisors
                .iter()
                .copied()
                .chain(self.standby.as_ref().map(|spare| spare.pid))
                .collect();
            child_processes::kill_all_except(&known);
        }
    }

    /// The host was killed: once every tree is gone, its cleanup directories are removed.
    fn clean_up_after_host(&mut self) {
        let began = Instant::now();
        self.pending_launches.clear();
        while !self.supervisors.is_empty() && began.elapsed() < RESPONSE_TIMEOUT {
            let mut waiting = [PollFd::new(&self.sigchld, PollFlags::IN)];
            poll(&mut waiting, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).ok();
            self.reap();
        }
        self.cleanup_list.remove_all();
    }
}
