//! Ten thousand runs of every language side by side, with random limits and cancels: nothing leaks, nothing crosses over, and
//! nobody is stopped for somebody else.
#![cfg(all(feature = "lua-runtime", feature = "rhai-runtime", feature = "wasm-runtime"))]
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use metier::error::ErrorKind;
use metier::executor::{RuntimeId, Script, SkillExecutor, SkillInput};
use metier::host::SkillContext;
use metier::policy::{CancelToken, Limits};
use metier_core::policy::Watchdog;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: metier::alloc_counter::CountingAllocator = metier::alloc_counter::CountingAllocator;

/// Runs, unless the variable asks for more.
const RUNS: usize = 10_000;
const RUNS_VARIABLE: &str = "METIER_SOAK_RUNS";
const THREADS: usize = 8;

/// One script that minds its business and two that do not, in one language.
struct Language {
    runtime: RuntimeId,
    /// Leaves a mark wherever it can, complains if it finds one, and answers with its input.
    honest: &'static str,
    endless: &'static str,
    growing: &'static str,
}

const LANGUAGES: [Language; 3] = [
    Language {
        runtime: RuntimeId::LUA,
        honest: "assert(mark == nil and string.mark == nil)
            mark = input.id
            pcall(function() string.mark = input.id end)
            local list = {}
            for i = 1, 200 do list[i] = {i, input.id} end
            print(input.id)
            return {id = list[200][2], twice = mark}",
        endless: "while true do pcall(function() while true do end end) end",
        growing: "local list = {} while true do list[#list + 1] = {#list} end",
    },
    Language {
        runtime: RuntimeId::RHAI,
        honest: "if is_def_var(\"mark\") { throw \"marked\"; }
            let mark = input.id;
            let list = [];
            for i in 0..200 { list.push([i, input.id]); }
            print(input.id);
            #{id: list[199][1], twice: mark}",
        endless: "loop { try { loop {} } catch {} }",
        growing: "let list = []; loop { list.push([list.len()]); }",
    },
    Language { runtime: RuntimeId::WASM, honest: HONEST, endless: ENDLESS, growing: GROWING },
];

/// Answers `{"id": N, "twice": N}`, copied from `{"id":N}` with a byte of its own memory that must still be zero.
const HONEST: &str = r#"(module
    (import "extism:host/env" "input_length" (func $length (result i64)))
    (import "extism:host/env" "input_load_u8" (func $load (param i64) (result i32)))
    (import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
    (import "extism:host/env" "store_u8" (func $store (param i64 i32)))
    (import "extism:host/env" "output_set" (func $set (param i64 i64)))
    (memory 1)
    (global $mark (mut i32) (i32.const 0))
    (data (i32.const 16) "{\"id\":")
    (data (i32.const 32) ",\"twice\":")
    (func $put (param $out i64) (param $from i32) (param $count i32) (result i64)
        (loop $next
            (call $store (local.get $out) (i32.load8_u (local.get $from)))
            (local.set $out (i64.add (local.get $out) (i64.const 1)))
            (local.set $from (i32.add (local.get $from) (i32.const 1)))
            (local.set $count (i32.sub (local.get $count) (i32.const 1)))
            (br_if $next (local.get $count)))
        (local.get $out))
    ;; The digits of `{"id":N}`.
    (func $number (param $out i64) (result i64) (local $at i64)
        (local.set $at (i64.const 6))
        (block $end (loop $next
            (br_if $end (i32.eq (call $load (local.get $at)) (i32.const 125)))
            (call $store (local.get $out) (call $load (local.get $at)))
            (local.set $out (i64.add (local.get $out) (i64.const 1)))
            (local.set $at (i64.add (local.get $at) (i64.const 1)))
            (br $next)))
        (local.get $out))
    (func (export "run") (result i32) (local $out i64) (local $end i64)
        (if (i32.or (i32.load (i32.const 1024)) (global.get $mark)) (then unreachable))
        (i32.store (i32.const 1024) (i32.const 1))
        (global.set $mark (i32.const 1))
        (local.set $out (call $alloc (i64.const 200)))
        (local.set $end (call $put (local.get $out) (i32.const 16) (i32.const 6)))
        (local.set $end (call $number (local.get $end)))
        (local.set $end (call $put (local.get $end) (i32.const 32) (i32.const 9)))
        (local.set $end (call $number (local.get $end)))
        (call $store (local.get $end) (i32.const 125))
        (call $set (local.get $out) (i64.sub (i64.add (local.get $end) (i64.const 1)) (local.get $out)))
        (i32.const 0)))"#;
const ENDLESS: &str =
    r#"(module (func (export "run") (result i32) (loop $forever (br $forever)) (i32.const 0)))"#;
