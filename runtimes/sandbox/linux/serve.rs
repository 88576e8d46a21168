//! The helper: a small process with one thread that splits off a stub for every order, and ends with its host.
//!
//! A process that is split must copy the tables of its memory; here there is next to none, however much the host has. What a
//! stub leaves behind that was killed itself is handed to the helper, which kills it.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::io::{PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{DumpableBehavior, Pid, set_child_subreaper, set_dumpable_behavior, setsid};

use super::super::sandbox::{Leftover, Order};
use super::children;
use super::namespaces::Namespaces;
use super::stub::{self, Place};
use super::system::{self, Side};
use super::wire::{self, Ends, Word};
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
                system::exit(task.done());
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
}

/// What a stub is split off for.
struct Task {
    order: Order,
    ends: Ends,
    place: At,
}

enum At {
    Plain(Tier),
    /// In namespaces that it has to furnish, and to say so.
    Within(Namespaces, PipeWriter),
}

impl Task {
    fn done(self: Box<Self>) -> i32 {
        let Self { order, ends, place } = *self;
        let place = match place {
            At::Plain(tier) => Place::Plain(tier),
            At::Within(namespaces, mut said) => {
                let made =
                    order.cage.files.as_ref().map(|files| namespaces.settle(files, order.cage.ceilings));
                let Some(Ok(made)) = made else { return 1 };
                said.write_all(b"x").ok();
                Place::First(made)
            }
        };
        stub::watch(&order, ends, &place)
    }
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
    stubs: Vec<Pid>,
    /// Orders whose namespaces are being furnished. Should that fail, they go on without.
    furnished: Vec<Furnished>,
    leftovers: VecDeque<Leftover>,
}

struct Furnished {
    /// Says that it is done.
    done: OwnedFd,
    order: Order,
    ends: Ends,
}

impl Helper {
    fn new(socket: OwnedFd, ended: OwnedFd) -> Self {
        let (stubs, furnished, leftovers) = (Vec::new(), Vec::new(), VecDeque::new());
        Self { socket, ended, namespaces: OnceCell::new(), stubs, furnished, leftovers }
    }

    /// Waits for whatever comes next, and does it.
    fn next(&mut self) -> Next {
        let mut waiting =
            vec![PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        waiting.extend(self.furnished.iter().map(|one| PollFd::new(&one.done, PollFlags::IN)));
        if poll(&mut waiting, None).is_err() {
            return Next::Order;
        }
        let ready: Vec<bool> = waiting.iter().map(|end| !end.revents().is_empty()).collect();
        drop(waiting);
        if ready[1] {
            self.reap();
        }
        if let Some(number) = ready[2..].iter().position(|ready| *ready) {
            let Furnished { done, order, ends } = self.furnished.swap_remove(number);
            let is_done = rustix::io::read(&done, &mut [0; 1]) == Ok(1);
            return if is_done { Next::Order } else { self.start_plainly(order, ends, Tier::Landlock) };
        }
        if ready[0] { self.host_said() } else { Next::Order }
    }

    fn host_said(&mut self) -> Next {
        match wire::receive(&self.socket) {
            Ok(Word::Run(run, ends)) => {
                let (order, tier) = *run;
                self.remember(&order);
                // From here on the order is this process's matter, and must not be given to another one.
                if rustix::io::write(&self.socket, b"taken").is_ok() {
                    return self.start(order, ends, tier);
                }
            }
            Ok(Word::Farewell) => return Next::Nothing,
            // A host of another version, which has started nothing here.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return Next::Nothing,
            Ok(Word::Gone) | Err(_) => {}
        }
        self.clear_away();
        Next::Nothing
    }

    fn start(&mut self, order: Order, ends: Ends, tier: Tier) -> Next {
        if tier != Tier::Namespaces || order.cage.files.is_none() {
            return self.start_plainly(order, ends, tier);
        }
        let namespaces = *self.namespaces.get_or_init(Namespaces::there_are);
        let (Some(namespaces), Ok((done, said))) = (namespaces, std::io::pipe()) else {
            return self.start_plainly(order, ends, Tier::Landlock);
        };
        match system::split(namespaces.of(&order.cage)) {
            Ok(Side::Child) => {
                Next::Stub(Box::new(Task { order, ends, place: At::Within(namespaces, said) }))
            }
            Ok(Side::Parent(stub)) => {
                self.stubs.push(stub);
                self.furnished.push(Furnished { done: done.into(), order, ends });
                Next::Order
            }
            Err(_) => self.start_plainly(order, ends, Tier::Landlock),
        }
    }

    fn start_plainly(&mut self, order: Order, ends: Ends, tier: Tier) -> Next {
        match system::fork() {
            Ok(Side::Child) => return Next::Stub(Box::new(Task { order, ends, place: At::Plain(tier) })),
            Ok(Side::Parent(stub)) => self.stubs.push(stub),
            // Without a report the pipe for it hangs up, which the host understands.
            Err(_) => drop(ends),
        }
        Next::Order
    }

    /// Reaps stubs that have ended, and kills what was handed over by those that could not end well.
    fn reap(&mut self) {
        rustix::io::read(&self.ended, &mut [0; 128]).ok();
        let mut is_well = true;
        while let Ok(Some((pid, status))) = system::reap() {
            let stub = self.stubs.iter().position(|stub| stub.as_raw_pid() == pid);
            is_well &= status == 0 && stub.is_some();
            if let Some(number) = stub {
                self.stubs.swap_remove(number);
            }
        }
        if !is_well {
            children::kill_all_but(&self.stubs);
        }
    }

    fn remember(&mut self, order: &Order) {
        for path in &order.leftovers {
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
        self.furnished.clear();
        while !self.stubs.is_empty() && began.elapsed() < FAREWELL {
            let mut waiting = [PollFd::new(&self.ended, PollFlags::IN)];
            poll(&mut waiting, Some(&Timespec { tv_sec: 1, tv_nsec: 0 })).ok();
            self.reap();
        }
        self.leftovers.iter().for_each(Leftover::remove);
    }
}
