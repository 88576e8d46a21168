//! How long past its deadline a run still goes on, over every hostile source that the tests know: loading and running.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use metier::engine::{Engine, Invocation};
use metier::policy::Limits;

#[path = "../../tests/support/hostile_modules.rs"]
mod hostile_modules;

const LUA: &str = include_str!("../../runtimes/lua/tests/endless.txt");
const RHAI: &str = include_str!("../../runtimes/rhai/tests/endless.txt");

/// Ends some runs while they load or get ready, and some in the midst of what they do.
const DEADLINES: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(150)];
const ROUNDS: u32 = 10;

/// The median, the 99th of a hundred and the longest, for each runtime and for all, and the sources that took longest.
pub fn print() {
    let mut every = Vec::new();
    for (language, file, sources) in [
        ("Lua", "main.lua", lua()),
        ("Rhai", "main.rhai", lines(RHAI).chain(long_texts()).collect()),
        ("WebAssembly", "main.wat", hostile_modules::hostile().into_iter().map(|(_, text)| text).collect()),
    ] {
        let mut measured = overshoot(file, &sources);
        show(language, &mut measured);
        // Sorted by now: the last of a source is its longest.
        let longest: BTreeMap<usize, Duration> =
            measured.iter().map(|(over, source)| (*source, *over)).collect();
        let mut longest: Vec<_> = longest.into_iter().map(|(source, over)| (over, source)).collect();
        longest.sort();
        for (over, source) in longest.into_iter().rev().take(3) {
            println!("  {over:?}: {:.100}", sources[source]);
        }
        every.append(&mut measured);
    }
    show("all", &mut every);
}

/// What each run took beyond its deadline, and the number of its source; runs that ended before say nothing.
fn overshoot(file: &str, sources: &[String]) -> Vec<(Duration, usize)> {
    let project = tempfile::tempdir().expect("a folder");
    let skill = project.path().join(".metier/skills/hostile");
    std::fs::create_dir_all(skill.join("scripts")).expect("a folder");
    write(&skill.join("SKILL.md"), "---\nname: hostile\ndescription: Goes on.\n---\n");
    write(&skill.join("scripts").join(file), "");
    let engine = Engine::builder(project.path()).build().expect("an engine");
    let mut measured = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        for round in 0..ROUNDS {
            // Neither a loaded script nor compiled code of the round before is of use.
            let comment = if file.ends_with("lua") {
                "--"
            } else if file.ends_with("wat") {
                ";;"
            } else {
                "//"
            };
            let now =
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_nanos();
            write(&skill.join("scripts").join(file), &format!("{source}\n{comment} {now}"));
            let deadline = DEADLINES[round as usize % DEADLINES.len()];
            let limits = Limits::default().timeout(deadline).operations(u64::MAX);
            let began = Instant::now();
            drop(engine.run(Invocation::new("hostile").limits(limits)));
            if let Some(over) = began.elapsed().checked_sub(deadline) {
                measured.push((over, number));
            }
        }
    }
    assert!(!measured.is_empty(), "no run of {file} went on until its deadline");
    measured
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("a file");
}

fn show(language: &str, measured: &mut [(Duration, usize)]) {
    measured.sort();
    let at =
        |share: usize| measured.get(measured.len() * share / 100).map_or(Duration::ZERO, |(over, _)| *over);
    println!(
        "overshoot of deadlines of 20 and 150 ms, {language}: {} hostile runs, median {:?}, p99 {:?}, longest {:?} (goal: p99 of 100 ms)",
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
    let long = ["a=1;".repeat(48 << 10), format!("return {{{}}}", "1,".repeat(96 << 10))];
    looping.into_iter().map(str::to_owned).chain(lines(LUA)).chain(long).collect()
}

/// What Rhai's parser takes longest for, as long as a script may be.
fn long_texts() -> impl Iterator<Item = String> {
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
    [
        numbered("let m = #{", &|n| format!("k{n:x}:1,"), "};"),
        numbered("switch 1 {", &|n| format!("{n}=>1,"), "}"),
        numbered("", &|n| format!("const C{n:x}=1;"), ""),
        numbered("|x|{", &|n| format!("a{:x};", n % 1000), "}"),
        numbered("", &|n| format!("||{n};"), "a"),
    ]
    .into_iter()
}
