//! Namespaces: a script's own view of files, processes, names and, where it is shut, the network.
//!
//! Whether the machine gives any is found out by making some, by each helper. The stub is the first process in them,
//! so that its death is the death of everyone in there.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{
    DumpableBehavior, Gid, Uid, WaitOptions, getegid, geteuid, set_dumpable_behavior, waitpid,
};
use rustix::thread::CapabilitySet;

use super::super::sandbox::{Ceilings, FileRules};
use super::calls::{Calls, Filter};
use super::capabilities;
use super::leader::errno;
use super::mounts;
use super::network::Outside;
use super::system::{self, Side};
use super::wire::Kind;

/// What this machine gives.
#[derive(Clone, Copy)]
pub(super) struct Namespaces {
    /// Who is not root must own what it changes, by way of a user namespace.
    own_users: Option<(Uid, Gid)>,
    network: Network,
}

/// What there is for scripts without the network.
#[derive(Clone, Copy, PartialEq)]
enum Network {
    /// Nothing but the filter of calls.
    None,
    /// An empty one for each.
    Own,
    /// The empty one that this process is in.
    Shared,
}

/// What was found out about this machine. That it gives none may be for want of memory or of numbers, and pass.
#[derive(Default)]
pub(super) struct Known {
    found: Option<Namespaces>,
    asked: Option<Instant>,
    /// Whether this process has tried to leave the network, and the way back where it has left it.
    has_tried: bool,
    outside: Option<Outside>,
}

/// How long it is believed that there are none.
const A_WHILE: Duration = Duration::from_mins(1);

impl Known {
    /// Whether a script may be given some now. As long as that cannot be told it may be, and who is to have some hears that
    /// there are none.
    pub(super) fn may_be_given(&mut self) -> bool {
        let is_all = self.found.is_some_and(|found| found.network != Network::None);
        if !is_all && self.asked.is_none_or(|asked| asked.elapsed() > A_WHILE) {
            let Ok(found) = Namespaces::there_are() else { return true };
            (self.found, self.asked) = (found, Some(Instant::now()));
        }
        self.found.is_some()
    }

    /// Moves this process into the network that scripts share from now on, where they need no users of their own: whoever has, may
    /// enter none but its own.
    pub(super) fn share_network(&mut self) {
        let Some(found) = &mut self.found else { return };
        let may_try = !std::mem::replace(&mut self.has_tried, true)
            && Filter::of(Calls { shut_network: true, may_lock: false }).is_ok();
        if may_try && found.own_users.is_none() && found.network == Network::Own {
            self.outside = Outside::left();
            found.network = if self.outside.is_some() { Network::Shared } else { Network::Own };
        }
    }

    /// Splits off a process for orders of this kind, the first in these namespaces where it is to have any.
    pub(super) fn split(&self, namespaces: Option<Namespaces>, kind: Kind) -> io::Result<Side> {
        if kind.guard_calls {
            // Made here, it is there for all that are split off.
            Filter::of(kind.calls).ok();
        }
        let side =
            namespaces.map_or_else(system::fork, |all| system::split(all.flags(kind.calls.shut_network)))?;
        if let (Side::Child, Some(outside)) =
            (&side, self.outside.as_ref().filter(|_| !kind.calls.shut_network))
        {
            // It has started nothing, and another one takes the order.
            outside.enter().unwrap_or_else(|_| system::exit(1));
        }
        Ok(side)
    }

    /// What there was when this was last asked.
    pub(super) fn found(&self) -> Option<Namespaces> {
        self.found
    }
}

/// Namespaces that this process is the first in.
#[derive(Clone, Copy)]
pub(super) struct Entered {
    all: Namespaces,
    /// The processes in the namespace are listed in `/proc`, and no others.
    own_proc: bool,
    /// How many processes there may be at a time, where that was settled.
    processes: Option<u64>,
}

/// What was made of them for one script.
#[derive(Clone, Copy, Default)]
pub(super) struct Made {
    /// Everything guarded that was there is guarded.
    pub(super) guarded: bool,
    /// The processes in the namespace are listed in `/proc`, and no others.
    pub(super) own_proc: bool,
    /// The number of processes is limited by the namespace.
    pub(super) processes: bool,
    /// It is to be limited by what each process inherits.
    pub(super) process_limit: Option<u64>,
}

const ALWAYS: libc::c_int = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;

