//! What a sandbox enforces on this machine: the report about a program that does nothing in it.

use std::fs::File;
use std::io;

use super::response_timeout::wait_readable;
use super::{LaunchRequest, Launcher, SandboxPolicy, SupervisorReport};

/// Runs a program that does nothing in this sandbox and returns the supervisor's report.
pub fn probe(launcher: &Launcher, sandbox: SandboxPolicy) -> io::Result<SupervisorReport> {
    let request = LaunchRequest {
        program: "/bin/true".into(),
        args: Vec::new(),
        environment: Vec::new(),
        folder: "/".into(),
        sandbox,
        cleanup_dirs: Vec::new(),
        timeout_ms: 10_000,
    };
    let dev_null = || File::options().read(true).write(true).open("/dev/null").map(Into::into);
    let started = launcher.start(&request, [dev_null()?, dev_null()?, dev_null()?], None)?;
    wait_readable(&started.report);
    started.kill_and_wait().ok_or_else(|| io::Error::other("the process that sets up the sandbox was killed"))
}
