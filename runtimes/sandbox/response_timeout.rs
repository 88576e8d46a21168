//! How long the processes of the sandbox wait for each other.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// How long the fork server and the supervisor may take to respond.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until the descriptor is readable or hung up, for [`RESPONSE_TIMEOUT`] at most. Signals to the host, such as those of a
/// profiler, do not end the wait.
pub(crate) fn wait_readable(fd: &impl AsFd) -> bool {
    let until = Instant::now() + RESPONSE_TIMEOUT;
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}
