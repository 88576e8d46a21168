//! A WebAssembly call on a fresh instance with limits, against Extism's own; and loading a module that was compiled before.

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use extism::{CompiledPlugin, Plugin, PluginBuilder};
use metier::executor::{Script, SkillExecutor, SkillInput, SkillRuntime};
use metier::host::SkillContext;
use metier::policy::{CancelToken, Watchdog};
use serde_json::{Value, json};
use wasmtime::{Config, InstanceAllocationStrategy, PoolingAllocationConfig};
use wast::Wat;
use wast::parser::ParseBuffer;

/// Answers with its input, eight bytes at a time as plug-in kits do.
const ECHO: &str = r#"(module
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

fn input() -> Value {
    json!({"name": "example", "a": 10, "b": 32.5, "tags": ["one", "two", "three"], "nested": {"x": [1, 2, 3], "y": null}})
}

fn loaded(source: &[u8]) -> Box<dyn SkillExecutor> {
    let script = Script {
        skill: "bench".into(),
        path: "scripts/main.wat".into(),
        folder: None,
        source: source.into(),
        function: None,
    };
    metier::load(SkillRuntime::Wasm, &script).expect("the module loads")
}

pub fn calls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wasm");
    let input = input();

    for (name, strategy) in [
        ("extism", InstanceAllocationStrategy::Pooling(PoolingAllocationConfig::default())),
        ("extism_on_demand", InstanceAllocationStrategy::OnDemand),
    ] {
        let mut config = Config::new();
        config.allocation_strategy(strategy);
        let builder = PluginBuilder::new(ECHO.as_bytes()).with_wasmtime_config(config).with_cache_disabled();
        let compiled = CompiledPlugin::new(builder).expect("compiles");
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut plugin = Plugin::new_from_compiled(&compiled).expect("instantiates");
                let answer = plugin.call::<String, &str>("run", black_box(&input).to_string()).expect("runs");
                serde_json::from_str::<Value>(answer).expect("is JSON")
            });
        });
    }

    let (executor, watchdog) = (loaded(ECHO.as_bytes()), Watchdog::new());
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

/// A module of some 200 KB, as a plug-in in Rust is.
pub fn load(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("wasm_load");
    group.sample_size(10);
    let mut new = 0;
    group.bench_function("compiled_anew", |b| {
        b.iter_batched(
            || {
                new += 1;
                large(new)
            },
            |source| loaded(&source),
            BatchSize::PerIteration,
        );
    });
    let known = large(0);
    drop(loaded(&known));
    // wasmtime writes what it compiled on a thread of its own.
    std::thread::sleep(Duration::from_secs(1));
    group.bench_function("from_disk", |b| b.iter(|| loaded(black_box(&known))));
    group.finish();
}

/// Another module for each seed, in the form that compilers write.
fn large(seed: u32) -> Vec<u8> {
    let text = text(seed);
    let buffer = ParseBuffer::new(&text).expect("is text");
    wast::parser::parse::<Wat>(&buffer).expect("parses").encode().expect("encodes")
}

fn text(seed: u32) -> String {
    let mut text = format!("(module (memory 1) (global $seed i32 (i32.const {seed}))");
    for function in 0..2000 {
        write!(text, "(func $f{function} (param $x i32) (result i32) (local $y i32)").expect("fits");
        for step in 0..6 {
            write!(
                text,
                "(local.set $y (i32.add (i32.mul (local.get $x) (i32.const {})) (i32.load (i32.and (local.get $y) (i32.const 1023)))))
                 (if (i32.gt_s (local.get $y) (i32.const {})) (then (local.set $x (i32.xor (local.get $x) (local.get $y)))))",
                seed ^ (function * 7 + step),
                function + step
            )
            .expect("fits");
        }
        text.push_str("(local.get $x))");
    }
    text.push_str("(func (export \"run\") (result i32) (drop (call $f0 (global.get $seed))) (i32.const 0)))");
    text
}
