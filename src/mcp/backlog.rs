//! How much is waiting for the client to read it.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// While so many bytes wait, no further message is read and no further call starts.
const MAX_BYTES: usize = 64 << 20;

/// The bytes of messages that were not written yet.
#[derive(Default)]
pub(super) struct Backlog {
    bytes: AtomicUsize,
    is_smaller: Notify,
}

impl Backlog {
    pub(super) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(super) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.is_smaller.notify_waiters();
    }

    /// Whether all messages were written.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.load(Ordering::Acquire) == 0
    }

    /// Waits until more may be written.
    pub(super) async fn writable(&self) {
        loop {
            let smaller = self.is_smaller.notified();
            if self.bytes.load(Ordering::Acquire) < MAX_BYTES {
                return;
            }
            smaller.await;
        }
    }
}
