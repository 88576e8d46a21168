//! What each thread has allocated: an allocator that counts, so that a run can be held to its memory exactly.
//!
//! Rhai keeps no account of its memory, so its limit needs this allocator in place. The `metier` command installs it; a
//! program that embeds the library does so in two lines, and Rhai's memory limit is approximate where it does not:
//!
//! ```
//! #[global_allocator]
//! static HEAP: metier::heap::CountingAllocator = metier::heap::CountingAllocator;
//!
//! assert!(metier::heap::is_counting());
//! let before = metier::heap::balance();
//! let kept = vec![0_u8; 1000];
//! assert!(metier::heap::balance() - before >= 1000);
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
const BLOCK: i64 = 16;

#[derive(Clone, Copy)]
struct Account {
    balance: i64,
    peak: i64,
}

thread_local! {
    // Made at compile time and never dropped: reading it allocates nothing, and a thread may use it to its last breath.
    static ACCOUNT: Cell<Account> = const { Cell::new(Account { balance: 0, peak: 0 }) };
}

/// Bytes this thread has allocated less those it has freed, each block 16 bytes heavier than asked for.
///
/// Only differences mean something: a thread that frees what others allocated has a negative balance. Always zero in a
/// program that did not install [`CountingAllocator`]; see [`is_counting`].
#[inline]
pub fn balance() -> i64 {
    ACCOUNT.try_with(Cell::get).map_or(0, |account| account.balance)
}

/// The highest balance of this thread since [`reset_peak`], in bytes.
pub fn peak() -> i64 {
    ACCOUNT.try_with(Cell::get).map_or(0, |account| account.peak)
}

/// Lets [`peak`] begin anew at the present balance.
pub fn reset_peak() {
    let _ = ACCOUNT.try_with(|cell| cell.set(Account { peak: cell.get().balance, ..cell.get() }));
}

/// Whether this program installed [`CountingAllocator`]: found out once, by allocating and looking.
pub fn is_counting() -> bool {
    static COUNTING: LazyLock<bool> = LazyLock::new(|| {
        let before = balance();
        let probe = black_box(Box::new(0_u64));
        let counted = balance() != before;
        drop(probe);
        counted
    });
    *COUNTING
}

#[inline]
fn count(bytes: i64) {
    // A thread whose locals are gone counts no more; what it frees then is of no run.
    let _ = ACCOUNT.try_with(|cell| {
        let Account { balance, peak } = cell.get();
        let balance = balance.wrapping_add(bytes);
        cell.set(Account { balance, peak: peak.max(balance) });
    });
}

/// Bytes that are set aside for when the system has no more: what one call of the host takes beside what it asks for before
/// (buffers that double, compiled patterns, errors), and the end of a run.
const RESERVE: Layout = Layout::new::<[u8; 40 << 20]>();

static KEPT: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// Sets 40 MiB aside, where none are: whether they are there now. Where the system has no more memory for something, which
/// would end the program, they are given up for it, and runs end with errors until they are there again. They are addresses
/// only, since nobody writes to them. Always true in a program that did not install [`CountingAllocator`].
pub fn keep_reserve() -> bool {
    if !KEPT.load(Ordering::Relaxed).is_null() || !is_counting() {
        return true;
    }
    // SAFETY: the layout has a size.
    let block = unsafe { System.alloc(RESERVE) };
    if block.is_null() {
        return false;
    }
    if KEPT.compare_exchange(null_mut(), block, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: the block is from the line above, and nobody else was told of it.
        unsafe { System.dealloc(block, RESERVE) };
    }
    IS_SHORT.store(false, Ordering::Relaxed);
    true
}

/// Whether the system had no more memory, and the reserve was given up.
#[inline]
pub fn is_short() -> bool {
    IS_SHORT.load(Ordering::Relaxed)
}

/// Whether the system has so many bytes besides.
pub(crate) fn has(bytes: usize) -> bool {
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
fn give_up_reserve(size: usize) -> bool {
    if size > RESERVE.size() {
        return false;
    }
    let block = KEPT.swap(null_mut(), Ordering::AcqRel);
    if block.is_null() {
        return false;
    }
    IS_SHORT.store(true, Ordering::Relaxed);
    // SAFETY: whoever swaps it out has it alone, and it came from the system's allocator with this layout.
    unsafe { System.dealloc(block, RESERVE) };
    true
}

/// No block is larger than `isize::MAX`, so none is too large here.
#[allow(clippy::cast_possible_wrap)]
#[inline]
fn weight(size: usize) -> i64 {
    size as i64 + BLOCK
}

// SAFETY: every request goes to the system's allocator as it came in, and its answer goes back as it is; counting beside
// it neither allocates nor panics.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `alloc`, which are the same there.
        let mut block = unsafe { System.alloc(layout) };
        if block.is_null() && give_up_reserve(layout.size()) {
            // SAFETY: as above.
            block = unsafe { System.alloc(layout) };
        }
        if !block.is_null() {
            count(weight(layout.size()));
        }
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the promises of `alloc_zeroed`, which are the same there.
        let mut block = unsafe { System.alloc_zeroed(layout) };
        if block.is_null() && give_up_reserve(layout.size()) {
            // SAFETY: as above.
            block = unsafe { System.alloc_zeroed(layout) };
        }
        if !block.is_null() {
            count(weight(layout.size()));
        }
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: every block came from the system's allocator, and with this layout, as the caller promises.
        unsafe { System.dealloc(block, layout) };
        count(-weight(layout.size()));
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: every block came from the system's allocator; the rest the caller promises.
        let mut moved = unsafe { System.realloc(block, layout, size) };
        if moved.is_null() && give_up_reserve(size) {
            // SAFETY: as above; a block that could not be moved is where it was.
            moved = unsafe { System.realloc(block, layout, size) };
        }
        if !moved.is_null() {
            count(weight(size) - weight(layout.size()));
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
        let before = balance();
        let mut list: Vec<u8> = Vec::with_capacity(1000);
        assert_eq!(balance() - before, 1016);
        list.reserve_exact(5000);
        assert_eq!(balance() - before, 5016);
        drop(list);
        assert_eq!(balance(), before);
        let zeroed = black_box(vec![0_u64; 100]);
        assert_eq!(balance() - before, 816);
        drop(zeroed);
        assert_eq!(balance(), before);
    }

    #[test]
    fn the_peak_is_the_highest_since_it_was_reset() {
        let before = balance();
        drop(black_box(vec![1_u8; 100_000]));
        assert!(peak() - before >= 100_000);
        reset_peak();
        assert!(peak() - before < 100_000);
    }

    #[test]
    fn threads_do_not_see_each_other() {
        let before = balance();
        let elsewhere = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let fresh = balance();
                let kept = vec![2_u8; 1 << 20];
                (balance() - fresh, kept)
            });
            thread.join().unwrap()
        });
        assert!(elsewhere.0 >= 1 << 20);
        assert!((balance() - before).abs() < 1 << 16);
        let before = balance();
        drop(elsewhere.1);
        assert!(before - balance() >= 1 << 20, "freed here, allocated there");
    }
}
