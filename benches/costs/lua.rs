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

/// A loop that calls nothing: what the deadline costs while it is not reached.
pub fn tight_loop(criterion: &mut Criterion) {
    const LOOP: &str = "local x = 0 for i = 1, 1000000 do x = x + i % 7 end return x";
    let mut group = criterion.benchmark_group("lua-loop");
    group.sample_size(20);
    let lua = mlua::Lua::new();
    lua.sandbox(true).expect("seals");
    let function: mlua::Function = lua.load(LOOP).into_function().expect("compiles");
    group.bench_function("raw", |b| b.iter(|| function.call::<f64>(()).expect("runs")));
    let executor = loaded(LOOP);
    group.bench_function("metier", |b| b.iter(|| executor.execute(SkillInput::default()).expect("runs")));
    group.finish();
}

/// How long past its deadline a hostile script still runs: the median, the 99th of a hundred and the longest, of each and of all.
pub fn overshoot() {
    const DEADLINE: Duration = Duration::from_millis(20);
    const ENDLESS: &str = include_str!("../../runtimes/lua/tests/endless.txt");
    let looping = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "string.find(('a'):rep(3000), '.-.-.-.-b$')",
        "string.find(('('):rep(200000), ('%b()'):rep(50))",
        "while true do coroutine.wrap(function() while true do coroutine.yield() end end)() end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, function(a, b) return a > b end) end",
        "while true do string.gsub(('x'):rep(1e5), 'x', 'y') end",
    ];
    // Half are stopped while they get ready, half in the midst of what they do.
    let (asked, native) = (DEADLINE, DEADLINE * 5);
    let endless = ENDLESS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let sources = looping.into_iter().map(|source| (source, 100));
    let sources = sources.chain(endless.map(|source| (source, 20)));
    let watchdog = Watchdog::new();
    let (mut all, mut worst) = (Vec::new(), Vec::new());
    for (source, rounds) in sources {
        let executor = loaded(source);
        let mut over = Vec::new();
        for round in 0..rounds {
            let deadline = if round % 2 == 0 { asked } else { native };
            let token = CancelToken::new();
            let started = Instant::now();
            let _armed = watchdog.arm(started + deadline, &token);
            let context = SkillContext::builder("bench").cancel(token).build();
            executor.execute_with_context(SkillInput::default(), Some(&context)).ok();
            over.push(started.elapsed().saturating_sub(deadline));
        }
        over.sort();
        worst.push((over[over.len() - 1], source));
        all.append(&mut over);
    }
    all.sort();
    let at = |share: usize| all[all.len() * share / 100];
    println!(
        "overshoot of deadlines of 20 and 100 ms over {} hostile Lua runs: median {:?}, p99 {:?}, longest {:?} (goal: p99 of 100 ms)",
        all.len(),
        at(50),
        at(99),
        all[all.len() - 1]
    );
    worst.sort();
    for (longest, source) in worst.iter().rev().take(5) {
        println!("  {longest:?}: {}", &source[..source.len().min(100)]);
    }
}
