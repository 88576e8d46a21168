//! The process that becomes the script. It is forked before the request arrives and applies every restriction that does not
//! depend on it; then come the file rules, the limits, and the program.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::readlink;
use rustix::io::retry_on_intr;
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, getpid, kill_process,
    set_dumpable_behavior, set_parent_process_death_signal, setrlimit, setsid, waitpid,
};
use serde::{Deserialize, Serialize};

use crate::SandboxLevel;
use crate::linux::fd_passing::{receive_fd, send_fds};
use crate::linux::ipc::{EncodedRequest, LaunchFds, LaunchMessage, Message, SandboxProfile};
use crate::linux::layers::landlock::PreparedRuleset;
use crate::linux::layers::seccomp::{KernelGaps, SeccompFilter, SeccompOptions};
use crate::linux::layers::{capabilities, landlock, mount_root};
use crate::linux::sys::{ExecProgram, ForkResult};
use crate::linux::{ipc, sys};
use crate::{
    Enforcement, FileRules, HOST_API_FD, LaunchRequest, NetworkAccess, ResourceLimits, Restrictions,
};

/// The messages that the child sends to its supervisor, in this order.
#[derive(Serialize, Deserialize)]
pub(super) enum SetupMessage {
    /// All of these restrictions are in force; the program comes next.
    Ready(Enforcement),
    /// A step failed; nothing ran.
    Failed { step: String, errno: i32 },
}

/// The setup step that failed, and why.
pub(super) type SetupError = (&'static str, io::Error);

/// Whether this process is a copy of the host, with everything in the host's memory.
pub(super) static IS_HOST_COPY: AtomicBool = AtomicBool::new(false);

/// The supervisor's handle of a child.
pub(super) struct ChildHandle {
    pub(super) pid: Pid,
    /// Receives the request.
    socket: OwnedFd,
    /// The child's setup messages. Hangs up when the child executes the program, or ends.
    pub(super) setup_pipe: File,
}

impl ChildHandle {
    /// Forks it. It does everything that needs no request, and what one like the previous one needs, and waits for one.
    pub(super) fn fork(profile: SandboxProfile, previous: Option<&EncodedRequest>) -> io::Result<Self> {
        let (socket, child_socket) = ipc::socket_pair()?;
        let (setup_read, setup_write) = io::pipe()?;
        match sys::fork()? {
            ForkResult::Child => {
                drop((socket, setup_read));
                become_program(profile, previous, child_socket, setup_write.into())
            }
            ForkResult::Parent(pid) => {
                drop((child_socket, setup_write));
                // As long as the child has a file open for writing, the mounts it sees cannot be made read-only.
                if retry_on_intr(|| rustix::io::read(&socket, &mut [0; 1])) != Ok(1) {
                    return Err(io::ErrorKind::BrokenPipe.into());
                }
                Ok(Self { pid, socket, setup_pipe: File::from(OwnedFd::from(setup_read)) })
            }
        }
    }

    /// Tells it that it gets a request, before which it looks at what it has prepared.
    pub(super) fn announce_request(&self) {
        // A child that is gone is noticed when the request is sent.
        rustix::io::write(&self.socket, b"x").ok();
    }

    /// The descriptor from which calls of the script are answered; `None` if the child could not make it.
    pub(super) fn receive_listener(&self) -> Option<OwnedFd> {
        receive_fd(&self.socket)
    }

    /// Sends the request whose program the child executes. If it cannot, the child reports why.
    pub(super) fn launch(&self, message: &LaunchMessage) {
        ipc::send_launch(&self.socket, message).ok();
    }

    pub(super) fn kill_and_reap(self) {
        kill_process(self.pid, Signal::KILL).ok();
        retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty())).ok();
    }
}