impl Namespaces {
    /// Those that a script could be given here, if any. A script that is refused them may be in somebody else's cage. The error
    /// is that of a try that says nothing of the next one.
    fn there_are() -> io::Result<Option<Self>> {
        let user = Some((geteuid(), getegid()));
        let may_without = rustix::thread::capabilities(None)
            .is_ok_and(|held| held.effective.contains(CapabilitySet::SYS_ADMIN));
        let kinds = if may_without { [None, user] } else { [user, user] };
        let all = [Network::Own, Network::None]
            .into_iter()
            .flat_map(|network| kinds.into_iter().map(move |own_users| Self { own_users, network }));
        let mut answer = Ok(None);
        for namespaces in all {
            match namespaces.made_once() {
                Ok(()) => return Ok(Some(namespaces)),
                Err(error) if is_passing(&error) => answer = Err(error),
                Err(_) => {}
            }
        }
        answer
    }

    fn made_once(self) -> io::Result<()> {
        match system::split(self.flags(true))? {
            Side::Child => {
                let entered = self.enter(None);
                let made =
                    entered.and_then(|entered| entered.furnish(&FileRules::default(), Ceilings::default()));
                system::exit(made.err().map_or(0, |error| errno(&error).max(libc::EPERM)))
            }
            Side::Parent(pid) => {
                let ended = waitpid(Some(pid), WaitOptions::empty())?;
                match ended.and_then(|(_, status)| status.exit_status()) {
                    Some(0) => Ok(()),
                    // Who was killed says nothing.
                    other => Err(io::Error::from_raw_os_error(other.unwrap_or(libc::EAGAIN))),
                }
            }
        }
    }

    /// What to split off a stub with.
    fn flags(self, shut_network: bool) -> libc::c_int {
        let users = if self.own_users.is_some() { libc::CLONE_NEWUSER } else { 0 };
        let network = if self.network == Network::Own && shut_network { libc::CLONE_NEWNET } else { 0 };
        ALWAYS | users | network
    }

    /// Makes this process, which has just been split off with them, the user it was before, and does in them what no order
    /// changes; an order that leaves so many processes is likely to come. It has to be the first in them.
    pub(super) fn enter(self, processes: Option<u64>) -> io::Result<Entered> {
        if !rustix::process::getpid().is_init() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if let Some((user, group)) = self.own_users {
            become_oneself(user, group)?;
            // What the helper has done for all does not hold in there.
            capabilities::bound()?;
        }
        let own_proc = mounts::begin()?;
        let processes = processes.filter(|most| own_proc && limit_numbers(*most));
        Ok(Entered { all: self, own_proc, processes })
    }
}

impl Entered {
    /// Furnishes them for a script.
    pub(super) fn furnish(self, files: &FileRules, ceilings: Ceilings) -> io::Result<Made> {
        let Self { all, own_proc, processes } = self;
        let is_limited = |most| processes == Some(most) || (own_proc && limit_numbers(most));
        // As long as that can be changed.
        let processes = ceilings.processes.is_some_and(is_limited);
        let guarded = mounts::put_up(files, ceilings.tree_memory)?;
        let process_limit = ceilings.processes.filter(|_| !processes && all.own_users.is_some());
        Ok(Made { guarded, own_proc, processes, process_limit })
    }
}

/// Whether there was too little of something at that moment.
fn is_passing(error: &io::Error) -> bool {
    const PASSING: [i32; 5] = [libc::EAGAIN, libc::EINTR, libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    error.raw_os_error().is_some_and(|number| PASSING.contains(&number))
}

/// Without a map the kernel takes this process for nobody. Nobody else is mapped, and nobody can be.
fn become_oneself(user: Uid, group: Gid) -> io::Result<()> {
    // The files that make the map belong to root as long as nobody may look into this process.
    set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1", user = user.as_raw()))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1", group = group.as_raw()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// The numbers a namespace does not use again once it has used them all.
const RESERVED: u64 = 300;

/// Leaves the namespace so many numbers for processes. Before Linux 6.14 there is one such limit for the whole machine, which
/// is not ours to change.
fn limit_numbers(most: u64) -> bool {
    const FIRST: (u32, u32) = (6, 14);
    release().is_some_and(|release| release >= FIRST)
        && fs::write("/proc/sys/kernel/pid_max", (RESERVED + most).to_string()).is_ok()
}

/// The first two numbers of the kernel's version.
fn release() -> Option<(u32, u32)> {
    let name = rustix::system::uname();
    let mut numbers = name.release().to_str().ok()?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
