//! System calls that no safe crate offers. The only file of the sandbox where `unsafe` is allowed.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Once;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mount::MountAttrFlags;
use rustix::process::Pid;
use seccompiler::sock_filter;

/// Which side of a fork this is.
pub(super) enum ForkResult {
    Child,
    Parent(Pid),
}

/// Forks this process.
///
/// For the fork server and its supervisors, which have one thread: their children may do whatever a program may do. A host
/// without a program for the fork server, or that wants it sooner, forks once to have one; the copy takes no lock but the allocator's,
/// which the C library repairs after a fork.
pub(super) fn fork() -> io::Result<ForkResult> {
    // SAFETY: no lock that the child takes is held by a thread it lacks: the caller has one thread, or keeps to the above.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkResult::Child),
        pid => Pid::from_raw(pid).map(ForkResult::Parent).ok_or_else(|| io::ErrorKind::Other.into()),
    }
}

/// Forks this process, with new namespaces for the child: `CLONE_NEW…` flags.
///
/// For the fork server: the C library does not notice this fork, and the child must have one thread and fork by [`fork`]. In another
/// process the child may only make system calls, because another thread may have held any lock.
pub(super) fn clone_with_namespaces(namespaces: libc::c_int) -> io::Result<ForkResult> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    // SAFETY: as for `fork`; without a stack of its own the child goes on with a copy of this one.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkResult::Child),
        pid => {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
            pid.map(ForkResult::Parent).ok_or_else(|| io::ErrorKind::Other.into())
        }
    }
}

/// The Landlock ABI of the kernel.
pub(super) fn landlock_abi() -> io::Result<u8> {
    const VERSION_FLAG: u32 = 1;
    // SAFETY: without a record the call only answers a question.
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION_FLAG)
    };
    u8::try_from(abi).map_err(|_| io::Error::last_os_error())
}

/// Moves this process into a new, empty network namespace.
pub(super) fn unshare_network() -> io::Result<()> {
    unshare(libc::CLONE_NEWNET)
}

/// Moves this process into a mount namespace of its own, a copy of the one that it was in.
pub(super) fn unshare_mounts() -> io::Result<()> {
    unshare(libc::CLONE_NEWNS)
}

/// The same, and into a user namespace of its own, in which it has all capabilities. It must have one thread.
pub(super) fn unshare_users_and_mounts() -> io::Result<()> {
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS)
}

fn unshare(namespace: libc::c_int) -> io::Result<()> {
    // SAFETY: passes an integer; no memory and no descriptor is shared less than before.
    if unsafe { libc::unshare(namespace) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The kernel's record of a change to mounts.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns: u64,
}

/// What to change about the mounts below a path.
#[derive(Clone, Copy)]
pub(super) enum MountChange {
    /// Mount events propagate to no other namespace.
    Private,
    /// The same, but events of the mounts they are copies of propagate here.
    ReceiveOnly,
    /// Read-only.
    ReadOnly,
    /// Read-only, and devices cannot be opened.
    ReadOnlyNoDevices,
}

/// Changes the mount at this path, an open one if the path is empty, and all mounts below it.
pub(super) fn mount_setattr(at: &impl AsFd, path: &CStr, to: MountChange) -> io::Result<()> {
    let (set, propagation) = match to {
        MountChange::Private => (MountAttrFlags::empty(), libc::MS_PRIVATE),
        MountChange::ReceiveOnly => (MountAttrFlags::empty(), libc::MS_SLAVE),
        MountChange::ReadOnly => (MountAttrFlags::MOUNT_ATTR_RDONLY, 0),
        MountChange::ReadOnlyNoDevices => {
            (MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NODEV, 0)
        }
    };
    let attributes = MountAttr { set: set.bits().into(), clear: 0, propagation, userns: 0 };
    let flags = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    // SAFETY: the path ends in NUL, and the record is as long as the call is told.
    let changed = unsafe {
        let (at, size) = (at.as_fd().as_raw_fd(), size_of::<MountAttr>());
        libc::syscall(libc::SYS_mount_setattr, at, path.as_ptr(), flags, &raw const attributes, size)
    };
    if changed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A descriptor that is readable when children have ended; blocks SIGCHLD from now on.
pub(super) fn sigchld_fd() -> io::Result<OwnedFd> {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is initialised by the call that empties it; a new descriptor belongs to nobody else.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGCHLD);
        libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        match libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            number => Ok(OwnedFd::from_raw_fd(number)),
        }
    }
}

