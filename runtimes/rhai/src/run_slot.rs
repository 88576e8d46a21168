//! The run that occupies an engine, the `ctx` by which its script refers to it, and its limits, as functions of the library check
//! them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::json_boundary::out_of_memory;
use metier_core::host::{LogLevel, SkillContext};
use rhai::{Dynamic, EvalAltResult, NativeCallContext, Position};

use super::heap_budget::HeapBudget;
use super::stack;

/// The run that occupies an engine.
#[derive(Default)]
pub(super) struct RunSlot {
    /// Set when the run must stop for an error of its own; the engine checks it at every operation.
    is_stopped: AtomicBool,
    /// The stack address at which calls are checked, and the one beyond which they fail.
    stack_check_address: AtomicUsize,
    stack_end_address: AtomicUsize,
    /// Whether calls used more stack than those of a shallow run.
    is_deep: AtomicBool,
    budget: HeapBudget,
    run: Mutex<ActiveRun>,
}

#[derive(Default)]
struct ActiveRun {
    context: Option<SkillContext>,
    error: Option<SkillError>,
}

/// The `ctx` of scripts. It refers to the run that occupies the engine, so a copy is useless afterwards.
#[derive(Clone)]
pub(super) struct Ctx(pub(super) Arc<RunSlot>);

impl RunSlot {
    /// The engine belongs to this run until the guard is dropped.
    pub(super) fn occupy(&self, context: &SkillContext) -> SlotGuard<'_> {
        *self.lock() = ActiveRun { context: Some(context.clone()), error: None };
        self.is_stopped.store(false, Ordering::Relaxed);
        SlotGuard(self)
    }

    /// Begins the run at this place of the stack, with limits in bytes for the stack of its calls and for the script's
    /// memory.
    pub(super) fn begin(&self, max_stack: usize, memory: u64) {
        let here = stack::stack_address();
        self.stack_end_address.store(here.saturating_sub(max_stack), Ordering::Relaxed);
        self.stack_check_address
            .store(here.saturating_sub(stack::SHALLOW_BYTES.min(max_stack)), Ordering::Relaxed);
        self.is_deep.store(false, Ordering::Relaxed);
        self.budget.begin(memory);
    }

    /// Whether the run may have used much of its stack.
    pub(super) fn was_deep(&self) -> bool {
        self.is_deep.load(Ordering::Relaxed) || self.budget.was_large()
    }

    /// Whether the run must stop now for its memory, its stack or an error; whether it was cancelled is asked beside it. Called at
    /// every operation, so it is only a few loads and comparisons.
    #[inline]
    pub(super) fn must_stop(&self) -> bool {
        (self.budget.needs_check() || self.needs_stack_check() || self.is_stopped.load(Ordering::Relaxed))
            && self.check()
    }

    #[inline]
    fn needs_stack_check(&self) -> bool {
        stack::stack_address() < self.stack_check_address.load(Ordering::Relaxed)
    }

    /// The rest of [`Self::must_stop`]: makes the checks that are due.
    #[cold]
    fn check(&self) -> bool {
        if self.budget.needs_check() && self.budget.is_exceeded() {
            self.stop_out_of_memory();
        }
        if self.needs_stack_check() {
            self.check_stack();
        }
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn check_stack(&self) {
        let end = self.stack_end_address.load(Ordering::Relaxed);
        self.is_deep.store(true, Ordering::Relaxed);
        self.stack_check_address.store(end, Ordering::Relaxed);
        if stack::stack_address() < end {
            self.stop_with(SkillError::new(ErrorKind::Script, "the script's calls are nested too deep"));
        }
    }

    /// The bytes that the run has allocated and not freed.
    pub(super) fn retained_memory(&self) -> i64 {
        self.budget.retained()
    }

    /// The bytes that the run may still allocate.
    pub(super) fn remaining_memory(&self) -> u64 {
        self.budget.remaining()
    }

    /// The memory limit of the run in bytes.
    pub(super) fn memory_limit(&self) -> u64 {
        self.budget.limit()
    }

    /// Runs work of the host that is not charged to the script.
    pub(super) fn uncharged<T>(&self, work: impl FnOnce() -> T) -> T {
        self.budget.uncharged(work)
    }

    /// Whether the run must stop or was cancelled, for functions that take long.
    fn must_stop_or_is_cancelled(&self) -> bool {
        self.must_stop()
            || self.lock().context.as_ref().is_none_or(|context| context.cancel().cause().is_some())
    }

    /// Stops the run with this error.
    fn stop_with(&self, error: SkillError) {
        self.lock().error.get_or_insert(error);
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Stops the run because it exceeded its memory limit. Returns the error.
    pub(super) fn stop_out_of_memory(&self) -> SkillError {
        let error = out_of_memory(self.budget.limit());
        self.stop_with(error.clone());
        error
    }

    pub(super) fn take_error(&self) -> Option<SkillError> {
        self.lock().error.take()
    }

    /// `print` cannot fail in Rhai; a full log ends the run instead.
    pub(super) fn log(&self, level: LogLevel, text: &str) {
        if let Err(error) = self.budget.uncharged(|| self.context()?.log(level, text)) {
            self.stop_with(error);
        }
    }

    pub(super) fn context(&self) -> Result<SkillContext> {
        self.lock()
            .context
            .clone()
            .ok_or_else(|| SkillError::new(ErrorKind::Unavailable, "no run is under way"))
    }

    fn lock(&self) -> MutexGuard<'_, ActiveRun> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Exists while a run occupies the engine.
pub(super) struct SlotGuard<'a>(&'a RunSlot);

impl Drop for SlotGuard<'_> {
    fn drop(&mut self) {
        *self.0.lock() = ActiveRun::default();
    }
}

pub(super) type RhaiError = Box<EvalAltResult>;

/// Fails if there is not enough memory for this many things of this size.
pub(super) fn require_memory(
    call: &NativeCallContext,
    count: usize,
    bytes_each: u64,
) -> Result<(), RhaiError> {
    let fits = (count as u64).checked_mul(bytes_each).is_some_and(|bytes| bytes <= remaining_memory(call));
    if fits { Ok(()) } else { Err(data_too_large("The data").into()) }
}

/// Fails if the run must end. Expensive functions check this about once for each MiB.
pub(super) fn check_stop(call: &NativeCallContext) -> Result<(), RhaiError> {
    let ctx = call.tag().and_then(Dynamic::read_lock::<Ctx>);
    if ctx.is_none_or(|ctx| ctx.0.must_stop_or_is_cancelled()) {
        Err(EvalAltResult::ErrorTerminated(Dynamic::UNIT, Position::NONE).into())
    } else {
        Ok(())
    }
}

/// The bytes the run may still allocate; the engine carries its `ctx` as a tag.
pub(super) fn remaining_memory(call: &NativeCallContext) -> u64 {
    call.tag().and_then(Dynamic::read_lock::<Ctx>).map_or(0, |ctx| ctx.0.remaining_memory())
}

/// The error for data beyond the memory limit. Scripts cannot catch it.
pub(super) fn data_too_large(what: &str) -> EvalAltResult {
    EvalAltResult::ErrorDataTooLarge(what.to_owned(), Position::NONE)
}

/// Ends the run that called a library function because it exceeded its memory limit.
pub(super) fn end_out_of_memory(call: &NativeCallContext) {
    if let Some(ctx) = call.tag().and_then(Dynamic::read_lock::<Ctx>) {
        ctx.0.stop_out_of_memory();
    }
}
