//! Whether this thread works for a run of an engine: what it runs then belongs to that run.

use std::cell::Cell;

thread_local! {
    static WORKS_FOR_RUN: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread until it is dropped.
pub struct RunThreadGuard {
    before: bool,
}

impl RunThreadGuard {
    /// Marks this thread until the guard is dropped.
    pub fn enter() -> Self {
        Self { before: WORKS_FOR_RUN.replace(true) }
    }
}

impl Drop for RunThreadGuard {
    fn drop(&mut self) {
        WORKS_FOR_RUN.set(self.before);
    }
}

/// Whether code of a program that a run calls is running on this thread: an observer, a provider, an approver.
pub fn works_for_run() -> bool {
    WORKS_FOR_RUN.get()
}
