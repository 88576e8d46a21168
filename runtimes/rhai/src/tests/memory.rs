//! The memory limit holds for every expression. Between two checks a run allocates at most one string twice as long as the
//! largest that it may have, besides that one: its peak is at most three times its limit, and mostly less than twice.

use serde_json::{Value, json};

use super::script;
use metier_core::alloc_counter;
use metier_core::error::ErrorKind;
use metier_core::executor::SkillInput;
use metier_core::host::SkillContext;
use metier_core::policy::Limits;

const LIMIT: u64 = 4 << 20;

/// The memory of a run that is not its script's: the engine, the scope, the error.
const HOST_BYTES: u64 = 1 << 18;

/// Runs a script under the limit; returns how it ended, and the peak of its allocations.
fn peak_of(source: &str, input: Value) -> (Option<ErrorKind>, u64) {
    let executor = script(source);
    let limits = Limits::default().memory(LIMIT).operations(3_000_000);
    let context = SkillContext::builder("test").limits(limits).build();
    let input = SkillInput::from(input);
    alloc_counter::reset_peak();
    let before = alloc_counter::net_bytes();
    let ended = executor.execute_with_context(input, Some(&context)).err();
    (ended.map(|error| error.kind()), u64::try_from(alloc_counter::peak_bytes() - before).unwrap())
}

#[track_caller]
fn bounded(source: &str) {
    let (ended, peak) = peak_of(source, Value::Null);
    assert!(peak <= 3 * LIMIT + HOST_BYTES, "{source}: {peak} bytes");
    assert_eq!(ended, Some(ErrorKind::Memory), "{source}: {peak} bytes");
}

/// A list literal of this many copies.
fn copies(of: &str, count: usize) -> String {
    format!("[{}]", vec![of; count].join(", "))
}

#[test]
fn literals_of_many_copies_meet_the_limit() {
    bounded(&format!("let a = blob(1000000); let b = {};", copies("a", 1000)));
    bounded(&format!("let a = blob(1000000); let b = {};", copies("[a, a]", 500)));
    bounded(&format!(
        "let a = blob(1000000); let b = #{{x: {}, y: #{{z: {}}}}};",
        copies("a", 2),
        copies("a", 500)
    ));
    bounded(&format!("let a = blob(1000000); fn f(a, b) {{ [a, b] }} let b = {};", copies("f(a, a)", 500)));
    bounded(&format!("let a = blob(1000000); let b = {};", copies("a + a", 500)));
    bounded(&format!("let a = blob(1000000); let b = {};", copies("if true { a } else { () }", 500)));
    bounded(&format!("let a = blob(1000000); let b = {};", copies("switch 1 { 1 => a, _ => () }", 500)));
    bounded("let a = blob(1000000); let b = []; for i in 0..1000 { b += a; b += [a]; }");
}

#[test]
fn recursion_that_holds_much_meets_the_limit() {
    bounded("fn f(a, n) { if n == 0 { 1 } else { f(a, n - 1) + a.len() } } f(blob(1000000), 100)");
    bounded("fn f(a, n) { [a, if n == 0 { a } else { f(a, n - 1) }] } f(blob(500000), 50)");
    bounded("fn f(n) { if n == 0 { [0] } else { [f(n - 1), f(n - 1)] } } f(18)");
    bounded("fn f(n) { if n == 0 { blob(99).as_string() } else { f(n - 1) + f(n - 1) } } f(17)");
    bounded("fn f(n) { #{a: blob(100000), b: if n > 0 { f(n - 1) } else { 0 }} } f(100)");
    bounded("fn f(n) { let b = blob(100000); if n > 0 { f(n - 1) } b.len() } f(100)");
}

#[test]
fn doubling_meets_the_limit() {
    for start in ["\"0123456789\"", "[1, 2, 3]", "blob(10)"] {
        bounded(&format!("let a = {start}; loop {{ a += a; }}"));
        bounded(&format!("let a = {start}; loop {{ a = a + a; }}"));
        bounded(&format!("let a = {start}; loop {{ a.append(a); }}"));
    }
    bounded("let s = \"0123456789\"; loop { s = `${s}-${s}`; }");
    bounded("let m = #{a: 1}; loop { m = #{a: m, b: m}; }");
    bounded("let m = #{}; let n = 0; loop { n += 1; m.mixin(#{}); m[`key ${n}`] = n; }");
    bounded("let m = #{}; let n = 0; loop { n += 1; let k = #{}; k[`key ${n}`] = m; m = m + k; }");
    bounded("let b = blob(); loop { b.append(\"0123456789\"); }");
    bounded("let a = [1]; loop { a.splice(0..0, a); }");
    bounded("let a = [1]; loop { a.insert(0, a); }");
}

#[test]
fn what_closures_hold_counts() {
    bounded("let fs = []; loop { let b = blob(10000); fs.push(|| b.len()); }");
    bounded("let b = blob(100000); let fs = []; loop { fs.push(Fn(\"f\").curry(b)); }");
    bounded("let a = []; let f = || { a += [1, 2, 3]; }; loop { f.call(); }");
    bounded("let c = 0; let all = []; loop { let b = blob(10000); c = || [b, c]; all.push(c); }");
    bounded("let f = |a| a + a; let a = [1]; loop { a = f.call(a); }");
    bounded("fn g(a) { a + a } let f = Fn(\"g\"); let a = [1]; loop { a = call(f, a); }");
}

