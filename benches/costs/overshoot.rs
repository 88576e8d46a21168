//! How long past its deadline a run still goes on, over every hostile source that the tests know: loading and running.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use metier::engine::{Engine, Invocation};
use metier::policy::Limits;

#[path = "../../tests/support/hostile_modules.rs"]
mod hostile_modules;

const LUA: &str = include_str!("../../runtimes/lua/src/tests/endless.txt");
const RHAI: &str = include_str!("../../runtimes/rhai/src/tests/endless.txt");

/// Ends some runs while they load or get ready, and some in the midst of what they do.
const DEADLINES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(150)];
const ROUNDS: u32 = 10;

/// Hostile sources of one kind.
struct Kind {
    name: &'static str,
    file: &'static str,
    sources: Vec<String>,
    /// Whether they are explained, which loads them, and not run.
    is_explained: bool,
}

impl Kind {
    fn new(name: &'static str, file: &'static str, sources: Vec<String>) -> Self {
        Self { name, file, sources, is_explained: false }
    }

    fn explained(name: &'static str, file: &'static str, sources: Vec<String>) -> Self {
        Self { is_explained: true, ..Self::new(name, file, sources) }
    }
}

fn kinds() -> Vec<Kind> {
    let modules = || hostile_modules::hostile().into_iter().map(|(_, text)| text).collect();
    vec![
        Kind::new("Lua: loops and functions of the library", "main.lua", lua()),
        Kind::new("Lua: the compiler", "main.lua", long_lua()),
        Kind::new("Rhai: loops", "main.rhai", rhai_loops()),
        Kind::new("Rhai: sorting and other functions", "main.rhai", lines(RHAI).collect()),
        Kind::new("Rhai: the parser", "main.rhai", long_rhai()),
        Kind::new("WebAssembly: loops", "main.wat", module_loops()),
        Kind::new("WebAssembly: the compiler", "main.wat", modules()),
        Kind::new("external processes", "main.sh", processes()),
        Kind::explained("Lua, explained", "main.lua", long_lua()),
        Kind::explained("Rhai, explained", "main.rhai", long_rhai()),
        Kind::explained("WebAssembly, explained", "main.wat", modules()),
    ]
}

/// The median, the 99th of a hundred and the longest, for each kind and for all, and the sources that took longest.
pub fn print() {
    let mut every = Vec::new();
    for kind in kinds() {
        let mut measured = overshoot(&kind);
        show(kind.name, &mut measured);
        // Sorted by now: the last of a source is its longest.
        let longest: BTreeMap<usize, Duration> =
            measured.iter().map(|(over, source)| (*source, *over)).collect();
        let mut longest: Vec<_> = longest.into_iter().map(|(source, over)| (over, source)).collect();
        longest.sort();
        for (over, source) in longest.into_iter().rev().take(3) {
            println!("  {over:?}: {:.100}", kind.sources[source]);
        }
        every.append(&mut measured);
    }
    show("all", &mut every);
}

/// What each run took beyond its deadline, and the number of its source; runs that ended before say nothing.
fn overshoot(kind: &Kind) -> Vec<(Duration, usize)> {
    let project = tempfile::tempdir().expect("a folder");
    let skill = project.path().join(".metier/skills/hostile");
    std::fs::create_dir_all(skill.join("scripts")).expect("a folder");
    write(&skill.join("SKILL.md"), "---\nname: hostile\ndescription: Goes on.\n---\n");
    let script = skill.join("scripts").join(kind.file);
    write(&script, "");
    let engine = Engine::builder(project.path()).build().expect("an engine");
    let comment = match script.extension().and_then(|extension| extension.to_str()) {
        Some("lua") => "--",
        Some("wat") => ";;",
        Some("sh") => "#",
        _ => "//",
    };
    let mut measured = Vec::new();
    for (number, source) in kind.sources.iter().enumerate() {
        for round in 0..ROUNDS {
            // Neither a loaded script nor compiled code of the round before is of use.
            let now =
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos();
            write(&script, &format!("{source}\n{comment} {now}"));
            let deadline = DEADLINES[round as usize % DEADLINES.len()];
            let limits = Limits::default().timeout(deadline).operations(u64::MAX);
            let invocation = Invocation::new("hostile").limits(limits);
            let began = Instant::now();
            if kind.is_explained {
                drop(engine.explain(&invocation));
            } else {
                drop(engine.run(invocation));
            }
            if let Some(over) = began.elapsed().checked_sub(deadline) {
                measured.push((over, number));
            }
        }
    }
    measured
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
}

