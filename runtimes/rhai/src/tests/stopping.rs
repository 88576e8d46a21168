//! Tests that a run that must end ends soon, whatever library function it is in.

#![allow(
    clippy::format_collect,
    clippy::format_push_string,
    reason = "texts of scripts are put together, and not often"
)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{invalid, loaded, loaded_under, run, script, stopped};
use crate::host_api;
use crate::parse::new_engine;
use metier_core::error::ErrorKind;
use metier_core::executor::SkillInput;
use metier_core::host::SkillContext;
use metier_core::policy::{CancelToken, Limits, Watchdog};

/// Scripts that go on until they are stopped, one a line.
const ENDLESS: &str = include_str!("endless.txt");

#[test]
fn whatever_a_script_does_ends_with_its_run() {
    for body in ENDLESS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        stopped(body);
    }
}

/// The functions of the language besides those that its library registers.
const BUILT_IN: &[&str] = &[
    "==",
    "!=",
    "<",
    "<=",
    ">",
    ">=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "**",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "&&",
    "+=",
    "-=",
    "*=",
    "in",
    "type_of",
    "call",
    "curry",
    "is_shared",
    "is_def_var",
    "is_def_fn",
    "print",
    "debug",
    "tag",
    "name",
];

/// Every function there is, by name; where a name takes other arguments the call fails and the next one is tried.
fn names() -> BTreeSet<String> {
    let mut engine = new_engine();
    host_api::install(&mut engine, &Arc::default());
    let registered =
        engine.collect_fn_metadata(None, |function| Some(function.metadata.name.to_string()), true);
    let mut names: BTreeSet<String> = registered.into_iter().collect();
    for known in
        ["sort", "to_json", "to_debug", "index_of", "parse_be_float", "sub_string", "timestamp", "pad"]
    {
        assert!(names.contains(known), "{known} is not in {names:?}");
    }
    names.extend(BUILT_IN.iter().map(|&name| name.to_owned()));
    names
}

#[test]
fn every_function_of_the_library_ends_with_its_run() {
    let values = "let s = blob(2000000).as_string(); let b = blob(2000000); let a = []; a.pad(50000, s); \
                  let n = []; n.pad(50000, 1); let m = #{a: a, n: n, s: s}; let f = |x, y| x == y;";
    let each = ["s", "b", "a", "n", "m", "f", "1000000000", "\"x\"", "(0..1000000000)"];
    let mut late = Vec::new();
    for name in names() {
        let mut calls = String::new();
        for first in each {
            calls += &format!("try {{ let v = {first}; call(Fn(\"{name}\"), v); }} catch {{}}\n");
            for second in each {
                calls +=
                    &format!("try {{ let v = {first}; call(Fn(\"{name}\"), v, {second}); }} catch {{}}\n");
                calls +=
                    &format!("try {{ let v = {first}; call(Fn(\"{name}\"), v, {second}, s); }} catch {{}}\n");
            }
        }
        let executor = script(&format!("{values}\n{calls}"));
        let (watchdog, token) = (Watchdog::new(), CancelToken::new());
        let deadline = Duration::from_millis(100);
        let _armed = watchdog.arm(Instant::now() + deadline, &token);
        let limits = Limits::default().operations(u64::MAX);
        let context = SkillContext::builder("test").limits(limits).cancel(token).build();
        let started = Instant::now();
        let _ = executor.execute_with_context(SkillInput::default(), Some(&context));
        if started.elapsed() > deadline + Duration::from_secs(1) {
            late.push((name, started.elapsed()));
        }
    }
    assert!(late.is_empty(), "{late:?}");
}

/// Ten times the promised time, and ten times more in an unoptimised build.
const LOADING: Duration = Duration::from_secs(if cfg!(debug_assertions) { 10 } else { 1 });

