//! The work both programs do, and how each of them times it.

use std::time::{Duration, Instant};

/// One kind of call. `script` is Lua, Rhai or WebAssembly text; for a process it is the command.
pub struct Work {
    pub name: &'static str,
    pub runtime: &'static str,
    pub script: &'static str,
    /// Whether it takes the project; the peer opens nothing before it is asked to.
    pub in_project: bool,
}

pub const WORK: &[Work] = &[
    Work {
        name: "small Lua call",
        runtime: "lua",
        script: "return {name = input.name, sum = input.a + input.b, tags = input.tags, nested = {ok = true, x = input.nested.x}}",
        in_project: false,
    },
    Work {
        name: "small Rhai call",
        runtime: "rhai",
        script: "#{name: input.name, sum: input.a + input.b, tags: input.tags, nested: #{ok: true, x: input.nested.x}}",
        in_project: false,
    },
    Work { name: "WebAssembly echo, compiled before", runtime: "wasm", script: ECHO, in_project: false },
    Work {
        name: "100 × read_file of 8.8 KB in Lua",
        runtime: "lua",
        script: "local n = 0 for i = 1, 100 do n = n + #ctx:read_file('src/deep/file.txt') end return n",
        in_project: true,
    },
    Work { name: "a process: `echo`", runtime: "external", script: "echo", in_project: true },
];

/// Answers with its input.
const ECHO: &str = r#"(module
    (import "extism:host/env" "input_length" (func $length (result i64)))
    (import "extism:host/env" "input_load_u8" (func $load (param i64) (result i32)))
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
    (import "extism:host/env" "output_set" (func $set (param i64 i64)))
    (func (export "run") (result i32) (local $at i64) (local $out i64)
        (local.set $out (call $alloc (call $length)))
        (block $end (loop $next
            (br_if $end (i64.ge_u (local.get $at) (call $length)))
            (call $store (i64.add (local.get $out) (local.get $at)) (call $load (local.get $at)))
            (local.set $at (i64.add (local.get $at) (i64.const 1)))
            (br $next)))
        (call $set (local.get $out) (call $length))
        (i32.const 0)))"#;

pub const INPUT: &str = r#"{"name": "example", "a": 10, "b": 32.5, "tags": ["one", "two", "three"], "nested": {"x": [1, 2, 3], "y": null}}"#;

/// What `read_file` reads.
pub const FILE: &str = "src/deep/file.txt";

pub fn content() -> String {
    "the quick brown fox jumps over the lazy dog, and then it does so again\n".repeat(122)
}

/// The median of what one call takes, in nanoseconds, over half a second.
pub fn median(mut call: impl FnMut()) -> u128 {
    for _ in 0..3 {
        call();
    }
    let (started, mut samples) = (Instant::now(), Vec::new());
    while started.elapsed() < Duration::from_millis(500) || samples.len() < 5 {
        let before = Instant::now();
        call();
        samples.push(before.elapsed().as_nanos());
    }
    samples.sort_unstable();
    samples[samples.len() / 2]
}
