//! What runs when a tool is called: a script in any runtime, or a function in it.

use metier::engine::Engine;
use metier::error::ErrorKind;
use serde_json::json;

use crate::support::engine::{Project, kind, sentence, value};
use crate::tools::call;

const FUNCTIONS: &str = "
tools:
  - {name: add, entrypoint: {path: scripts/t.EXT, function: add}, inputs: {a: {type: integer}, b: {type: integer}}}
  - {name: negate, entrypoint: {path: scripts/t.EXT, function: negate}, inputs: {a: {type: integer}}}
  - {name: gone, entrypoint: {path: scripts/t.EXT, function: gone}}
";

/// Whether the functions of [`FUNCTIONS`] that are there answer, each time, and the error of the missing one says `missing`.
#[track_caller]
fn assert_functions(engine: &Engine, missing: &str) {
    for _ in 0..2 {
        assert_eq!(value(call(engine, "add", json!({"a": 1, "b": 2}), &[])), 3);
        assert_eq!(value(call(engine, "negate", json!({"a": 5}), &[])), -5);
    }
    let gone = call(engine, "gone", json!({}), &[]);
    assert_eq!(kind(&gone), ErrorKind::InvalidSkill);
    assert!(sentence(&gone).contains(missing), "{gone:?}");
}

#[test]
fn a_function_of_a_lua_script_is_a_handler() {
    let global =
        "function add(input) return input.a + input.b end function negate(input) return -input.a end";
    let exported =
        "local function add(i) return i.a + i.b end return {add = add, negate = function(i) return -i.a end}";
    for script in [global, exported] {
        let project = Project::offering(&FUNCTIONS.replace("EXT", "lua"), &[("t.lua", script)]);
        let engine = project.engine();
        assert_functions(&engine, "scripts/t.lua has no function `gone`");
    }
}

#[test]
fn a_function_of_lua_fails_at_its_own_line_and_is_limited() {
    let contract = "
tools:
  - {name: fails, entrypoint: {path: scripts/t.lua, function: fails}}
  - {name: hangs, entrypoint: {path: scripts/t.lua, function: hangs}, timeout: 100ms}
  - {name: two, entrypoint: {path: scripts/t.lua, function: two}}
";
    let script = "function fails()\n  error('here')\nend\nfunction hangs() while true do end end\nfunction two() return 1, 2 end";
    let project = Project::offering(contract, &[("t.lua", script)]);
    let engine = project.engine();
    let error = call(&engine, "fails", json!({}), &[]).result.unwrap_err();
    assert_eq!((error.kind(), error.location().unwrap().line), (ErrorKind::Script, Some(2)), "{error}");
    assert_eq!(kind(&call(&engine, "hangs", json!({}), &[])), ErrorKind::Timeout);
    assert_eq!(kind(&call(&engine, "two", json!({}), &[])), ErrorKind::InvalidOutput);
}

#[test]
fn no_builtin_of_lua_is_a_handler() {
    let contract = "tools: [{name: t, entrypoint: {path: scripts/t.lua, function: print}}]";
    let project = Project::offering(contract, &[("t.lua", "return {}")]);
    let outcome = call(&project.engine(), "t", json!({}), &[]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
}

#[cfg(feature = "rhai-runtime")]
#[test]
fn a_function_of_a_rhai_script_is_a_handler() {
    let script = "fn add(input) { input.a + input.b }\nfn negate(input) { -input.a }\nfn gone(a, b) { 1 }";
    let project = Project::offering(&FUNCTIONS.replace("EXT", "rhai"), &[("t.rhai", script)]);
    let engine = project.engine();
    assert_functions(&engine, "no function `gone` with one parameter");
}

#[cfg(feature = "rhai-runtime")]
#[test]
fn a_function_of_rhai_counts_against_the_operations_of_the_whole_run() {
    use metier::engine::Invocation;
    use metier::policy::Limits;

    let contract = "
tools:
  - {name: once, entrypoint: {path: scripts/t.rhai, function: once}}
  - {name: twice, entrypoint: {path: scripts/t.rhai, function: twice}}
";
    let script = "for i in 0..1000 { }\nfn once(input) { 1 }\nfn twice(input) { for i in 0..1000 { } 1 }";
    let project = Project::offering(contract, &[("t.rhai", script)]);
    let engine = project.engine();
    let run = |tool: &str, operations| {
        engine.run(Invocation::new("weather").tool(tool).limits(Limits::default().operations(operations)))
    };
    // As few as the script itself takes.
    let least = (100..10_000).step_by(100).find(|most| run("once", *most).result.is_ok()).unwrap();
    assert_eq!(kind(&run("twice", least + 500)), ErrorKind::Operations);
    assert_eq!(value(run("twice", 2 * least + 500)), 1);
}

#[cfg(feature = "wasm-runtime")]
#[test]
fn a_function_of_a_webassembly_module_is_a_handler() {
    let module = r#"(module
        (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
        (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
        (import "extism:host/env" "output_set" (func $out (param i64 i64)))
        (memory (export "memory") 1)
        (func (export "seven") (result i32) (local $at i64)
            (local.set $at (call $alloc (i64.const 1)))
            (call $store (local.get $at) (i32.const 55))
            (call $out (local.get $at) (i64.const 1)) (i32.const 0)))"#;
    let contract =
        "tools: [{name: t, entrypoint: {path: scripts/t.wat, function: seven}, outputs: {type: integer}}]";
    let project = Project::offering(contract, &[("t.wat", module)]);
    let engine = project.builder().compile_in_process(true).build().unwrap();
    assert_eq!(value(call(&engine, "t", json!({}), &[])), 7);
}

#[test]
fn a_process_is_a_handler_and_gets_the_input_of_the_tool() {
    let contract = "tools: [{name: t, entrypoint: scripts/t.sh, inputs: {a: {type: integer, default: 4}}}]";
    let project = Project::offering(contract, &[("t.sh", "cat")]);
    assert_eq!(value(call(&project.engine(), "t", json!({}), &[])), json!({"a": 4}));
    let with_function = "tools: [{name: t, entrypoint: {path: scripts/t.sh, function: f}}]";
    let project = Project::offering(with_function, &[("t.sh", "cat")]);
    let outcome = call(&project.engine(), "t", json!({}), &[]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "a shell script has no functions to enter");
}

#[test]
fn a_tool_that_is_only_declared_is_listed_and_cannot_be_called() {
    // AK-T4; neither SWEny nor AgentsKit can write down what runs.
    let sweny = r#"{"id": "weather", "name": "W", "description": "d", "category": "data", "config": {},
        "tools": [{"name": "forecast", "description": "d", "input_schema": {"type": "object"}}]}"#;
    let manifest = r#"{"manifestVersion": "2026-04", "name": "weather", "version": "1.0.0", "description": "d",
        "tools": [{"name": "forecast", "description": "d", "inputSchema": {"type": "object"}}]}"#;
    for definition in [sweny, manifest] {
        let project = Project::new().file(".metier/skills/weather/skill.json", definition);
        let engine = project.engine();
        let registry = engine.registry();
        let skill = registry.find("weather").unwrap();
        assert!(skill.contract().unwrap().tool("forecast").is_some());
        assert!(!engine.tool_availability(skill, "forecast").is_runnable());
        let outcome = call(&engine, "forecast", json!({}), &[]);
        assert_eq!(kind(&outcome), ErrorKind::Unavailable);
        assert!(sentence(&outcome).contains("is only declared"), "{outcome:?}");
    }
}
