//! synwire-agent-skills 0.1.0 on the same work, and metier by turns with it: prints both side by side. The WebAssembly call
//! is held against Extism itself as well.
//!
//! Run it with `benches/peers/compare`. It starts metier's side as a process of its own, since two majors of mlua cannot be
//! linked into one program.

#[path = "../work.rs"]
mod work;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use synwire_agent_skills::runtime::external::ExternalRuntime;
use synwire_agent_skills::runtime::lua::LuaRuntime;
use synwire_agent_skills::runtime::rhai::RhaiRuntime;
use synwire_agent_skills::runtime::wasm::WasmRuntime;
use synwire_agent_skills::runtime::{SkillContext, SkillExecutor, SkillInput};

/// Rounds by turns; the best of each side counts, since a shared machine only ever makes a call slower.
const ROUNDS: usize = 5;

/// How many times faster metier means to be, in the order of the work.
const GOALS: [f64; work::WORK.len()] = [10.0, 10.0, 10.0, 3.0, 30.0];

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let _entered = runtime.enter();
    let metier = std::env::args().nth(1).expect("metier's side as the first argument");
    println!("| work | metier | synwire-agent-skills 0.1.0 | times faster | goal |\n|---|---|---|---|---|");
    for (number, work) in work::WORK.iter().enumerate() {
        let (mut ours, mut theirs) = (u128::MAX, u128::MAX);
        for _ in 0..ROUNDS {
            ours = ours.min(ours_of(&metier, number));
            theirs = theirs.min(theirs_of(work));
        }
        let faster = theirs as f64 / ours as f64;
        println!("| {} | {} | {} | {faster:.1}× | ≥ {}× |", work.name, shown(ours), shown(theirs), GOALS[number]);
        if work.runtime == "wasm" {
            let extism = (0..ROUNDS).map(|_| extism_of(work)).min().unwrap_or(u128::MAX);
            let faster = extism as f64 / ours as f64;
            let note = "the same in Extism 1.30 itself, which has no limits either";
            println!("| {note} | {} | {} | {faster:.1}× | - |", shown(ours), shown(extism));
        }
    }
}

/// Extism by itself, pooled, the module compiled before, a fresh instance for each call.
fn extism_of(work: &work::Work) -> u128 {
    let mut config = wasmtime::Config::new();
    let pool = wasmtime::PoolingAllocationConfig::default();
    config.allocation_strategy(wasmtime::InstanceAllocationStrategy::Pooling(pool));
    let module = wat::parse_str(work.script).expect("is WebAssembly");
    let builder = extism::PluginBuilder::new(module.as_slice()).with_wasmtime_config(config).with_cache_disabled();
    let compiled = extism::CompiledPlugin::new(builder).expect("compiles");
    let input: Value = serde_json::from_str(work::INPUT).expect("is JSON");
    work::median(|| {
        let mut plugin = extism::Plugin::new_from_compiled(&compiled).expect("instantiates");
        let answer = plugin.call::<String, &str>("run", input.to_string()).expect("runs");
        serde_json::from_str::<Value>(answer).expect("is JSON");
    })
}

fn ours_of(program: &str, number: usize) -> u128 {
    let output = Command::new(program).arg(number.to_string()).output().expect("starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("a number")
}

fn theirs_of(work: &work::Work) -> u128 {
    let project = tempfile::tempdir().expect("a folder");
    let file = project.path().join(work::FILE);
    std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
    std::fs::write(file, work::content()).expect("a file");
    let mut context = SkillContext::default();
    if work.in_project {
        context.project_root = project.path().to_owned();
    }
    let executor: Box<dyn SkillExecutor> = match work.runtime {
        "lua" => Box::new(LuaRuntime::new()),
        "rhai" => Box::new(RhaiRuntime::new()),
        "wasm" => Box::new(WasmRuntime::new()),
        _ => Box::new(ExternalRuntime::new()),
    };
    let args = arguments(work, project.path());
    work::median(|| {
        let input = SkillInput { args: args.clone() };
        executor.execute_with_context(input, Some(&context)).expect("runs");
    })
}

fn arguments(work: &work::Work, project: &Path) -> Value {
    let input: Value = serde_json::from_str(work::INPUT).expect("is JSON");
    match work.runtime {
        "wasm" => {
            let path = project.join("echo.wasm");
            std::fs::write(&path, wat::parse_str(work.script).expect("is WebAssembly")).expect("a file");
            json!({"wasm_path": path, "input": input})
        }
        "external" => json!({"command": "/bin/sh", "args": ["-c", "echo '{}'"]}),
        _ => json!({"script": work.script, "input": input}),
    }
}

fn shown(nanoseconds: u128) -> String {
    match nanoseconds as f64 {
        ns if ns < 1e4 => format!("{:.2} µs", ns / 1e3),
        ns if ns < 1e6 => format!("{:.0} µs", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}
