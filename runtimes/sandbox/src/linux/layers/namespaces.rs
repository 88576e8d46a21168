//! Namespaces: a script's own view of mounts, processes, IPC, host names and, if it is blocked, the network.
//!
//! Each fork server detects support by creating namespaces. The supervisor is the first process in them, so that its death kills
//! all processes in them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{
    DumpableBehavior, Gid, Uid, WaitOptions, getegid, geteuid, set_dumpable_behavior, waitpid,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::capabilities;
use super::mount_root::{self, OwnMounts};
use super::mounts::{self, AppliedMounts};
use crate::linux::sys::{self, ForkResult};
use crate::{FileRules, NetworkAccess, ResourceLimits};

/// The namespaces that this machine supports.
#[derive(Clone, Copy)]
pub(crate) struct NamespaceConfig {
    /// A user who is not root must own the namespaces to change them, which takes a user namespace.
    pub(crate) user_namespace: Option<(Uid, Gid)>,
    pub(crate) network: NetworkIsolation,
}

/// How the network is blocked.
#[derive(Clone, Copy, PartialEq, Default)]
pub(crate) enum NetworkIsolation {
    /// By the seccomp filter only.
    #[default]
    FilterOnly,
    /// By an empty network namespace for each script.
    OwnNetns,
    /// By the empty network namespace that this process is in.
    SharedNetns,
}

/// Namespaces in which this process is the first.
pub(crate) struct EnteredNamespaces {
    config: NamespaceConfig,
    /// `/proc` lists exactly the processes of the namespace.
    private_proc: bool,
    /// The maximum number of processes, if it was set already.
    pid_limit: Option<u64>,
    /// The mounts that this process goes back to, if those of the script have another root.
    own_mounts: Option<OwnMounts>,
}

/// How the namespaces were set up for one script.
#[derive(Default)]
pub(crate) struct NamespaceSetup {
    /// Every protected path that existed is protected.
    pub(crate) protected_paths: bool,
    /// `/proc` lists exactly the processes of the namespace.
    pub(crate) private_proc: bool,
    /// What a script without a network has in its place.
    pub(crate) network: NetworkIsolation,
    /// The namespace limits the number of processes.
    pub(crate) has_pid_limit: bool,
    /// The process limit to set as an inherited resource limit.
    pub(crate) nproc_rlimit: Option<u64>,
    /// The `/dev/shm` of the sandbox, if it has one.
    pub(crate) shm: Option<OwnedFd>,
}

const BASE_CLONE_FLAGS: libc::c_int =
    libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

impl NamespaceConfig {
    /// Detects the namespaces that a script can get here, if any; whether this process is in an empty network namespace, which
    /// scripts can share. If they are refused, this may be inside another sandbox. `Err` means a transient failure, which does not
    /// predict the next attempt.
    pub(crate) fn detect(is_in_empty_netns: bool) -> io::Result<Option<Self>> {
        let mut result = Ok(None);
        for config in Self::candidates(is_in_empty_netns) {
            match config.probe() {
                Ok(()) => return Ok(Some(config)),
                Err(error) if is_transient(&error) => result = Err(error),
                Err(_) => {}
            }
        }
        result
    }

    /// What most machines support; nothing is tried.
    pub(crate) fn likely(is_in_empty_netns: bool) -> Option<Self> {
        Self::candidates(is_in_empty_netns).next()
    }

    /// What to try, best first.
    fn candidates(is_in_empty_netns: bool) -> impl Iterator<Item = Self> {
        let user = Some((geteuid(), getegid()));
        let user_namespaces = if capabilities::can_mount() { vec![None, user] } else { vec![user] };
        let networks = [NetworkIsolation::OwnNetns, NetworkIsolation::FilterOnly];
        networks.into_iter().flat_map(move |network| {
            user_namespaces.clone().into_iter().map(move |user_namespace| match (user_namespace, network) {
                (None, NetworkIsolation::OwnNetns) if is_in_empty_netns => {
                    Self { user_namespace, network: NetworkIsolation::SharedNetns }
                }
                _ => Self { user_namespace, network },
            })
        })
    }

