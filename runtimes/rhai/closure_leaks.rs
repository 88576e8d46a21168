//! Closures that hold themselves, which nothing frees: what of them can be released, and a bound to the rest.
//!
//! A closure shares the variables it uses. Where one of them holds that closure, they keep each other alive for good.

use std::mem;
use std::sync::atomic::{AtomicI64, Ordering};

use rhai::{Dynamic, Scope};

use crate::alloc_counter;
use crate::error::{Result, SkillError};
use crate::runtimes::json_boundary::out_of_memory;

/// What the runs of one script have left behind, in bytes.
#[derive(Default)]
pub(super) struct LeakCounter(AtomicI64);

impl LeakCounter {
    /// Fails where earlier runs have left so much behind that another one may not be let in.
    pub(super) fn check(&self, memory: u64) -> Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        if u64::try_from(left).unwrap_or(0) <= memory {
            return Ok(());
        }
        Err(SkillError::new(
            out_of_memory(memory).kind(),
            format!("earlier runs of this script left {left} bytes behind, in closures that hold themselves"),
        )
        .with_help(
            "hand such a closure to itself as an argument, or keep it in a variable outside of any function",
        ))
    }

    /// A run is over, all its values are dropped, and so much is still there beside its error.
    pub(super) fn add(&self, kept: i64, error: Option<&SkillError>) {
        let kept = kept - error.map_or(0, error_bytes);
        if kept != 0 {
            self.0.fetch_add(kept, Ordering::Relaxed);
        }
    }
}

/// What a copy of the error takes.
fn error_bytes(error: &SkillError) -> i64 {
    let before = alloc_counter::net_bytes();
    let copy = error.clone();
    let weight = alloc_counter::net_bytes() - before;
    drop(copy);
    weight
}

/// Empties what closures share with the variables of a script, as its run is over.
pub(super) fn release_closures(scope: &Scope) {
    for (_, _, variable) in
        scope.iter_raw().filter(|(_, _, variable)| variable.is_shared() && !variable.is_locked())
    {
        let mut cell = variable.clone();
        let held = cell.write_lock::<Dynamic>().map(|mut value| mem::take(&mut *value));
        // Not under the lock: it may hold the cell itself.
        drop(held);
    }
}
