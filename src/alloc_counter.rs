//! What each thread has allocated: an allocator that counts, so that a run can be held to its memory exactly.
//!
//! Rhai keeps no account of its memory, so its limit needs this allocator in place. The `metier` command installs it; a
//! program that embeds the library does so in two lines, and Rhai's memory limit is approximate where it does not:
//!
//! ```
//! #[global_allocator]
//! static HEAP: metier::alloc_counter::CountingAllocator = metier::alloc_counter::CountingAllocator;
//!
//! assert!(metier::alloc_counter::is_counting());
//! let before = metier::alloc_counter::balance();
//! let kept = vec![0_u8; 1000];
//! assert!(metier::alloc_counter::balance() - before >= 1000);
//! # drop(kept);
//! ```
//!
//! It passes every request on to the system's allocator and adds the size to a counter of the calling thread: no lock, no
//! atomic, about a nanosecond. A room for unsafe code: an allocator is an unsafe trait.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The system's allocator, with an account for each thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// What an allocator keeps for itself beside each block, and so what a block weighs beyond its size.
const BLOCK_OVERHEAD: i64 = 16;

#[derive(Clone, Copy)]
struct ThreadCounter {
    net_bytes: i64,
    peak_bytes: i64,
}

thread_local! {
    // Made at compile time and never dropped: reading it allocates nothing, and a thread may use it to its last breath.
    static THREAD_COUNTER: Cell<ThreadCounter> = const { Cell::new(ThreadCounter { net_bytes: 0, peak_bytes: 0 }) };
}

/// Bytes this thread has allocated less those it has freed, each block 16 bytes heavier than asked for.
///
/// Only differences mean something: a thread that frees what others allocated has a negative balance. Always zero in a
/// program that did not install [`CountingAllocator`]; see [`is_counting`].
#[inline]
pub fn net_bytes() -> i64 {
    THREAD_COUNTER.try_with(Cell::get).map_or(0, |account| account.net_bytes)
}

/// The highest balance of this thread since [`reset_peak`], in bytes.
pub fn peak_bytes() -> i64 {
    THREAD_COUNTER.try_with(Cell::get).map_or(0, |account| account.peak_bytes)
}

/// Lets [`peak`] begin anew at the present balance.
pub fn reset_peak() {
    let _ = THREAD_COUNTER
        .try_with(|cell| cell.set(ThreadCounter { peak_bytes: cell.get().net_bytes, ..cell.get() }));
}

/// Whether this program installed [`CountingAllocator`]: found out once, by allocating and looking.
pub fn is_counting() -> bool {
    static COUNTING: LazyLock<bool> = LazyLock::new(|| {
        let before = net_bytes();
        let probe = black_box(Box::new(0_u64));
        let counted = net_bytes() != before;
        drop(probe);
        counted
    });
    *COUNTING
}

#[inline]
fn count(bytes: i64) {
    // A thread whose locals are gone counts no more; what it frees then is of no run.
    let _ = THREAD_COUNTER.try_with(|cell| {
        let ThreadCounter { net_bytes, peak_bytes } = cell.get();
        let net_bytes = net_bytes.wrapping_add(bytes);
        cell.set(ThreadCounter { net_bytes, peak_bytes: peak_bytes.max(net_bytes) });
    });
}

/// Bytes that are set aside for when the system has no more: what one call of the host takes beside what it asks for before
/// (buffers that double, compiled patterns, errors), and the end of a run.
const RESERVE_LAYOUT: Layout = Layout::new::<[u8; 40 << 20]>();

static RESERVE_BLOCK: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static IS_RESERVE_RELEASED: AtomicBool = AtomicBool::new(false);

/// Sets 40 MiB aside, where none are: whether they are there now. Where the system has no more memory for something, which
/// would end the program, they are given up for it, and runs end with errors until they are there again. They are addresses
/// only, since nobody writes to them. Always true in a program that did not install [`CountingAllocator`].
pub fn ensure_reserve() -> bool {
    if !RESERVE_BLOCK.load(Ordering::Relaxed).is_null() || !is_counting() {
        return true;
    }
    // SAFETY: the layout has a size.
    let block = unsafe { System.alloc(RESERVE_LAYOUT) };
    if block.is_null() {
        return false;
    }
    if RESERVE_BLOCK.compare_exchange(null_mut(), block, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: the block is from the line above, and nobody else was told of it.
        unsafe { System.dealloc(block, RESERVE_LAYOUT) };
    }
    IS_RESERVE_RELEASED.store(false, Ordering::Relaxed);
    true
}

