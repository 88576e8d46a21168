//! The client of the fork server: starts the server on first use and restarts it if it died.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{Shutdown, shutdown};
use rustix::process::{
    Gid, Pid, PidfdFlags, Signal, Uid, WaitOptions, getegid, geteuid, kill_process, pidfd_open, waitpid,
};

use super::server;
use crate::linux::child;
use crate::linux::ipc::{self, LaunchFds, LaunchMessage, SandboxProfile};
use crate::linux::overlay::client::{Overlay, PendingOverlay, detached};
use crate::linux::sys::{self, ForkResult};
use crate::{
    ForkServerSource, LaunchRequest, NetworkAccess, OverlayError, OverlayRequest, RemoveFolder, SandboxLevel,
    SandboxPolicy, SupervisorReport, remove_folder, response_timeout, wait_for_report, wait_readable,
};

/// Starts programs in sandboxes. One for each engine; its fork server ends with it.
pub struct Launcher {
    source: ForkServerSource,
    level: SandboxLevel,
    remove_folder: RemoveFolder,
    /// How long supervisors may take that a copy of this process has forked. Tests have less time.
    supervisor_timeout: Duration,
    client: Mutex<Option<ForkServerClient>>,
}

/// A started program, and the host's ends of its descriptors.
pub struct LaunchHandle {
    /// Hangs up the other end when dropped, which kills the tree.
    pub control: OwnedFd,
    /// Readable once the tree is gone.
    pub report: OwnedFd,
    /// Receives the sockets of a script that reaches granted hosts only.
    pub egress: Option<OwnedFd>,
    /// When the supervisor should have killed the tree by itself; `None` if that is too far away.
    pub(crate) until: Option<Instant>,
    /// Has the observations of a watched run once there is a report.
    pub(crate) observations: Option<File>,
}

struct ForkServerClient {
    socket: OwnedFd,
    /// A child of this process; only this client waits for it.
    pid: Pid,
    /// The effective user and group when it was started.
    effective_ids: (Uid, Gid),
}

impl Launcher {
    /// Starts nothing yet. `level` is the highest level to use.
    pub fn new(source: ForkServerSource, level: SandboxLevel) -> Self {
        Self {
            source,
            level,
            remove_folder,
            supervisor_timeout: server::SUPERVISOR_TIMEOUT,
            client: Mutex::default(),
        }
    }

    /// Lets supervisors take no longer than that to end what is given up.
    #[cfg(test)]
    pub(crate) fn with_supervisor_timeout(self, supervisor_timeout: Duration) -> Self {
        Self { supervisor_timeout, ..self }
    }

    /// How a copy of this process removes the folders of runs. A program that runs as the fork server says so itself, in
    /// [`fork_server_main`](crate::fork_server_main).
    pub fn remove_folders_by(mut self, remove_folder: RemoveFolder) -> Self {
        self.remove_folder = remove_folder;
        self
    }

    /// Starts the fork server, if there is none yet, and announces a request with this policy: the server starts and prepares while
    /// the request is put together. A copy of a host that did not ask for one is not made in advance.
    pub fn prepare(&self, sandbox: &SandboxPolicy) {
        let is_chosen = self.source != ForkServerSource::CurrentProgram || has_main_hook();
        let mut client = self.lock_client();
        if client.is_some() || !is_chosen {
            return;
        }
        // Where it cannot be started, the request says so.
        if let Ok(started) = self.spawn_server() {
            let profile = SandboxProfile::new(sandbox, self.level);
            ipc::send_prepare(&started.socket, profile, sandbox.limits.processes);
            *client = Some(started);
        }
    }

    /// Sends the program to the fork server, with these ends of its standard streams and of the host API.
    pub fn start(
        &self,
        request: &LaunchRequest,
        streams: [OwnedFd; 3],
        api: Option<OwnedFd>,
    ) -> io::Result<LaunchHandle> {
        let (control_read, control) = io::pipe()?;
        let (report, report_write) = io::pipe()?;
        let (egress, egress_write) = match request.sandbox.network {
            NetworkAccess::Hosts => Some(ipc::socket_pair()?).unzip(),
            _ => (None, None),
        };
        let observations = request.sandbox.watch.as_ref().map(|_| ipc::anonymous_file()).transpose()?;
        let [stdin, stdout, stderr] = streams;
        let fds = LaunchFds {
            stdin,
            stdout,
            stderr,
            api,
            control: control_read.into(),
            report: report_write.into(),
            egress: egress_write,
            overlay: request.sandbox.files.overlay.as_ref().map(detached).transpose()?,
            observations: observations.as_ref().map(File::try_clone).transpose()?.map(OwnedFd::from),
        };
        let message = LaunchMessage::new(request, self.level, fds)?;
        self.submit(|socket| ipc::send_launch(socket, &message))?;
        let longest = Duration::from_millis(request.timeout_ms).saturating_add(self.supervisor_timeout);
        let until = Instant::now().checked_add(longest);
        Ok(LaunchHandle { control: control.into(), report: report.into(), egress, until, observations })
    }

