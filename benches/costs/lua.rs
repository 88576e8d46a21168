//! A small Lua call, limits on and environment fresh, against a cached function in a bare state.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::Criterion;
use metier::engine::{Engine, Invocation};
use metier::error::Result;
use metier::executor::{RuntimeId, Script, SkillExecutor, SkillInput};
use metier::host::{ApprovalRequest, Approver, Event, Observer, Providers, SkillContext};
use metier::policy::CancelToken;
use metier_core::policy::Watchdog;
use mlua::LuaSerdeExt;
use serde_json::{Value, json};

pub const SMALL: &str = "return {name = input.name, sum = input.a + input.b, tags = input.tags, nested = {ok = true, x = input.nested.x}}";

pub fn input() -> Value {
    json!({"name": "example", "a": 10, "b": 32.5, "tags": ["one", "two", "three"], "nested": {"x": [1, 2, 3], "y": null}})
}

fn load(source: &str) -> Box<dyn SkillExecutor> {
    let script = Script::new("bench", "scripts/main.lua", source.as_bytes());
    metier::ScriptLoader::new().load(RuntimeId::LUA, &script).expect("the script compiles")
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

    let executor = load(SMALL);
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
    let executor = load(LOOP);
    group.bench_function("metier", |b| b.iter(|| executor.execute(SkillInput::default()).expect("runs")));
    group.finish();
}

/// A project whose skill `small` has this script.
pub fn small_skill(file: &str, script: &str) -> tempfile::TempDir {
    let project = tempfile::tempdir().expect("a folder");
    let scripts = project.path().join(".metier/skills/small/scripts");
    std::fs::create_dir_all(&scripts).expect("a folder");
    std::fs::write(scripts.with_file_name("SKILL.md"), "---\nname: small\ndescription: Adds.\n---\n")
        .expect("a file");
    std::fs::write(scripts.join(file), script).expect("a file");
    project
}

struct Tab(#[allow(dead_code, reason = "nothing reads it")] u32);

struct AskNobody;

impl Approver for AskNobody {
    fn approve(&self, _: &SkillContext, _: &ApprovalRequest) -> Result<metier::policy::Approval> {
        unreachable!("the script needs no permission")
    }
}

/// The small call by an engine that nobody observes; with an extension and an approver that it does not use; and with an observer
/// that does nothing with what it gets.
pub fn observed_calls(criterion: &mut Criterion) {
    let project = small_skill("main.lua", SMALL);
    let engine = Engine::builder(project.path()).build().expect("an engine");
    let mut group = criterion.benchmark_group("events");
    group.bench_function("unobserved", |b| {
        b.iter(|| engine.run(Invocation::new("small").input(black_box(input()))).result.expect("runs"));
    });
    let observer: Arc<dyn Observer> = Arc::new(|event: &Event| {
        black_box(event);
    });
    // What an editor hands every run, and this one never uses.
    let providers = Providers::default().approver(AskNobody);
    group.bench_function("with_extension_and_approver", |b| {
        b.iter(|| {
            let invocation = Invocation::new("small").extension(Tab(1)).providers(providers.clone());
            engine.run(invocation.input(black_box(input()))).result.expect("runs")
        });
    });
    group.bench_function("observed", |b| {
        b.iter(|| {
            let invocation = Invocation::new("small").input(black_box(input())).observer(observer.clone());
            engine.run(invocation).result.expect("runs")
        });
    });
    group.finish();
}
