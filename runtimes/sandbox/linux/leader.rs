//! The process that becomes the script. It is split off before it has its order, with every wall up that no order changes;
//! then come the rules for files, the limits, and the program.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::retry_on_intr;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, kill_process, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, setsid, waitpid,
};
use serde::{Deserialize, Serialize};

use super::super::sandbox::{API, Ceilings, Enforced, Order};
use super::calls::Filter;
use super::capabilities;
use super::files::{self, Ahead};
use super::system::{self, Program, Side};
use super::wire::{self, Ends, Kind, Parcel, Text, Word};
use crate::policy::Tier;

/// What the leader tells the stub, one after the other.
#[derive(Serialize, Deserialize)]
pub(super) enum Setup {
    /// All of this is on; the program comes next.
    Ready(Enforced),
    /// A step failed; nothing ran.
    Failed { step: String, errno: i32 },
}

/// The step that could not be done, and why.
pub(super) type Failed = (&'static str, io::Error);

/// Whether this process is a copy of the host, with all that the host has in its memory.
pub(super) static IS_COPY: AtomicBool = AtomicBool::new(false);

/// A leader as its stub knows it.
pub(super) struct Leader {
    pub(super) pid: Pid,
    /// Takes its order.
    socket: OwnedFd,
    /// What it says of itself. Hangs up when it becomes the program, or ends.
    pub(super) setup: File,
}

impl Leader {
    /// Splits it off. It does all that can be done without an order, and waits for one: one like this, if it was told any.
    pub(super) fn split_off(kind: Kind, like: Option<&Text>) -> io::Result<Self> {
        let (socket, theirs) = wire::pair()?;
        let (setup, says) = io::pipe()?;
        match system::fork()? {
            Side::Child => {
                drop((socket, setup));
                become_program(kind, like, theirs, says.into())
            }
            Side::Parent(pid) => {
                drop((theirs, says));
                // As long as it has a file open to write, the mounts it sees cannot be made read-only.
                if retry_on_intr(|| rustix::io::read(&socket, &mut [0; 1])) != Ok(1) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Ok(Self { pid, socket, setup: File::from(OwnedFd::from(setup)) })
            }
        }
    }

    /// Has it become the program of an order. Why it does not, it says itself.
    pub(super) fn take_on(&self, parcel: &Parcel) {
        wire::send(&self.socket, parcel).ok();
    }

    /// Ends it.
    pub(super) fn dismiss(self) {
        kill_process(self.pid, Signal::KILL).ok();
        retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty())).ok();
    }
}

/// Becomes the program of the order that comes, caged. The pipe to the stub closes when the program starts.
fn become_program(kind: Kind, like: Option<&Text>, socket: OwnedFd, stub: OwnedFd) -> ! {
    // Whatever has the number of the API, nothing that is still needed may have it.
    let (Ok(socket), Ok(stub)) = (elsewhere(socket), elsewhere(stub)) else { system::exit(127) };
    let mut stub = File::from(stub);
    // Should the stub be killed for want of memory, this process goes with it.
    set_parent_process_death_signal(Some(Signal::KILL)).ok();
    go_first_when_memory_is_short();
    if rustix::io::write(&socket, b"x").is_err() {
        system::exit(127)
    }
    let (step, error) = match shut_in(kind) {
        Ok(held) => {
            let ahead = like.and_then(rehearsed);
            match wire::receive(&socket) {
                Ok(Word::Run(parcel)) => {
                    drop(socket);
                    ran(*parcel, held, ahead, &mut stub)
                }
                // The stub has nothing for it.
                _ => system::exit(0),
            }
        }
        Err(failed) => failed,
    };
    say(&mut stub, &Setup::Failed { step: step.to_owned(), errno: errno(&error) });
    system::exit(127)
}

/// What no order changes. The answer is what holds.
fn shut_in(kind: Kind) -> Result<Enforced, Failed> {
    let at = |step: &'static str| move |error: rustix::io::Errno| (step, io::Error::from(error));
    setsid().map_err(at("session"))?;
    rustix::thread::set_no_new_privs(true).map_err(at("privileges"))?;
    capabilities::drop_all().map_err(at("capabilities"))?;
    // What they mean, the helper has reset for all.
    system::unblock_signals();
    let mut held = Enforced { namespaces: kind.tier == Tier::Namespaces, ..Enforced::default() };
    if kind.guard_calls {
        // Nothing that is left to do is among the calls it refuses.
        match Filter::of(kind.calls).and_then(Filter::put_on) {
            Ok(()) => (held.calls, held.shut_network) = (true, kind.calls.shut_network),
            Err(error) if kind.required => return Err(("system calls", error)),
            Err(_) => {}
        }
    }
    Ok(held)
}

/// The file that says so belongs to root as long as nobody may look into this process. In a copy of the host there may be
/// something to see; anywhere else there is the order before at most, and who is in a cage cannot look out of it.
fn go_first_when_memory_is_short() {
    let may_be_seen = !IS_COPY.load(Ordering::Relaxed);
    if may_be_seen {
        set_dumpable_behavior(DumpableBehavior::Dumpable).ok();
    }
    std::fs::write("/proc/self/oom_score_adj", "500").ok();
    if may_be_seen {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    }
}

/// Makes ready for an order like this one: what that reads of the system can be read by then, and what takes memory has been
/// done once, so that the kernel need not bring it in page by page when somebody waits.
fn rehearsed(like: &Text) -> Option<Ahead> {
    let order = like.order().ok()?;
    let ahead = order.cage.files.as_ref().and_then(|rules| Ahead::of(rules, order.cage.shut_network).ok());
    drop(program(order));
    ahead
}

