//! Estimates the memory of a run in programs whose allocator does not count: by Rhai's own size limits, and by measuring the
//! variables in scope from time to time.
//!
//! Both are approximate and slow. The size limits measure a container at every call on it, which makes filling a list
//! quadratic; the variables of callers and half-evaluated expressions are not seen. See [`metier_core::alloc_counter`] for the
//! better way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rhai::{Dynamic, Engine, EvalAltResult, FnPtr, Scope};

use crate::run_slot::data_too_large;
use metier_core::alloc_counter;

/// The time of the next measurement, and the memory limit.
pub(super) struct MemoryEstimator {
    created: Instant,
    /// Microseconds since `created`.
    next_check: AtomicU64,
    limit: AtomicU64,
    /// The number of further reads that do not check the clock.
    free_reads: AtomicU32,
}

/// A small script ends after so many reads, and a hostile one has multiplied its data a few times at most.
const FREE_READS: u32 = 8;

/// The minimum and maximum time between two measurements. In between it is as long as the last measurement took: that limits
/// their cost to half of the run, and the growth in between to a few times of what there was.
const MIN_PAUSE: Duration = Duration::from_millis(2);
const MAX_PAUSE: Duration = Duration::from_millis(20);

/// A text shorter than this does not cause a check of the clock.
const SMALL_TEXT: usize = 4096;

/// The maximum nesting of values that are measured.
const MAX_DEPTH: usize = 400;

impl MemoryEstimator {
    /// Installs an estimator in an engine, if it needs one.
    pub(super) fn install(engine: &mut Engine) -> Option<Arc<Self>> {
        (!alloc_counter::is_counting()).then(|| {
            let estimator = Arc::new(Self::new());
            let shared = estimator.clone();
            #[allow(deprecated)] // says that it may change, not that it will go
            engine.on_var(move |name, _, context| shared.check_scope(name, context.scope()).map(|()| None));
            estimator
        })
    }

    fn new() -> Self {
        Self {
            created: Instant::now(),
            next_check: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            free_reads: AtomicU32::new(0),
        }
    }

    /// Begins a run with this memory limit in bytes.
    pub(super) fn begin(&self, engine: &mut Engine, limit: u64) {
        let max = |bytes_each: usize| usize::try_from(limit).unwrap_or(usize::MAX) / bytes_each;
        engine.set_max_string_size(max(1)).set_max_array_size(max(16)).set_max_map_size(max(256));
        self.limit.store(limit, Ordering::Relaxed);
        self.free_reads.store(FREE_READS, Ordering::Relaxed);
        self.schedule_check(MIN_PAUSE);
    }

    /// Called when a script reads this variable: measures everything in scope if it is due. Scripts cannot catch the error.
    fn check_scope(&self, name: &str, scope: &Scope) -> Result<(), Box<EvalAltResult>> {
        // One run uses one thread: nobody else counts at the same time.
        let free = self.free_reads.load(Ordering::Relaxed);
        if free > 0 {
            self.free_reads.store(free - 1, Ordering::Relaxed);
            return Ok(());
        }
        let may_be_large = scope.get(name).is_some_and(may_be_large);
        if !may_be_large || self.elapsed_micros() < self.next_check.load(Ordering::Relaxed) {
            return Ok(());
        }
        let started = Instant::now();
        let mut left = self.limit.load(Ordering::Relaxed);
        for (_, _, value) in scope.iter_raw() {
            left =
                subtract_size(value, MAX_DEPTH, left).ok_or_else(|| data_too_large("The script's data"))?;
        }
        self.schedule_check(started.elapsed().clamp(MIN_PAUSE, MAX_PAUSE));
        Ok(())
    }

    fn schedule_check(&self, pause: Duration) {
        let pause = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
        self.next_check.store(self.elapsed_micros() + pause, Ordering::Relaxed);
    }

    fn elapsed_micros(&self) -> u64 {
        u64::try_from(self.created.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

/// Subtracts the size of the value; `None` if it is larger than what is left or nested too deeply. Text that several values
/// share is counted for each, as it would be written for each.
fn subtract_size(value: &Dynamic, depth: usize, left: u64) -> Option<u64> {
    let left = left.checked_sub(size_of::<Dynamic>() as u64)?;
    // A shared value that is being changed is measured the next time.
    if value.is_shared() && value.is_locked() {
        return Some(left);
    }
    if let Ok(text) = value.as_immutable_string_ref() {
        return left.checked_sub(text.len() as u64);
    }
    if let Ok(array) = value.as_array_ref() {
        let depth = depth.checked_sub(1)?;
        return array.iter().try_fold(left, |left, item| subtract_size(item, depth, left));
    }
    if let Ok(map) = value.as_map_ref() {
        let depth = depth.checked_sub(1)?;
        return map.iter().try_fold(left, |left, (key, field)| {
            subtract_size(field, depth, left)?.checked_sub((size_of_val(key) + key.len()) as u64)
        });
    }
    if let Ok(blob) = value.as_blob_ref() {
        return left.checked_sub(blob.len() as u64);
    }
    match value.read_lock::<FnPtr>() {
        Some(function) => {
            let depth = depth.checked_sub(1)?;
            function.curry().iter().try_fold(left, |left, value| subtract_size(value, depth, left))
        }
        None => Some(left),
    }
}

fn may_be_large(value: &Dynamic) -> bool {
    if value.is_shared() {
        return true;
    }
    match value.as_immutable_string_ref() {
        Ok(text) => text.len() >= SMALL_TEXT,
        Err(_) => value.is_array() || value.is_map() || value.is_blob() || value.is_fnptr(),
    }
}
