//! Namespaces: a script's own view of mounts, processes, IPC, host names and, if it is blocked, the network.
//!
//! Each fork server detects support by creating namespaces. The supervisor is the first process in them, so that its death kills
//! all processes in them.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{
    DumpableBehavior, Gid, Uid, WaitOptions, getegid, geteuid, set_dumpable_behavior, waitpid,
};
use rustix::thread::CapabilitySet;

use super::capabilities;
use super::mounts;
use crate::runtimes::sandbox::linux::child::errno;
use crate::runtimes::sandbox::linux::fork_server::ipc::SandboxProfile;
use crate::runtimes::sandbox::linux::layers::netns::HostNetns;
use crate::runtimes::sandbox::linux::layers::seccomp::{SeccompFilter, SeccompOptions};
use crate::runtimes::sandbox::linux::sys;
use crate::runtimes::sandbox::linux::sys::ForkResult;
use crate::runtimes::sandbox::{FileRules, ResourceLimits};

/// The namespaces that this machine supports.
#[derive(Clone, Copy)]
pub(in crate::runtimes::sandbox::linux) struct NamespaceConfig {
    /// A user who is not root must own the namespaces to change them, which takes a user namespace.
    user_namespace: Option<(Uid, Gid)>,
    network: NetworkIsolation,
}

/// How the network is blocked.
#[derive(Clone, Copy, PartialEq)]
enum NetworkIsolation {
    /// By the seccomp filter only.
    FilterOnly,
    /// By an empty network namespace for each script.
    OwnNetns,
    /// By the empty network namespace that this process is in.
    SharedNetns,
}

/// What was detected on this machine. A failure may be a transient lack of memory or process ids.
#[derive(Default)]
pub(in crate::runtimes::sandbox::linux) struct NamespaceSupport {
    config: Option<NamespaceConfig>,
    checked_at: Option<Instant>,
    /// Whether this process has tried to leave the host's network namespace, and the way back if it has left it.
    tried_shared_netns: bool,
    host_netns: Option<HostNetns>,
}

/// How long a negative result is kept.
const RECHECK_AFTER: Duration = Duration::from_mins(1);

impl NamespaceSupport {
    /// Whether a script may get namespaces now. True while detection fails transiently; the launch itself then fails if there are
    /// none.
    pub(in crate::runtimes::sandbox::linux) fn may_be_available(&mut self) -> bool {
        let is_all = self.config.is_some_and(|found| found.network != NetworkIsolation::FilterOnly);
        if !is_all && self.checked_at.is_none_or(|asked| asked.elapsed() > RECHECK_AFTER) {
            let Ok(found) = NamespaceConfig::detect() else { return true };
            (self.config, self.checked_at) = (found, Some(Instant::now()));
        }
        self.config.is_some()
    }

    /// Moves this process into the empty network namespace that scripts share from now on, if they need no user namespace: a
    /// process in a user namespace may enter only network namespaces that it owns.
    pub(in crate::runtimes::sandbox::linux) fn enter_shared_netns(&mut self) {
        let Some(found) = &mut self.config else { return };
        let may_try = !std::mem::replace(&mut self.tried_shared_netns, true)
            && SeccompFilter::cached(SeccompOptions { block_network: true, allow_flock: false }).is_ok();
        if may_try && found.user_namespace.is_none() && found.network == NetworkIsolation::OwnNetns {
            self.host_netns = HostNetns::leave();
            found.network = if self.host_netns.is_some() {
                NetworkIsolation::SharedNetns
            } else {
                NetworkIsolation::OwnNetns
            };
        }
    }

    /// Forks a process for requests of this profile, the first in its namespaces if it gets any.
    pub(in crate::runtimes::sandbox::linux) fn fork(
        &self,
        namespaces: Option<NamespaceConfig>,
        kind: SandboxProfile,
    ) -> io::Result<ForkResult> {
        if kind.filter_syscalls {
            // Compiled here, the filter exists in every forked process.
            SeccompFilter::cached(kind.seccomp).ok();
        }
        let side = namespaces.map_or_else(sys::fork, |all| {
            sys::clone_with_namespaces(all.clone_flags(kind.seccomp.block_network))
        })?;
        if let (ForkResult::Child, Some(outside)) =
            (&side, self.host_netns.as_ref().filter(|_| !kind.seccomp.block_network))
        {
            // It has started nothing, and another process takes the request.
            outside.enter().unwrap_or_else(|_| sys::exit(1));
        }
        Ok(side)
    }

    /// The result of the last detection.
    pub(in crate::runtimes::sandbox::linux) fn config(&self) -> Option<NamespaceConfig> {
        self.config
    }
}

/// Namespaces in which this process is the first.
#[derive(Clone, Copy)]
pub(in crate::runtimes::sandbox::linux) struct EnteredNamespaces {
    config: NamespaceConfig,
    /// `/proc` lists exactly the processes of the namespace.
    private_proc: bool,
    /// The maximum number of processes, if it was set already.
    pid_limit: Option<u64>,
}

/// How the namespaces were set up for one script.
#[derive(Clone, Copy, Default)]
pub(in crate::runtimes::sandbox::linux) struct NamespaceSetup {
    /// Every protected path that existed is protected.
    pub(in crate::runtimes::sandbox::linux) protected_paths: bool,
    /// `/proc` lists exactly the processes of the namespace.
    pub(in crate::runtimes::sandbox::linux) private_proc: bool,
    /// The namespace limits the number of processes.
    pub(in crate::runtimes::sandbox::linux) has_pid_limit: bool,
    /// The process limit to set as an inherited resource limit.
    pub(in crate::runtimes::sandbox::linux) nproc_rlimit: Option<u64>,
}

