//! Background threads that delete what runs leave behind. Dropping the engine waits for them.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Threads at a time. While all of them are busy, a caller does the work itself: what untrusted scripts leave must not pile up.
const MAX_CLEANUP_THREADS: usize = 2;

/// The threads of one engine. Dropping this waits for them.
#[derive(Default)]
pub(crate) struct CleanupThreads(Mutex<Vec<JoinHandle<()>>>);

impl CleanupThreads {
    /// Runs the work, on another thread if one is available.
    pub(crate) fn take(&self, work: impl Fn() + Clone + Send + 'static) {
        if !self.try_spawn(work.clone()) {
            work();
        }
    }

    fn try_spawn(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let mut threads = self.threads();
        threads.retain(|thread| !thread.is_finished());
        let is_free = threads.len() < MAX_CLEANUP_THREADS;
        let started = is_free.then(|| Builder::new().name("metier-cleanup".into()).spawn(work));
        let thread = started.and_then(Result::ok);
        let has_begun = thread.is_some();
        threads.extend(thread);
        has_begun
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CleanupThreads {
    fn drop(&mut self) {
        let threads: Vec<_> = self.threads().drain(..).collect();
        for thread in threads {
            thread.join().ok();
        }
    }
}
