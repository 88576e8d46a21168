//! Links a module to the host functions that it imports and to the run that it calls them for.

use wasmtime::{Caller, Engine, FuncType, Linker, Result, Val, ValType};

use super::imports::{Import, ImportTarget, MAX_PARAMS, ResolvedImport};
use super::wasi::{self, Wasi};
use crate::extism_kernel::{BEGIN, GROW, METIER_NAMESPACE};
use crate::run_state::RunState;
use metier_core::host::HostFunction;

/// The data of an instance: its run, and the run's WASI state.
pub(super) struct StoreData {
    pub(super) run: RunState,
    wasi: Wasi,
}

impl StoreData {
    pub(super) fn new(run: RunState) -> Self {
        let wasi = Wasi::new(run.context().cancel());
        Self { run, wasi }
    }
}

/// Links what a module imports from the host, and nothing else.
pub(super) fn build_linker(engine: &Engine, imports: &[ResolvedImport]) -> Result<Linker<StoreData>> {
    let mut linker = Linker::new(engine);
    linker.allow_shadowing(true);
    if imports.iter().any(|import| matches!(import, ResolvedImport::Wasi)) {
        wasi::link(&mut linker, |guest: &mut StoreData| &mut guest.wasi)?;
    }
    for import in imports {
        if let ResolvedImport::Host(import) = import {
            link_import(&mut linker, import)?;
        }
    }
    for function in [&BEGIN, &GROW] {
        link_import(&mut linker, &Import::kernel_imports(METIER_NAMESPACE, function))?;
    }
    Ok(linker)
}

/// Functions that are called byte by byte are linked by their static type, which makes a call three times as fast; the rest
/// by their signature.
fn link_import(linker: &mut Linker<StoreData>, import: &Import) -> Result<()> {
    use wasmparser::ValType::{I32, I64};
    type PluginCaller<'a> = Caller<'a, StoreData>;
    let (space, name, body) = (import.namespace, import.name, import.target);
    match (&*import.params(), &*import.results()) {
        ([], []) => linker.func_wrap(space, name, move |mut caller: PluginCaller<'_>| {
            call_import(&mut caller, body, &[]).map(drop)
        })?,
        ([], [I64]) => linker.func_wrap(space, name, move |mut caller: PluginCaller<'_>| {
            to_i64(call_import(&mut caller, body, &[]))
        })?,
        ([I64], [I64]) => linker.func_wrap(space, name, move |mut caller: PluginCaller<'_>, a: i64| {
            to_i64(call_import(&mut caller, body, &[to_bits(a)]))
        })?,
        ([I64], [I32]) => linker.func_wrap(space, name, move |mut caller: PluginCaller<'_>, a: i64| {
            to_i32(call_import(&mut caller, body, &[to_bits(a)]))
        })?,
        ([I64, I64], []) => {
            linker.func_wrap(space, name, move |mut caller: PluginCaller<'_>, a: i64, b: i64| {
                call_import(&mut caller, body, &[to_bits(a), to_bits(b)]).map(drop)
            })?
        }
        ([I64, I32], []) => {
            linker.func_wrap(space, name, move |mut caller: PluginCaller<'_>, a: i64, b: i32| {
                call_import(&mut caller, body, &[to_bits(a), u64::from(b.cast_unsigned())]).map(drop)
            })?
        }
        (params, results) => {
            let ty =
                FuncType::new(linker.engine(), params.iter().map(value_type), results.iter().map(value_type));
            let is_narrow = results == [I32];
            linker.func_new(space, name, ty, move |mut caller, given, answer| {
                let mut args = [0; MAX_PARAMS];
                for (arg, value) in args.iter_mut().zip(given) {
                    *arg = value_bits(value);
                }
                let value = call_import(&mut caller, body, &args[..given.len().min(MAX_PARAMS)]);
                match answer.first_mut() {
                    Some(answer) if is_narrow => *answer = Val::I32(to_i32(value)?),
                    Some(answer) => *answer = Val::I64(to_i64(value)?),
                    None => drop(value?),
                }
                Ok(())
            })?
        }
    };
    Ok(())
}

fn call_import(caller: &mut Caller<'_, StoreData>, body: ImportTarget, args: &[u64]) -> Result<u64> {
    let run = &mut caller.data_mut().run;
    let answer = match body {
        ImportTarget::Kernel(function) => (function.body)(run, args),
        ImportTarget::Host(function) => call_host_function(run, function, args),
    };
    answer.map_err(|error| {
        run.end_with(error);
        // The error that ended the run is stored in the run; this error only unwinds the plug-in.
        wasmtime::Error::msg("the host ended the run")
    })
}

fn call_host_function(
    run: &mut RunState,
    function: &HostFunction,
    args: &[u64],
) -> metier_core::error::Result<u64> {
    let context = run.context().clone();
    let mut cost = 0;
    let arguments = run.read_arguments(function, args, &mut cost);
    let is_over = arguments.as_ref().is_err_and(|error| error.kind().is_limit());
    if is_over {
        // Not an answer: the run has exceeded a limit.
        return arguments.map(|_| 0);
    }
    let answer = arguments.and_then(|arguments| function.call(&context, arguments));
    run.refund(cost);
    context.cancel().check()?;
    if run.passes_text() { run.store_text(function, answer) } else { run.store_answer(answer) }
}

/// All parameters and results here are integers.
#[allow(clippy::trivially_copy_pass_by_ref)] // as an iterator has it
fn value_type(ty: &wasmparser::ValType) -> ValType {
    match ty {
        wasmparser::ValType::I32 => ValType::I32,
        _ => ValType::I64,
    }
}

fn value_bits(value: &Val) -> u64 {
    match value {
        Val::I32(number) => u64::from(number.cast_unsigned()),
        Val::I64(number) => to_bits(*number),
        _ => 0,
    }
}

fn to_bits(number: i64) -> u64 {
    number.cast_unsigned()
}

fn to_i64(answer: Result<u64>) -> Result<i64> {
    answer.map(u64::cast_signed)
}

#[allow(clippy::cast_possible_truncation)] // the width of what the function answers with
fn to_i32(answer: Result<u64>) -> Result<i32> {
    answer.map(|number| (number as u32).cast_signed())
}
