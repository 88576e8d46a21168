//! A small Lua call, limits on and environment fresh, against a cached function in a bare state.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::Criterion;
use metier::executor::{Script, SkillExecutor, SkillInput, SkillRuntime};
use metier::host::SkillContext;
use metier::policy::{CancelToken, Watchdog};
use mlua::LuaSerdeExt;
use serde_json::{Value, json};

const SMALL: &str = "return {name = input.name, sum = input.a + input.b, tags = input.tags, nested = {ok = true, x = input.nested.x}}";

fn input() -> Value {
    json!({"name": "example", "a": 10, "b": 32.5, "tags": ["one", "two", "three"], "nested": {"x": [1, 2, 3], "y": null}})
}

fn loaded(source: &str) -> Box<dyn SkillExecutor> {
    let script = Script {
        skill: "bench".into(),
        path: "scripts/main.lua".into(),
        folder: None,
        source: source.as_bytes().into(),
        function: None,
    };
    metier::load(SkillRuntime::Lua, &script).expect("the script compiles")
}

pub fn calls(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lua");
    let input = input();

    let lua = mlua::Lua::new();
    let function: mlua::Function =
        lua.load(format!("local input = ... {SMALL}")).into_function().expect("compiles");
    group.bench_function("raw", |b| {
        b.iter(|| {
            let given = lua.to_value(black_box(&input)).expect("converts");
            let answer: mlua::Value = function.call(given).expect("runs");
            lua.from_value::<Value>(answer).expect("converts")
        });
    });

    let executor = loaded(SMALL);
    let watchdog = Watchdog::new();
    group.bench_function("metier", |b| {
        b.iter(|| {
            let token = CancelToken::new();
            let _armed = watchdog.arm(Instant::now() + Duration::from_secs(30), &token);
            let context = SkillContext::builder("bench").cancel(token).build();
            executor
                .execute_with_context(SkillInput::from(black_box(&input).clone()), Some(&context))
                .expect("runs")
        });
    });
    group.finish();
}

/// How long past its deadline a hostile script still runs; the 99th of 100 of each.
pub fn overshoot() {
    const DEADLINE: Duration = Duration::from_millis(20);
    let hostile = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "string.find(('a'):rep(3000), '.-.-.-.-b$')",
        "string.find(('('):rep(200000), ('%b()'):rep(50))",
        "while true do coroutine.wrap(function() while true do coroutine.yield() end end)() end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, function(a, b) return a > b end) end",
        "while true do string.gsub(('x'):rep(1e5), 'x', 'y') end",
    ];
    let watchdog = Watchdog::new();
    let mut over: Vec<Duration> = Vec::new();
    for source in hostile {
        let executor = loaded(source);
        for _ in 0..100 {
            let token = CancelToken::new();
            let started = Instant::now();
            let _armed = watchdog.arm(started + DEADLINE, &token);
            let context = SkillContext::builder("bench").cancel(token).build();
            assert!(executor.execute_with_context(SkillInput::default(), Some(&context)).is_err());
            over.push(started.elapsed().saturating_sub(DEADLINE));
        }
    }
    over.sort();
    let at = |share: usize| over[over.len() * share / 100];
    println!(
        "overshoot of a 20 ms deadline over {} hostile runs: median {:?}, p99 {:?} (goal 50 ms)",
        over.len(),
        at(50),
        at(99)
    );
}