/// Ends this process at once: no destructor runs, no buffer is flushed.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: ends the process without touching its memory.
    unsafe { libc::_exit(code) }
}

/// Sends SIGKILL to every process this one may signal, except itself.
///
/// For a supervisor in a Landlock domain that scopes signals, where those are its descendants; anywhere else this is a
/// catastrophe.
pub(super) fn kill_all_signalable() {
    // SAFETY: passes two integers.
    unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Sends a signal to one thread of a process.
pub(super) fn signal_thread(process: Pid, thread: Pid, signal: libc::c_int) -> io::Result<()> {
    // SAFETY: passes integers.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, process.as_raw_pid(), thread.as_raw_pid(), signal) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends a signal to a process by its handle; 0 is none and only checks.
pub(super) fn signal_by_handle(process: &OwnedFd, signal: libc::c_int) -> io::Result<()> {
    let no_details = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: without details the call reads no memory.
    let sent =
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, process.as_raw_fd(), signal, no_details, 0) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Filters the system calls of this process from now on, and returns the descriptor from which another process answers some of them.
pub(super) fn apply_filter_with_listener(program: &[sock_filter]) -> io::Result<OwnedFd> {
    // A call that is being answered is not begun anew for a signal, where the kernel knows this (Linux 5.19).
    let flags = [libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0];
    let mut program: Vec<libc::sock_filter> = program
        .iter()
        .map(|step| libc::sock_filter { code: step.code, jt: step.jt, jf: step.jf, k: step.k })
        .collect();
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    let mut result = Err(io::ErrorKind::Other.into());
    for flag in flags {
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | flag;
        // SAFETY: the program is as long as it says, and outlives the call; a new descriptor belongs to nobody else.
        result = unsafe {
            let listener =
                libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program);
            match i32::try_from(listener) {
                Ok(listener @ 0..) => Ok(OwnedFd::from_raw_fd(listener)),
                _ => Err(io::Error::last_os_error()),
            }
        };
        if result.is_ok() {
            break;
        }
    }
    result
}

/// A system call that waits for an answer.
pub(super) struct PendingCall {
    id: u64,
    /// The thread that makes it.
    pub(super) thread: Option<Pid>,
    pub(super) number: libc::c_long,
    /// The lower halves of the first three arguments.
    pub(super) arguments: [i32; 3],
    /// The second one, if it is the place of something in the memory of the caller.
    pub(super) pointer: u64,
    /// All of them.
    registers: [u64; 6],
}

impl PendingCall {
    /// The argument with this number, from 0 to 5.
    pub(super) fn register(&self, number: u8) -> u64 {
        self.registers.get(usize::from(number)).copied().unwrap_or(0)
    }
}

/// The next call that waits at this listener.
pub(super) fn receive_call(listener: &OwnedFd) -> io::Result<PendingCall> {
    let mut call = std::mem::MaybeUninit::<libc::seccomp_notif>::zeroed();
    // SAFETY: the record is a valid place for what the call writes, and zero is a valid value of each of its fields.
    let call = unsafe {
        if libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, call.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        call.assume_init()
    };
    let lower_half = |argument: u64| u32::try_from(argument & u64::from(u32::MAX)).unwrap_or(0).cast_signed();
    Ok(PendingCall {
        id: call.id,
        thread: Pid::from_raw(call.pid.cast_signed()),
        number: call.data.nr.into(),
        arguments: [0, 1, 2].map(|index: usize| lower_half(call.data.args[index])),
        pointer: call.data.args[1],
        registers: call.data.args,
    })
}

/// Lets the kernel switch to whoever waits for an answer, and back, on one processor, which takes half the time. Before Linux 6.6 it
/// does not know this.
pub(super) fn switch_directly(listener: &OwnedFd) {
    const SET_FLAGS: libc::Ioctl = 0x4008_2104; // SECCOMP_IOCTL_NOTIF_SET_FLAGS
    const SYNC_WAKE_UP: libc::c_ulong = 1; // SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP
    // SAFETY: passes integers.
    unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
}

/// Reads the memory of a thread from this address on. Returns how many bytes there were before the first that cannot be read.
pub(super) fn read_memory(thread: Pid, address: u64, into: &mut [u8]) -> io::Result<usize> {
    // The smallest page of any machine. Each piece is read whole or not at all.
    const PAGE: usize = 4096;
    let start = usize::try_from(address).map_err(io::Error::other)?;
    let first = (PAGE - start % PAGE).min(into.len());
    let piece = |offset: usize, length: usize| libc::iovec {
        iov_base: std::ptr::without_provenance_mut(start.wrapping_add(offset)),
        iov_len: length,
    };
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = [piece(0, first), piece(first, into.len() - first)];
    // SAFETY: writes to the buffer, at most as many bytes as it has. What is read belongs to another process.
    let length =
        unsafe { libc::process_vm_readv(thread.as_raw_pid(), &raw const local, 1, remote.as_ptr(), 2, 0) };
    usize::try_from(length).map_err(|_| io::Error::last_os_error())
}

/// Whether the call still waits, and so its thread still lives.
pub(super) fn is_waiting(listener: &OwnedFd, call: &PendingCall) -> bool {
    // SAFETY: reads an integer.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id) == 0 }
}

/// Lets the kernel carry out the call.
pub(super) fn continue_call(listener: &OwnedFd, call: &PendingCall) -> bool {
    const CONTINUE: u32 = 1; // SECCOMP_USER_NOTIF_FLAG_CONTINUE
    answer_call(listener, call, 0, CONTINUE)
}

/// Ends the call with this error number, 0 for none. Whether it was still waiting.
pub(super) fn end_call(listener: &OwnedFd, call: &PendingCall, errno: i32) -> bool {
    answer_call(listener, call, -errno, 0)
}

fn answer_call(listener: &OwnedFd, call: &PendingCall, error: i32, flags: u32) -> bool {
    let answer = libc::seccomp_notif_resp { id: call.id, val: 0, error, flags };
    // SAFETY: reads a record.
    unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) == 0 }
}