fn show(kind: &str, measured: &mut [(Duration, usize)]) {
    if measured.is_empty() {
        println!(
            "overshoot of deadlines of 20 and 150 ms, {kind}: every hostile run ended before its deadline"
        );
        return;
    }
    measured.sort();
    let at =
        |share: usize| measured.get(measured.len() * share / 100).map_or(Duration::ZERO, |(over, _)| *over);
    println!(
        "overshoot of deadlines of 20 and 150 ms, {kind}: {} hostile runs, median {:?}, p99 {:?}, longest {:?} (goal: p99 of 100 ms)",
        measured.len(),
        at(50),
        at(99),
        measured.last().map_or(Duration::ZERO, |(over, _)| *over),
    );
}

fn lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned)
}

fn lua() -> Vec<String> {
    let looping = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "string.find(('a'):rep(3000), '.-.-.-.-b$')",
        "string.find(('('):rep(200000), ('%b()'):rep(50))",
        "while true do coroutine.wrap(function() while true do coroutine.yield() end end)() end",
        "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, function(a, b) return a > b end) end",
        "while true do string.gsub(('x'):rep(1e5), 'x', 'y') end",
    ];
    looping.into_iter().map(str::to_owned).chain(lines(LUA)).collect()
}

/// Long texts for the compiler.
fn long_lua() -> Vec<String> {
    let numbered: Vec<String> = (0..16_000).map(|n| format!("a{n}={n};")).collect();
    vec![
        "a=1;".repeat(48 << 10),
        format!("return {{{}}}", "1,".repeat(96 << 10)),
        numbered.concat(),
        ["local function f() ".repeat(150), "end ".repeat(150)].concat(),
        format!("return {}1", "1+".repeat(90 << 10)),
    ]
}

fn rhai_loops() -> Vec<String> {
    [
        "loop {}",
        "let n = 0; while true { n += 1; }",
        "fn f(n) { f(n) } loop { try { f(1) } catch {} }",
        "loop { for n in 0..1000000 { let text = `${n}`; } }",
        "loop { let all = []; for n in 0..10000 { all.push(n); } }",
    ]
    .map(str::to_owned)
    .into()
}

fn module_loops() -> Vec<String> {
    let main = |memory: &str, body: &str| format!(r#"(module {memory} (func (export "run") {body}))"#);
    vec![
        main("", "(loop (br 0))"),
        main("", "(local i64) (loop (local.set 0 (i64.add (local.get 0) (i64.const 1))) (br 0))"),
        main("(memory 256)", "(loop (memory.fill (i32.const 0) (i32.const 1) (i32.const 16777216)) (br 0))"),
        main("(memory 256)", "(loop (memory.copy (i32.const 0) (i32.const 8) (i32.const 16777208)) (br 0))"),
        main("(memory 1)", "(loop (drop (memory.grow (i32.const 1))) (br 0))"),
        r#"(module (func $f (call $f) (call $f)) (func (export "run") (loop (call $f) (br 0))))"#.to_owned(),
    ]
}

fn processes() -> Vec<String> {
    [
        "while :; do :; done",
        "sleep 1000",
        "trap '' TERM INT HUP; while :; do sleep 1; done",
        "while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done",
        "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do (while :; do :; done) & done; wait",
        "(setsid sleep 1000 >/dev/null 2>&1 </dev/null &); sleep 1000",
        "while :; do (:) & done",
        "exec 1>&- 2>&-; sleep 1000",
        "head -c 1000000000 /dev/zero | tail | wc -c; sleep 1000",
    ]
    .map(str::to_owned)
    .into()
}

/// What Rhai's parser takes longest for, as long as a script may be.
fn long_rhai() -> Vec<String> {
    let numbered = |head: &str, part: &dyn Fn(u32) -> String, tail: &str| {
        let mut text = head.to_owned();
        for part in (0..).map(part) {
            if text.len() + part.len() + tail.len() > 64_000 {
                break;
            }
            text += &part;
        }
        text + tail
    };
    vec![
        numbered("let m = #{", &|n| format!("k{n:x}:1,"), "};"),
        numbered("switch 1 {", &|n| format!("{n}=>1,"), "}"),
        numbered("", &|n| format!("const C{n:x}=1;"), ""),
        numbered("|x|{", &|n| format!("a{:x};", n % 1000), "}"),
        numbered("", &|n| format!("||{n};"), "a"),
    ]
}
