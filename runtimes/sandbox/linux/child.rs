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

use crate::policy::SandboxLevel;
use crate::runtimes::sandbox::linux::fork_server::ipc;
use crate::runtimes::sandbox::linux::fork_server::ipc::{
    EncodedRequest, LaunchFds, LaunchMessage, Message, SandboxProfile,
};
use crate::runtimes::sandbox::linux::layers::capabilities;
use crate::runtimes::sandbox::linux::layers::landlock;
use crate::runtimes::sandbox::linux::layers::landlock::PreparedRuleset;
use crate::runtimes::sandbox::linux::layers::seccomp::SeccompFilter;
use crate::runtimes::sandbox::linux::sys;
use crate::runtimes::sandbox::linux::sys::{ExecProgram, ForkResult};
use crate::runtimes::sandbox::{Enforcement, HOST_API_FD, LaunchRequest, ResourceLimits};

/// What the leader tells the stub, one after the other.
#[derive(Serialize, Deserialize)]
pub(super) enum SetupMessage {
    /// All of this is on; the program comes next.
    Ready(Enforcement),
    /// A step failed; nothing ran.
    Failed { step: String, errno: i32 },
}

/// The step that could not be done, and why.
pub(super) type SetupError = (&'static str, io::Error);

/// Whether this process is a copy of the host, with all that the host has in its memory.
pub(super) static IS_HOST_COPY: AtomicBool = AtomicBool::new(false);

/// A leader as its stub knows it.
pub(super) struct ChildHandle {
    pub(super) pid: Pid,
    /// Takes its order.
    socket: OwnedFd,
    /// What it says of itself. Hangs up when it becomes the program, or ends.
    pub(super) setup_pipe: File,
}

impl ChildHandle {
    /// Splits it off. It does all that can be done without an order, and waits for one: one like this, if it was told any.
    pub(super) fn fork(kind: SandboxProfile, like: Option<&EncodedRequest>) -> io::Result<Self> {
        let (socket, theirs) = ipc::socket_pair()?;
        let (setup, says) = io::pipe()?;
        match sys::fork()? {
            ForkResult::Child => {
                drop((socket, setup));
                become_program(kind, like, theirs, says.into())
            }
            ForkResult::Parent(pid) => {
                drop((theirs, says));
                // As long as it has a file open to write, the mounts it sees cannot be made read-only.
                if retry_on_intr(|| rustix::io::read(&socket, &mut [0; 1])) != Ok(1) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Ok(Self { pid, socket, setup_pipe: File::from(OwnedFd::from(setup)) })
            }
        }
    }

    /// Has it become the program of an order. Why it does not, it says itself.
    pub(super) fn launch(&self, parcel: &LaunchMessage) {
        ipc::send_launch(&self.socket, parcel).ok();
    }

    /// Ends it.
    pub(super) fn kill_and_reap(self) {
        kill_process(self.pid, Signal::KILL).ok();
        retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty())).ok();
    }
}

/// Becomes the program of the order that comes, sandboxed. The pipe to the stub closes when the program starts.
fn become_program(kind: SandboxProfile, like: Option<&EncodedRequest>, socket: OwnedFd, stub: OwnedFd) -> ! {
    // Whatever has the number of the API, nothing that is still needed may have it.
    let (Ok(socket), Ok(stub)) = (dup_above_api_fd(socket), dup_above_api_fd(stub)) else { sys::exit(127) };
    let mut stub = File::from(stub);
    // Should the stub be killed for want of memory, this process goes with it.
    set_parent_process_death_signal(Some(Signal::KILL)).ok();
    raise_oom_score();
    if rustix::io::write(&socket, b"x").is_err() {
        sys::exit(127)
    }
    let (step, error) = match apply_fixed_restrictions(kind) {
        Ok(held) => {
            let ahead = like.and_then(warm_up);
            match ipc::receive(&socket) {
                Ok(Message::Launch(parcel)) => {
                    drop(socket);
                    exec_program(*parcel, held, ahead, &mut stub)
                }
                // The stub has nothing for it.
                _ => sys::exit(0),
            }
        }
        Err(failed) => failed,
    };
    send_setup(&mut stub, &SetupMessage::Failed { step: step.to_owned(), errno: errno(&error) });
    sys::exit(127)
}

/// What no order changes. The answer is what holds.
fn apply_fixed_restrictions(kind: SandboxProfile) -> Result<Enforcement, SetupError> {
    let at = |step: &'static str| move |error: rustix::io::Errno| (step, io::Error::from(error));
    setsid().map_err(at("session"))?;
    rustix::thread::set_no_new_privs(true).map_err(at("privileges"))?;
    capabilities::drop_own().map_err(at("capabilities"))?;
    // What they mean, the helper has reset for all.
    sys::unblock_signals();
    let mut held =
        Enforcement { namespaces: kind.level == SandboxLevel::Namespaces, ..Enforcement::default() };
    if kind.filter_syscalls {
        // Nothing that is left to do is among the calls it refuses.
        match SeccompFilter::cached(kind.seccomp).and_then(SeccompFilter::apply) {
            Ok(()) => (held.seccomp, held.network_blocked) = (true, kind.seccomp.block_network),
            Err(error) if kind.required => return Err(("system calls", error)),
            Err(_) => {}
        }
    }
    Ok(held)
}

