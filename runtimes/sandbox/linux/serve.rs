//! The helper: a small process with one thread that splits off a stub for every order, and ends with its host.
//!
//! A process that is split must copy the tables of its memory; here there is next to none, however much the host has. What a
//! stub leaves behind that was killed itself is handed to the helper, which kills it.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, set_child_subreaper, set_dumpable_behavior, setsid};

use super::super::sandbox::Leftover;
use super::children;
use super::namespaces::Namespaces;
use super::spare::{self, MountTable, Spare, Waiting};
use super::system::{self, Side};
use super::task::Task;
use super::wire::{self, Kind, Parcel, Word};
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

/// The host's leftovers that are remembered. A run that is over has usually lost its own.
const REMEMBERED: usize = 256;

/// How long stubs may take to kill their trees when the host is gone.
const FAREWELL: Duration = Duration::from_secs(10);

struct Helper {
    socket: OwnedFd,
    ended: OwnedFd,
    /// What this machine gives, once it was asked.
    namespaces: OnceCell<Option<Namespaces>>,
    /// Without it no spares are kept.
    mounts: Option<MountTable>,
    stubs: Vec<Pid>,
    spare: Option<Spare>,
    /// Whether there was an order before, so that there will be another one.
    is_asked_again: bool,
    /// Orders that stubs are getting ready for. Should one fail, another one goes on without namespaces.
    begun: Vec<Begun>,
    leftovers: VecDeque<Leftover>,
}

struct Begun {
    /// Says that the script comes next.
    said: OwnedFd,
    parcel: Parcel,
}

impl Helper {
    fn new(socket: OwnedFd, ended: OwnedFd) -> Self {
        Self {
            socket,
            ended,
            namespaces: OnceCell::new(),
            mounts: MountTable::watched(),
            stubs: Vec::new(),
            spare: None,
            is_asked_again: false,
            begun: Vec::new(),
            leftovers: VecDeque::new(),
        }
    }

    /// Waits for whatever comes next, and does it.
    fn next(&mut self) -> Next {
        let mut waiting =
            vec![PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        waiting.extend(self.begun.iter().map(|one| PollFd::new(&one.said, PollFlags::IN)));
        if poll(&mut waiting, None).is_err() {
            return Next::Order;
        }
        let ready: Vec<bool> = waiting.iter().map(|end| !end.revents().is_empty()).collect();
        drop(waiting);
        if ready[1] {
            self.reap();
        }
        if let Some(number) = ready[2..].iter().position(|ready| *ready) {
            let Begun { said, parcel } = self.begun.swap_remove(number);
            let goes_on = rustix::io::read(&said, &mut [0; 1]) == Ok(1);
            return if goes_on { Next::Order } else { self.start_plainly(parcel, Tier::Landlock) };
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
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return self.nothing(),
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
        let (kind, text) = (parcel.kind, parcel.text.again());
        let next = self.start(parcel);
        if !matches!(next, Next::Order) {
            return next;
        }
        // The stub reads the same text, and does not wait for this.
        let Ok(order) = text.and_then(|text| text.order()) else { return self.nothing() };
        self.remember(order.leftovers);
        if std::mem::replace(&mut self.is_asked_again, true) { self.keep_spare(kind) } else { next }
    }

    /// The kind as far as this machine has it.
    fn settled(&self, kind: Kind) -> Kind {
        let has_namespaces = || self.namespaces.get_or_init(Namespaces::there_are).is_some();
        let tier =
            if kind.tier == Tier::Namespaces && !has_namespaces() { Tier::Landlock } else { kind.tier };
        Kind { tier, ..kind }
    }

    fn start(&mut self, parcel: Parcel) -> Next {
        if let Some(spare) = self.spare.take() {
            // What it sees of the machine it has seen when it was split off.
            let is_late = self.mounts.as_ref().is_none_or(MountTable::has_changed);
            if !is_late && spare.take_on(&parcel) {
                self.stubs.push(spare.pid);
                self.begun.push(Begun { said: spare.said(), parcel });
                return Next::Order;
            }
            spare.dismiss();
        }
        if parcel.kind.tier != Tier::Namespaces {
            let tier = parcel.kind.tier;
            return self.start_plainly(parcel, tier);
        }
        let (Some(namespaces), Ok((said, says))) =
            (self.namespaces.get().copied().flatten(), std::io::pipe())
        else {
            return self.start_plainly(parcel, Tier::Landlock);
        };
        match system::split(namespaces.flags(parcel.kind.shut_network)) {
            Ok(Side::Child) => {
                Next::Stub(Box::new(Task { parcel, namespaces: Some(namespaces), said: Some(says.into()) }))
            }
            Ok(Side::Parent(stub)) => {
                self.stubs.push(stub);
                self.begun.push(Begun { said: said.into(), parcel });
                Next::Order
            }
            Err(_) => self.start_plainly(parcel, Tier::Landlock),
        }
    }

    fn start_plainly(&mut self, mut parcel: Parcel, tier: Tier) -> Next {
        parcel.kind.tier = tier;
        match system::fork() {
            Ok(Side::Child) => return Next::Stub(Box::new(Task { parcel, namespaces: None, said: None })),
            Ok(Side::Parent(stub)) => self.stubs.push(stub),
            // Without a report the pipe for it hangs up, which the host understands.
            Err(_) => drop(parcel),
        }
        Next::Order
    }

    /// Splits off a stub that waits for an order of that kind.
    fn keep_spare(&mut self, kind: Kind) -> Next {
        let (Some(mounts), Ok((ours, theirs))) = (&self.mounts, spare::ends()) else { return Next::Order };
        // From now on changes count.
        mounts.has_changed();
        let namespaces = self.namespaces.get().copied().flatten().filter(|_| kind.tier == Tier::Namespaces);
        let split = match namespaces {
            Some(namespaces) => system::split(namespaces.flags(kind.shut_network)),
            None => system::fork(),
        };
        match split {
            Ok(Side::Child) => return Next::Spare(Waiting::new(theirs, kind, namespaces)),
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

    fn remember(&mut self, paths: Vec<OsString>) {
        for path in paths {
            let leftover = Leftover::at(PathBuf::from(path));
            self.leftovers.extend(leftover.filter(|leftover| !self.leftovers.contains(leftover)));
        }
        if self.leftovers.len() > REMEMBERED {
            self.leftovers.retain(Leftover::is_there);
        }
    }

    /// The host was killed: once every tree is gone, what it would have removed is removed.
    fn clear_away(&mut self) {
        let began = Instant::now();
        self.begun.clear();
        while !self.stubs.is_empty() && began.elapsed() < FAREWELL {
            let mut waiting = [PollFd::new(&self.ended, PollFlags::IN)];
            poll(&mut waiting, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).ok();
            self.reap();
        }
        self.leftovers.iter().for_each(Leftover::remove);
    }
}
