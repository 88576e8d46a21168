//! Maps many small items in parallel, where that is faster.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Below this number of items, starting a thread costs more than it gains.
const MIN_ITEMS: usize = 500;
/// More threads than this do not speed up discovery.
const MAX_THREADS: usize = 8;
/// Items a thread takes at a time, so that one on a busy core does not delay the others.
const BLOCK_SIZE: usize = 32;

/// The results of `work` for all items, in the order of the items.
pub(crate) fn parallel_map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // Querying the available parallelism reads the control groups, which takes longer than inspecting a few folders.
    let threads = || thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    let threads = if items.len() < MIN_ITEMS { 1 } else { threads() };
    if threads < 2 {
        return items.iter().map(work).collect();
    }
    let taken = AtomicUsize::new(0);
    let take_blocks = || {
        let mut done = Vec::new();
        loop {
            let block = taken.fetch_add(1, Ordering::Relaxed);
            let Some(block_items) = items.chunks(BLOCK_SIZE).nth(block) else { return done };
            done.push((block, block_items.iter().map(&work).collect::<Vec<R>>()));
        }
    };
    let mut done = thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, take_blocks);
        // If the system cannot start a thread, the others do its share.
        let others: Vec<_> = (1..threads).map(start).filter_map(Result::ok).collect();
        let mut done = take_blocks();
        for other in others {
            // A panic there is a defect of metier, and is not hidden.
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(block, _)| *block);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for count in [0, 1, MIN_ITEMS - 1, MIN_ITEMS, 10 * MIN_ITEMS + 7] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(parallel_map(&items, |item| item + 1), (1..=count).collect::<Vec<_>>());
        }
    }
}
