//! A counting allocator: it tracks the bytes that each thread has allocated, so that a memory limit can be enforced exactly.
//!
//! Rhai does not count its memory, so its limit needs this allocator. The `metier` command installs it; a program that embeds the
//! library does so in two lines. Without it, Rhai's memory limit is approximate:
//!
//! ```
//! # use metier_core as metier;
//! #[global_allocator]
//! static HEAP: metier::alloc_counter::CountingAllocator = metier::alloc_counter::CountingAllocator;
//!
//! assert!(metier::alloc_counter::is_counting());
//! let before = metier::alloc_counter::net_bytes();
//! let kept = vec![0_u8; 1000];
//! assert!(metier::alloc_counter::net_bytes() - before >= 1000);
//! # drop(kept);
//! ```
//!
//! It forwards every request to the system's allocator and adds the size to a counter of the calling thread: no lock, no atomic,
//! about a nanosecond. It contains unsafe code, since an allocator is an unsafe trait.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::ptr::null_mut;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// The system's allocator, with a counter for each thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct CountingAllocator;

/// Bytes that an allocator keeps for itself per block, counted besides the block's size.
const BLOCK_OVERHEAD: i64 = 16;

#[derive(Clone, Copy)]
struct ThreadCounter {
    net_bytes: i64,
    peak_bytes: i64,
}

thread_local! {
    // Initialized at compile time and never dropped: reading it allocates nothing, and a thread may use it until it ends.
    static THREAD_COUNTER: Cell<ThreadCounter> = const { Cell::new(ThreadCounter { net_bytes: 0, peak_bytes: 0 }) };
}

/// Bytes this thread has allocated minus those it has freed; each block counts 16 bytes more than requested.
///
/// Only differences are meaningful: a thread that frees what others allocated has a negative number. Always zero in a program
/// that did not install [`CountingAllocator`]; see [`is_counting`].
#[inline]
pub fn net_bytes() -> i64 {
    THREAD_COUNTER.try_with(Cell::get).map_or(0, |account| account.net_bytes)
}

/// The highest [`net_bytes`] of this thread since [`reset_peak`].
pub fn peak_bytes() -> i64 {
    THREAD_COUNTER.try_with(Cell::get).map_or(0, |account| account.peak_bytes)
}

/// Resets [`peak_bytes`] to the present [`net_bytes`].
pub fn reset_peak() {
    let _ = THREAD_COUNTER
        .try_with(|cell| cell.set(ThreadCounter { peak_bytes: cell.get().net_bytes, ..cell.get() }));
}

/// Whether this program installed [`CountingAllocator`]; determined once, by a test allocation.
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
    // A thread whose thread locals are gone is no longer counted; the memory it frees then belongs to no run.
    let _ = THREAD_COUNTER.try_with(|cell| {
        let ThreadCounter { net_bytes, peak_bytes } = cell.get();
        let net_bytes = net_bytes.wrapping_add(bytes);
        cell.set(ThreadCounter { net_bytes, peak_bytes: peak_bytes.max(net_bytes) });
    });
}

/// Reserved bytes for the case that the system has no more memory: enough for what one call of the host takes besides what it
/// requests beforehand (buffers that double, compiled patterns, errors), and for the end of a run.
const RESERVE_LAYOUT: Layout = Layout::new::<[u8; 40 << 20]>();

static RESERVE_BLOCK: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static IS_RESERVE_RELEASED: AtomicBool = AtomicBool::new(false);

/// Reserves 40 MiB, if there is no reserve; returns whether it exists now. If the system has no more memory for an allocation,
/// which would end the program, the reserve is released for it, and runs end with errors until the reserve exists again. It takes
/// only address space, since nobody writes to it. Always true in a program that did not install [`CountingAllocator`].
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
        // SAFETY: the block is from the line above, and nothing else has its pointer.
        unsafe { System.dealloc(block, RESERVE_LAYOUT) };
    }
    IS_RESERVE_RELEASED.store(false, Ordering::Relaxed);
    true
}

/// Makes the allocator of a short-lived program keep up to 1 MiB that it does not use, instead of giving it back to the system and
/// taking it again, which costs a call and a page fault each time. Does nothing where the allocator is not that of glibc.
pub fn keep_freed_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        const M_TOP_PAD: std::ffi::c_int = -2;
        const M_MMAP_THRESHOLD: std::ffi::c_int = -3;
        unsafe extern "C" {
            fn mallopt(parameter: std::ffi::c_int, value: std::ffi::c_int) -> std::ffi::c_int;
        }
        // SAFETY: glibc's function takes any numbers, and locks what it changes.
        unsafe {
            mallopt(M_TOP_PAD, 1 << 20);
            // To set one of them turns off that this one adapts itself; here it is where it would often end.
            mallopt(M_MMAP_THRESHOLD, 4 << 20);
        }
    }
}

/// Whether the system had no more memory, and the reserve was released.
#[inline]
pub fn is_reserve_released() -> bool {
    IS_RESERVE_RELEASED.load(Ordering::Relaxed)
}

/// Whether the system has this many more bytes.
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

/// What a thread takes while it begins: its stack, and what the allocator asks the system for at a time.
const THREAD_START_BYTES: usize = 8 << 20;

/// Whether there is memory for one more thread. A thread that finds none while it begins ends the whole process, so no thread is
/// started without asking where memory may be short.
pub fn can_start_thread() -> bool {
    can_allocate(THREAD_START_BYTES)
}

/// Releases the reserve for a block of that size; returns whether there was one.
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
    // SAFETY: only one thread can swap the pointer out, and the block came from the system's allocator with this layout.
    unsafe { System.dealloc(block, RESERVE_LAYOUT) };
    true
}

/// No block is larger than `isize::MAX`, so none is too large here.
#[allow(clippy::cast_possible_wrap)]
#[inline]
fn counted_size(size: usize) -> i64 {
    size as i64 + BLOCK_OVERHEAD
}

// SAFETY: every request goes to the system's allocator unchanged, and its result is returned unchanged; the counting neither
// allocates nor panics.
unsafe impl GlobalAlloc for CountingAllocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`, which is the same there.
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
        // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is the same there.
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
        // SAFETY: every block came from the system's allocator, and with this layout, as the caller guarantees.
        unsafe { System.dealloc(block, layout) };
        count(-counted_size(layout.size()));
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: every block came from the system's allocator; the caller guarantees the rest.
        let mut moved = unsafe { System.realloc(block, layout, size) };
        if moved.is_null() && release_reserve(size) {
            // SAFETY: as above; a block that could not be moved stays where it was.
            moved = unsafe { System.realloc(block, layout, size) };
        }
        if !moved.is_null() {
            count(counted_size(size) - counted_size(layout.size()));
        }
        moved
    }
}

/// The library's own tests run with this allocator.
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
