//! Standard input of the command: what scripts are given of it, and whether something in it was left unread.

use std::io::{Read, Stdin};

/// What is passed through to a script: standard input, unless it is a terminal that another job uses, which would stop this one.
pub fn source() -> Box<dyn Read + Send> {
    let stdin = std::io::stdin();
    if is_terminal_of_another_job(&stdin) { Box::new(std::io::empty()) } else { Box::new(stdin) }
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
