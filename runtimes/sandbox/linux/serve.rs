//! The helper: a small process with one thread that splits off a stub for every order, and ends with its host.
//!
//! A process that is split must copy the tables of its memory; here there is next to none, however much the host has. What a
//! stub leaves behind that was killed itself is handed to the helper, which kills it.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, set_child_subreaper, set_dumpable_behavior, setsid};

use super::super::sandbox::PATIENCE;
use super::leftovers::Leftovers;
use super::namespaces::{Known, Namespaces};
use super::spare::{MountTable, Spare, Waiting};
use super::system::{self, Side};
use super::task::Task;
use super::wire::{self, Kind, Parcel, Text, Word};
use super::{capabilities, children};
use crate::policy::Tier;

/// Serves orders from the socket that is standard input until the host hangs up.
pub(super) fn until_the_host_is_gone() -> ! {
    serve(&std::io::stdin())
}

/// Serves orders from this socket, the one thing the process keeps.
pub(super) fn serve(socket: &impl AsFd) -> ! {
    let Ok(socket) = system::keep_only(socket) else { system::exit(1) };
    // A key pressed in the host's terminal is not meant for the helper, and nobody may look into it.
    setsid().ok();
    set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    set_child_subreaper(Pid::from_raw(1)).ok();
    system::reset_signals();
    // Nothing is started from here but scripts.
    let Ok(()) = capabilities::bound() else { system::exit(1) };
    let Ok(ended) = system::ended_children() else { system::exit(1) };
    let mut helper = Helper::new(socket, ended);
    loop {
        match helper.next() {
            Next::Order => {}
            Next::Nothing => system::exit(0),
            Next::Stub(task) => {
                // As long as anybody holds its ends, the host takes the helper, or another run, to be alive.
                drop(helper);
                system::exit(task.begin());
            }
            Next::Spare(waiting) => {
                drop(helper);
                system::exit(waiting.serve());
            }
        }
    }
}

/// What this process is to do.
enum Next {
    /// To wait for another word.
    Order,
    /// To end.
    Nothing,
    /// It is the stub that was split off for this.
    Stub(Box<Task>),
    /// It is the stub that was split off to wait.
    Spare(Waiting),
}

/// After a start the stub has the processor for so long: to split off a process takes as long, and would hold it up.
const A_MOMENT: Duration = Duration::from_micros(200);

struct Helper {
    socket: OwnedFd,
    ended: OwnedFd,
    /// What this machine gives.
    namespaces: Known,
    /// Without it no spares are kept.
    mounts: Option<MountTable>,
    stubs: Vec<Pid>,
    spare: Option<Spare>,
    /// A spare that is still to be made, for an order like this, and when.
    owed: Option<(Kind, Text, Instant)>,
    /// Whether there was an order before, so that there will be another one.
    is_asked_again: bool,
    /// Orders that stubs are getting ready for.
    begun: Vec<Begun>,
    leftovers: Leftovers,
}

struct Begun {
    /// Says that the script comes next.
    said: OwnedFd,
    parcel: Parcel,
    /// Whether nobody else can be given the order, and whether it was given to one that waited, which something may have ended.
    is_last: bool,
    has_waited: bool,
}

impl Helper {
    fn new(socket: OwnedFd, ended: OwnedFd) -> Self {
        Self {
            socket,
            ended,
            namespaces: Known::default(),
            mounts: MountTable::watched(),
            stubs: Vec::new(),
            spare: None,
            owed: None,
            is_asked_again: false,
            begun: Vec::new(),
            leftovers: Leftovers::default(),
        }
    }

    /// Waits for whatever comes next, and does it.
    fn next(&mut self) -> Next {
        let mut waiting =
            vec![PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        waiting.extend(self.begun.iter().map(|one| PollFd::new(&one.said, PollFlags::IN)));
        let left = self.owed.as_ref().map(|(_, _, when)| when.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut waiting, timeout.as_ref()) {
            Err(_) => return Next::Order,
            Ok(0) => {
                drop(waiting);
                return self.owed.take().map_or(Next::Order, |(kind, like, _)| self.keep_spare(kind, like));
            }
            Ok(_) => {}
        }
        let ready: Vec<bool> = waiting.iter().map(|end| !end.revents().is_empty()).collect();
        drop(waiting);
        if ready[1] {
            self.reap();
        }
        if let Some(number) = ready[2..].iter().position(|ready| *ready) {
            let begun = self.begun.swap_remove(number);
            return self.went_on(begun);
        }
        if ready[0] { self.host_said() } else { Next::Order }
    }

    fn host_said(&mut self) -> Next {
        match wire::receive(&self.socket) {
            Ok(Word::Run(parcel)) => {
                // From here on the order is this process's matter, and must not be given to another one.
                if rustix::io::write(&self.socket, b"taken").is_ok() {
                    return self.run(*parcel);
                }
            }
            Ok(Word::Farewell) => return self.nothing(),
            // A host of another version, which has started nothing here.
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => return self.nothing(),
            // There are too many descriptors here for more. Without a report the pipe for it hangs up.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                rustix::io::write(&self.socket, b"taken").ok();
                return Next::Order;
            }
            Ok(Word::Gone) | Err(_) => {}
        }
        self.clear_away();
        self.nothing()
    }

    fn nothing(&mut self) -> Next {
        self.spare.take().into_iter().for_each(Spare::dismiss);
        Next::Nothing
    }