const BASE_CLONE_FLAGS: libc::c_int =
    libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

impl NamespaceConfig {
    /// Detects the namespaces that a script can get here, if any. If they are refused, this may be inside another sandbox. `Err`
    /// means a transient failure, which does not predict the next attempt.
    fn detect() -> io::Result<Option<Self>> {
        let user = Some((geteuid(), getegid()));
        let may_without = rustix::thread::capabilities(None)
            .is_ok_and(|held| held.effective.contains(CapabilitySet::SYS_ADMIN));
        let kinds = if may_without { [None, user] } else { [user, user] };
        let all =
            [NetworkIsolation::OwnNetns, NetworkIsolation::FilterOnly].into_iter().flat_map(|network| {
                kinds.into_iter().map(move |own_users| Self { user_namespace: own_users, network })
            });
        let mut answer = Ok(None);
        for namespaces in all {
            match namespaces.probe() {
                Ok(()) => return Ok(Some(namespaces)),
                Err(error) if is_transient(&error) => answer = Err(error),
                Err(_) => {}
            }
        }
        answer
    }

    fn probe(self) -> io::Result<()> {
        match sys::clone_with_namespaces(self.clone_flags(true))? {
            ForkResult::Child => {
                let entered = self.enter(None);
                let made = entered
                    .and_then(|entered| entered.set_up(&FileRules::default(), ResourceLimits::default()));
                sys::exit(made.err().map_or(0, |error| errno(&error).max(libc::EPERM)))
            }
            ForkResult::Parent(pid) => {
                let ended = waitpid(Some(pid), WaitOptions::empty())?;
                match ended.and_then(|(_, status)| status.exit_status()) {
                    Some(0) => Ok(()),
                    // A killed process gives no reason.
                    other => Err(io::Error::from_raw_os_error(other.unwrap_or(libc::EAGAIN))),
                }
            }
        }
    }

    /// The clone flags for a supervisor.
    fn clone_flags(self, shut_network: bool) -> libc::c_int {
        let users = if self.user_namespace.is_some() { libc::CLONE_NEWUSER } else { 0 };
        let network =
            if self.network == NetworkIsolation::OwnNetns && shut_network { libc::CLONE_NEWNET } else { 0 };
        BASE_CLONE_FLAGS | users | network
    }

    /// Makes this process, which was just forked into the namespaces, the user it was before, and does in them what is the same
    /// for every request; a request with this process limit is likely to come. It must be the first process in them.
    pub(in crate::runtimes::sandbox::linux) fn enter(
        self,
        processes: Option<u64>,
    ) -> io::Result<EnteredNamespaces> {
        if !rustix::process::getpid().is_init() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if let Some((user, group)) = self.user_namespace {
            map_own_ids(user, group)?;
            // What the fork server has dropped for all is not dropped in a new user namespace.
            capabilities::drop_bounding_set()?;
        }
        let own_proc = mounts::prepare()?;
        let processes = processes.filter(|most| own_proc && limit_pids(*most));
        Ok(EnteredNamespaces { config: self, private_proc: own_proc, pid_limit: processes })
    }
}

impl EnteredNamespaces {
    /// Sets them up for a script.
    pub(in crate::runtimes::sandbox::linux) fn set_up(
        self,
        files: &FileRules,
        ceilings: ResourceLimits,
    ) -> io::Result<NamespaceSetup> {
        let Self { config: all, private_proc: own_proc, pid_limit: processes } = self;
        let is_limited = |most| processes == Some(most) || (own_proc && limit_pids(most));
        // Set now, while it can still be changed.
        let processes = ceilings.processes.is_some_and(is_limited);
        let guarded = mounts::apply(files, ceilings.tree_memory)?;
        let process_limit = ceilings.processes.filter(|_| !processes && all.user_namespace.is_some());
        Ok(NamespaceSetup {
            protected_paths: guarded,
            private_proc: own_proc,
            has_pid_limit: processes,
            nproc_rlimit: process_limit,
        })
    }
}

/// Whether a resource was exhausted at that moment.
fn is_transient(error: &io::Error) -> bool {
    const PASSING: [i32; 5] = [libc::EAGAIN, libc::EINTR, libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    error.raw_os_error().is_some_and(|number| PASSING.contains(&number))
}

/// Without an id map the kernel treats this process as nobody. No other user is mapped, and none can be.
fn map_own_ids(user: Uid, group: Gid) -> io::Result<()> {
    // The files that set the map belong to root as long as this process is not dumpable.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1", user = user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1", group = group.as_raw()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// The process ids that a namespace does not reuse once it has used them all.
const RESERVED_PIDS: u64 = 300;

/// Limits the process ids of the namespace. Before Linux 6.14 there is one such limit for the whole machine, which is not ours to
/// change.
fn limit_pids(most: u64) -> bool {
    const FIRST: (u32, u32) = (6, 14);
    kernel_version().is_some_and(|release| release >= FIRST)
        && fs::write("/proc/sys/kernel/pid_max", (RESERVED_PIDS + most).to_string()).is_ok()
}

/// The first two numbers of the kernel's version.
fn kernel_version() -> Option<(u32, u32)> {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_str().ok()?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
