//! The text of a model on its way to the observer of the run.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

/// The text of one answer that was handed on while it came.
#[derive(Default)]
pub(super) struct SampleStream {
    pub(super) is_closed: AtomicBool,
    /// Locked while a part is handed on, so that parts keep their order.
    pub(super) state: Mutex<StreamState>,
}

#[derive(Default)]
pub(super) struct StreamState {
    /// Text that may contain the beginning of a secret.
    pub(super) held: String,
    /// Bytes that were handed on.
    pub(super) bytes: u64,
}
