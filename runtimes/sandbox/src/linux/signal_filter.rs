//! Decides which processes a script may signal, where the kernel does not: without a PID namespace, and before Linux 6.12.
//!
//! The filter of system calls stops each call that sends a signal until the supervisor has answered. What a process sends itself, the
//! kernel carries out. Everything else the supervisor sends itself, by a handle (pidfd) of a process that it has found to descend from
//! it: a process id may be that of another process by the time the kernel looks at it.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use crate::linux::child_processes::descendants;
use crate::linux::procfs::{ProcessStat, thread_group};
use crate::linux::sys;
use crate::linux::sys::PendingCall;

/// What comes of a call.
enum Decision {
    /// The kernel carries it out.
    Continue,
    /// It ends with this error.
    Refuse(Errno),
    /// The signal goes to these processes; none if the call only asks whether it could.
    Send(Vec<OwnedFd>, i32),
    /// The signal goes to another thread of the same process.
    SendToThread(Pid, Pid, i32),
}

/// Answers a call of a process that descends from this one.
pub(super) fn answer(listener: &OwnedFd, call: &PendingCall) {
    let caller = call.thread.and_then(thread_group);
    let decision = caller.map_or(Decision::Refuse(Errno::SRCH), |caller| decide(call, caller));
    // As long as the call waits, its thread lives, and its ids are its own.
    if !sys::is_waiting(listener, call) {
        return;
    }
    match decision {
        Decision::Continue => drop(sys::continue_call(listener, call)),
        Decision::Refuse(errno) => drop(sys::end_call(listener, call, errno.raw_os_error())),
        Decision::Send(processes, signal) => {
            // Answered first: the signal may end the call's wait, and with `SA_RESTART` the call would begin anew. A call that
            // has ended already will.
            if sys::end_call(listener, call, 0) && signal != 0 {
                for process in processes {
                    sys::signal_by_handle(&process, signal).ok();
                }
            }
        }
        Decision::SendToThread(process, thread, signal) => {
            let sent = sys::signal_thread(process, thread, signal);
            sys::end_call(listener, call, sent.err().map_or(0, |error| sys::errno(&error)));
        }
    }
}

fn decide(call: &PendingCall, caller: Pid) -> Decision {
    let [first, second, third] = call.arguments;
    let own = caller.as_raw_pid();
    match call.number {
        libc::SYS_kill => decide_kill(first, second, caller),
        libc::SYS_tkill | libc::SYS_tgkill if first <= 0 => Decision::Refuse(Errno::INVAL),
        libc::SYS_tkill if Pid::from_raw(first) == call.thread => Decision::Continue,
        libc::SYS_tkill => {
            match Pid::from_raw(first).filter(|thread| thread_group(*thread) == Some(caller)) {
                Some(thread) if is_signal(second) => Decision::SendToThread(caller, thread, second),
                _ => decide_kill(first, second, caller),
            }
        }
        // Of its own threads, and of no process that takes the number later: the caller has it.
        libc::SYS_tgkill | libc::SYS_rt_sigqueueinfo | libc::SYS_rt_tgsigqueueinfo if first == own => {
            Decision::Continue
        }
        libc::SYS_tgkill => decide_kill(first, third, caller),
        // What is queued with the signal is in the memory of the caller.
        _ => Decision::Refuse(Errno::PERM),
    }
}

/// `kill` with this target. The caller's own group (0) is of the tree: the script began a session of its own.
fn decide_kill(target: i32, signal: i32, caller: Pid) -> Decision {
    match target {
        _ if !is_signal(signal) => Decision::Refuse(Errno::INVAL),
        0 => Decision::Continue,
        _ if target == caller.as_raw_pid() => Decision::Continue,
        1.. => match Pid::from_raw(target).map_or(Err(Errno::SRCH), open_descendant) {
            Ok(process) => Decision::Send(vec![process], signal),
            Err(errno) => Decision::Refuse(errno),
        },
        _ => {
            let is_meant = |pid: Pid| match target {
                -1 => pid != caller,
                _ => ProcessStat::read(pid).is_some_and(|stat| stat.group == target.wrapping_neg()),
            };
            // Parents first: none of them sees a child end before it has the signal itself.
            let meant = descendants().into_iter().filter(|pid| is_meant(*pid));
            let opened: Vec<OwnedFd> = meant.filter_map(|pid| open_descendant(pid).ok()).collect();
            if opened.is_empty() { Decision::Refuse(Errno::SRCH) } else { Decision::Send(opened, signal) }
        }
    }
}

fn is_signal(number: i32) -> bool {
    (0..=64).contains(&number)
}

/// A handle of the process with this id, if it descends from this process: `SRCH` if there is none, `PERM` if it does not.
///
/// Each process on the way up is held by a handle while the id of its parent is read, and that parent is held when the id is read again:
/// as long as both are there, the ids are theirs, and not those of processes that have come in their place.
fn open_descendant(pid: Pid) -> Result<OwnedFd, Errno> {
    const MAX_STEPS: usize = 4096;
    let open = |pid: Pid| pidfd_open(pid, PidfdFlags::empty()).map_err(|_| Errno::SRCH);
    let is_there = |handle: &OwnedFd| sys::signal_by_handle(handle, 0).is_ok();
    let target = open(pid)?;
    let (mut pid, mut handle) = (pid, target.try_clone().map_err(|_| Errno::SRCH)?);
    for _ in 0..MAX_STEPS {
        let parent = ProcessStat::read(pid).ok_or(Errno::SRCH)?.parent;
        if parent == Some(getpid()) {
            return if is_there(&handle) { Ok(target) } else { Err(Errno::SRCH) };
        }
        let Some(parent) = parent.filter(|parent| !parent.is_init()) else { return Err(Errno::PERM) };
        let parent_handle = open(parent);
        let is_unchanged = ProcessStat::read(pid).is_some_and(|stat| stat.parent == Some(parent));
        match parent_handle {
            Ok(parent_handle) if is_unchanged && is_there(&parent_handle) && is_there(&handle) => {
                (pid, handle) = (parent, parent_handle);
            }
            _ if !is_there(&handle) => return Err(Errno::SRCH),
            // Its parent has ended, and it has another one.
            _ => {}
        }
    }
    Err(Errno::PERM)
}
