//! The host's end: a helper that is started when it is first needed, and started again when it is gone.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::super::sandbox::{Order, Report, Source};
use super::system::{self, Side};
use super::wire::{self, Ends, Parcel};
use super::{HELPER, serve};
use crate::policy::Tier;

/// Whether this program's `main` begins with the hook, so that it can be started again as a helper.
pub(super) static HOOKED: AtomicBool = AtomicBool::new(false);

/// Starts programs in cages. One for an engine; its helper ends with it.
#[derive(Default)]
pub(crate) struct Launcher {
    source: Source,
    tier: Tier,
    helper: Mutex<Option<Helper>>,
}

/// A program that was started, and the host's ends of it.
pub(crate) struct Started {
    /// Hangs up the other end when dropped, which kills the tree.
    pub(crate) control: OwnedFd,
    /// Readable once the tree is gone.
    pub(crate) report: OwnedFd,
}

struct Helper {
    socket: OwnedFd,
    process: Process,
}

enum Process {
    Program(Child),
    Copy(rustix::process::Pid),
}

impl Launcher {
    pub(crate) fn new(source: Source, tier: Tier) -> Self {
        Self { source, tier, helper: Mutex::default() }
    }

    /// Has the helper start the program, with these ends of its standard streams and of the host API.
    pub(crate) fn start(
        &self,
        order: &Order,
        streams: [OwnedFd; 3],
        api: Option<OwnedFd>,
    ) -> io::Result<Started> {
        let (control_read, control) = io::pipe()?;
        let (report, report_write) = io::pipe()?;
        let [stdin, stdout, stderr] = streams;
        let ends =
            Ends { stdin, stdout, stderr, api, control: control_read.into(), report: report_write.into() };
        let parcel = Parcel::of(order, self.tier, ends)?;
        let mut helper = self.helper();
        if !helper.as_ref().is_some_and(|running| running.take_on(&parcel)) {
            // There is none yet, or it was killed.
            *helper = None;
            let new = Helper::start(&self.source)?;
            if !new.take_on(&parcel) {
                return Err(io::Error::other("the helper that starts processes does not answer"));
            }
            *helper = Some(new);
        }
        Ok(Started { control: control.into(), report: report.into() })
    }

    /// The program that serves as the helper: one whose `main` begins with the hook. None where a copy of the host serves.
    pub(crate) fn program(&self) -> Option<PathBuf> {
        match &self.source {
            Source::Program(path) => std::path::absolute(path).ok(),
            Source::Itself if HOOKED.load(Ordering::Relaxed) => std::env::current_exe().ok(),
            Source::Itself => None,
        }
    }

    #[cfg(test)]
    pub(super) fn kill_helper(&self) {
        let pid = rustix::process::Pid::from_raw(self.helper_id()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }

    #[cfg(test)]
    pub(super) fn helper_id(&self) -> i32 {
        match self.helper().as_ref().map(|helper| &helper.process) {
            Some(Process::Copy(pid)) => pid.as_raw_pid(),
            _ => panic!("no copy serves"),
        }
    }

    fn helper(&self) -> MutexGuard<'_, Option<Helper>> {
        self.helper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a helper may take to say that it has an order.
const LONGEST_ANSWER: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// How long a stub may take to kill and reap its tree, and say so.
const LONGEST_FAREWELL: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

impl Started {
    /// Kills the tree and waits until it is gone; no report means that the stub was killed.
    pub(crate) fn ended(self) -> Option<Report> {
        drop(self.control);
        let mut waiting = [PollFd::new(&self.report, PollFlags::IN)];
        poll(&mut waiting, Some(&LONGEST_FAREWELL)).ok().filter(|ready| *ready > 0)?;
        let mut text = Vec::new();
        File::from(self.report).read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl Helper {
    fn start(source: &Source) -> io::Result<Self> {
        let (socket, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let process = match source {
            Source::Program(path) => Process::Program(program(path, theirs)?),
            // The link leads to the running program even when its file was replaced.
            Source::Itself if HOOKED.load(Ordering::Relaxed) => {
                Process::Program(program(Path::new("/proc/self/exe"), theirs)?)
            }
            Source::Itself => Process::Copy(copy(&theirs)?),
        };
        Ok(Self { socket, process })
    }
}

impl Helper {
    /// Whether the helper has the order. One that was killed a moment ago may still have taken the message.
    fn take_on(&self, parcel: &Parcel) -> bool {
        let answer = || -> io::Result<bool> {
            wire::send(&self.socket, parcel)?;
            let mut waiting = [PollFd::new(&self.socket, PollFlags::IN)];
            poll(&mut waiting, Some(&LONGEST_ANSWER))?;
            Ok(rustix::io::read(&self.socket, &mut [0; 8])? > 0)
        };
        answer().unwrap_or(false)
    }
}

fn program(path: &Path, socket: OwnedFd) -> io::Result<Child> {
    Command::new(path)
        .arg(HELPER)
        .env_clear()
        .stdin(socket)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// A copy of this process that serves. It takes as long as the host has memory, once.
fn copy(theirs: &OwnedFd) -> io::Result<rustix::process::Pid> {
    match system::fork()? {
        Side::Child => serve::serve(&theirs),
        Side::Parent(pid) => Ok(pid),
    }
}

impl Drop for Helper {
    /// Hangs up, and waits for the helper to go, which it does at once.
    fn drop(&mut self) {
        wire::say_farewell(&self.socket);
        rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both).ok();
        match &mut self.process {
            Process::Program(child) => drop(child.wait()),
            Process::Copy(pid) => {
                rustix::process::waitpid(Some(*pid), rustix::process::WaitOptions::empty()).ok();
            }
        }
    }
}