    /// Mounts an overlay, whose server is a process of its own: as long as the overlay or a [request](crate::OverlayMount) with it exists, it has
    /// mounted it where nobody else sees it.
    ///
    /// The folder for changes then has the format of overlayfs with the option `userxattr`: a deleted file is a character device with
    /// the number 0:0, and a folder that shows nothing of the lower one has the attribute `user.overlay.opaque`. No folder of the lower
    /// one is ever moved: `rename` fails with `EXDEV`, and programs copy it. Nothing is written to the disk at once (`fsync` does nothing).
    pub fn mount_overlay(&self, request: OverlayRequest<'_>) -> Result<Overlay, OverlayError> {
        if self.level != SandboxLevel::Namespaces {
            return Err(OverlayError::Level(self.level));
        }
        self.mount_pending(PendingOverlay::open(request)?)
    }

    pub(crate) fn mount_pending(&self, overlay: PendingOverlay) -> Result<Overlay, OverlayError> {
        overlay.mount(|fds| self.submit(|socket| ipc::send_mount_overlay(socket, fds)))
    }

    /// Sends a request to the fork server, which is started first if there is none.
    fn submit(&self, send: impl Fn(&OwnedFd) -> io::Result<()>) -> io::Result<()> {
        let mut client = self.lock_client();
        *client = Some(match client.take().map(|running| running.submit(&send)) {
            Some(Ok(running)) => running,
            // There is no fork server yet, or it was killed.
            _ => self.spawn_server()?.submit(&send)?,
        });
        Ok(())
    }

    fn spawn_server(&self) -> io::Result<ForkServerClient> {
        ForkServerClient::spawn(&self.source, self.remove_folder, self.supervisor_timeout)
    }

    /// The program that runs as the fork server: its `main` begins with the hook. `None` if a copy of the host does the work.
    pub fn server_program(&self) -> Option<PathBuf> {
        match &self.source {
            ForkServerSource::Program(path) => std::path::absolute(path).ok(),
            _ if has_main_hook() => std::env::current_exe().ok(),
            _ => None,
        }
    }

    /// Whether there is such a program; its path takes longer to find.
    pub fn has_server_program(&self) -> bool {
        matches!(self.source, ForkServerSource::Program(_)) || has_main_hook()
    }

    /// Whether the program that runs as the fork server is this very one.
    pub fn uses_current_program(&self) -> bool {
        !matches!(self.source, ForkServerSource::Program(_))
    }

    #[cfg(test)]
    pub(crate) fn signal_server(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.server_pid()).unwrap(), signal).unwrap();
    }

    #[cfg(test)]
    pub(crate) fn server_pid(&self) -> i32 {
        self.lock_client().as_ref().unwrap().pid.as_raw_pid()
    }

    fn lock_client(&self) -> MutexGuard<'_, Option<ForkServerClient>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Launcher {
    fn default() -> Self {
        Self::new(ForkServerSource::default(), SandboxLevel::default())
    }
}

impl LaunchHandle {
    /// Waits until the program has ended and nothing is left of its tree. Without a report, see [`kill_and_wait`](Self::kill_and_wait).
    pub fn wait(self) -> Option<SupervisorReport> {
        response_timeout::wait_readable_until(self.until, &self.report);
        self.kill_and_wait()
    }

    /// Kills the tree and waits until it is gone.
    ///
    /// No report means that the supervisor was killed: by somebody else, or by the fork server because it did not end the tree in 35 seconds.
    /// The fork server then kills the tree as well, before this returns unless that takes longer than 5 seconds. If the fork server was
    /// killed too, or has ended with its launcher, nobody does.
    pub fn kill_and_wait(self) -> Option<SupervisorReport> {
        drop(self.control);
        if !wait_for_report(&self.report) {
            return None;
        }
        // It is written at once. To wait for the end would be to wait for the fork server, which holds a copy of the pipe for a moment.
        let mut bytes = [0; MAX_REPORT_BYTES];
        let length = File::from(self.report).read(&mut bytes).ok()?;
        let (report, _) = ipc::decode::<SupervisorReport>(&bytes[..length]).ok()?;
        let observations = self.observations.and_then(|file| ipc::read_observations(&file));
        Some(SupervisorReport { observations, ..report })
    }
}

