//! A counting allocator: it tracks the bytes that each thread has allocated, so that a memory limit can be enforced exactly.
//!
//! Rhai does not count its memory, so its limit needs this allocator. The `metier` command installs it; a program that embeds the
//! library does so in two lines. Without it, Rhai's memory limit is approximate:
//!
//! ```
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

#[doc(inline)]
pub use metier_core::alloc_counter::{CountingAllocator, is_counting, net_bytes};
