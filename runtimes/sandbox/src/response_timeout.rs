//! How long the processes of the sandbox wait for each other.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long the fork server and the supervisor may take to respond.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long all killed processes of a tree may take to exit: thousands do so slowly on a machine with much else to do.
pub const TREE_EXIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until the descriptor is readable or hung up, for [`RESPONSE_TIMEOUT`] at most.
pub fn wait_readable(fd: &impl AsFd) -> bool {
    wait_readable_for(RESPONSE_TIMEOUT, fd)
}

/// Waits for a supervisor's report, which is written when its tree is gone, or cannot be killed.
pub fn wait_for_report(report: &impl AsFd) -> bool {
    wait_readable_for(TREE_EXIT_TIMEOUT + RESPONSE_TIMEOUT, report)
}

fn wait_readable_for(timeout: Duration, fd: &impl AsFd) -> bool {
    wait_readable_until(Instant::now().checked_add(timeout), fd)
}

/// Waits until the descriptor is readable or hung up, or until then. Signals to the host, such as those of a profiler, do not end the wait.
pub(crate) fn wait_readable_until(until: Option<Instant>, fd: &impl AsFd) -> bool {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}