    fn probe(self) -> io::Result<()> {
        match sys::clone_with_namespaces(self.clone_flags(NetworkAccess::Blocked))? {
            ForkResult::Child => {
                let setup = self.enter(None).and_then(|mut entered| {
                    let (files, limits) = (FileRules::default(), ResourceLimits::default());
                    let network = NetworkAccess::Blocked;
                    let set_up = entered.set_up(&files, None, limits, network, OsStr::new("/"));
                    set_up.map_err(|(_, error)| error)?;
                    entered.leave_mounts()
                });
                sys::exit(setup.err().map_or(0, |error| sys::errno(&error).max(libc::EPERM)))
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
    pub(crate) fn clone_flags(self, access: NetworkAccess) -> libc::c_int {
        let users = if self.user_namespace.is_some() { libc::CLONE_NEWUSER } else { 0 };
        let has_own_network = match access {
            NetworkAccess::Blocked => self.network == NetworkIsolation::OwnNetns,
            NetworkAccess::Hosts => self.can_have_own_netns(),
            NetworkAccess::Open => false,
        };
        let network = if has_own_network { libc::CLONE_NEWNET } else { 0 };
        BASE_CLONE_FLAGS | users | network
    }

    /// Whether a script can get a network of its own.
    pub(crate) fn can_have_own_netns(self) -> bool {
        self.network != NetworkIsolation::FilterOnly
    }

    /// Makes this process, which was just forked into the namespaces, the user it was before, and does in them what is the same
    /// for every request; a request with this process limit is likely to come. It must be the first process in them.
    pub(crate) fn enter(self, pid_limit: Option<u64>) -> io::Result<EnteredNamespaces> {
        if !rustix::process::getpid().is_init() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if let Some((user, group)) = self.user_namespace {
            map_own_ids(user, group)?;
            // What the fork server has dropped for all is not dropped in a new user namespace.
            capabilities::drop_bounding_set()?;
        }
        let private_proc = mounts::prepare()?;
        let pid_limit = pid_limit.filter(|max| private_proc && limit_pids(*max));
        let own_mounts = mount_root::is_needed().then(OwnMounts::leave).transpose()?;
        Ok(EnteredNamespaces { config: self, private_proc, pid_limit, own_mounts })
    }
}

impl EnteredNamespaces {
    /// Sets them up for a script that is run by this program, with the overlay that the rules are about. After an error, which step
    /// failed and why.
    pub(crate) fn set_up(
        &self,
        files: &FileRules,
        overlay: Option<&OwnedFd>,
        limits: ResourceLimits,
        network: NetworkAccess,
        program: &OsStr,
    ) -> Result<NamespaceSetup, (&'static str, io::Error)> {
        let Self { config, private_proc, pid_limit, .. } = *self;
        let is_limited = |max| pid_limit == Some(max) || (private_proc && limit_pids(max));
        // Set now, while it can still be changed.
        let has_pid_limit = limits.processes.is_some_and(is_limited);
        if limits.processes.is_none() && pid_limit.is_some() {
            // The previous request had a limit.
            limit_pids(MAX_PIDS - RESERVED_PIDS);
        }
        if network == NetworkAccess::Hosts {
            limit_socket_buffers();
        }
        let at = |step: &'static str| move |error: io::Error| (step, error);
        let have_alias = mounts::isolate(files).map_err(at("namespaces"))?;
        mounts::attach_overlay(files.overlay.as_ref(), overlay).map_err(at("overlay"))?;
        let AppliedMounts { protected_paths, shm } =
            mounts::apply(files, have_alias, limits.tree_memory, program).map_err(at("namespaces"))?;
        let nproc_rlimit = limits.processes.filter(|_| !has_pid_limit && config.user_namespace.is_some());
        Ok(NamespaceSetup {
            protected_paths,
            private_proc,
            network: config.network,
            has_pid_limit,
            nproc_rlimit,
            shm,
        })
    }

    /// Leaves the mounts of the script, when nothing more is to be mounted in them.
    pub(crate) fn leave_mounts(&mut self) -> io::Result<()> {
        self.own_mounts.take().map_or(Ok(()), |own| own.enter())
    }
}

/// Moves this process, which has one thread, into a mount namespace of its own, in which it may mount, and remains the user it was.
pub(crate) fn enter_own_mounts() -> io::Result<()> {
    if capabilities::can_mount() && sys::unshare_mounts().is_ok() {
        return Ok(());
    }
    let (user, group) = (geteuid(), getegid());
    sys::unshare_users_and_mounts()?;
    map_own_ids(user, group)
}

/// Whether a resource was exhausted at that moment.
fn is_transient(error: &io::Error) -> bool {
    const TRANSIENT: [i32; 5] = [libc::EAGAIN, libc::EINTR, libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    error.raw_os_error().is_some_and(|number| TRANSIENT.contains(&number))
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

/// The maximum of the system itself.
const MAX_PIDS: u64 = 4 << 20;

/// Limits the process ids of the namespace. Before Linux 6.14 there is one such limit for the whole machine, which is not ours to
/// change.
fn limit_pids(max: u64) -> bool {
    const FIRST_RELEASE: (u32, u32) = (6, 14);
    kernel_version().is_some_and(|release| release >= FIRST_RELEASE)
        && fs::write("/proc/sys/kernel/pid_max", (RESERVED_PIDS + max).to_string()).is_ok()
}

/// Limits what TCP sockets of this network hold of unread data to the size by which they are counted. The kernel lets the owner of a
/// network do so.
fn limit_socket_buffers() {
    const SIZES: &str = "4096 65536 106496";
    for limit in ["tcp_rmem", "tcp_wmem"] {
        fs::write(format!("/proc/sys/net/ipv4/{limit}"), SIZES).ok();
    }
}

/// The first two numbers of the kernel's version.
fn kernel_version() -> Option<(u32, u32)> {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_str().ok()?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The network namespace this process was in before it entered the empty one of scripts without network, which all of them share.
///
/// Creating one takes the kernel longer than all the rest of a sandbox. Scripts cannot create sockets in it, so sharing it gives
/// them nothing in common; it makes sure that nothing can be reached if a script finds a way to create one.
pub(crate) struct HostNetns(File);

impl HostNetns {
    /// Leaves the network namespace, also for all processes forked from here on. `None` if this is not permitted, or there is no
    /// way back.
    pub(crate) fn leave() -> Option<Self> {
        let outside = Self(File::open("/proc/thread-self/ns/net").ok()?);
        // To enter it takes the same rights from inside as from outside.
        outside.enter().and_then(|()| sys::unshare_network()).ok()?;
        Some(outside)
    }

    /// Goes back.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?)
    }
}
