//! The budgets of one run, shared by the runs that it calls: memory, and threads, which are taken where they help and returned when they end.
//! The latter also bounds the calls of providers, each of which takes a thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The threads that a run may have besides its own. Clones share the budget, and so do the skills that the run calls.
///
/// Taking a thread never waits: without a free one, the work is done on the current thread.
#[derive(Clone, Debug)]
pub struct ThreadBudget(Arc<BudgetInner>);

#[derive(Debug)]
struct BudgetInner {
    free_threads: AtomicUsize,
    free_provider_calls: AtomicUsize,
}

/// One thread of the budget, which is returned when this is dropped.
#[derive(Debug)]
#[must_use = "dropping it gives the thread back"]
pub struct ThreadPermit(ThreadBudget);

/// One call of a provider, which counts until this is dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the call"]
pub struct ProviderPermit(ThreadBudget);

/// The maximum number of calls of providers at a time, those included for which the run no longer waits.
const MAX_PROVIDER_CALLS: usize = 128;

impl ThreadBudget {
    /// The default maximum of threads of a run, its own included.
    pub const DEFAULT_MAX: usize = 64;

    /// A budget of this many threads, including the run's own, which it always has.
    pub fn new(most: usize) -> Self {
        Self(Arc::new(BudgetInner {
            free_threads: AtomicUsize::new(most.saturating_sub(1)),
            free_provider_calls: AtomicUsize::new(MAX_PROVIDER_CALLS),
        }))
    }

    /// Takes one more thread, if one is free.
    pub fn try_acquire(&self) -> Option<ThreadPermit> {
        take(&self.0.free_threads).then(|| ThreadPermit(self.clone()))
    }

    /// Begins one more call of a provider, if there are not too many.
    pub(crate) fn try_call_provider(&self) -> Option<ProviderPermit> {
        take(&self.0.free_provider_calls).then(|| ProviderPermit(self.clone()))
    }
}

fn take(free: &AtomicUsize) -> bool {
    free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

impl Default for ThreadBudget {
    fn default() -> Self {
        Self::new(Self::DEFAULT_MAX)
    }
}

impl Drop for ThreadPermit {
    fn drop(&mut self) {
        self.0.0.free_threads.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for ProviderPermit {
    fn drop(&mut self) {
        self.0.0.free_provider_calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// A number of bytes to reserve from. Clones share the budget.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    available: Arc<AtomicU64>,
    capacity: u64,
}

impl MemoryBudget {
    /// A budget of this many bytes.
    pub fn new(most: u64) -> Self {
        Self { available: Arc::new(AtomicU64::new(most)), capacity: most }
    }

    /// Reserves this many bytes, if they are available.
    pub fn try_reserve(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.available.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Releases reserved bytes.
    pub fn release(&self, bytes: u64) {
        self.available.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The total bytes of the budget.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The reserved bytes.
    pub fn reserved(&self) -> u64 {
        self.capacity - self.available.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_so_many_and_those_given_back_are_there_again() {
        for (most, others) in [(0, 0), (1, 0), (2, 1), (64, 63)] {
            let threads = ThreadBudget::new(most);
            for _ in 0..2 {
                let taken: Vec<ThreadPermit> = std::iter::from_fn(|| threads.clone().try_acquire()).collect();
                assert_eq!(taken.len(), others, "{most}");
            }
        }
    }

    #[test]
    fn no_more_is_taken_than_there_is() {
        let room = MemoryBudget::new(10);
        assert!(room.try_reserve(4) && room.clone().try_reserve(6) && !room.try_reserve(1));
        room.release(6);
        assert_eq!((room.reserved(), room.capacity()), (4, 10));
        assert!(!room.try_reserve(7) && room.try_reserve(6));
    }
}