    fn run(&mut self, mut parcel: Parcel) -> Next {
        parcel.kind = self.settled(parcel.kind);
        let text = parcel.text.again();
        let next = self.start(parcel);
        if !matches!(next, Next::Order) {
            return next;
        }
        // The stub reads the same text, and does not wait for this.
        if let Ok(order) = text.and_then(|text| text.order()) {
            self.leftovers.remember(order.leftovers);
        }
        next
    }

    /// A stub has said that the script comes next, or has gone before.
    fn went_on(&mut self, Begun { said, parcel, is_last, has_waited }: Begun) -> Next {
        let goes_on = rustix::io::read(&said, &mut [0; 1]) == Ok(1);
        if !goes_on {
            if has_waited {
                return self.start(parcel);
            }
            let tier = if parcel.kind.tier == Tier::Namespaces { Tier::Landlock } else { parcel.kind.tier };
            // Without a report the pipe for it hangs up, which the host understands.
            return if is_last { Next::Order } else { self.start_plainly(parcel, tier) };
        }
        // Until now it would have been in the way of the one that has an order.
        let Parcel { kind, text, ends, .. } = parcel;
        drop(ends);
        // Who can only kill a tree generation by generation does so by what the order says.
        let is_worth_it = kind.tier != Tier::Walk && self.spare.is_none();
        if std::mem::replace(&mut self.is_asked_again, true) && is_worth_it {
            self.owed = Some((kind, text, Instant::now() + A_MOMENT));
        }
        Next::Order
    }

    /// The kind as far as this machine has it.
    fn settled(&mut self, kind: Kind) -> Kind {
        let has_none = kind.tier == Tier::Namespaces && !self.namespaces.may_be_given();
        Kind { tier: if has_none { Tier::Landlock } else { kind.tier }, ..kind }
    }

    fn start(&mut self, parcel: Parcel) -> Next {
        if let Some(spare) = self.spare.take() {
            // What it sees of the machine it has seen when it was split off.
            let is_late = self.mounts.as_ref().is_none_or(MountTable::has_changed);
            if !is_late && spare.take_on(&parcel) {
                self.stubs.push(spare.pid);
                self.begun.push(Begun { said: spare.said(), parcel, is_last: false, has_waited: true });
                return Next::Order;
            }
            spare.dismiss();
        }
        match (parcel.kind.tier, self.namespaces.found()) {
            (Tier::Namespaces, Some(all)) => self.split_off(parcel, Some(all)),
            (Tier::Namespaces, None) => self.start_plainly(parcel, Tier::Landlock),
            (tier, _) => self.start_plainly(parcel, tier),
        }
    }

    fn start_plainly(&mut self, mut parcel: Parcel, tier: Tier) -> Next {
        parcel.is_lowered = parcel.kind.tier != tier;
        parcel.kind.tier = tier;
        self.split_off(parcel, None)
    }

    fn split_off(&mut self, parcel: Parcel, namespaces: Option<Namespaces>) -> Next {
        match std::io::pipe().and_then(|ends| Ok((ends, self.namespaces.split(namespaces, parcel.kind)?))) {
            Ok(((_, says), Side::Child)) => {
                Next::Stub(Box::new(Task { parcel, namespaces, said: says.into() }))
            }
            Ok(((said, _), Side::Parent(stub))) => {
                self.stubs.push(stub);
                let is_last = namespaces.is_none();
                self.begun.push(Begun { said: said.into(), parcel, is_last, has_waited: false });
                Next::Order
            }
            Err(_) if namespaces.is_some() => self.start_plainly(parcel, Tier::Landlock),
            // Without a report the pipe for it hangs up, which the host understands.
            Err(_) => Next::Order,
        }
    }

    /// Splits off a stub that waits for an order of that kind.
    fn keep_spare(&mut self, kind: Kind, like: Text) -> Next {
        let (Some(mounts), Ok((ours, theirs))) = (&self.mounts, wire::pair()) else { return Next::Order };
        // From now on changes count.
        mounts.has_changed();
        self.namespaces.share_network();
        let namespaces = self.namespaces.found().filter(|_| kind.tier == Tier::Namespaces);
        match self.namespaces.split(namespaces, kind) {
            Ok(Side::Child) => return Next::Spare(Waiting::new(theirs, kind, like, namespaces)),
            Ok(Side::Parent(pid)) => self.spare = Some(Spare::new(pid, ours, kind)),
            Err(_) => {}
        }
        Next::Order
    }

    /// Reaps stubs that have ended, and kills what was handed over by those that could not end well.
    fn reap(&mut self) {
        rustix::io::read(&self.ended, &mut [0; 128]).ok();
        let mut is_well = true;
        while let Ok(Some((pid, status))) = system::reap() {
            if self.spare.take_if(|spare| spare.pid.as_raw_pid() == pid).is_some() {
                // It had no order, and left nothing. Another one would fare no better.
                self.mounts = None;
                continue;
            }
            let stub = self.stubs.iter().position(|stub| stub.as_raw_pid() == pid);
            is_well &= status == 0 && stub.is_some();
            if let Some(number) = stub {
                self.stubs.swap_remove(number);
            }
        }
        if !is_well {
            let known: Vec<Pid> =
                self.stubs.iter().copied().chain(self.spare.as_ref().map(|spare| spare.pid)).collect();
            children::kill_all_but(&known);
        }
    }

    /// The host was killed: once every tree is gone, what it would have removed is removed.
    fn clear_away(&mut self) {
        let began = Instant::now();
        self.begun.clear();
        while !self.stubs.is_empty() && began.elapsed() < PATIENCE {
            let mut waiting = [PollFd::new(&self.ended, PollFlags::IN)];
            poll(&mut waiting, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).ok();
            self.reap();
        }
        self.leftovers.remove();
    }
}
