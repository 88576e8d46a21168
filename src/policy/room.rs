//! Bytes of memory that are there for something, taken and given back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// So many bytes. Clones share them.
#[derive(Clone, Debug)]
pub struct Room {
    left: Arc<AtomicU64>,
    most: u64,
}

impl Room {
    /// Room for so many bytes.
    pub fn new(most: u64) -> Self {
        Self { left: Arc::new(AtomicU64::new(most)), most }
    }

    /// Takes so many, where they are left.
    pub fn take(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Gives back what was taken.
    pub fn give(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes that were there at first.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> u64 {
        self.most - self.left.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let room = Room::new(10);
        assert!(room.take(4) && room.clone().take(6) && !room.take(1));
        room.give(6);
        assert_eq!((room.taken(), room.most()), (4, 10));
        assert!(!room.take(7) && room.take(6));
    }
}
