//! A small Rhai call with limits and a fresh scope, against a bare engine that keeps its AST; and what filling a list costs.

use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use metier::executor::{RuntimeId, Script, SkillExecutor, SkillInput};
use metier::host::SkillContext;
use metier::policy::CancelToken;
use metier_core::policy::Watchdog;
use rhai::serde::{from_dynamic, to_dynamic};
use rhai::{AST, Dynamic, Engine, Scope};
use serde_json::{Value, json};

const SMALL: &str =
    "#{name: input.name, sum: input.a + input.b, tags: input.tags, nested: #{ok: true, x: input.nested.x}}";
const PUSHES: &str = "let a = []; for i in 0..20000 { a.push(i); } a.len()";

fn input() -> Value {
    json!({"name": "example", "a": 10, "b": 32.5, "tags": ["one", "two", "three"], "nested": {"x": [1, 2, 3], "y": null}})
}

fn load(source: &str) -> Box<dyn SkillExecutor> {
    let script = Script::new("bench", "scripts/main.rhai", source.as_bytes());
    metier::ScriptLoader::new().load(RuntimeId::RHAI, &script).expect("the script parses")
}

fn run(executor: &dyn SkillExecutor, watchdog: &Watchdog, input: Value) -> Value {
    let token = CancelToken::new();
    let _armed = watchdog.arm(Instant::now() + Duration::from_secs(30), &token);
    let context = SkillContext::builder("bench").cancel(token).build();
    executor.execute_with_context(SkillInput::from(input), Some(&context)).expect("runs").value
}

/// The same call without metier. On both sides the input is the call's own, made before the clock starts.
fn bare(engine: &Engine, ast: &AST, input: Value) -> Value {
    let mut scope = Scope::new();
    scope.push_dynamic("input", to_dynamic(&input).expect("converts"));
    drop(input);
    let answer: Dynamic = engine.eval_ast_with_scope(&mut scope, ast).expect("runs");
    from_dynamic::<Value>(&answer).expect("converts")
}

pub fn calls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rhai");
    let (input, watchdog) = (input(), Watchdog::new());

    let engine = Engine::new();
    let ast = engine.compile(SMALL).expect("parses");
    group.bench_function("raw", |b| {
        b.iter_batched(|| input.clone(), |input| bare(&engine, &ast, input), BatchSize::SmallInput);
    });

    let executor = load(SMALL);
    group.bench_function("metier", |b| {
        b.iter_batched(
            || input.clone(),
            |input| run(executor.as_ref(), &watchdog, input),
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

pub fn pushes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rhai_pushes");
    group.sample_size(10);

    let mut engine = Engine::new();
    let ast = engine.compile(PUSHES).expect("parses");
    group.bench_function("unlimited", |b| b.iter(|| engine.eval_ast::<i64>(&ast).expect("runs")));
    engine.set_max_array_size(4 << 20);
    group.bench_function("own_limits", |b| b.iter(|| engine.eval_ast::<i64>(&ast).expect("runs")));

    let (executor, watchdog) = (load(PUSHES), Watchdog::new());
    group.bench_function("metier", |b| b.iter(|| run(executor.as_ref(), &watchdog, Value::Null)));
    group.finish();
}