const GROWING: &str = r#"(module (memory 1)
    (func (export "run") (result i32)
        (loop $more (br_if $more (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable))"#;

/// Marsaglia's xorshift: the same runs every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

struct Loaded {
    honest: Box<dyn SkillExecutor>,
    endless: Box<dyn SkillExecutor>,
    growing: Box<dyn SkillExecutor>,
}

fn load(runtime: RuntimeId, source: &str) -> Box<dyn SkillExecutor> {
    let script = Script::new(
        "soak",
        if runtime == RuntimeId::WASM { "scripts/main.wat" } else { "scripts/main" },
        source.as_bytes(),
    );
    metier::ScriptLoader::new().compile_in_process(true).load(runtime, &script).unwrap()
}

#[test]
fn ten_thousand_runs_of_every_language_side_by_side_leave_nothing_behind() {
    let loaded = LANGUAGES.map(|language| Loaded {
        honest: load(language.runtime, language.honest),
        endless: load(language.runtime, language.endless),
        growing: load(language.runtime, language.growing),
    });
    let runs = std::env::var(RUNS_VARIABLE).map_or(RUNS, |runs| runs.parse().unwrap());
    // By then every pool is filled and every allocator has its arenas.
    let warm = runs / 5;
    let (next, watchdog) = (AtomicUsize::new(0), Watchdog::new());
    let (endings, weights) = (Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let id = next.fetch_add(1, Ordering::Relaxed);
                    if id >= runs {
                        return;
                    }
                    if id >= warm && id % 1000 == 0 {
                        weights.lock().unwrap().push(weight());
                    }
                    let ending = one(id, &loaded[id % loaded.len()], &watchdog);
                    *endings.lock().unwrap().entry(ending).or_insert(0) += 1;
                }
            });
        }
    });
    let (endings, weights) = (endings.into_inner().unwrap(), weights.into_inner().unwrap());
    println!("soak: {endings:?}; memory in MiB and threads on the way: {weights:?}");
    assert_eq!(endings.values().sum::<usize>(), runs);
    assert!(endings.len() == 5 && endings.values().all(|count| *count > 100), "{endings:?}");
    // A run may be large while it lasts; what counts is what is left between them.
    let least = |weights: &[(u64, u64)]| weights.iter().map(|(memory, _)| *memory).min().unwrap();
    let (early, late) = weights.split_at(weights.len() / 2);
    assert!(least(late) < least(early) + 16, "{weights:?}");
    let threads = |(_, threads): &(u64, u64)| *threads;
    assert!(weights.iter().map(threads).max() < weights.iter().map(|w| threads(w) + 8).min(), "{weights:?}");
}

/// One run, and the way it ended; panics when that is not the way it had to end.
fn one(id: usize, language: &Loaded, watchdog: &Watchdog) -> &'static str {
    let mut dice = Dice((id as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    dice.roll(2);
    let input = json!({"id": id});
    match dice.roll(100) {
        0..=4 => {
            let limits = limits().timeout(Duration::from_millis(1 + dice.roll(20)));
            assert_eq!(failed(&*language.endless, input, limits, watchdog, None), ErrorKind::Timeout);
            "timeout"
        }
        5..=8 => {
            let (token, after) = (CancelToken::new(), Duration::from_micros(dice.roll(5000)));
            let canceller = std::thread::spawn({
                let token = token.clone();
                move || {
                    std::thread::sleep(after);
                    token.cancel();
                }
            });
            assert_eq!(
                failed(&*language.endless, input, limits(), watchdog, Some(token)),
                ErrorKind::Cancelled
            );
            canceller.join().unwrap();
            "cancelled"
        }
        9..=11 => {
            let limits = limits().memory((512 + dice.roll(1024)) << 10);
            assert_eq!(failed(&*language.growing, input, limits, watchdog, None), ErrorKind::Memory);
            "memory"
        }
        12..=14 => {
            // What is cancelled before it begins does not begin.
            let token = CancelToken::new();
            token.cancel();
            assert_eq!(
                failed(&*language.honest, input, limits(), watchdog, Some(token)),
                ErrorKind::Cancelled
            );
            "cancelled before"
        }
        _ => {
            let answer = run(&*language.honest, input, limits(), watchdog, None).unwrap();
            assert_eq!(answer, json!({"id": id, "twice": id}));
            "answered"
        }
    }
}

fn limits() -> Limits {
    Limits::default().timeout(Duration::from_mins(1)).operations(u64::MAX)
}

fn failed(
    executor: &dyn SkillExecutor,
    input: Value,
    limits: Limits,
    watchdog: &Watchdog,
    token: Option<CancelToken>,
) -> ErrorKind {
    run(executor, input, limits, watchdog, token).unwrap_err().kind()
}

fn run(
    executor: &dyn SkillExecutor,
    input: Value,
    limits: Limits,
    watchdog: &Watchdog,
    token: Option<CancelToken>,
) -> metier::error::Result<Value> {
    let token = token.unwrap_or_default();
    let _armed = watchdog.arm(Instant::now() + limits.timeout, &token);
    let context = SkillContext::builder("soak").limits(limits).cancel(token).build();
    Ok(executor.execute_with_context(SkillInput::from(input), Some(&context))?.value)
}

/// Resident memory in MiB, and threads, of this process.
fn weight() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    (field("VmRSS:") / 1024, field("Threads:"))
}