/// Receives the request and executes its program, sandboxed. The pipe to the supervisor closes when the program starts.
fn become_program(
    profile: SandboxProfile,
    previous: Option<&EncodedRequest>,
    socket: OwnedFd,
    setup_pipe: OwnedFd,
) -> ! {
    // No descriptor that is still needed may have the number of the host API.
    let (Ok(socket), Ok(setup_pipe)) = (dup_above_api_fd(socket), dup_above_api_fd(setup_pipe)) else {
        sys::exit(127)
    };
    // The supervisor's copies alone say that it lives.
    sys::close_inherited(&mut [socket.as_raw_fd(), setup_pipe.as_raw_fd()]);
    let mut setup_pipe = File::from(setup_pipe);
    // If the supervisor is killed for lack of memory, this process is killed too.
    set_parent_process_death_signal(Some(Signal::KILL)).ok();
    raise_oom_score();
    if rustix::io::write(&socket, b"x").is_err() {
        sys::exit(127)
    }
    let (step, error) = match apply_fixed_restrictions(profile, &socket) {
        Ok(enforcement) => {
            let previous = previous.and_then(|previous| previous.decode().ok());
            // The supervisor does not answer yet, for which the files of a watched run would wait.
            let is_preparable = !profile.seccomp.is_watched;
            let prepared = previous.as_ref().filter(|_| is_preparable).and_then(|previous| {
                PreparedRuleset::new(&previous.sandbox.files.read, profile.seccomp.network)
            });
            // What this touches in memory is there when the next request arrives.
            previous.map(build_program);
            // While the supervisor sets up the mounts, which takes as long.
            retry_on_intr(|| rustix::io::read(&socket, &mut [0; 1])).ok();
            let prepared = prepared.filter(PreparedRuleset::is_current);
            match ipc::receive(&socket) {
                Ok(Message::Launch(message)) => {
                    drop(socket);
                    exec_program(*message, prepared, enforcement, &mut setup_pipe)
                }
                // The supervisor has no request for it.
                _ => sys::exit(0),
            }
        }
        Err(failed) => failed,
    };
    send_setup(&mut setup_pipe, &SetupMessage::Failed { step: step.to_owned(), errno: sys::errno(&error) });
    sys::exit(127)
}

/// Applies the restrictions that do not depend on the request. Returns those that are in force.
fn apply_fixed_restrictions(
    profile: SandboxProfile,
    supervisor: &OwnedFd,
) -> Result<Enforcement, SetupError> {
    let at = |step: &'static str| move |error: rustix::io::Errno| (step, io::Error::from(error));
    setsid().map_err(at("session"))?;
    rustix::thread::set_no_new_privs(true).map_err(at("privileges"))?;
    capabilities::drop_own().map_err(at("capabilities"))?;
    // Their handlers were reset by the fork server for all its children.
    sys::unblock_signals();
    let mut restrictions = Restrictions::empty();
    let has_namespaces = profile.level == SandboxLevel::Namespaces;
    restrictions.set(Restrictions::NAMESPACES, has_namespaces);
    restrictions.set(Restrictions::MOUNT_ROOT, has_namespaces && mount_root::is_needed());
    // The remaining steps need none of the calls it refuses.
    let applied = apply_supported_filter(profile, supervisor);
    match applied {
        Ok(KernelGaps { truncation, signals }) => {
            restrictions.insert(Restrictions::SECCOMP);
            restrictions.set(Restrictions::NETWORK, profile.seccomp.network != NetworkAccess::Open);
            restrictions.set(Restrictions::OWN_NETWORK, profile.seccomp.network == NetworkAccess::Hosts);
            restrictions.set(Restrictions::TRUNCATION, truncation);
            restrictions.set(Restrictions::SIGNALS, signals);
        }
        Err(error) if profile.required => return Err(("system calls", error)),
        Err(_) => {}
    }
    Ok(Enforcement { restrictions, ..Enforcement::default() })
}

/// Applies the first of the filters that is possible here. Returns what it does in the place of the kernel.
fn apply_supported_filter(profile: SandboxProfile, supervisor: &OwnedFd) -> io::Result<KernelGaps> {
    let mut applied = Err(io::ErrorKind::Unsupported.into());
    // The supervisor looks up who made a call in `/proc`.
    for options in filter_candidates(profile).filter(|options| !options.local_sockets || has_own_proc()) {
        applied = apply_filter(options, supervisor);
        if applied.is_ok() {
            if profile.seccomp.has_listener() && !options.has_listener() {
                // The supervisor waits for the descriptor.
                rustix::io::write(supervisor, b"x")?;
            }
            break;
        }
    }
    applied
}

/// The filter of this profile, and what is possible where a sandbox around this one answers calls already: fewer calls that the supervisor
/// answers. What it decides about signals is given up only if that is not required.
fn filter_candidates(profile: SandboxProfile) -> impl Iterator<Item = SeccompOptions> {
    let all = profile.seccomp;
    let without_sockets = SeccompOptions { local_sockets: false, ..all };
    let without_watch = SeccompOptions { is_watched: false, ..without_sockets };
    let gaps = KernelGaps { signals: false, ..all.gaps };
    let without_signals = (!profile.required).then_some(SeccompOptions { gaps, ..without_watch });
    let mut candidates: Vec<_> =
        [all, without_sockets, without_watch].into_iter().chain(without_signals).collect();
    candidates.dedup();
    candidates.into_iter()
}

