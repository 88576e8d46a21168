//! Work that nobody needs to wait for: done beside the runs, and done when the engine is gone.

use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Threads at a time. Who comes while all of them are at work does it alone: what strangers leave must not pile up.
const THREADS: usize = 2;

/// The threads of one engine. Dropping this waits for them.
#[derive(Default)]
pub(crate) struct Sweeper(Mutex<Vec<JoinHandle<()>>>);

impl Sweeper {
    /// Does the work, on another thread where one can be had.
    pub(crate) fn take(&self, work: impl Fn() + Clone + Send + 'static) {
        if !self.has_begun(work.clone()) {
            work();
        }
    }

    fn has_begun(&self, work: impl FnOnce() + Send + 'static) -> bool {
        let mut threads = self.threads();
        threads.retain(|thread| !thread.is_finished());
        let is_free = threads.len() < THREADS;
        let started = is_free.then(|| Builder::new().name("metier-sweeper".into()).spawn(work));
        let thread = started.and_then(Result::ok);
        let has_begun = thread.is_some();
        threads.extend(thread);
        has_begun
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        let threads: Vec<_> = self.threads().drain(..).collect();
        for thread in threads {
            thread.join().ok();
        }
    }
}
