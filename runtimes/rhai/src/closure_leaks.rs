//! Closures that contain themselves, which Rhai never frees: releases those that can be released, and limits the rest.
//!
//! A closure shares the variables it uses. If one of them contains that closure, they keep each other alive forever.

use std::mem;
use std::sync::atomic::{AtomicI64, Ordering};

use rhai::{Dynamic, Scope};

use metier_core::alloc_counter;
use metier_core::error::{Result, SkillError};
use metier_core::executor::json_boundary::out_of_memory;

/// The bytes that the runs of one script have leaked.
#[derive(Default)]
pub(super) struct LeakCounter(AtomicI64);

impl LeakCounter {
    /// Fails if earlier runs leaked so much that another run may not start.
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

    /// Adds a leak: the bytes that remain after a run is over and all its values are dropped, without its error.
    pub(super) fn add(&self, retained: i64, error: Option<&SkillError>) {
        let retained = retained - error.map_or(0, error_bytes);
        if retained != 0 {
            self.0.fetch_add(retained, Ordering::Relaxed);
        }
    }
}

/// The memory that a copy of the error takes.
fn error_bytes(error: &SkillError) -> i64 {
    let before = alloc_counter::net_bytes();
    let copy = error.clone();
    let bytes = alloc_counter::net_bytes() - before;
    drop(copy);
    bytes
}

/// Empties the variables that closures share with a script when its run is over.
pub(super) fn release_closures(scope: &Scope) {
    for (_, _, variable) in
        scope.iter_raw().filter(|(_, _, variable)| variable.is_shared() && !variable.is_locked())
    {
        let mut cell = variable.clone();
        let value = cell.write_lock::<Dynamic>().map(|mut value| mem::take(&mut *value));
        // Not under the lock: the value may contain the cell itself.
        drop(value);
    }
}
