//! The limits of the run, as functions of the library check them.

use rhai::{Dynamic, EvalAltResult, NativeCallContext, Position};

use super::run_slot::Ctx;

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
