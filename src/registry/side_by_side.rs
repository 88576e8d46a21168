//! Many small pieces of work at once, where that pays.

use std::num::NonZero;
use std::thread;

/// Below this many pieces starting a thread costs more than it gains.
const WORTHWHILE: usize = 500;
/// Looking for skills is not worth more threads than this.
const MOST_THREADS: usize = 8;

/// What `work` makes of every item, in the items' order.
pub(super) fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
    if items.len() < WORTHWHILE || threads < 2 {
        return items.iter().map(work).collect();
    }
    let (chunks, work) = (items.chunks(items.len().div_ceil(threads)), &work);
    let all = |chunk: &[T]| chunk.iter().map(work).collect::<Vec<_>>();
    thread::scope(|scope| {
        let started: Vec<_> = chunks
            .map(|chunk| thread::Builder::new().spawn_scoped(scope, move || all(chunk)).map_err(|_| chunk))
            .collect();
        // Where the system gives no thread, or one did not finish, this one does its work.
        started
            .into_iter()
            .flat_map(|started| match started {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(chunk) => all(chunk),
            })
            .collect()
    })
}
