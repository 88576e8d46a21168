//! How many connections all scripts of this process may have: each takes two descriptors of the host program, which needs others for
//! itself and for its next runs. Where these become few, each script may have twice as many connections as are left for others.

use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Resource, getrlimit};

/// Descriptors that are left for everything else.
const RESERVED_DESCRIPTORS: u64 = 256;

static CONNECTIONS: AtomicUsize = AtomicUsize::new(0);

/// Counts one connection.
pub(super) struct ConnectionPermit(());

impl ConnectionPermit {
    /// For a script that has so many. `None` if that is its part of what the limit of open files of this process permits.
    pub(super) fn acquire(own: usize) -> Option<Self> {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let max = usize::try_from(descriptors.saturating_sub(RESERVED_DESCRIPTORS) / 2).unwrap_or(usize::MAX);
        let add = |all| may_add(own, all, max).then_some(all + 1);
        CONNECTIONS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).ok().map(|_| Self(()))
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        CONNECTIONS.fetch_sub(1, Ordering::Relaxed);
    }
}

fn may_add(own: usize, all: usize, max: usize) -> bool {
    own < max.saturating_sub(all).saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_take_all_they_can_leave_some_to_others() {
        let max = (1_024 - 256) / 2;
        let (mut all, mut shares) = (0, Vec::new());
        for _ in 0..6 {
            let mut own = 0;
            while may_add(own, all, max) {
                (own, all) = (own + 1, all + 1);
            }
            shares.push(own);
        }
        assert_eq!(shares, [256, 86, 28, 10, 3, 1]);
        assert!(!may_add(0, max, max));
    }
}