/// The texts that the parser takes longest for, at their maximum size.
#[test]
fn a_script_loads_in_a_moment_or_not_at_all() {
    let up_to_the_limit = |head: &str, part: &dyn Fn(usize) -> String, tail: &str| {
        let mut text = head.to_owned();
        for number in 0.. {
            let part = part(number);
            if text.len() + part.len() + tail.len() > 64 << 10 {
                break;
            }
            text += &part;
        }
        text + tail
    };
    let mut late = Vec::new();
    for text in [
        up_to_the_limit("let m = #{", &|n| format!("k{n:x}:1,"), "};"),
        up_to_the_limit("switch 1 {", &|n| format!("{n}=>1,"), "}"),
        up_to_the_limit("switch 1 {", &|n| format!("{n} if x=>1,"), "}"),
        up_to_the_limit("switch 1 {", &|n| format!("{n}..{}=>1,", n + 1), "}"),
        up_to_the_limit("", &|n| format!("const C{n:x}=1;"), ""),
        up_to_the_limit("", &|n| format!("let c{n:x}=1;"), ""),
        up_to_the_limit("", &|_| "let a=a;".to_owned(), ""),
        up_to_the_limit("", &|n| format!("fn f{n:x}(){{}}"), ""),
        up_to_the_limit("fn f(", &|n| format!("a{n:x},"), "z){}"),
        up_to_the_limit("let a=1;", &|_| "|x|a;".to_owned(), ""),
        up_to_the_limit("|", &|n| format!("a{n:x},"), "z|1"),
        up_to_the_limit("[", &|_| "1,".to_owned(), "]"),
        up_to_the_limit("`", &|_| "${1}".to_owned(), "`"),
        up_to_the_limit("1", &|_| "+1".to_owned(), ""),
        up_to_the_limit("a", &|_| ".a".to_owned(), ""),
        up_to_the_limit("a", &|_| "[0]".to_owned(), ""),
        up_to_the_limit("a", &|_| "??a".to_owned(), ""),
        up_to_the_limit("", &|_| "!".to_owned(), "a"),
        up_to_the_limit("", &|_| "-".to_owned(), "1"),
        up_to_the_limit("", &|_| "{".to_owned(), ""),
        up_to_the_limit("", &|_| "`${".to_owned(), ""),
        up_to_the_limit("", &|_| "/*".to_owned(), ""),
        up_to_the_limit("", &|_| "(".to_owned(), ""),
        up_to_the_limit("if a{}", &|_| "else if a{}".to_owned(), ""),
        up_to_the_limit("a", &|_| "=a".to_owned(), ""),
        up_to_the_limit("", &|_| "|a|".to_owned(), "1"),
        up_to_the_limit("", &|_| "if a{".to_owned(), ""),
        up_to_the_limit("", &|_| "try{".to_owned(), ""),
        up_to_the_limit("", &|_| "do{".to_owned(), ""),
        up_to_the_limit("", &|_| "switch 1{1=>".to_owned(), ""),
        up_to_the_limit("", &|_| "#{a:".to_owned(), ""),
        up_to_the_limit("", &|_| "f(".to_owned(), ""),
        up_to_the_limit("", &|_| ";".to_owned(), ""),
        up_to_the_limit("switch 1 {", &|n| format!("{n}|"), "0=>1}"),
        up_to_the_limit("switch 1 {", &|_| "1=>1,".to_owned(), "}"),
        up_to_the_limit("|x|{", &|n| format!("a{:x};", n % 1000), "}"),
        up_to_the_limit("|x|{|x|{|x|{|x|{|x|{|x|{|x|{|x|{", &|n| format!("a{:x};", n % 1000), "}}}}}}}}"),
        up_to_the_limit("", &|n| format!("||{n};"), "a"),
        up_to_the_limit(
            "",
            &|n| if n < 500 { format!("fn f{n:x}(){{}}") } else { format!("v{:x};", n % 500) },
            "",
        ),
        up_to_the_limit("", &|n| if n < 1000 { format!("let f{n:x}=1;") } else { "f0;".to_owned() }, ""),
        up_to_the_limit(
            "let z=1;",
            &|n| if n < 1000 { format!("fn a({}){{}}", "b,".repeat(n % 40)) } else { "z;".to_owned() },
            "",
        ),
        up_to_the_limit("", &|n| if n < 4000 { format!("||{n};") } else { "z;".to_owned() }, ""),
        up_to_the_limit("", &|n| format!("\"s{n:x}\";"), ""),
        up_to_the_limit("", &|n| format!("a.p{:x};", n % 1000), ""),
    ] {
        let started = Instant::now();
        drop(loaded(&text));
        let took = started.elapsed();
        if took > LOADING {
            late.push(format!("{took:?}: {text:.40}"));
        }
    }
    assert!(late.is_empty(), "{late:#?}");
    let error = invalid(&" ".repeat((64 << 10) + 1), "has 65537 bytes, and a Rhai script may have 65536");
    assert!(error.help().is_some());
}

