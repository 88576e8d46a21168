//! Carries out `flock` on files in the folders of a run, for a script that may write nowhere else.
//!
//! `flock` works without the right to write, so such a script could lock what other programs lock, and the filter of system calls does not
//! see which file a number means. The supervisor takes a copy of the descriptor, looks whether its file lies in a folder of the run, and
//! locks the copy: a lock belongs to what both share. Whatever the number means by then, no other file is locked.

use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, fstat, readlink};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::FileId;
use crate::linux::connections::Connections;
use crate::linux::procfs::thread_group;
use crate::linux::sys;
use crate::linux::sys::PendingCall;

/// The most calls that wait for a lock at a time.
const MAX_WAITING: usize = 256;
/// How long a call waits until its lock is tried again: nothing says when another process closes a file.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);

/// The calls of one tree that wait for a lock.
#[derive(Default)]
pub(super) struct FileLocks {
    waiting: Vec<WaitingLock>,
}

struct WaitingLock {
    call: PendingCall,
    file: OwnedFd,
    operation: FlockOperation,
}

impl FileLocks {
    /// Carries out a `flock` of a process that descends from this one, or answers that there are no locks.
    pub(super) fn answer(&mut self, listener: &OwnedFd, call: PendingCall, folders: &Connections) {
        let [_, operation, _] = call.arguments;
        let (operation, waits) = match operation & !libc::LOCK_NB {
            libc::LOCK_SH => (FlockOperation::NonBlockingLockShared, operation & libc::LOCK_NB == 0),
            libc::LOCK_EX => (FlockOperation::NonBlockingLockExclusive, operation & libc::LOCK_NB == 0),
            libc::LOCK_UN => (FlockOperation::NonBlockingUnlock, false),
            _ => {
                sys::end_call(listener, &call, libc::EINVAL);
                return;
            }
        };
        let errno = match own_file(listener, &call, folders) {
            Ok(file) => match flock(&file, operation) {
                Err(Errno::WOULDBLOCK) if waits && self.waiting.len() < MAX_WAITING => {
                    self.waiting.push(WaitingLock { call, file, operation });
                    return;
                }
                Err(Errno::WOULDBLOCK) if waits => libc::ENOLCK,
                result => {
                    end(listener, &call, &file, result);
                    return;
                }
            },
            Err(errno) => errno.raw_os_error(),
        };
        sys::end_call(listener, &call, errno);
    }

    /// When to try again.
    pub(super) fn retry_interval(&self) -> Option<Duration> {
        (!self.waiting.is_empty()).then_some(RETRY_INTERVAL)
    }

    /// Ends the calls whose locks are free now.
    pub(super) fn end_ready(&mut self, listener: &OwnedFd) {
        // A thread that got a signal, or is gone, waits no longer, and its copy must not hold its lock.
        self.waiting.retain(|waiting| sys::is_waiting(listener, &waiting.call));
        self.waiting.retain(|WaitingLock { call, file, operation }| match flock(file, *operation) {
            Err(Errno::WOULDBLOCK) => true,
            result => {
                end(listener, call, file, result);
                false
            }
        });
    }
}

fn end(listener: &OwnedFd, call: &PendingCall, file: &OwnedFd, result: Result<(), Errno>) {
    let errno = result.err().map_or(0, Errno::raw_os_error);
    if !sys::end_call(listener, call, errno) {
        // Nobody knows of this lock.
        flock(file, FlockOperation::NonBlockingUnlock).ok();
    }
}

/// A copy of the descriptor that the call names, if its file lies in one of the folders.
fn own_file(listener: &OwnedFd, call: &PendingCall, folders: &Connections) -> Result<OwnedFd, Errno> {
    let [descriptor, ..] = call.arguments;
    if descriptor < 0 {
        return Err(Errno::BADF);
    }
    let process = call.thread.and_then(thread_group).ok_or(Errno::SRCH)?;
    let handle = pidfd_open(process, PidfdFlags::empty())?;
    let file = pidfd_getfd(handle, descriptor, PidfdGetfdFlags::empty())?;
    // It was that thread's as long as the call waits.
    if !sys::is_waiting(listener, call) {
        return Err(Errno::INVAL);
    }
    let path = readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
    let path = PathBuf::from(OsString::from_vec(path.into_bytes()));
    // The path is text that may lead elsewhere by now; what counts is that the same file is in the folder.
    let found = folders.open_below(&path).map_err(|_| Errno::NOSYS)?;
    let id = |file: &OwnedFd| fstat(file).map(|about| FileId::from_stat(&about));
    if id(&found)? == id(&file)? { Ok(file) } else { Err(Errno::NOSYS) }
}
