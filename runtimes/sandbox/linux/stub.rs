//! The stub: starts one script and watches it, and leaves nothing of its tree alive. It is ready before it has its order.
//!
//! In namespaces it is the first process, whose death nobody in there outlives. Elsewhere it stands in a Landlock domain that
//! keeps signals inside, so that killing everyone it may signal kills exactly its descendants, at once, however they fork or
//! hide. The script is in a domain of its own inside that one and can do nothing to the stub.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, Signal, getppid, kill_process, set_child_subreaper, set_dumpable_behavior, setsid,
    test_kill_process,
};

use super::super::sandbox::{End, Enforced, Order, Report, Used};
use super::leader::{self, Failed, Leader, Setup};
use super::memory::Watch;
use super::namespaces::Made;
use super::system;
use super::wire::{self, Ends, Kind, Parcel, Text};
use super::{children, files};
use crate::policy::Tier;

/// How long killed processes may take to go.
const GONE: Duration = Duration::from_secs(5);

/// A stub without an order.
pub(super) struct Ready {
    /// Readable when somebody has ended.
    ends: OwnedFd,
    reach: Reach,
    leader: Leader,
}

impl Ready {
    /// Makes this process a stub for orders of that kind, `like` one that came before; `is_first` where it is the first in
    /// namespaces of its own.
    pub(super) fn new(kind: Kind, like: Option<&Text>, is_first: bool) -> Result<Self, Failed> {
        let at = |step| move |error: rustix::io::Errno| (step, std::io::Error::from(error));
        let ends = system::ended_children().map_err(|error| ("signals", error))?;
        setsid().map_err(at("session"))?;
        // In a cage of somebody else's who is watched may not hide.
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
        set_child_subreaper(Pid::from_raw(1)).map_err(at("reaper"))?;
        let reach = if is_first { Reach::Everyone } else { Reach::of(kind.tier) };
        let leader = Leader::split_off(kind, like).map_err(|error| ("fork", error))?;
        like.into_iter().for_each(rehearse);
        Ok(Self { ends, reach, leader })
    }

    /// Whether it can kill a tree at once, however that grows.
    pub(super) fn reaches_everyone(&self) -> bool {
        matches!(self.reach, Reach::Everyone)
    }

    /// Whether the leader still waits for its order. One that is gone, or could not be shut in, takes none.
    pub(super) fn has_leader(&self) -> bool {
        !is_hung_up(&self.leader.setup)
    }

    /// Ends the leader, which has no order.
    pub(super) fn dismiss(self) {
        self.leader.dismiss();
    }
}

/// Runs the order to its end and reports; `made` are the namespaces that were furnished for it. The answer is the stub's own
/// exit code: zero where nothing is left of the tree.
pub(super) fn watch(order: &Order, parcel: Parcel, ready: Result<Ready, Failed>, made: Option<Made>) -> i32 {
    let started = ready.and_then(|ready| Tree::start(order, &parcel, ready, made));
    // What is the script's alone, its stub must not hold open.
    let Parcel { text, ends: Ends { stdin, stdout, stderr, api, control, report }, is_lowered, .. } = parcel;
    drop((text, stdin, stdout, stderr, api));
    let mut report = File::from(report);
    let outcome = started.map(|tree| tree.ended(order, &control));
    let mut said = outcome.unwrap_or_else(|(step, error)| refused(step, leader::errno(&error)));
    said.enforced.lowered = is_lowered;
    let written = wire::packed(&said).map(|text| report.write_all(&text).is_ok());
    i32::from(!written.unwrap_or(false) || !said.enforced.tree_gone)
}

/// Reads an order like this one and writes a report, so that the kernel need not bring in what that takes page by page when
/// somebody waits.
fn rehearse(like: &Text) {
    let setup = wire::packed(&Setup::Ready(Enforced::default()));
    drop((like.order(), setup.map(|text| said(&text)), wire::packed(&refused("", 0))));
}

/// The report of a script that was not started.
fn refused(step: &str, errno: i32) -> Report {
    Report {
        end: End::Refused { step: step.into(), errno },
        enforced: Enforced { tree_gone: true, ..Enforced::default() },
        used: Used::default(),
        over_memory: false,
    }
}

/// How the tree can be killed.
enum Reach {
    /// All of it at once: whoever can be signalled at all.
    Everyone,
    /// Its children, until no more of them are handed over; and why not everyone, where the kernel said so.
    Children(Option<std::io::Error>),
}

/// A script and what came of it.
struct Tree {
    leader: Pid,
    /// The leader's, once it is reaped: its number may then be that of another descendant.
    status: Option<i32>,
    /// Readable when somebody has ended.
    ends: OwnedFd,
    setup: File,
    reach: Reach,
    made: Option<Made>,
    memory: Option<Watch>,
}

impl Tree {
    fn start(order: &Order, parcel: &Parcel, ready: Ready, made: Option<Made>) -> Result<Self, Failed> {
        let Ready { ends, reach, leader } = ready;
        let reach = match reach.held_to(order) {
            Ok(reach) => reach,
            Err(error) => {
                leader.dismiss();
                return Err(("tree", error));
            }
        };
        let watch = |most| Watch::new(most, made.is_some_and(|made| made.own_proc));
        let memory = order.cage.ceilings.tree_memory.map(watch);
        leader.take_on(parcel);
        let Leader { pid: leader, setup, .. } = leader;
        Ok(Self { leader, status: None, ends, setup, reach, made, memory })
    }