#[test]
fn a_script_with_too_many_names_is_refused() {
    let names =
        |count: usize| format!("fn f({}z) {{}}", (2..count).map(|n| format!("a{n},")).collect::<String>());
    assert!(loaded(&names(1024)).is_ok());
    let error = invalid(&names(1025), "a script may have 1024 different names");
    assert_eq!(error.location().and_then(|at| at.line), Some(1));
    let long: String =
        (0..1000).map(|n| format!("let v{n} = {n};")).collect::<String>() + "v0;".repeat(10_000).as_str();
    invalid(&long, "too many names in too much text");
    // As much as somebody writes by hand: two hundred functions that call each other, with closures and maps.
    let usual = |n: usize| {
        format!(
            "fn step{n}(list, options) {{\n    let found{n} = list.filter(|item| item.size > options.least || item.is_new);\n    \
             if found{n}.is_empty() && options.strict {{ throw `nothing in ${{list.len()}}`; }}\n    \
             let total = 0;\n    for item in found{n} {{ total += item.size * 2; }}\n    \
             #{{ total: total, items: found{n}, next: step{}(list, options) }}\n}}\n",
            n / 2
        )
    };
    let written: String = (0..190).map(usual).collect();
    assert!((58 << 10..64 << 10).contains(&written.len()), "{}", written.len());
    script(&written);
}

#[test]
fn nothing_is_parsed_for_a_run_that_has_ended() {
    let token = CancelToken::new();
    token.cancel();
    let error = loaded_under("let a = 1; a", &token).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

/// As the library writes them.
#[test]
fn large_values_are_written_as_small_ones() {
    for length in [0, 1, 8, 9, 100] {
        let bytes: Vec<u8> = (0..length).map(|n: u8| n.wrapping_mul(7) ^ 0x5a).collect();
        let library = rhai::Dynamic::from_blob(bytes.clone()).to_string();
        let source = format!("let b = blob({length}); for n in 0..{length} {{ b[n] = n * 7 ^ 0x5a; }} ");
        let written = run(&format!("{source} b.to_string() + b.to_debug() + [b].to_string()"), Value::Null);
        assert_eq!(written.unwrap(), Value::from(format!("{library}{library}[{library}]")));
    }
    let text = "a\"'\\\n\u{301}é\u{301}\u{1f600}\0".repeat(20_000);
    let executor = script("input.to_debug()");
    let written = executor.execute(Value::from(text.clone()).into()).unwrap().value;
    assert!(written.as_str() == Some(format!("{text:?}").as_str()), "a long string is quoted in another way");
}

/// The arguments of a host function are counted before they are copied.
#[test]
fn arguments_and_results_are_counted_before_they_are_built() {
    let lists = "let a = []; a.pad(40000, []); let b = []; b.pad(20, a);";
    let run = |source: &str, memory: u64| {
        let limits = Limits::default().memory(memory).operations(u64::MAX);
        let context = SkillContext::builder("test").limits(limits).build();
        let executor = script(source);
        metier_core::alloc_counter::reset_peak();
        let before = metier_core::alloc_counter::net_bytes();
        let ended = executor.execute_with_context(SkillInput::default(), Some(&context)).err();
        (ended.map(|error| error.kind()), metier_core::alloc_counter::peak_bytes() - before)
    };
    for call in ["ctx.log(b, b, b)", "ctx.log(\"info\", b)", "ctx.write(b, b)"] {
        let (ended, peak) = run(&format!("{lists} {call}"), 64 << 20);
        assert!(ended.is_some() && peak < 150 << 20, "{call}: {ended:?}, {peak}");
        let (ended, peak) = run(&format!("{lists} {call}"), 1 << 20);
        assert!(ended == Some(ErrorKind::Memory) && peak < 4 << 20, "{call}: {ended:?}, {peak}");
    }
}
