//! The small call of a skill by an engine, in this process and in a worker process that is kept.

use std::hint::black_box;

use criterion::Criterion;
use metier::engine::{Engine, Invocation};
use metier::policy::ExecutionMode;
use serde_json::Value;

use super::{lua, wasm_calls};

pub fn calls(criterion: &mut Criterion) {
    compare_modes(criterion, "lua_engine", "main.lua", lua::SMALL, &lua::input());
    compare_modes(criterion, "wasm_engine", "main.wat", wasm_calls::ECHO, &wasm_calls::input());
}

fn compare_modes(criterion: &mut Criterion, group: &str, file: &str, script: &str, input: &Value) {
    let project = lua::small_skill(file, script);
    let engine = Engine::builder(project.path()).build().expect("an engine");
    let mut group = criterion.benchmark_group(group);
    for (name, mode) in [("in_process", ExecutionMode::InProcess), ("worker", ExecutionMode::Worker)] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let invocation =
                    Invocation::new("small").input(black_box(input).clone()).execution_mode(mode);
                engine.run(invocation).result.expect("runs")
            });
        });
    }
    group.finish();
}
