//! Systems without process groups: nothing could be stopped as a whole, so nothing is started.

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus};

use crate::policy::{CancelToken, Limits};

/// What to run.
#[allow(dead_code, reason = "the same request as where processes run")]
pub(super) struct Request<'a> {
    pub(super) command: Command,
    pub(super) stdin: Option<Vec<u8>>,
    pub(super) limits: &'a Limits,
    pub(super) cancel: &'a CancelToken,
}

/// How a process ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) signal: Option<i32>,
    pub(super) stdout: Kept,
    pub(super) stderr: Kept,
}

/// What was kept of a stream.
pub(super) struct Kept {
    pub(super) bytes: Vec<u8>,
    pub(super) truncated: bool,
    pub(super) came: u64,
}

/// Always an error: `unsupported`.
pub(super) fn run(_request: Request<'_>) -> io::Result<Ended> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether the file may be executed.
pub(super) fn is_executable(_path: &Path) -> bool {
    true
}
