//! The threads of runs that a caller polls. When its run has ended, a thread waits for the next one, which saves starting another.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Threads that wait at a time; further ones end with their run.
const MAX_IDLE: usize = 16;
/// How long one of them waits.
const IDLE_TIME: Duration = Duration::from_secs(10);

static IDLE: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());

type Work = Box<dyn FnOnce() + Send>;

/// Where an idle thread receives its next work.
#[derive(Default)]
struct Slot {
    work: Mutex<Option<Work>>,
    is_filled: Condvar,
}

/// Does the work on a thread of its own: on one that waits, or else on a new one.
pub(super) fn start(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let work: Work = Box::new(work);
    {
        // The last one: the others may end.
        let mut idle = lock(&IDLE);
        if let Some(slot) = idle.pop() {
            *lock(&slot.work) = Some(work);
            slot.is_filled.notify_one();
            return Ok(());
        }
    }
    std::thread::Builder::new().name("metier-run".into()).spawn(move || serve(work)).map(drop)
}

fn serve(first: Work) {
    let slot = Arc::new(Slot::default());
    let mut next = Some(first);
    while let Some(work) = next.take() {
        // The hook of the process has reported a panic by now.
        if catch_unwind(AssertUnwindSafe(work)).is_ok() {
            next = slot.wait();
        }
    }
}

impl Slot {
    /// The next work; `None` when this thread is not needed any more.
    fn wait(self: &Arc<Self>) -> Option<Work> {
        {
            let mut idle = lock(&IDLE);
            if idle.len() >= MAX_IDLE {
                return None;
            }
            idle.push(self.clone());
        }
        let waiting = lock(&self.work);
        let waited = self.is_filled.wait_timeout_while(waiting, IDLE_TIME, |work| work.is_none());
        drop(waited);
        // Whoever fills the slot takes it from the list first, and holds the list until it is filled.
        let mut idle = lock(&IDLE);
        idle.retain(|slot| !Arc::ptr_eq(slot, self));
        lock(&self.work).take()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread::{ThreadId, current};
    use std::time::Instant;

    use super::*;

    fn thread_of_work() -> ThreadId {
        let (sender, threads) = channel();
        start(move || sender.send(current().id()).unwrap()).unwrap();
        threads.recv_timeout(Duration::from_secs(10)).unwrap()
    }

    #[test]
    fn a_thread_serves_the_next_work_when_its_own_has_ended() {
        let until = Instant::now() + Duration::from_secs(30);
        let mut threads = Vec::new();
        while Instant::now() < until {
            let thread = thread_of_work();
            if threads.contains(&thread) {
                return;
            }
            threads.push(thread);
        }
        panic!("no thread served twice");
    }

    #[test]
    fn all_work_is_done_also_beside_work_that_panics() {
        let (sender, done) = channel();
        for number in 0..200 {
            let sender = sender.clone();
            start(move || {
                assert!(number % 10 != 3, "a defect");
                sender.send(number).unwrap();
            })
            .unwrap();
        }
        drop(sender);
        let mut numbers: Vec<i32> = done.iter().collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..200).filter(|number| number % 10 != 3).collect::<Vec<_>>());
        assert!(lock(&IDLE).len() <= MAX_IDLE);
    }
}
