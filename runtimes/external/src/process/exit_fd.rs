//! A descriptor that becomes readable when a process exits.

use std::io;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// A descriptor that is readable or hangs up when the child `pid` exits. The child is not reaped.
pub(super) fn exit_fd(pid: Pid) -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    if let Ok(pidfd) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) {
        return Ok(pidfd);
    }
    exit_fd_by_thread(pid)
}

/// The same with a thread that waits, for systems without pidfds.
fn exit_fd_by_thread(pid: Pid) -> io::Result<OwnedFd> {
    let (reader, writer) = io::pipe()?;
    let watch = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
        drop(writer);
    };
    std::thread::Builder::new().name("metier-exit".into()).spawn(watch)?;
    Ok(reader.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn the_thread_hangs_up_when_the_child_exits_and_leaves_it_to_be_reaped() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut exit = std::fs::File::from(exit_fd_by_thread(Pid::from_child(&child)).unwrap());
        drop(child.stdin.take());
        assert_eq!(exit.read(&mut [0]).unwrap(), 0);
        assert!(child.wait().unwrap().success());
    }
}