/// Whether `/proc` lists the processes of this namespace, and not those of the machine.
fn has_own_proc() -> bool {
    let own = getpid().as_raw_nonzero().to_string();
    readlink("/proc/self", Vec::new()).is_ok_and(|shown| shown.as_bytes() == own.as_bytes())
}

/// Applies the filter of system calls, and hands the supervisor what it needs to answer some of them. Returns what it does in the place
/// of the kernel.
fn apply_filter(options: SeccompOptions, supervisor: &OwnedFd) -> io::Result<KernelGaps> {
    let filter = SeccompFilter::cached(options)?;
    if options.has_listener() {
        let listener = filter.apply_with_listener()?;
        send_fds(supervisor, &[listener])?;
    } else {
        filter.apply()?;
    }
    Ok(options.gaps)
}

/// Makes the OOM killer choose this process first. `/proc/self/oom_score_adj` belongs to root while the process is not dumpable.
/// A copy of the host must not become dumpable: its memory may hold secrets. Any other process has at most
/// requests in memory, and a sandboxed script cannot see processes outside of its sandbox.
fn raise_oom_score() {
    let may_be_dumpable = !IS_HOST_COPY.load(Ordering::Relaxed);
    if may_be_dumpable {
        set_dumpable_behavior(DumpableBehavior::Dumpable).ok();
    }
    std::fs::write("/proc/self/oom_score_adj", "500").ok();
    if may_be_dumpable {
        set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
    }
}

/// Executes the program. Returns only if that fails, with the reason.
fn exec_program(
    message: LaunchMessage,
    prepared: Option<PreparedRuleset>,
    enforcement: Enforcement,
    setup_pipe: &mut File,
) -> SetupError {
    let LaunchMessage { profile, request, fds, nproc_rlimit, .. } = message;
    let mut request = match request.decode() {
        Ok(request) => request,
        Err(error) => return ("request", error),
    };
    if enforcement.has(Restrictions::NAMESPACES) {
        request.name_private_folders();
    }
    let limits = request.sandbox.limits;
    let restrict = |files: &FileRules| landlock::restrict_from(prepared, files, profile.seccomp.network);
    let (enforcement, program) = match prepare_program(request, fds, enforcement, restrict) {
        Ok(prepared) => prepared,
        Err(failed) => return failed,
    };
    // Limits come last, so that a low one cannot make a restriction fail.
    if let Err(error) = apply_rlimits(limits, nproc_rlimit) {
        return ("limits", error.into());
    }
    send_setup(setup_pipe, &SetupMessage::Ready(enforcement));
    ("program", program.exec())
}

fn send_setup(setup_pipe: &mut File, message: &SetupMessage) {
    if let Ok(bytes) = ipc::encode(message) {
        // A supervisor that is gone has taken this process with it.
        setup_pipe.write_all(&bytes).ok();
    }
}

/// The same descriptor with a number above that of the host API.
#[allow(clippy::needless_pass_by_value, reason = "the other number is given up")]
fn dup_above_api_fd(descriptor: OwnedFd) -> io::Result<OwnedFd> {
    Ok(rustix::io::fcntl_dupfd_cloexec(descriptor.as_fd(), HOST_API_FD + 1)?)
}