/// Becomes the program. The answer is why not.
fn ran(parcel: Parcel, held: Enforced, ahead: Option<Ahead>, stub: &mut File) -> Failed {
    let Parcel { text, ends, process_limit, .. } = parcel;
    let prepared = text.order().map_err(|error| ("order", error)).and_then(|order| {
        let ceilings = order.cage.ceilings;
        Ok((ceilings, prepared(order, ends, held, ahead)?))
    });
    let (ceilings, (held, program)) = match prepared {
        Ok(prepared) => prepared,
        Err(failed) => return failed,
    };
    // How little a script is given is no reason for a wall to be missing, so that limits come last.
    if let Err(error) = limit(ceilings, process_limit) {
        return ("limits", error.into());
    }
    say(stub, &Setup::Ready(held));
    ("program", program.execute())
}

/// The number the system gave, however deep it lies.
pub(super) fn errno(error: &io::Error) -> i32 {
    let first = error.get_ref().map(|inner| -> &(dyn std::error::Error + 'static) { inner });
    let mut causes = std::iter::successors(first, |cause| cause.source());
    let deeper = || causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    error.raw_os_error().or_else(deeper).unwrap_or(0)
}

fn say(stub: &mut File, what: &Setup) {
    if let Ok(text) = wire::packed(what) {
        // A stub that is gone has taken this process with it.
        stub.write_all(&text).ok();
    }
}

/// The same descriptor by a number above that of the API.
#[allow(clippy::needless_pass_by_value, reason = "the other number is given up")]
fn elsewhere(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor.as_fd(), API + 1)?)
}

/// All but the limits: the folder, the rules for files, what the program is and what it is left.
fn prepared(
    order: Order,
    ends: Ends,
    mut held: Enforced,
    ahead: Option<Ahead>,
) -> Result<(Enforced, Program), Failed> {
    let at = |step: &'static str| move |error: rustix::io::Errno| (step, io::Error::from(error));
    rustix::process::chdir(order.folder.as_os_str()).map_err(at("folder"))?;
    let cage = &order.cage;
    if let Some(rules) = &cage.files {
        match files::confine(rules, cage.shut_network, ahead) {
            Ok(confined) => (held.files_abi, held.scope) = (confined.files_abi, confined.scope),
            Err(error) if cage.required => return Err(("files", error)),
            Err(_) => {}
        }
    }
    if let Some(wall) = held.missing(cage).next().filter(|_| cage.required) {
        return Err((wall, io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
    }
    let program = program(order).map_err(|error| ("program", error))?;
    hand_on(ends).map_err(|error| ("descriptors", error))?;
    Ok((held, program))
}

fn program(order: Order) -> io::Result<Program> {
    let text = |text: OsString| CString::new(text.into_vec()).map_err(io::Error::from);
    let pair = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        text(name)
    };
    let path = text(order.program)?;
    let arguments = std::iter::once(Ok(path.clone())).chain(order.args.into_iter().map(text));
    let environment = order.environment.into_iter().map(pair);
    Ok(Program::new(path, arguments.collect::<io::Result<_>>()?, environment.collect::<io::Result<_>>()?))
}

/// To the kernel, one byte means no picture of the memory at all, not even to a program that collects them, which 0 allows.
const NO_CORE: u64 = 1;

/// Leaves the program its standard streams and, by its number, the end of the API.
fn hand_on(ends: Ends) -> io::Result<()> {
    let Ends { stdin, stdout, stderr, api, control, report } = ends;
    // Whatever their numbers are, they are free before others are given some.
    drop((control, report));
    let streams = [stdin, stdout, stderr].map(elsewhere);
    let api = api.map(elsewhere).transpose()?;
    for (number, stream) in (0..).zip(streams) {
        system::place(&stream?, number)?;
    }
    let Some(api) = api else { return system::close_from(API) };
    system::place(&api, API)?;
    system::close_from(API + 1)
}

/// Signals that wait to be heard, and timers of POSIX's, each of which keeps one.
const SIGNALS: u64 = 1024;

/// Bytes that the kernel keeps where they are.
const LOCKED: u64 = 1 << 20;

fn limit(ceilings: Ceilings, processes: Option<u64>) -> rustix::io::Result<()> {
    let all = [
        (Resource::Core, Some(NO_CORE)),
        (Resource::Data, ceilings.memory),
        (Resource::Cpu, ceilings.cpu_seconds),
        (Resource::Fsize, ceilings.file_size),
        (Resource::Nofile, ceilings.open_files),
        // What the user has of these is one number for all that runs for the user. Most of it is left to the others.
        (Resource::Sigpending, Some(SIGNALS)),
        (Resource::Memlock, Some(LOCKED)),
        (Resource::Msgqueue, Some(0)),
        // Nobody waits for a script that goes before all others.
        (Resource::Nice, Some(0)),
        (Resource::Rtprio, Some(0)),
        // Counted for each user of each namespace; outside of one, all that runs for the user would count.
        (Resource::Nproc, processes),
    ];
    for (resource, most) in all {
        let Some(most) = most else { continue };
        // A second more than it is told of, so that a process that is out of time is ended by the signal that says so.
        let last = if resource == Resource::Cpu { most.saturating_add(1) } else { most };
        let highest = rustix::process::getrlimit(resource).maximum.map_or(last, |maximum| maximum.min(last));
        setrlimit(resource, Rlimit { current: Some(highest.min(most)), maximum: Some(highest) })?;
    }
    Ok(())
}
