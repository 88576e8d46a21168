//! A WebAssembly call on a fresh instance with limits, against bare wasmtime's; and loading a module that was compiled before.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use metier::executor::{RuntimeId, Script, SkillExecutor, SkillInput};
use metier::host::SkillContext;
use metier::policy::CancelToken;
use metier_core::policy::Watchdog;
use metier_wasm::wasmtime::{
    Caller, Config, Engine, InstanceAllocationStrategy, InstancePre, Linker, Module, PoolingAllocationConfig,
    Store,
};
use serde_json::{Value, json};

use super::modules::{realistic, uniform};

/// Answers with its input, eight bytes at a time as plug-in kits do.
pub const ECHO: &str = r#"(module
    (import "extism:host/env" "input_length" (func $length (result i64)))
    (import "extism:host/env" "input_load_u64" (func $load8 (param i64) (result i64)))
    (import "extism:host/env" "input_load_u8" (func $load (param i64) (result i32)))
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u64" (func $store8 (param i64 i64)))
    (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
    (import "extism:host/env" "output_set" (func $set (param i64 i64)))
    (memory (export "memory") 1)
    (func (export "run") (result i32) (local $at i64) (local $out i64) (local $end i64)
        (local.set $end (call $length))
        (local.set $out (call $alloc (local.get $end)))
        (block $tail (loop $next
            (br_if $tail (i64.gt_u (i64.add (local.get $at) (i64.const 8)) (local.get $end)))
            (call $store8 (i64.add (local.get $out) (local.get $at)) (call $load8 (local.get $at)))
            (local.set $at (i64.add (local.get $at) (i64.const 8)))
            (br $next)))
        (block $done (loop $next
            (br_if $done (i64.ge_u (local.get $at) (local.get $end)))
            (call $store (i64.add (local.get $out) (local.get $at)) (call $load (local.get $at)))
            (local.set $at (i64.add (local.get $at) (i64.const 1)))
            (br $next)))
        (call $set (local.get $out) (local.get $end))
        (i32.const 0)))"#;

pub fn input() -> Value {
    json!({"name": "example", "a": 10, "b": 32.5, "tags": ["one", "two", "three"], "nested": {"x": [1, 2, 3], "y": null}})
}

fn load_executor(source: &[u8]) -> Box<dyn SkillExecutor> {
    let script = Script::new("bench", "scripts/main.wat", source);
    metier::ScriptLoader::new().load(RuntimeId::WASM, &script).expect("the module loads")
}

pub fn calls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wasm");
    let input = input();

    let bare = bare_wasmtime();
    group.bench_function("bare", |b| {
        b.iter(|| {
            let guest =
                EchoState { input: black_box(&input).to_string().into_bytes(), ..EchoState::default() };
            let mut store = Store::new(bare.module().engine(), guest);
            let instance = bare.instantiate(&mut store).expect("instantiates");
            let run = instance.get_typed_func::<(), i32>(&mut store, "run").expect("is there");
            assert_eq!(run.call(&mut store, ()).expect("runs"), 0);
            let EchoState { heap, output, .. } = store.into_data();
            serde_json::from_slice::<Value>(&heap[output]).expect("is JSON")
        });
    });

    let (executor, watchdog) = (load_executor(ECHO.as_bytes()), Watchdog::new());
    group.bench_function("metier", |b| {
        b.iter(|| {
            let token = CancelToken::new();
            let _armed = watchdog.arm(Instant::now() + Duration::from_secs(30), &token);
            let context = SkillContext::builder("bench").cancel(token).build();
            let input = SkillInput::from(black_box(&input).clone());
            executor.execute_with_context(input, Some(&context)).expect("runs").value
        });
    });
    group.finish();
}

/// What the echo plug-in needs of a host, and no more: nothing is counted, checked or stopped.
#[derive(Default)]
struct EchoState {
    input: Vec<u8>,
    heap: Vec<u8>,
    output: std::ops::Range<usize>,
}

/// wasmtime as it is meant to be used for many short calls: pooled, linked once, functions by their types.
fn bare_wasmtime() -> InstancePre<EchoState> {
    const ENV: &str = "extism:host/env";
    let mut config = Config::new();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(PoolingAllocationConfig::default()));
    let engine = Engine::new(&config).expect("an engine");
    let mut linker: Linker<EchoState> = Linker::new(&engine);
    let at = |offset: i64| usize::try_from(offset).expect("is inside");
    let number = |length: usize| i64::try_from(length).expect("fits");
    let eight = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().expect("eight"));
    let mut link = || -> metier_wasm::wasmtime::Result<()> {
        linker.func_wrap(ENV, "input_length", move |guest: Caller<'_, EchoState>| {
            number(guest.data().input.len())
        })?;
        linker.func_wrap(ENV, "input_load_u64", move |guest: Caller<'_, EchoState>, offset: i64| {
            eight(&guest.data().input[at(offset)..at(offset) + 8])
        })?;
        linker.func_wrap(ENV, "input_load_u8", move |guest: Caller<'_, EchoState>, offset: i64| {
            i32::from(guest.data().input[at(offset)])
        })?;
        linker.func_wrap(ENV, "alloc", move |mut guest: Caller<'_, EchoState>, length: i64| {
            let heap = &mut guest.data_mut().heap;
            let offset = heap.len();
            heap.resize(offset + at(length), 0);
            number(offset)
        })?;
        linker.func_wrap(
            ENV,
            "store_u64",
            move |mut guest: Caller<'_, EchoState>, offset: i64, number: i64| {
                guest.data_mut().heap[at(offset)..at(offset) + 8].copy_from_slice(&number.to_le_bytes());
            },
        )?;
        linker.func_wrap(
            ENV,
            "store_u8",
            move |mut guest: Caller<'_, EchoState>, offset: i64, number: i32| {
                guest.data_mut().heap[at(offset)] = number.to_le_bytes()[0];
            },
        )?;
        linker.func_wrap(
            ENV,
            "output_set",
            move |mut guest: Caller<'_, EchoState>, offset: i64, length: i64| {
                guest.data_mut().output = at(offset)..at(offset) + at(length);
            },
        )?;
        Ok(())
    };
    link().expect("links");
    let binary = metier_wasm::wast::parser::ParseBuffer::new(ECHO)
        .and_then(|buffer| metier_wasm::wast::parser::parse::<metier_wasm::wast::Wat>(&buffer)?.encode())
        .expect("encodes");
    linker.instantiate_pre(&Module::from_binary(&engine, &binary).expect("compiles")).expect("links")
}

/// Loading compiles a module the first time anybody does, and takes it from the disk in every process after that.
pub fn load(criterion: &mut Criterion) {
    for (name, module) in [("realistic", realistic as fn(u32) -> Vec<u8>), ("uniform", uniform)] {
        let mut group = criterion.benchmark_group(format!("wasm_load/{name}"));
        group.sample_size(10);
        let mut new = std::process::id();
        group.bench_function("compiled_anew", |b| {
            b.iter_batched(
                || {
                    new += 1;
                    module(new)
                },
                |source| load_executor(&source),
                BatchSize::PerIteration,
            );
        });
        let known = module(0);
        println!("a module of {} bytes", known.len());
        drop(load_executor(&known));
        group.bench_function("from_disk", |b| b.iter(|| load_executor(black_box(&known))));
        group.finish();
    }
}