/// Gives the next program this descriptor under that number, whatever had the number before.
///
/// For a process that is about to execute a program, and needs nothing that has that number.
pub(super) fn dup_to(descriptor: &OwnedFd, number: RawFd) -> io::Result<()> {
    // SAFETY: passes two integers; whoever owned the number before is never asked for it again.
    let placed = unsafe { libc::dup2(descriptor.as_raw_fd(), number) };
    if placed == number { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A program with its arguments and environment, as the kernel reads them: executing it allocates nothing.
pub(super) struct ExecProgram {
    path: CString,
    arguments: CStringArray,
    environment: CStringArray,
}

/// Strings and their pointers, with a null pointer at the end.
struct CStringArray {
    pointers: Vec<*const libc::c_char>,
    _strings: Vec<CString>,
}

impl ExecProgram {
    /// The first argument is its own name.
    pub(super) fn new(path: CString, arguments: Vec<CString>, environment: Vec<CString>) -> Self {
        Self { path, arguments: CStringArray::new(arguments), environment: CStringArray::new(environment) }
    }

    /// Executes it. Returns only if that fails, with the reason.
    pub(super) fn exec(&self) -> io::Error {
        let Self { path, arguments, environment } = self;
        // SAFETY: every text ends in NUL and both lists in a null pointer, and all of them outlive the call.
        unsafe { libc::execve(path.as_ptr(), arguments.pointers.as_ptr(), environment.pointers.as_ptr()) };
        io::Error::last_os_error()
    }
}

impl CStringArray {
    fn new(texts: Vec<CString>) -> Self {
        let at = texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        Self { pointers: at, _strings: texts }
    }
}

/// A copy of a descriptor that this program was started with.
pub fn inherited_fd(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: passes integers; a number that is not open is an error.
    match unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the copy is new, and nobody else has it.
        copy => Ok(unsafe { OwnedFd::from_raw_fd(copy) }),
    }
}

/// Marks every descriptor from this one on to be closed by `execve`.
///
/// For a process that has closed what it inherited, and has few descriptors.
pub(super) fn set_cloexec_from(first: RawFd) -> io::Result<()> {
    // SAFETY: closes nothing now; it marks descriptors to be closed by `execve`.
    let closed =
        unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    match io::Error::last_os_error() {
        _ if closed == 0 => Ok(()),
        // Before Linux 5.11 the call can only close.
        error if error.raw_os_error() == Some(libc::EINVAL) => {
            const MAX_FDS: RawFd = 1024;
            for number in first..MAX_FDS {
                // SAFETY: passes integers; a number that is not open is an error, which changes nothing.
                unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
            }
            Ok(())
        }
        error => Err(error),
    }
}

/// Waits for any child without blocking: its id and status, `None` while all run; the error is `ECHILD` if there is none.
pub(super) fn reap() -> io::Result<Option<(i32, i32)>> {
    let mut status = 0;
    // SAFETY: the status is a valid place for an integer.
    match unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some((pid, status))),
    }
}

