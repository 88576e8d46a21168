//! The launcher for systems and builds without a sandbox: every start fails with `Unsupported`.

use std::convert::Infallible;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use super::SandboxLevel;
use super::{
    ForkServerSource, LaunchRequest, Machine, OverlayError, OverlayMount, OverlayRequest, RemoveFolder,
    SandboxPolicy, SupervisorReport,
};

/// A launcher that starts nothing.
#[derive(Default)]
pub struct Launcher;

/// Never created.
pub struct LaunchHandle {
    /// Never readable.
    pub report: OwnedFd,
    /// Never there.
    pub egress: Option<OwnedFd>,
}

impl Launcher {
    /// One that starts nothing, whatever it is given.
    pub fn new(_source: ForkServerSource, _level: SandboxLevel) -> Self {
        Self
    }

    /// Nothing is removed.
    pub fn remove_folders_by(self, _remove_folder: RemoveFolder) -> Self {
        self
    }

    /// There is nothing to prepare.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub fn prepare(&self, _sandbox: &SandboxPolicy) {}

    /// Always an error: `unsupported`.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub fn start(
        &self,
        _request: &LaunchRequest,
        _streams: [OwnedFd; 3],
        _api: Option<OwnedFd>,
    ) -> io::Result<LaunchHandle> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Always an error: `unsupported`.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub fn mount_overlay(&self, _request: OverlayRequest<'_>) -> Result<Overlay, OverlayError> {
        Err(OverlayError::NoOverlayfs)
    }

    /// There is none.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub fn server_program(&self) -> Option<std::path::PathBuf> {
        None
    }

    /// There is none.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub fn has_server_program(&self) -> bool {
        false
    }

    /// As if it were this one.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub fn uses_current_program(&self) -> bool {
        true
    }
}

/// Never created.
#[derive(Debug)]
pub struct Overlay(Infallible);

impl Overlay {
    /// There is none.
    pub fn root(&self) -> BorrowedFd<'_> {
        match self.0 {}
    }

    /// There is none.
    pub fn detached(&self) -> io::Result<OwnedFd> {
        match self.0 {}
    }

    /// There is none.
    pub fn mount_at(&self, _path: &Path) -> OverlayMount {
        match self.0 {}
    }
}

impl LaunchHandle {
    /// There is nothing to wait for.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub fn wait(self) -> Option<SupervisorReport> {
        None
    }

    /// There is nothing to kill.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub fn kill_and_wait(self) -> Option<SupervisorReport> {
        None
    }
}

/// Always an error.
pub fn enter_overlay(_request: OverlayRequest<'_>) -> Result<(), OverlayError> {
    Err(OverlayError::NoOverlayfs)
}

/// Without sandboxes no descriptor is inherited.
pub fn inherited_fd(_number: i32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Always an error: `unsupported`.
pub fn deny_all_files() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Always an error: `unsupported`.
pub fn restrict_to_computing() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Nothing is known: there is no sandbox on any machine.
pub fn machine() -> Option<Machine> {
    None
}

/// Does nothing: there is no fork server here.
pub fn fork_server_main(_remove_folder: RemoveFolder) {}