    fn ended(mut self, order: &Order, control: &OwnedFd) -> Report {
        let until = Instant::now().checked_add(Duration::from_millis(order.deadline_ms));
        let over_memory = self.wait(until, control);
        let (left_behind, tree_gone) = self.kill_all();
        let (enforced, refused) = self.setup();
        let (cpu_us, memory) = system::used_by_children();
        let end = match refused {
            Some((step, errno)) => End::Refused { step, errno },
            None => End::Ran { status: self.status.unwrap_or(libc::SIGKILL) },
        };
        let made = self.made.unwrap_or_default();
        let enforced = Enforced {
            namespaces: self.made.is_some(),
            read_only: self.made.is_some(),
            guarded: made.guarded,
            processes: made.processes || made.process_limit.is_some(),
            scoped_kill: matches!(self.reach, Reach::Everyone),
            tree_gone,
            ..enforced
        };
        let tree_memory = self.memory.map_or(0, |watch| watch.peak()).max(memory);
        Report { end, enforced, used: Used { cpu_us, memory, tree_memory, left_behind }, over_memory }
    }

    /// Sleeps until the leader exits, the host hangs up, time is up, or the tree holds too much, which is the answer.
    fn wait(&mut self, until: Option<Instant>, control: &OwnedFd) -> bool {
        loop {
            let next = self.memory.as_ref().map(Watch::next);
            let now = Instant::now();
            if until.is_some_and(|until| until <= now) {
                return false;
            }
            let wakes = until.into_iter().chain(next).min();
            let timeout = wakes.and_then(|at| Timespec::try_from(at.saturating_duration_since(now)).ok());
            let mut waiting = [
                PollFd::new(&self.ends, PollFlags::IN),
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
            if self.status.is_some() {
                return false;
            }
            // From the moment it is the program, its end of the pipe is closed.
            let has_begun = is_hung_up(&self.setup);
            let is_stopped =
                || until.is_some_and(|until| until <= Instant::now()) || is_readable(control.as_fd());
            if self.memory.as_mut().is_some_and(|watch| watch.is_over(has_begun, is_stopped)) {
                return true;
            }
        }
    }

    /// Reaps whoever has ended: how many there were beside the leader, and whether no child is left.
    fn reap(&mut self) -> (u32, bool) {
        // Read, it is readable again when the next one ends.
        rustix::io::read(&self.ends, &mut [0; 128]).ok();
        let mut others = 0;
        loop {
            match system::reap() {
                Ok(Some((pid, ended))) if self.status.is_none() && pid == self.leader.as_raw_pid() => {
                    self.status = Some(ended);
                }
                Ok(Some(_)) => others += 1,
                Ok(None) => return (others, false),
                // No child is left, and as the reaper of its tree the stub would have them all.
                Err(_) => return (others, true),
            }
        }
    }

    /// Kills whatever lives and reaps it: how many there were beside the leader, and whether all are gone.
    fn kill_all(&mut self) -> (u32, bool) {
        let began = Instant::now();
        // Who has no child has no descendant. To ask costs less than to kill everyone, which looks at every process there is.
        let (mut others, mut is_gone) = self.reap();
        while !is_gone && began.elapsed() < GONE {
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
        match self.reach {
            Reach::Everyone => system::kill_everyone(),
            Reach::Children(_) => children::kill_all_but(&[]),
        }
        // A leader that no list shows can be named: its number is nobody else's until it is reaped.
        if self.status.is_none() {
            kill_process(self.leader, Signal::KILL).ok();
        }
    }

    /// What the leader said before it became the program, and why it did not, if so. Nobody is left who could say more.
    fn setup(&mut self) -> (Enforced, Option<(String, i32)>) {
        let mut text = [0; 512];
        let length = self.setup.read(&mut text).unwrap_or(0);
        said(&text[..length])
    }
}

fn said(mut text: &[u8]) -> (Enforced, Option<(String, i32)>) {
    let mut enforced = Enforced::default();
    let mut refused = Some(("start".to_owned(), libc::EPIPE));
    while let Ok((next, behind)) = wire::unpacked(text) {
        text = behind;
        match next {
            Setup::Ready(held) => (enforced, refused) = (held, None),
            Setup::Failed { step, errno } => refused = Some((step, errno)),
        }
    }
    (enforced, refused)
}

impl Reach {
    /// How this process may kill in that tier.
    fn of(tier: Tier) -> Self {
        let scoped = match tier {
            Tier::Walk => Ok(false),
            _ => files::keep_signals_inside(),
        };
        match scoped {
            Ok(true) if nobody_else_is_in_reach() => Self::Everyone,
            scoped => Self::Children(scoped.err()),
        }
    }

    /// Where it could not kill all of a tree, and must, nothing is started.
    fn held_to(self, order: &Order) -> std::io::Result<Self> {
        match self {
            Self::Children(why) if order.cage.required && !children::are_known() => {
                Err(why.unwrap_or_else(|| std::io::Error::from_raw_os_error(libc::EOPNOTSUPP)))
            }
            reach => Ok(reach),
        }
    }
}

/// Whether nobody is left who could say anything there: the leader has become the program, or has ended.
fn is_hung_up(setup: &File) -> bool {
    let mut end = [PollFd::new(setup, PollFlags::IN)];
    poll(&mut end, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        && end[0].revents().contains(PollFlags::HUP)
}

/// Whether there is anything to be heard at this end, were it that the other one hung up.
fn is_readable(end: BorrowedFd<'_>) -> bool {
    let mut end = [PollFd::from_borrowed_fd(end, PollFlags::IN)];
    poll(&mut end, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Whether signals really stay inside: neither the helper nor the first process of all may be signalled from here.
fn nobody_else_is_in_reach() -> bool {
    let refused =
        |pid: Option<Pid>| pid.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::PERM));
    refused(getppid()) && refused(Some(Pid::INIT))
}