/// Everything but the limits: the working directory, the file rules, the program and its descriptors.
fn prepare_program(
    request: LaunchRequest,
    fds: LaunchFds,
    mut enforcement: Enforcement,
    restrict: impl FnOnce(&FileRules) -> io::Result<u8>,
) -> Result<(Enforcement, ExecProgram), SetupError> {
    let at = |step: &'static str| move |error: rustix::io::Errno| (step, io::Error::from(error));
    rustix::process::chdir(request.folder.as_os_str()).map_err(at("folder"))?;
    let sandbox = &request.sandbox;
    match restrict(&sandbox.files) {
        Ok(abi) => enforcement.landlock_abi = abi,
        Err(error) if sandbox.required => return Err(("files", error)),
        Err(_) => {}
    }
    if let Some(restriction) = enforcement.missing(sandbox).next().filter(|_| sandbox.required) {
        return Err((restriction, io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
    }
    let program = build_program(request).map_err(|error| ("program", error))?;
    install_fds(fds).map_err(|error| ("descriptors", error))?;
    Ok((enforcement, program))
}

fn build_program(request: LaunchRequest) -> io::Result<ExecProgram> {
    let c_string = |string: OsString| CString::new(string.into_vec()).map_err(io::Error::from);
    let pair = |(mut name, value): (OsString, OsString)| {
        name.push("=");
        name.push(value);
        c_string(name)
    };
    let path = c_string(request.program)?;
    let arguments = std::iter::once(Ok(path.clone())).chain(request.args.into_iter().map(c_string));
    let environment = request.environment.into_iter().map(pair);
    Ok(ExecProgram::new(path, arguments.collect::<io::Result<_>>()?, environment.collect::<io::Result<_>>()?))
}

/// With a limit of 1 byte the kernel writes no core dump at all; with 0 a program that collects them would still get one.
const MAX_CORE_BYTES: u64 = 1;

/// Leaves the program its standard streams and, at its fixed number, its end of the host API.
fn install_fds(fds: LaunchFds) -> io::Result<()> {
    let LaunchFds { stdin, stdout, stderr, api, control, report, egress, overlay, observations } = fds;
    // Closed first, because their numbers may be the ones to assign.
    drop((control, report, egress, overlay, observations));
    let streams = [stdin, stdout, stderr].map(dup_above_api_fd);
    let api = api.map(dup_above_api_fd).transpose()?;
    for (number, stream) in (0..).zip(streams) {
        sys::dup_to(&stream?, number)?;
    }
    let Some(api) = api else { return sys::set_cloexec_from(HOST_API_FD) };
    sys::dup_to(&api, HOST_API_FD)?;
    sys::set_cloexec_from(HOST_API_FD + 1)
}

/// Pending signals, and POSIX timers, each of which reserves one.
const MAX_PENDING_SIGNALS: u64 = 1024;

/// Bytes locked in memory.
const MAX_LOCKED_BYTES: u64 = 1 << 20;

fn apply_rlimits(limits: ResourceLimits, nproc: Option<u64>) -> rustix::io::Result<()> {
    let all = [
        (Resource::Core, Some(MAX_CORE_BYTES)),
        (Resource::Data, limits.memory),
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Fsize, limits.file_size),
        (Resource::Nofile, limits.open_files),
        // The user has one budget of these for all processes. Most of it is left to the others.
        (Resource::Sigpending, Some(MAX_PENDING_SIGNALS)),
        (Resource::Memlock, Some(MAX_LOCKED_BYTES)),
        (Resource::Msgqueue, Some(0)),
        // A script cannot raise its priority above that of others.
        (Resource::Nice, Some(0)),
        (Resource::Rtprio, Some(0)),
        // Counted for each user of each namespace; outside of one, all processes of the user would count.
        (Resource::Nproc, nproc),
    ];
    for (resource, max) in all {
        let Some(max) = max else { continue };
        // The hard limit is a second higher, so that a process that is out of time is ended by the signal that says so (SIGXCPU).
        let hard = if resource == Resource::Cpu { max.saturating_add(1) } else { max };
        let hard = rustix::process::getrlimit(resource).maximum.map_or(hard, |maximum| maximum.min(hard));
        setrlimit(resource, Rlimit { current: Some(hard.min(max)), maximum: Some(hard) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a sandbox around this one does, there is a filter.
    #[test]
    fn the_last_filter_that_is_tried_needs_nothing_that_is_not_required() {
        for (local_sockets, is_watched) in [(false, false), (false, true), (true, false), (true, true)] {
            for (signals, required) in [(false, false), (false, true), (true, false), (true, true)] {
                let gaps = KernelGaps { truncation: true, signals };
                let network = NetworkAccess::Blocked;
                let seccomp = SeccompOptions { network, allow_flock: false, local_sockets, is_watched, gaps };
                let profile = SandboxProfile { level: SandboxLevel::Landlock, seccomp, required };
                let candidates: Vec<_> = filter_candidates(profile).collect();
                assert_eq!(candidates.first(), Some(&seccomp));
                let last = candidates.last().unwrap();
                assert!(!last.local_sockets && !last.is_watched && last.gaps.truncation, "{last:?}");
                assert_eq!(last.gaps.signals, signals && required);
            }
        }
    }
}
