//! Standard input of the command: what scripts are given of it, and whether something in it was left unread.

#[cfg(unix)]
use std::io::IsTerminal;
use std::io::{Read, Stdin};

/// What is passed through to a script: standard input, unless it is a terminal that another job uses, which would stop this one.
pub fn source() -> Box<dyn Read + Send> {
    let stdin = std::io::stdin();
    if is_terminal_of_another_job(&stdin) { Box::new(std::io::empty()) } else { passed_through(stdin) }
}

#[cfg(unix)]
fn passed_through(stdin: Stdin) -> Box<dyn Read + Send> {
    let terminal = stdin.is_terminal().then(unix::TerminalInput::new).and_then(std::io::Result::ok);
    match terminal {
        Some(terminal) => Box::new(terminal),
        None => Box::new(stdin),
    }
}

#[cfg(not(unix))]
fn passed_through(stdin: Stdin) -> Box<dyn Read + Send> {
    Box::new(stdin)
}

/// From here on nothing of a terminal is passed through: what is typed is for the questions of this command.
pub fn end_pass_through() {
    #[cfg(unix)]
    unix::end_pass_through();
}

#[cfg(unix)]
mod unix {
    use std::io::{PipeReader, PipeWriter, Read, Result, Stdin};
    use std::sync::{Mutex, PoisonError};

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::io::Errno;

    /// Closed when nothing is passed through any more.
    static PASSING: Mutex<Option<PipeWriter>> = Mutex::new(None);

    /// A terminal of which a thread reads as long as it is passed through. The thread may outlive its run, and must not take what is typed
    /// after that.
    pub(super) struct TerminalInput {
        stdin: Stdin,
        ended: PipeReader,
    }

    impl TerminalInput {
        pub(super) fn new() -> Result<Self> {
            let (ended, passing) = std::io::pipe()?;
            *PASSING.lock().unwrap_or_else(PoisonError::into_inner) = Some(passing);
            Ok(Self { stdin: std::io::stdin(), ended })
        }
    }

    impl Read for TerminalInput {
        fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
            loop {
                let mut fds =
                    [PollFd::new(&self.ended, PollFlags::IN), PollFd::new(&self.stdin, PollFlags::IN)];
                match poll(&mut fds, None) {
                    Err(Errno::INTR) => continue,
                    ready => ready?,
                };
                if !fds[0].revents().is_empty() {
                    return Ok(0);
                }
                return Ok(rustix::io::read(&self.stdin, buffer)?);
            }
        }
    }

    pub(super) fn end_pass_through() {
        drop(PASSING.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Whether a pipe or a file at standard input has something that nobody read. Looks once, and reads nothing.
#[cfg(unix)]
pub fn has_unread_input() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{FileType, fstat, tell};
    use rustix::io::ioctl_fionread;

    let stdin = std::io::stdin();
    let Ok(stat) = fstat(&stdin) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo | FileType::Socket => {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
            poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
                && fds[0].revents().contains(PollFlags::IN)
                && ioctl_fionread(&stdin).is_ok_and(|bytes| bytes > 0)
        }
        FileType::RegularFile => {
            tell(&stdin).is_ok_and(|at| u64::try_from(stat.st_size).is_ok_and(|size| at < size))
        }
        _ => false,
    }
}

#[cfg(not(unix))]
pub fn has_unread_input() -> bool {
    false
}

#[cfg(unix)]
fn is_terminal_of_another_job(stdin: &Stdin) -> bool {
    let own = rustix::process::getpgrp();
    rustix::termios::tcgetpgrp(stdin).is_ok_and(|foreground| foreground != own)
}

#[cfg(not(unix))]
fn is_terminal_of_another_job(_: &Stdin) -> bool {
    false
}
