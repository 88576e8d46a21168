//! The host's side of a plug-in: the functions it imports, and the run they are called for.

use wasi_common::{Table, WasiCtx, sync};
use wasmtime::{Caller, Engine, FuncType, Linker, Result, Val, ValType};

use super::imports::{Body, Import, MOST_PARAMS, replaced};
use super::kernel::{GROW, OWN_NAMESPACE};
use super::run::Run;
use crate::host::HostFunction;

/// What an instance belongs to: one run, and WASI where the plug-in uses it.
pub(super) struct Guest {
    pub(super) run: Run,
    wasi: Option<WasiCtx>,
}

impl Guest {
    pub(super) fn new(run: Run, uses_wasi: bool) -> Self {
        Self { run, wasi: uses_wasi.then(wasi) }
    }
}

/// Clocks and random numbers: no folders, no arguments, no environment, and streams that lead nowhere.
fn wasi() -> WasiCtx {
    WasiCtx::new(sync::random_ctx(), sync::clocks_ctx(), sync::sched_ctx(), Table::new())
}

/// What the module imports, and no more.
pub(super) fn linker(engine: &Engine, imports: &[Option<Import>]) -> Result<Linker<Guest>> {
    let mut linker = Linker::new(engine);
    linker.allow_shadowing(true);
    if imports.iter().any(Option::is_none) {
        // There is one wherever this is called: it is made for every plug-in that imports a function of WASI.
        sync::add_to_linker(&mut linker, |guest: &mut Guest| guest.wasi.get_or_insert_with(wasi))?;
        replaced().try_for_each(|import| link(&mut linker, &import))?;
    }
    imports.iter().flatten().try_for_each(|import| link(&mut linker, import))?;
    link(&mut linker, &Import::kernel(OWN_NAMESPACE, &GROW))?;
    Ok(linker)
}

fn link(linker: &mut Linker<Guest>, import: &Import) -> Result<()> {
    let body = import.body;
    let results = import.results();
    let ty =
        FuncType::new(linker.engine(), import.params().into_iter().map(ty), results.iter().copied().map(ty));
    let is_narrow = results.first() == Some(&wasmparser::ValType::I32);
    linker.func_new(import.namespace, import.name, ty, move |mut caller, given, answer| {
        let mut args = [0; MOST_PARAMS];
        for (arg, value) in args.iter_mut().zip(given) {
            *arg = bits(value);
        }
        let value = call(&mut caller, body, &args[..given.len().min(MOST_PARAMS)])?;
        if let Some(answer) = answer.first_mut() {
            *answer = val(is_narrow, value);
        }
        Ok(())
    })?;
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
    let answer = run.arguments(function, args).and_then(|arguments| function.call(&context, arguments));
    context.cancel().check()?;
    run.answer(answer)
}

/// Nothing here takes or answers with anything but integers.
fn ty(ty: wasmparser::ValType) -> ValType {
    match ty {
        wasmparser::ValType::I32 => ValType::I32,
        _ => ValType::I64,
    }
}

fn bits(value: &Val) -> u64 {
    match value {
        Val::I32(number) => u64::from(number.cast_unsigned()),
        Val::I64(number) => number.cast_unsigned(),
        _ => 0,
    }
}

#[allow(clippy::cast_possible_truncation)] // the width of what the function answers with
fn val(is_narrow: bool, number: u64) -> Val {
    if is_narrow { Val::I32((number as u32).cast_signed()) } else { Val::I64(number.cast_signed()) }
}