#[test]
fn what_functions_of_lists_make_counts() {
    let numbers = "let a = []; for i in 0..1000 { a.push(i); }";
    bounded(&format!("{numbers} a.map(|x| blob(10000))"));
    bounded(&format!("{numbers} let b = blob(10000); a.map(|x| b)"));
    bounded(&format!("{numbers} a.map(|x| 60000).map(Fn(\"blob\"))"));
    bounded(&format!(
        "{numbers} a.reduce(|sum, x| if type_of(sum) == \"array\" {{ sum + sum }} else {{ [1] }})"
    ));
    bounded(&format!("{numbers} a.filter(|x| {{ let b = []; loop {{ b.push([x]); }} }})"));
    // Sorting goes on after a comparison has failed, so this run ends well, and within its limit.
    let (_, peak) = peak_of(
        &format!("{numbers} let k = []; a.sort(|x, y| {{ k.push(blob(9999)); x - y }})"),
        Value::Null,
    );
    assert!(peak <= LIMIT + HOST_BYTES, "{peak}");
    bounded("let s = \"\"; s.pad(100000, 'x'); let a = []; a.pad(1000, s); a.map(Fn(\"to_upper\"))");
    bounded("let s = \"\"; s.pad(100000, 'x'); let a = []; a.pad(1000, s); a.map(|x| x + \"y\")");
}

/// One long string in a thousand places takes little memory, but its text takes much.
#[test]
fn text_of_lists_that_share_meets_the_limit() {
    let list = "let s = \"\"; s.pad(100000, 'x'); let a = []; a.pad(1000, s);";
    for written in [
        "a.to_string()",
        "a.to_debug()",
        "\"\" + a",
        "a + \"\"",
        "`${a}`",
        "`${#{a: a}}`",
        "#{a: a}.to_string()",
    ] {
        bounded(&format!("{list} let t = {written}; t.len()"));
    }
    for written in
        ["print(a)", "debug(a)", "let t = \"\"; t += a;", "#{a: a}.to_json()", "throw a.to_string()"]
    {
        bounded(&format!("{list} {written}"));
    }
    bounded("let s = \"\"; s.pad(1000000, '\\x01'); [s].to_string()");
}

/// The limit applies to the memory that is left, however much a single step requests.
#[test]
fn one_step_cannot_take_what_is_not_left() {
    let half = "let half = blob(2500000);";
    for step in [
        "blob(2500000)",
        "let b = blob(); b.pad(2500000, 1);",
        "let s = \"\"; s.pad(2500000, 'x');",
        "let s = \"\"; s.pad(2500000, \"xyz\");",
        "let a = []; a.pad(200000, 0);",
        "let a = []; a.pad(1000, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); a.pad(10000, a);",
        "let s = \"\"; s.pad(1000, 'x'); s.replace(\"x\", s); s.replace(\"x\", s);",
        "let s = \"\"; s.pad(1000000, 'x'); s.split(\"\")",
        "let s = \"\"; s.pad(1000000, 'x'); s.to_chars()",
        "let s = \"\"; s.pad(1000000, 'x'); for c in s { } let t = s.to_chars();",
        "let b = blob(1000000); b.to_array()",
        "let s = \"[\"; s.pad(1000000, \"0,\"); s += \"0]\"; parse_json(s)",
        "let s = \"[\"; s.pad(500000, \"[],\"); s += \"0]\"; parse_json(s)",
        "let s = \"\"; s.pad(900000, 'x'); let b = s.chars(); let c = s.chars(); let d = s.to_blob(); loop { d += d; }",
        "let b = blob(1000000, 255); b.as_string()",
    ] {
        bounded(&format!("{half} {step}"));
    }
}

/// The input counts for the script from the start; text in it is not copied again.
#[test]
fn the_input_counts() {
    let (ended, _) = peak_of("input.len()", json!("x".repeat(5 << 20)));
    assert_eq!(ended, Some(ErrorKind::Memory));
    let (ended, peak) = peak_of("let a = [input, input, input, input]; a.len()", json!("x".repeat(3 << 20)));
    assert_eq!((ended, peak < 2 * LIMIT), (None, true), "{peak}");
    let list: Vec<u32> = (0..150_000).collect();
    let (ended, peak) = peak_of("let a = [input, input, input]; a.len()", json!(list));
    assert_eq!(ended, Some(ErrorKind::Memory));
    assert!(peak <= 2 * LIMIT + HOST_BYTES, "{peak}");
}

/// A run that stays within its limit is never stopped, however much it allocates in all.
#[test]
fn freed_memory_can_be_allocated_again() {
    let (ended, peak) = peak_of("for i in 0..1000 { let a = blob(1000000); a.push(1); }", Value::Null);
    assert_eq!(ended, None);
    assert!(peak < LIMIT, "{peak}");
}

#[test]
fn other_threads_do_not_count() {
    let executor = script("let n = 0; while n < 20000 { n += 1; } n");
    let limits = Limits::default().memory(1 << 20);
    let context = SkillContext::builder("test").limits(limits).build();
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| std::hint::black_box(vec![1_u8; 64 << 20]).len());
        assert_eq!(
            executor.execute_with_context(SkillInput::default(), Some(&context)).unwrap().value,
            json!(20_000)
        );
        assert_eq!(busy.join().unwrap(), 64 << 20);
    });
}