/// Whether the system had no more memory, and the reserve was given up.
#[inline]
pub fn is_reserve_released() -> bool {
    IS_RESERVE_RELEASED.load(Ordering::Relaxed)
}

/// Whether the system has so many bytes besides.
pub(crate) fn can_allocate(bytes: usize) -> bool {
    let Ok(layout) = Layout::array::<u8>(bytes.max(1)) else { return false };
    // SAFETY: the layout has a size.
    let block = unsafe { System.alloc(layout) };
    if !block.is_null() {
        // SAFETY: the block is from the line above, with this layout.
        unsafe { System.dealloc(block, layout) };
    }
    !block.is_null()
}

/// Gives the reserve up for a block of that size; whether there was one.
#[cold]
fn release_reserve(size: usize) -> bool {
    if size > RESERVE_LAYOUT.size() {
        return false;
    }
    let block = RESERVE_BLOCK.swap(null_mut(), Ordering::AcqRel);
    if block.is_null() {
        return false;
    }
    IS_RESERVE_RELEASED.store(true, Ordering::Relaxed);
    // SAFETY: whoever swaps it out has it alone, and it came from the system's allocator with this layout.
    unsafe { System.dealloc(block, RESERVE_LAYOUT) };
    true
}

/// No block is larger than `isize::MAX`, so none is too large here.
#[allow(clippy::cast_possible_wrap)]
#[inline]
fn counted_size(size: usize) -> i64 {
    size as i64 + BLOCK_OVERHEAD
}

// SAFETY: every request goes to the system's allocator as it came in, and its answer goes back as it is; counting beside
// it neither allocates nor panics.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `alloc`, which are the same there.
        let mut block = unsafe { System.alloc(layout) };
        if block.is_null() && release_reserve(layout.size()) {
            // SAFETY: as above.
            block = unsafe { System.alloc(layout) };
        }
        if !block.is_null() {
            count(counted_size(layout.size()));
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `alloc_zeroed`, which are the same there.
        let mut block = unsafe { System.alloc_zeroed(layout) };
        if block.is_null() && release_reserve(layout.size()) {
            // SAFETY: as above.
            block = unsafe { System.alloc_zeroed(layout) };
        }
        if !block.is_null() {
            count(counted_size(layout.size()));
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: every block came from the system's allocator, and with this layout, as the caller promises.
        unsafe { System.dealloc(block, layout) };
        count(-counted_size(layout.size()));
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: every block came from the system's allocator; the rest the caller promises.
        let mut moved = unsafe { System.realloc(block, layout, size) };
        if moved.is_null() && release_reserve(size) {
            // SAFETY: as above; a block that could not be moved is where it was.
            moved = unsafe { System.realloc(block, layout, size) };
        }
        if !moved.is_null() {
            count(counted_size(size) - counted_size(layout.size()));
        }
        moved
    }
}

/// The library's own tests run with it.
#[cfg(test)]
#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_counts_what_it_allocates_and_frees() {
        assert!(is_counting());
        let before = net_bytes();
        let mut list: Vec<u8> = Vec::with_capacity(1000);
        assert_eq!(net_bytes() - before, 1016);
        list.reserve_exact(5000);
        assert_eq!(net_bytes() - before, 5016);
        drop(list);
        assert_eq!(net_bytes(), before);
        let zeroed = black_box(vec![0_u64; 100]);
        assert_eq!(net_bytes() - before, 816);
        drop(zeroed);
        assert_eq!(net_bytes(), before);
    }

    #[test]
    fn the_peak_is_the_highest_since_it_was_reset() {
        let before = net_bytes();
        drop(black_box(vec![1_u8; 100_000]));
        assert!(peak_bytes() - before >= 100_000);
        reset_peak();
        assert!(peak_bytes() - before < 100_000);
    }

    #[test]
    fn threads_do_not_see_each_other() {
        let before = net_bytes();
        let elsewhere = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let fresh = net_bytes();
                let kept = vec![2_u8; 1 << 20];
                (net_bytes() - fresh, kept)
            });
            thread.join().unwrap()
        });
        assert!(elsewhere.0 >= 1 << 20);
        assert!((net_bytes() - before).abs() < 1 << 16);
        let before = net_bytes();
        drop(elsewhere.1);
        assert!(before - net_bytes() >= 1 << 20, "freed here, allocated there");
    }
}
