//! How many connections all scripts of this process may have: each takes two descriptors of the host program, which needs others for
//! itself and for its next runs.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// Descriptors that are left for everything else.
const RESERVED_DESCRIPTORS: u64 = 256;

static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts one connection.
pub(super) struct ConnectionPermit(());

impl ConnectionPermit {
    /// `None` if there are as many as the limit of open files of this process permits.
    pub(super) fn acquire() -> Option<Self> {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let max = usize::try_from(descriptors.saturating_sub(RESERVED_DESCRIPTORS) / 2).unwrap_or(usize::MAX);
        let permit = Self(());
        // A permit that is not handed out is given back when it is dropped.
        (CONNECTIONS.fetch_add(1, Ordering::Relaxed) < max).then_some(permit)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
    }
}
