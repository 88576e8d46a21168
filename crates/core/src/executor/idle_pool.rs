//! Values that are kept for reuse: virtual machines, engines, worker processes.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A bounded list of idle values.
pub struct IdlePool<T> {
    /// The value that has been idle longest is the first.
    idle: Mutex<Vec<T>>,
    max_idle: usize,
}

impl<T> IdlePool<T> {
    /// Keeps at most so many idle values.
    pub const fn new(max_idle: usize) -> Self {
        Self { idle: Mutex::new(Vec::new()), max_idle }
    }

    /// Takes the last value that fits.
    pub fn checkout(&self, fits: impl FnMut(&T) -> bool) -> Option<T> {
        let mut idle = self.idle();
        idle.iter().rposition(fits).map(|at| idle.remove(at))
    }

    /// Puts a value back. If the pool is full, the value that has been idle longest is dropped.
    pub fn checkin(&self, value: T) {
        let mut idle = self.idle();
        let removed = (idle.len() == self.max_idle).then(|| idle.remove(0));
        idle.push(value);
        // Dropping a value may take long, so the lock is released before.
        drop(idle);
        drop(removed);
    }

    fn idle(&self) -> MutexGuard<'_, Vec<T>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
