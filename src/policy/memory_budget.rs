//! Bytes of memory that are there for something, taken and given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many bytes. Clones share them.
#[derive(Clone, Debug)]
pub struct MemoryBudget {
    available: Arc<AtomicU64>,
    capacity: u64,
}

impl MemoryBudget {
    /// Room for so many bytes.
    pub fn new(most: u64) -> Self {
        Self { available: Arc::new(AtomicU64::new(most)), capacity: most }
    }

    /// Takes so many, where they are left.
    pub fn try_reserve(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.available.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Gives back what was taken.
    pub fn release(&self, bytes: u64) {
        self.available.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were there at first.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that are taken.
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
