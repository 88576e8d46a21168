//! What the server of an overlay answers.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::bytes;

/// A descriptor comes with it, or it says why there is none.
pub(super) type Reply = Result<(), Failure>;

/// Why there is no overlay, with error numbers of the system.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Failure {
    /// This process can have no mounts of its own.
    Namespaces(i32),
    /// Another folder is at this path than the one that the host has opened.
    Replaced(#[serde(with = "bytes")] OsString),
    /// The lower folder, and what is mounted in it.
    MountBelow(#[serde(with = "bytes")] OsString, #[serde(with = "bytes")] OsString),
    /// The kernel has no overlayfs.
    NoOverlayfs,
    /// What overlayfs refuses: an option, or another step.
    Mount(String, i32),
}

/// Longer than any reply, which has two paths at most.
pub(super) const MAX_REPLY_BYTES: usize = 16 << 10;
