//! The launcher for systems and builds without a sandbox: every start fails with `Unsupported`.

use std::io;
use std::os::fd::OwnedFd;

use super::{ForkServerSource, LaunchRequest, Machine, SandboxPolicy, SupervisorReport};
use crate::policy::SandboxLevel;

/// A launcher that starts nothing.
#[derive(Default)]
pub(crate) struct Launcher;

/// Never created.
pub(crate) struct LaunchHandle {
    pub(crate) report: OwnedFd,
    pub(crate) egress: Option<OwnedFd>,
}

impl Launcher {
    pub(crate) fn new(_source: ForkServerSource, _level: SandboxLevel) -> Self {
        Self
    }

    /// There is nothing to prepare.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub(crate) fn prepare(&self, _sandbox: &SandboxPolicy) {}

    /// Always an error: `unsupported`.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub(crate) fn start(
        &self,
        _request: &LaunchRequest,
        _streams: [OwnedFd; 3],
        _api: Option<OwnedFd>,
    ) -> io::Result<LaunchHandle> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub(crate) fn server_program(&self) -> Option<std::path::PathBuf> {
        None
    }

    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub(crate) fn has_server_program(&self) -> bool {
        false
    }

    #[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub(crate) fn uses_current_program(&self) -> bool {
        true
    }
}

impl LaunchHandle {
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub(crate) fn kill_and_wait(self) -> Option<SupervisorReport> {
        None
    }
}

/// Without sandboxes no descriptor is inherited.
pub(crate) fn inherited_fd(_number: i32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Always an error: `unsupported`.
#[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
pub(crate) fn deny_all_files() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Always an error: `unsupported`.
#[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
pub(crate) fn restrict_to_computing() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing is known: there is no sandbox on any machine.
pub(crate) fn machine() -> Option<Machine> {
    None
}

/// Does nothing: there is no fork server here.
pub(crate) fn fork_server_main() {}
