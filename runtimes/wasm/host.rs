//! The host's side of a plug-in: the functions it imports, and the run they are called for.

use wasmtime::{Caller, Engine, FuncType, Linker, Result, Val, ValType};

use super::imports::{Body, Import, MOST_PARAMS};
use super::kernel::{GROW, OWN_NAMESPACE};
use super::run::Run;
use super::wasi::{self, Wasi};
use crate::host::HostFunction;

/// What an instance belongs to: one run, and what WASI is for it.
pub(super) struct Guest {
    pub(super) run: Run,
    wasi: Wasi,
}

impl Guest {
    pub(super) fn new(run: Run) -> Self {
        let wasi = Wasi::new(run.context().cancel());
        Self { run, wasi }
    }
}

/// What the module imports, and no more.
pub(super) fn linker(engine: &Engine, imports: &[Option<Import>]) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    linker.allow_shadowing(true);
    if imports.iter().any(Option::is_none) {
        wasi::link(&mut linker, |guest: &mut Guest| &mut guest.wasi)?;
    }
    imports.iter().flatten().try_for_each(|import| link(&mut linker, import))?;
    link(&mut linker, &Import::kernel(OWN_NAMESPACE, &GROW))?;
    Ok(linker)
}

/// What is called byte by byte is linked by its type, which makes a call three times as fast; the rest by its signature.
fn link(linker: &mut Linker<Guest>, import: &Import) -> Result<()> {
    use wasmparser::ValType::{I32, I64};
    type At<'a> = Caller<'a, Guest>;
    let (space, name, body) = (import.namespace, import.name, import.body);
    match (&*import.params(), &*import.results()) {
        ([], [I64]) => linker.func_wrap(space, name, move |mut at: At<'_>| wide(call(&mut at, body, &[])))?,
        ([I64], [I64]) => linker
            .func_wrap(space, name, move |mut at: At<'_>, a: i64| wide(call(&mut at, body, &[of(a)])))?,
        ([I64], [I32]) => linker
            .func_wrap(space, name, move |mut at: At<'_>, a: i64| narrow(call(&mut at, body, &[of(a)])))?,
        ([I64, I64], []) => linker.func_wrap(space, name, move |mut at: At<'_>, a: i64, b: i64| {
            call(&mut at, body, &[of(a), of(b)]).map(drop)
        })?,
        ([I64, I32], []) => linker.func_wrap(space, name, move |mut at: At<'_>, a: i64, b: i32| {
            call(&mut at, body, &[of(a), u64::from(b.cast_unsigned())]).map(drop)
        })?,
        (params, results) => {
            let ty = FuncType::new(linker.engine(), params.iter().map(ty), results.iter().map(ty));
            let is_narrow = results == [I32];
            linker.func_new(space, name, ty, move |mut at, given, answer| {
                let mut args = [0; MOST_PARAMS];
                for (arg, value) in args.iter_mut().zip(given) {
                    *arg = bits(value);
                }
                let value = call(&mut at, body, &args[..given.len().min(MOST_PARAMS)]);
                match answer.first_mut() {
                    Some(answer) if is_narrow => *answer = Val::I32(narrow(value)?),
                    Some(answer) => *answer = Val::I64(wide(value)?),
                    None => drop(value?),
                }
                Ok(())
            })?
        }
    };
    Ok(())
}

fn call(caller: &mut Caller<'_, Guest>, body: Body, args: &[u64]) -> Result<u64> {
    let run = &mut caller.data_mut().run;
    let answer = match body {
        Body::Kernel(function) => (function.body)(run, args),
        Body::Host(function) => call_host(run, function, args),
    };
    answer.map_err(|error| {
        run.end(error);
        // What ended the run is kept with it; this only unwinds the plug-in.
        wasmtime::Error::msg("the host ended the run")
    })
}

fn call_host(run: &mut Run, function: &HostFunction, args: &[u64]) -> crate::error::Result<u64> {
    let context = run.context().clone();
    let mut cost = 0;
    let arguments = run.arguments(function, args, &mut cost);
    let is_over = arguments.as_ref().is_err_and(|error| error.kind().is_limit());
    if is_over {
        // Not an answer: the run has used up what it may.
        return arguments.map(|_| 0);
    }
    let answer = arguments.and_then(|arguments| function.call(&context, arguments));
    run.give_back(cost);
    context.cancel().check()?;
    run.answer(answer)
}

/// Nothing here takes or answers with anything but integers.
#[allow(clippy::trivially_copy_pass_by_ref)] // as an iterator has it
fn ty(ty: &wasmparser::ValType) -> ValType {
    match ty {
        wasmparser::ValType::I32 => ValType::I32,
        _ => ValType::I64,
    }
}

fn bits(value: &Val) -> u64 {
    match value {
        Val::I32(number) => u64::from(number.cast_unsigned()),
        Val::I64(number) => of(*number),
        _ => 0,
    }
}

fn of(number: i64) -> u64 {
    number.cast_unsigned()
}

fn wide(answer: Result<u64>) -> Result<i64> {
    answer.map(u64::cast_signed)
}

#[allow(clippy::cast_possible_truncation)] // the width of what the function answers with
fn narrow(answer: Result<u64>) -> Result<i32> {
    answer.map(|number| (number as u32).cast_signed())
}
