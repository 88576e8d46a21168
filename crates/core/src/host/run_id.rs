//! The identity of a run, and whether this thread works for one: what it runs then belongs to that run.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Serialize, Serializer};

/// Identifies a run: unique in this process, and with near certainty among all processes. It is not a secret, and no proof of
/// anything.
///
/// As text and in JSON: 32 hexadecimal digits, the same for the first 16 in all runs of one process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunId(u64);

/// The first half of every identity here.
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().build_hasher().finish());

static LAST: AtomicU64 = AtomicU64::new(0);

/// An identity that no run had before.
pub fn next_run_id() -> RunId {
    RunId(LAST.fetch_add(1, Ordering::Relaxed) + 1)
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", *PROCESS, self.0)
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RunId({self})")
    }
}

impl Serialize for RunId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

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
