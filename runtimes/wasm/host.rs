//! The host's side of an engine: the functions plug-ins import, and the run they are called for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use extism::{Function, UserData, Val, ValType};

use super::imports::{Body, Import, MOST_PARAMS};
use super::run::Run;
use crate::error::Result;
use crate::host::HostFunction;

/// The run that occupies an engine.
#[derive(Default)]
pub(super) struct Slot(Mutex<Option<Run>>);

/// An import as Extism takes it. It stands for whatever run occupies the slot.
pub(super) fn function(import: &Import, slot: &Arc<Slot>) -> Function {
    let (body, slot, results) = (import.body, slot.clone(), import.results());
    let call = move |_: &mut _, given: &[Val], answer: &mut [Val], _: UserData<()>| {
        let mut args = [0; MOST_PARAMS];
        for (arg, value) in args.iter_mut().zip(given) {
            *arg = bits(value);
        }
        let value = slot.call(body, &args[..given.len().min(MOST_PARAMS)]);
        // What ended the run is in the slot; this only unwinds the plug-in.
        let value = value.ok_or_else(|| extism::Error::msg("the host ended the run"))?;
        if let (Some(answer), Some(kind)) = (answer.first_mut(), results.first()) {
            *answer = val(kind, value);
        }
        Ok(())
    };
    Function::new(import.name, import.params(), import.results(), UserData::new(()), call)
        .with_namespace(import.namespace)
}

fn bits(value: &Val) -> u64 {
    match value {
        Val::I32(number) => u64::from(number.cast_unsigned()),
        Val::I64(number) => number.cast_unsigned(),
        _ => 0,
    }
}

fn val(kind: &ValType, number: u64) -> Val {
    match kind {
        #[allow(clippy::cast_possible_truncation)] // the width of what the function answers with
        ValType::I32 => Val::I32((number as u32).cast_signed()),
        _ => Val::I64(number.cast_signed()),
    }
}

impl Slot {
    /// The slot belongs to this run until it is taken out again.
    pub(super) fn occupy(&self, run: Run) {
        *self.locked() = Some(run);
    }

    /// The run, which is over.
    pub(super) fn vacate(&self) -> Option<Run> {
        self.locked().take()
    }

    /// The answer, or nothing when the call ended the run.
    fn call(&self, body: Body, args: &[u64]) -> Option<u64> {
        match body {
            Body::Kernel(function) => self.with(|run| (function.body)(run, args)),
            Body::Host(function) => self.call_host(function, args),
        }
    }

    fn call_host(&self, function: &HostFunction, args: &[u64]) -> Option<u64> {
        let (context, arguments) =
            self.with(|run| Ok((run.context().clone(), run.arguments(function, args))))?;
        // Not under the lock: it may take long, and whoever stops the run must not wait for it.
        let answer = arguments.and_then(|arguments| function.call(&context, arguments));
        self.with(|run| {
            context.cancel().check()?;
            run.answer(answer)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Run) -> Result<T>) -> Option<T> {
        let mut slot = self.locked();
        let run = slot.as_mut()?;
        match work(run) {
            Ok(value) => Some(value),
            Err(error) => {
                run.end(error);
                None
            }
        }
    }

    fn locked(&self) -> MutexGuard<'_, Option<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
