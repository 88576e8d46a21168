//! The host's end: a helper that is started when it is first needed, and started again when it is gone.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{
    Gid, Pid, PidfdFlags, Signal, Uid, WaitOptions, getegid, geteuid, kill_process, pidfd_open, waitpid,
};

use super::super::sandbox::{Order, Report, Source, is_heard};
use super::system::{self, Side};
use super::wire::{self, Ends, Parcel};
use super::{HELPER, leader, serve};
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
    /// A child of this process, which nobody else waits for.
    pid: Pid,
    /// Whose rights it has.
    user: (Uid, Gid),
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
        *helper = Some(match helper.take().map(|running| running.take_on(&parcel)) {
            Some(Ok(running)) => running,
            // There is none yet, or it was killed.
            _ => Helper::start(&self.source)?.take_on(&parcel)?,
        });
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

    /// Whether the program that serves as the helper is this very one.
    #[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
    pub(crate) fn is_itself(&self) -> bool {
        self.source == Source::Itself
    }

    #[cfg(test)]
    pub(super) fn signal_helper(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.helper_id()).unwrap(), signal).unwrap();
    }

    #[cfg(test)]
    pub(super) fn helper_id(&self) -> i32 {
        self.helper().as_ref().unwrap().pid.as_raw_pid()
    }

    fn helper(&self) -> MutexGuard<'_, Option<Helper>> {
        self.helper.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Started {
    /// Kills the tree and waits until it is gone; no report means that the stub was killed.
    pub(crate) fn ended(self) -> Option<Report> {
        drop(self.control);
        if !is_heard(&self.report) {
            return None;
        }
        let mut text = Vec::new();
        File::from(self.report).read_to_end(&mut text).ok()?;
        wire::unpacked(&text).ok().map(|(report, _)| report)
    }
}

impl Helper {
    fn start(source: &Source) -> io::Result<Self> {
        let (socket, theirs) = wire::pair()?;
        let pid = match source {
            Source::Program(path) => program(path, theirs)?,
            // The link leads to the running program even when its file was replaced.
            Source::Itself if HOOKED.load(Ordering::Relaxed) => program(Path::new("/proc/self/exe"), theirs)?,
            Source::Itself => copy(&theirs)?,
        };
        Ok(Self { socket, pid, user: user() })
    }
}

impl Helper {
    /// The helper, where it has the order now; no other one may have it then. Of a host that has given up rights it is none.
    fn take_on(self, parcel: &Parcel) -> io::Result<Self> {
        let no_answer = || io::Error::other("the helper that starts processes does not answer");
        if self.user != user() {
            return Err(no_answer());
        }
        wire::send(&self.socket, parcel).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::TOOMANYREFS) => io::Error::other(
                "programs of this user have as many descriptors on their way through sockets as this one may have open; try again, or raise its `ulimit -n`",
            ),
            _ => no_answer(),
        })?;
        if !is_heard(&self.socket) {
            // What it said at the last moment is still to be read.
            kill_process(self.pid, Signal::KILL).ok();
        }
        let said = retry_on_intr(|| rustix::io::read(&self.socket, &mut [0; 8]));
        if said.is_ok_and(|length| length > 0) { Ok(self) } else { Err(no_answer()) }
    }
}

/// Who this process is.
fn user() -> (Uid, Gid) {
    (geteuid(), getegid())
}

fn program(path: &Path, socket: OwnedFd) -> io::Result<Pid> {
    let mut command = Command::new(path);
    command.arg(HELPER).env_clear().stdin(socket).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Pid::from_child(&command.spawn()?))
}

/// A copy of this process that serves. It takes as long as the host has memory, once.
fn copy(theirs: &OwnedFd) -> io::Result<Pid> {
    match system::fork()? {
        Side::Child => {
            leader::IS_COPY.store(true, Ordering::Relaxed);
            serve::serve(&theirs)
        }
        Side::Parent(pid) => Ok(pid),
    }
}

impl Drop for Helper {
    /// Hangs up, and waits for the helper to go, which it does at once unless somebody has stopped it.
    fn drop(&mut self) {
        wire::say_farewell(&self.socket);
        shutdown(&self.socket, Shutdown::Both).ok();
        let is_going = pidfd_open(self.pid, PidfdFlags::empty()).map_or(true, |end| is_heard(&end));
        if !is_going {
            kill_process(self.pid, Signal::KILL).ok();
        }
        retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty())).ok();
    }
}