/// CPU time in microseconds of all reaped children, and the resident bytes of the largest.
pub(super) fn children_usage() -> (u64, u64) {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the record is a valid place for what the call writes, and zero is a valid value of each of its fields.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let microseconds =
        |time: libc::timeval| time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_usec.cast_unsigned();
    (microseconds(usage.ru_utime) + microseconds(usage.ru_stime), usage.ru_maxrss.cast_unsigned() * 1024)
}

/// Resets every signal to its default action and blocks none.
pub(super) fn reset_signals() {
    for signal in 1..=64 {
        // SAFETY: the action is the system's own.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock_signals();
}

/// Blocks no signal.
pub(super) fn unblock_signals() {
    // SAFETY: the set is initialised by the call that fills it.
    unsafe {
        let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
    }
}

/// Makes a call that may wait for ever, and interrupts it after this time: then it fails with `EINTR`.
///
/// For a supervisor, which has one thread: the signal goes to the process.
pub(super) fn interrupt_after<T>(time: Duration, call: impl FnOnce() -> T) -> T {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(handle_alarm);
    set_alarm(time);
    let result = call();
    set_alarm(Duration::ZERO);
    result
}

/// Lets the alarm interrupt calls, and do nothing else.
fn handle_alarm() {
    extern "C" fn interrupt(_: libc::c_int) {}
    // SAFETY: zero is a valid value of each field, the handler does nothing, and the set is initialised by the call that fills it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = interrupt as extern "C" fn(libc::c_int) as usize;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut());
        let mut alarm = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(alarm.as_mut_ptr());
        libc::sigaddset(alarm.as_mut_ptr(), libc::SIGALRM);
        libc::sigprocmask(libc::SIG_UNBLOCK, alarm.as_ptr(), std::ptr::null_mut());
    }
}

/// Sends an alarm each time that so much time has passed: the first may come before the call begins. No time ends that.
fn set_alarm(time: Duration) {
    let interval = libc::timeval { tv_sec: 0, tv_usec: time.subsec_micros().into() };
    let timer = libc::itimerval { it_interval: interval, it_value: interval };
    // SAFETY: the record is valid, and nothing is written.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) };
}

/// Keeps this descriptor, with another number, and closes every other; the standard streams are `/dev/null` afterwards.
///
/// For a process that has just become the fork server: nothing in it uses what it inherited.
pub(super) fn close_all_except(socket: &impl AsFd) -> io::Result<OwnedFd> {
    let socket = rustix::io::fcntl_dupfd_cloexec(socket, FIRST_FD + 1)?;
    let nowhere = OwnedFd::from(File::options().read(true).write(true).open("/dev/null")?);
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    // Never closed twice: all but one are closed below.
    std::mem::forget(nowhere);
    close_inherited(&mut [socket.as_raw_fd()]);
    Ok(socket)
}

/// Closes every descriptor but the standard streams and these.
pub(super) fn close_inherited(kept: &mut [RawFd]) {
    kept.sort_unstable();
    let mut first = FIRST_FD;
    for last in kept.iter().map(|kept| kept - 1).chain([RawFd::MAX]) {
        if first <= last {
            // SAFETY: whoever owned these descriptors belongs to the process of which this one is a copy, and which it no longer is.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
        first = last.saturating_add(2);
    }
}

/// The number after the standard streams.
const FIRST_FD: RawFd = 3;

/// Whether there is anything to read at this end, even if only that the other end hung up.
pub(super) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// The system's error number, however deeply it is nested.
pub(super) fn errno(error: &io::Error) -> i32 {
    let first = error.get_ref().map(|inner| -> &(dyn std::error::Error + 'static) { inner });
    let mut causes = std::iter::successors(first, |cause| cause.source());
    let deeper = || causes.find_map(|cause| cause.downcast_ref::<io::Error>()?.raw_os_error());
    error.raw_os_error().or_else(deeper).unwrap_or(0)
}
