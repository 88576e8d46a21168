//! Systems and builds without a sandbox: nothing is started in one, and the error says so.

use std::io;
use std::os::fd::OwnedFd;

use super::sandbox::{Order, Report, Source};
use crate::policy::Tier;

/// Starts nothing.
#[derive(Default)]
pub(crate) struct Launcher;

/// Never made.
pub(crate) struct Started {
    pub(crate) report: OwnedFd,
}

impl Launcher {
    pub(crate) fn new(_source: Source, _tier: Tier) -> Self {
        Self
    }

    /// Always an error: `unsupported`.
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub(crate) fn start(
        &self,
        _order: &Order,
        _streams: [OwnedFd; 3],
        _api: Option<OwnedFd>,
    ) -> io::Result<Started> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub(crate) fn program(&self) -> Option<std::path::PathBuf> {
        None
    }

    #[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub(crate) fn is_itself(&self) -> bool {
        true
    }
}

impl Started {
    #[allow(clippy::unused_self, reason = "as where there are sandboxes")]
    pub(crate) fn ended(self) -> Option<Report> {
        None
    }
}

/// Nothing is handed down where there are no sandboxes.
pub(crate) fn inherited(_number: i32) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Always an error: `unsupported`.
#[cfg_attr(not(feature = "wasm-runtime"), allow(dead_code))]
pub(crate) fn shut_out_files() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// There is nothing to help with.
pub(crate) fn helper_main() {}