/// A report has some 20 bytes, or the name of a step of the setup.
const MAX_REPORT_BYTES: usize = 1024;

impl ForkServerClient {
    fn spawn(
        source: &ForkServerSource,
        remove_folder: RemoveFolder,
        supervisor_timeout: Duration,
    ) -> io::Result<Self> {
        let (socket, server_socket) = ipc::socket_pair()?;
        let pid = match source {
            ForkServerSource::Program(path) => spawn_program(path, server_socket)?,
            // The link leads to the running program even if its file was replaced.
            ForkServerSource::CurrentProgram if has_main_hook() => {
                spawn_program(Path::new("/proc/self/exe"), server_socket)?
            }
            ForkServerSource::CurrentProgram => {
                // The engine warns its embedder once.
                tracing::debug!(
                    "scripts are started by a copy of this process: its `main` does not begin with the function for fork servers"
                );
                fork_copy(&server_socket, remove_folder, supervisor_timeout)?
            }
            ForkServerSource::Copy => fork_copy(&server_socket, remove_folder, supervisor_timeout)?,
        };
        Ok(Self { socket, pid, effective_ids: effective_ids() })
    }

    /// Returns the client if the fork server accepted the request; no other server may get it then. A server started before the
    /// host gave up rights is an error.
    fn submit(self, send: impl Fn(&OwnedFd) -> io::Result<()>) -> io::Result<Self> {
        let no_reply = || io::Error::other("the helper that starts processes does not answer");
        if self.effective_ids != effective_ids() {
            return Err(no_reply());
        }
        send(&self.socket).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::TOOMANYREFS) => io::Error::other(
                "programs of this user have as many descriptors on their way through sockets as this one may have open; try again, or raise its `ulimit -n`",
            ),
            _ => no_reply(),
        })?;
        if !wait_readable(&self.socket) {
            kill_process(self.pid, Signal::KILL).ok();
            // From here on no process can take the request. A reply sent at the last moment can still be read.
            shutdown(&self.socket, Shutdown::Both).ok();
        }
        let reply = retry_on_intr(|| rustix::io::read(&self.socket, &mut [0; 8]));
        if reply.is_ok_and(|length| length > 0) { Ok(self) } else { Err(no_reply()) }
    }
}

fn effective_ids() -> (Uid, Gid) {
    (geteuid(), getegid())
}

fn spawn_program(path: &Path, socket: OwnedFd) -> io::Result<Pid> {
    let mut command = Command::new(path);
    command.arg(FORK_SERVER_ARG).env_clear().stdin(socket).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Pid::from_child(&command.spawn()?))
}

/// A copy of this process that runs as the fork server. The copy takes longer the more memory the host has, but happens once.
fn fork_copy(socket: &OwnedFd, remove_folder: RemoveFolder, supervisor_timeout: Duration) -> io::Result<Pid> {
    match sys::fork()? {
        ForkResult::Child => {
            child::IS_HOST_COPY.store(true, Ordering::Relaxed);
            server::serve(&socket, remove_folder, supervisor_timeout)
        }
        ForkResult::Parent(pid) => Ok(pid),
    }
}

impl Drop for ForkServerClient {
    /// Hangs up, and waits for the fork server to exit, which it does at once unless somebody has stopped it.
    fn drop(&mut self) {
        ipc::send_shutdown(&self.socket);
        shutdown(&self.socket, Shutdown::Both).ok();
        let is_exiting =
            pidfd_open(self.pid, PidfdFlags::empty()).map_or(true, |pidfd| wait_readable(&pidfd));
        if !is_exiting {
            kill_process(self.pid, Signal::KILL).ok();
        }
        retry_on_intr(|| waitpid(Some(self.pid), WaitOptions::empty())).ok();
    }
}

/// The argument that makes a program the fork server.
const FORK_SERVER_ARG: &str = "__fork-server";

/// Whether this program's `main` begins with the hook, so that it can be started again as a fork server.
static HAS_MAIN_HOOK: AtomicBool = AtomicBool::new(false);

/// Runs the program as the fork server, and never returns, if it was started as one by a [`Launcher`](crate::Launcher); returns at once
/// otherwise.
///
/// It belongs at the beginning of `main`, before other threads start and before arguments are read.
pub fn fork_server_main(remove_folder: RemoveFolder) {
    HAS_MAIN_HOOK.store(true, Ordering::Relaxed);
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == FORK_SERVER_ARG) && arguments.next().is_none() {
        server::serve_stdin(remove_folder);
    }
}

fn has_main_hook() -> bool {
    HAS_MAIN_HOOK.load(Ordering::Relaxed)
}
