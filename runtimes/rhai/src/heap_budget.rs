//! The memory budget of one run: how much its thread may allocate, and how much of that is left.
//!
//! Rhai does not count memory, so the allocation counter of the thread is read: see [`metier_core::alloc_counter`]. In a program
//! that does not count allocations, Rhai's own size limits are used instead; see `engine.rs`.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use super::stack::SHALLOW_BYTES;
use metier_core::alloc_counter;

/// Changed only by the run's own thread; atomic because an engine may serve another thread next.
#[derive(Default)]
pub(super) struct HeapBudget {
    limit: AtomicU64,
    /// The thread's balance beyond which the run exceeds its limit.
    ceiling: AtomicI64,
    /// The balance beyond which a check is needed: at first that of a shallow run, then the ceiling.
    check_threshold: AtomicI64,
    is_large: AtomicBool,
}

impl HeapBudget {
    /// Begins a run on this thread that may allocate this many bytes.
    pub(super) fn begin(&self, limit: u64) {
        let ceiling = if alloc_counter::is_counting() {
            alloc_counter::net_bytes().saturating_add(i64::try_from(limit).unwrap_or(i64::MAX))
        } else {
            i64::MAX
        };
        let shallow = alloc_counter::net_bytes().saturating_add_unsigned(SHALLOW_BYTES as u64).min(ceiling);
        self.limit.store(limit, Ordering::Relaxed);
        self.check_threshold.store(shallow, Ordering::Relaxed);
        self.is_large.store(!alloc_counter::is_counting(), Ordering::Relaxed);
        self.ceiling.store(ceiling, Ordering::Relaxed);
    }

    /// The memory limit of the run in bytes.
    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Whether more is allocated than at the last check: read at every operation, before anything else.
    #[inline]
    pub(super) fn needs_check(&self) -> bool {
        alloc_counter::net_bytes() > self.check_threshold.load(Ordering::Relaxed)
    }

    /// Whether the run at any time held so much that its values may be nested deeply.
    pub(super) fn was_large(&self) -> bool {
        self.is_large.load(Ordering::Relaxed)
    }

    /// Whether the run exceeds its memory limit.
    #[cold]
    pub(super) fn is_exceeded(&self) -> bool {
        self.is_large.store(true, Ordering::Relaxed);
        self.check_threshold.store(self.ceiling.load(Ordering::Relaxed), Ordering::Relaxed);
        alloc_counter::net_bytes() > self.ceiling.load(Ordering::Relaxed)
    }

    /// The bytes that may still be allocated; the whole limit if allocations are not counted.
    pub(super) fn remaining(&self) -> u64 {
        let left = self.ceiling.load(Ordering::Relaxed).saturating_sub(alloc_counter::net_bytes());
        u64::try_from(left).unwrap_or(0).min(self.limit())
    }

    /// The bytes that the run has allocated and not freed; zero if allocations are not counted.
    pub(super) fn retained(&self) -> i64 {
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        let limit = i64::try_from(self.limit()).unwrap_or(i64::MAX);
        if ceiling == i64::MAX { 0 } else { alloc_counter::net_bytes() - (ceiling - limit) }
    }

    /// Runs work of the host that is not charged to the script: neither the memory that it keeps, nor memory that it frees
    /// and another thread had allocated.
    pub(super) fn uncharged<T>(&self, work: impl FnOnce() -> T) -> T {
        let before = alloc_counter::net_bytes();
        let done = work();
        let ceiling = self.ceiling.load(Ordering::Relaxed);
        let more = alloc_counter::net_bytes() - before;
        self.ceiling.store(ceiling.saturating_add(more), Ordering::Relaxed);
        self.check_threshold.fetch_add(more, Ordering::Relaxed);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_thread_keeps_is_spent_and_what_it_frees_comes_back() {
        let budget = HeapBudget::default();
        budget.begin(10_000);
        let kept = vec![1_u8; 6_000];
        assert!(budget.remaining() < 4_000 && !budget.is_exceeded());
        let more = vec![1_u8; 6_000];
        assert!(budget.is_exceeded());
        assert_eq!(budget.remaining(), 0);
        drop((kept, more));
        assert_eq!(budget.remaining(), 10_000);
    }

    #[test]
    fn the_hosts_work_is_neither_paid_for_nor_a_gift() {
        let budget = HeapBudget::default();
        budget.begin(10_000);
        let kept = budget.uncharged(|| vec![1_u8; 1 << 20]);
        assert_eq!(budget.remaining(), 10_000);
        budget.uncharged(|| drop(kept));
        let foreign = std::thread::spawn(|| vec![1_u8; 1 << 20]).join().unwrap();
        budget.uncharged(|| drop(foreign));
        let spent = vec![1_u8; 20_000];
        assert!(budget.is_exceeded());
        drop(spent);
    }
}
