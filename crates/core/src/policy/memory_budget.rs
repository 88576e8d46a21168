//! A shared budget of memory bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    fn no_more_is_taken_than_there_is() {
        let room = MemoryBudget::new(10);
        assert!(room.try_reserve(4) && room.clone().try_reserve(6) && !room.try_reserve(1));
        room.release(6);
        assert_eq!((room.reserved(), room.capacity()), (4, 10));
        assert!(!room.try_reserve(7) && room.try_reserve(6));
    }
}
