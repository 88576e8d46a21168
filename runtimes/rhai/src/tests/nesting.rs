//! However deep a script nests its values, it ends with an error or an answer, and never the process.

use serde_json::Value;

use super::{fails, run, stopped};
use metier_core::error::ErrorKind;

/// R4: values nest by being put into each other, without ever being copied or looked at.
#[test]
fn deep_values_meet_the_memory_limit_and_not_the_end_of_the_stack() {
    for body in [
        "let a = []; loop { a = [[a.pop()]]; }",
        "let a = []; loop { a = [take(a)]; }",
        "let a = #{}; loop { a = #{a: a.remove(\"a\")}; a = #{a: take(a)}; }",
        "let f = || 1; loop { let g = f; f = || g.call(); }",
        "let f = || 1; loop { let g = [f]; f = || g.len(); }",
        "let f = Fn(\"x\"); loop { f = f.curry(f); }",
        "let a = []; loop { let b = a; a = [|| b]; }",
    ] {
        stopped(body);
    }
}

/// Many chains of closures, each short, joined where nobody looks.
#[test]
fn chains_that_are_joined_are_as_deep_as_their_sum() {
    stopped(
        "let all = []; \
         for n in 0..100 { let c = #{f: 0}; let f = || c; for i in 0..300 { let g = f; f = || g; } all.push([f, |x| c.f = x]); } \
         for n in 0..99 { all[n][1].call(all[n + 1][0]); } \
         all = (); loop { let b = blob(1000); }",
    );
}

/// What is done with a deep value goes as deep as it does.
#[test]
fn whatever_is_done_with_a_deep_value_ends_well() {
    let deep = "let a = [1]; for i in 0..20000 { a = [take(a)]; }";
    for done in [
        "a = (); loop {}",
        "let b = a; loop {}",
        "let b = [a, a]; loop {}",
        "a == [a]; loop {}",
        "a == a; loop {}",
        "a.contains(a); loop {}",
        "a.index_of([1]); loop {}",
        "print(a); loop {}",
        "a.to_debug(); loop {}",
        "#{a: a}.to_json(); loop {}",
        "switch a { [1] => 1, _ => 2 } loop {}",
        "let c = []; c.pad(3, a); loop {}",
        "throw a",
        "try { throw a } catch (e) { loop {} }",
        "exit(a)",
        "a",
        "ctx.log(\"info\", a)",
        "a.dedup(); [a, a].dedup(); loop {}",
        "[a, a].sort(); loop {}",
        "[a, a].order(); loop {}",
        "let m = #{a: a}; m += #{b: a}; m == m; loop {}",
    ] {
        stopped(&format!("{deep} {done}"));
    }
}

/// As deep as the memory allows, whatever the stack of the thread.
#[test]
fn the_deepest_value_there_can_be_ends_well_on_a_small_thread() {
    let thread = std::thread::Builder::new().stack_size(512 << 10);
    let deepest = || {
        let deep = "let a = [1]; for i in 0..100000 { a = [take(a)]; }";
        for done in [
            "",
            "let b = a;",
            "a == a;",
            "switch a { 1 => 2, _ => 3 }",
            "#{a: a}.to_json();",
            "a.to_debug();",
            "throw a",
        ] {
            stopped(&format!("{deep} {done}; loop {{}}"));
            stopped(&format!(
                "let f = || 1; for i in 0..30000 {{ let g = f; f = || g.call(); }} let a = [f]; {done}; loop {{}}"
            ));
        }
        // Without a loop, and without a word that means one.
        let nested = format!("a={}a{};", "[".repeat(20), "]".repeat(20));
        let _ = run(&format!("let a=[];{}[a,a]", nested.repeat(1000)), Value::Null);
        fails("fn f(n) { f(n + 1) + 1 } f(0)", ErrorKind::Script, "nested too deep");
    };
    thread.spawn(deepest).unwrap().join().unwrap();
}

/// A script that says nothing twice nests no deeper than its text.
#[test]
fn a_short_script_cannot_nest_deeper_than_its_text() {
    let nested = format!("a={}a{};", "[".repeat(20), "]".repeat(20));
    let source = format!("let a=[];{}", nested.repeat(90));
    assert!(source.len() < 4096);
    assert_eq!(run(&format!("{source}let b=[a,a];b.len()"), Value::Null).unwrap(), 2);
    fails(&format!("{source}a"), ErrorKind::InvalidOutput, "nested deeper");
}