/// The file that says so belongs to root as long as nobody may look into this process. In a copy of the host there may be
/// something to see; anywhere else there is the order before at most, and who is in a sandbox cannot look out of it.
fn raise_oom_score() {
    let may_be_seen = !IS_HOST_COPY.load(Ordering::Relaxed);
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
fn warm_up(like: &EncodedRequest) -> Option<PreparedRuleset> {
    let order = like.decode().ok()?;
    let ahead = order
        .sandbox
        .files
        .as_ref()
        .and_then(|rules| PreparedRuleset::build(rules, order.sandbox.block_network).ok());
    drop(build_program(order));
    ahead
}

/// Becomes the program. The answer is why not.
fn exec_program(
    parcel: LaunchMessage,
    held: Enforcement,
    ahead: Option<PreparedRuleset>,
    stub: &mut File,
) -> SetupError {
    let LaunchMessage { request: text, fds: ends, nproc_rlimit: process_limit, .. } = parcel;
    let prepared = text.decode().map_err(|error| ("order", error)).and_then(|order| {
        let ceilings = order.sandbox.limits;
        Ok((ceilings, prepare_program(order, ends, held, ahead)?))
    });
    let (ceilings, (held, program)) = match prepared {
        Ok(prepared) => prepared,
        Err(failed) => return failed,
    };
    // How little a script is given is no reason for a wall to be missing, so that limits come last.
    if let Err(error) = apply_rlimits(ceilings, process_limit) {
        return ("limits", error.into());
    }
    send_setup(stub, &SetupMessage::Ready(held));
    ("program", program.exec())
}

/// The number the system gave, however deep it lies.
pub(super) fn errno(error: &io::Error) -> i32 {
    let first = error.get_ref().map(|inner| -> &(dyn std::error::Error + 'static) { inner });
    let mut causes = std::iter::successors(first, |cause| cause.source());
    let deeper = || causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    error.raw_os_error().or_else(deeper).unwrap_or(0)
}

fn send_setup(stub: &mut File, what: &SetupMessage) {
    if let Ok(text) = ipc::encode(what) {
        // A stub that is gone has taken this process with it.
        stub.write_all(&text).ok();
    }
}

/// The same descriptor by a number above that of the API.
#[allow(clippy::needless_pass_by_value, reason = "the other number is given up")]
fn dup_above_api_fd(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor.as_fd(), HOST_API_FD + 1)?)
}

/// All but the limits: the folder, the rules for files, what the program is and what it is left.
fn prepare_program(
    order: LaunchRequest,
    ends: LaunchFds,
    mut held: Enforcement,
    ahead: Option<PreparedRuleset>,
) -> Result<(Enforcement, ExecProgram), SetupError> {
    let at = |step: &'static str| move |error: rustix::io::Errno| (step, io::Error::from(error));
    rustix::process::chdir(order.folder.as_os_str()).map_err(at("folder"))?;
    let sandbox = &order.sandbox;
    if let Some(rules) = &sandbox.files {
        match landlock::confine(rules, sandbox.block_network, ahead) {
            Ok(confined) => (held.landlock_abi, held.scope) = (confined.landlock_abi, confined.scope),
            Err(error) if sandbox.required => return Err(("files", error)),
            Err(_) => {}
        }
    }
    if let Some(wall) = held.missing(sandbox).next().filter(|_| sandbox.required) {
        return Err((wall, io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
    }
    let program = build_program(order).map_err(|error| ("program", error))?;
    install_fds(ends).map_err(|error| ("descriptors", error))?;
    Ok((held, program))
}

fn build_program(order: LaunchRequest) -> io::Result<ExecProgram> {
    let text = |text: OsString| CString::new(text.into_vec()).map_err(io::Error::from);
    let pair = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        text(name)
    };
    let path = text(order.program)?;
    let arguments = std::iter::once(Ok(path.clone())).chain(order.args.into_iter().map(text));
    let environment = order.environment.into_iter().map(pair);
    Ok(ExecProgram::new(path, arguments.collect::<io::Result<_>>()?, environment.collect::<io::Result<_>>()?))
}

/// To the kernel, one byte means no picture of the memory at all, not even to a program that collects them, which 0 allows.
const MAX_CORE_BYTES: u64 = 1;

/// Leaves the program its standard streams and, by its number, the end of the API.
fn install_fds(ends: LaunchFds) -> io::Result<()> {
    let LaunchFds { stdin, stdout, stderr, api, control, report } = ends;
    // Whatever their numbers are, they are free before others are given some.
    drop((control, report));
    let streams = [stdin, stdout, stderr].map(dup_above_api_fd);
    let api = api.map(dup_above_api_fd).transpose()?;
    for (number, stream) in (0..).zip(streams) {
        sys::dup_to(&stream?, number)?;
    }
    let Some(api) = api else { return sys::set_cloexec_from(HOST_API_FD) };
    sys::dup_to(&api, HOST_API_FD)?;
    sys::set_cloexec_from(HOST_API_FD + 1)
}

/// Signals that wait to be heard, and timers of POSIX's, each of which keeps one.
const MAX_PENDING_SIGNALS: u64 = 1024;

/// Bytes that the kernel keeps where they are.
const MAX_LOCKED_BYTES: u64 = 1 << 20;

fn apply_rlimits(ceilings: ResourceLimits, processes: Option<u64>) -> rustix::io::Result<()> {
    let all = [
        (Resource::Core, Some(MAX_CORE_BYTES)),
        (Resource::Data, ceilings.memory),
        (Resource::Cpu, ceilings.cpu_seconds),
        (Resource::Fsize, ceilings.file_size),
        (Resource::Nofile, ceilings.open_files),
        // What the user has of these is one number for all that runs for the user. Most of it is left to the others.
        (Resource::Sigpending, Some(MAX_PENDING_SIGNALS)),
        (Resource::Memlock, Some(MAX_LOCKED_BYTES)),
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
