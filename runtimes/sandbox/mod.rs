//! The sandbox for processes: policy, launcher and report. The rest of the crate uses what this module exports.

mod bytes;
mod cleanup;
pub(crate) mod compat;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
mod linux;
mod request;
mod requirements;
mod run_temp_dir;
#[cfg(not(all(feature = "sandboxed", target_os = "linux")))]
mod unsupported;

pub(crate) use self::cleanup::CleanupThreads;
#[cfg(all(feature = "sandboxed", target_os = "linux"))]
use self::linux as platform;
pub(crate) use self::request::{
    Enforcement, FileRules, HOST_API_FD, LaunchOutcome, LaunchRequest, PinnedPath, ProtectedPaths,
    ResourceLimits, ResourceUsage, SandboxPolicy, SupervisorReport, Version,
};
pub(crate) use self::run_temp_dir::{CleanupDir, RunTempDir};
#[cfg(not(all(feature = "sandboxed", target_os = "linux")))]
use self::unsupported as platform;
#[cfg_attr(not(feature = "wasm-runtime"), allow(unused_imports))]
pub(crate) use platform::deny_all_files;
pub(crate) use platform::{LaunchHandle, Launcher, fork_server_main, inherited_fd};

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Which program runs as the fork server, which starts programs in sandboxes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ForkServerSource {
    /// This very program, where its `main` begins with [`helper_main`](crate::helper_main); otherwise a copy of this process.
    #[default]
    CurrentProgram,
    /// The `metier` program at this path, or another whose `main` begins in that way.
    Program(PathBuf),
}

/// How long the fork server and the supervisor may take to respond.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);

/// Waits until the descriptor is readable or hung up, for [`RESPONSE_TIMEOUT`] at most. Signals to the host, such as those of a
/// profiler, do not end the wait.
pub(crate) fn wait_readable(end: &impl AsFd) -> bool {
    let until = Instant::now() + RESPONSE_TIMEOUT;
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        match poll(&mut [PollFd::new(end, PollFlags::IN)], left.as_ref()) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|ready| ready > 0),
        }
    }
}

/// Runs a program that does nothing in this sandbox and returns the supervisor's report.
pub(crate) fn probe(launcher: &Launcher, sandbox: SandboxPolicy) -> io::Result<SupervisorReport> {
    let order = LaunchRequest {
        program: "/bin/true".into(),
        args: Vec::new(),
        environment: Vec::new(),
        folder: "/".into(),
        sandbox,
        cleanup_dirs: Vec::new(),
        timeout_ms: 10_000,
    };
    let nowhere = || File::options().read(true).write(true).open("/dev/null").map(Into::into);
    let started = launcher.start(&order, [nowhere()?, nowhere()?, nowhere()?], None)?;
    wait_readable(&started.report);
    started.kill_and_wait().ok_or_else(|| io::Error::other("the process that puts up the sandbox was killed"))
}
