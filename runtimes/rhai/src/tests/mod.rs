//! Tests of Rhai scripts: what they can see, and how they are stopped. The numbered cases are those of the hostile-script
//! list, R1 to R13.

mod closure_leaks;
mod memory;
mod nesting;
mod stopping;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::load;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{Script, SkillExecutor, SkillInput};
use metier_core::host::{HostApiClient, RunContextBuilder, RunMessages, SkillContext};
use metier_core::policy::{CancelToken, Limits, Watchdog};

fn script(source: &str) -> Box<dyn SkillExecutor> {
    loaded(source).unwrap()
}

fn loaded(source: &str) -> Result<Box<dyn SkillExecutor>> {
    loaded_under(source, &CancelToken::new())
}

fn loaded_under(source: &str, cancel: &CancelToken) -> Result<Box<dyn SkillExecutor>> {
    let script = Script::new("test", "scripts/main.rhai", source.as_bytes());
    load(&script, cancel)
}

fn run(source: &str, input: Value) -> Result<Value> {
    script(source).execute(input.into()).map(|output| output.value)
}

fn answers(source: &str, value: &Value) {
    match run(source, Value::Null) {
        Ok(answer) => assert_eq!(answer, *value, "{source}"),
        Err(error) => panic!("{source}: {error:?}"),
    }
}

fn fails(source: &str, kind: ErrorKind, sentence: &str) -> SkillError {
    let error = run(source, Value::Null).unwrap_err();
    assert_eq!(error.kind(), kind, "{source}: {error}");
    assert!(error.message().contains(sentence), "{source}: {error}");
    error
}

fn invalid(source: &str, sentence: &str) -> SkillError {
    let error = loaded(source).err().unwrap_or_else(|| panic!("loaded: {source:.80}"));
    assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{error}");
    assert!(error.message().contains(sentence), "{source:.80}: {error}");
    error
}

const DEADLINE: Duration = Duration::from_millis(300);

/// Runs with a deadline and a small memory limit; then the same loaded script must still run cleanly.
fn stopped(body: &str) -> SkillError {
    stopped_within(body, DEADLINE)
}

/// The timeout of a run that ends by itself, on a busy machine.
const RUN_TIMEOUT: Duration = Duration::from_secs(3);

fn stopped_within(body: &str, deadline: Duration) -> SkillError {
    let executor = script(&format!("if input == \"again\" {{ return \"fine\"; }}\n{body}"));
    let watchdog = Watchdog::new();
    let context = |deadline| {
        let token = CancelToken::new();
        let armed = watchdog.arm(Instant::now() + deadline, &token);
        let limits = Limits::default().memory(16 << 20).operations(u64::MAX);
        (SkillContext::builder("test").limits(limits).cancel(token).build(), armed)
    };
    let (hostile, _armed) = context(deadline);
    let started = Instant::now();
    let error = executor.execute_with_context(SkillInput::default(), Some(&hostile));
    let error = error.err().unwrap_or_else(|| panic!("{body} ended"));
    assert!(started.elapsed() < deadline + Duration::from_millis(500), "{body}: {:?}", started.elapsed());
    let (calm, _armed) = context(Duration::from_secs(30));
    let again = executor.execute_with_context(json!("again").into(), Some(&calm)).unwrap();
    assert_eq!(again.value, json!("fine"), "{body}");
    error
}

fn log_of(source: &str) -> Vec<Value> {
    let context = SkillContext::builder("test").build();
    script(source).execute_with_context(SkillInput::default(), Some(&context)).unwrap();
    context.take_log().iter().map(|line| serde_json::to_value(line).unwrap()).collect()
}

#[test]
fn the_input_comes_in_and_the_last_expression_goes_out() {
    assert_eq!(run("input * 2", json!(21)).unwrap(), json!(42));
    assert_eq!(run("input.a + input.b", json!({"a": 10, "b": 32})).unwrap(), json!(42));
    assert_eq!(run("#{x: input + 1, y: \"hello\"}", json!(1)).unwrap(), json!({"x": 2, "y": "hello"}));
    answers("return 1; 2", &json!(1));
    answers("exit(3); 2", &json!(3));
    answers("let x = 1;", &Value::Null);
    answers("'c'", &json!("c"));
}

#[test]
fn integers_stay_integers_and_floats_floats() {
    answers("#{f: 1.0, g: 10 / 2, h: 10.0 / 4.0}", &json!({"f": 1.0, "g": 5, "h": 2.5}));
    for integer in [i64::MAX, i64::MIN, 9_007_199_254_740_993] {
        assert_eq!(run("input", json!(integer)).unwrap(), json!(integer));
    }
    let error = run("input", json!({"ids": [1, u64::MAX]})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(
        error.message(),
        "input.ids[1] is the integer 18446744073709551615, which Rhai cannot hold exactly"
    );
}

#[test]
fn half_of_a_character_in_json_is_replaced() {
    answers(r#"parse_json(`{"t": "cut \ud83d"}`)"#, &json!({"t": "cut \u{fffd}"}));
}

#[test]
fn texts_are_encoded_for_headers_and_urls() {
    answers("base64_encode(\"hi?>>\")", &json!("aGk/Pj4="));
    answers("base64_encode(blob(2, 255))", &json!("//8="));
    answers("base64_decode(\"aGk_\\nPj4\")", &json!("hi?>>"));
    answers("base64_decode_blob(\"//8=\").len()", &json!(2));
    answers("url_encode(\"a b/\u{e4}\")", &json!("a%20b%2F%C3%A4"));
    answers("url_decode(\"a%20b+\")", &json!("a b+"));
    fails("base64_decode(\"?\")", ErrorKind::Script, "base64_decode: this is not base64");
    fails("base64_decode(\"//8=\")", ErrorKind::Script, "not UTF-8");
    fails("url_decode(\"%\")", ErrorKind::Script, "url_decode: a percent sign");
}

#[test]
fn what_has_no_json_form_is_an_error_that_names_its_place() {
    for (source, sentence) in [
        ("#{list: [1, |x| x]}", "value.list[1] is a function"),
        ("#{x: 0.0 / 0.0}", "value.x is NaN"),
        ("1.0 / 0.0", "is inf"),
        ("[timestamp()]", "value[0] is a timestamp"),
        ("blob(3)", "is a blob"),
        ("1..3", "is a Range"),
        ("ctx", "is a Ctx"),
    ] {
        fails(source, ErrorKind::InvalidOutput, sentence);
    }
}

#[test]
fn a_script_error_carries_file_line_column_and_traceback() {
    let error = fails("fn f() {\n  throw \"no luck\"\n}\nf()", ErrorKind::Script, "no luck");
    assert_eq!(error.message(), "no luck");
    let location = error.location().unwrap();
    assert_eq!(
        (location.file.as_str(), location.line, location.column),
        ("scripts/main.rhai", Some(2), Some(3))
    );
    assert_eq!(error.traceback(), ["scripts/main.rhai:2 function f", "scripts/main.rhai:4"]);
    fails("throw #{code: 7}", ErrorKind::Script, r#"the script raised {"code":7}"#);
    fails("throw", ErrorKind::Script, "the script raised null");
    let error = fails("let x = [1];\nx[7]", ErrorKind::Script, "Array index 7 out of bounds");
    assert!(!error.message().contains("line"), "{error}");
    assert_eq!(error.location().unwrap().line, Some(2));
    fails("nothing()", ErrorKind::Script, "Function not found: nothing");
}

#[test]
fn a_script_that_does_not_parse_is_an_invalid_skill() {
    let error = invalid("let x = 1;\nlet y = ;", "");
    let at = error.location().unwrap();
    assert_eq!((at.line, at.column), (Some(2), Some(9)), "{error}");
    assert!(loaded("1 + \u{0}").is_err());
    let script = Script::new("test", "scripts/main.rhai", b"\"a\xff\"".as_slice());
    let error = load(&script, &CancelToken::new());
    assert_eq!(error.err().unwrap().message(), "scripts/main.rhai is not UTF-8 at byte 2");
}

#[test]
fn a_host_failure_keeps_its_kind_and_gets_the_place_of_the_call() {
    let error =
        fails("\nctx.log(\"info\")", ErrorKind::InvalidArgument, "log(level, message): message is missing");
    assert_eq!(error.location().unwrap().line, Some(2));
    fails("ctx.log(1, 2, 3)", ErrorKind::InvalidArgument, "takes at most 2 arguments, got 3");
    fails(
        "try { ctx.log(1, 2) } catch (e) { throw e }",
        ErrorKind::InvalidArgument,
        "level must be a string",
    );
    fails("try { ctx.log(1, 2) } catch { throw }", ErrorKind::InvalidArgument, "level must be a string");
    fails("fn f(c) { c.log(1, 2) } f(ctx)", ErrorKind::InvalidArgument, "level must be a string");
    let source = r#"try { ctx.log() } catch (e) { return [e.kind, e.message == e.to_string(), ("" + e) == e.message, `${e}` == e.message, type_of(e), e.help]; }"#;
    answers(source, &json!(["invalid-argument", true, true, true, "error", null]));
    fails("ctx.log(\"info\", |x| x)", ErrorKind::InvalidArgument, "message is a function");
    fails("ctx.nothing()", ErrorKind::Script, "Function not found: nothing");
}

#[test]
fn ctx_is_in_sight_inside_functions_and_print_becomes_a_log_line() {
    assert_eq!(
        log_of("fn say() { ctx.log(\"warn\", \"inside\") } say(); print([1, ()]); debug(\"x\"); print();"),
        [
            json!({"level": "warn", "message": "inside"}),
            json!({"level": "info", "message": "[1, ()]"}),
            json!({"level": "debug", "message": "\"x\""}),
            json!({"level": "info", "message": ""}),
        ]
    );
}

/// R6, R7, R8: no code from text or from elsewhere, nothing that waits.
#[test]
fn nothing_ambient_is_in_reach() {
    invalid("eval(\"1\")", "eval");
    invalid("import \"/etc/passwd\" as p;", "import");
    fails("sleep(5)", ErrorKind::Script, "Function not found: sleep (i64)");
    fails("sleep(0.5)", ErrorKind::Script, "Function not found: sleep (f64)");
    fails("fn eval2() {} let f = Fn(\"eval\"); f.call(\"1\")", ErrorKind::Script, "");
    fails("let f = Fn(\"sleep\"); f.call(5)", ErrorKind::Script, "Function not found: sleep");
}

/// What one run leaves behind is invisible to the next.
#[test]
fn runs_do_not_see_each_other() {
    let executor =
        script("if input == 1 { let leak = 1; ctx.log(\"info\", \"x\"); throw \"x\" } is_def_var(\"leak\")");
    assert!(executor.execute(json!(1).into()).is_err());
    assert_eq!(executor.execute(json!(2).into()).unwrap().value, json!(false));
}

/// R1, R10, R12: no kind of loop outlives the deadline, and none can catch the stop.
#[test]
fn every_endless_script_stops_at_its_deadline() {
    for body in [
        "loop {}",
        "while true {}",
        "loop { try { loop {} } catch { } }",
        "loop { try { throw 1 } catch (e) { } }",
        "do {} while true",
        "for i in 0..9000000000000 { let x = i; }",
        "for i in range(0, 9000000000000) { let x = i; }",
        "let a = []; for i in 0..1000 { a.push(i); } loop { a.sort(|x, y| 1); }",
        "let f = |x| { loop {} }; f.call(1)",
        "loop { try { ctx.log() } catch (e) { e.to_string() } }",
        "[1].map(|x| { loop {} })",
        "let s = \"x\"; loop { s.len(); }",
    ] {
        let error = stopped(body);
        assert_eq!(error.kind(), ErrorKind::Timeout, "{body}: {error}");
    }
}

#[test]
fn operations_are_counted() {
    let executor = script("loop {}");
    let error = executor.execute(SkillInput::default()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Operations | ErrorKind::Timeout), "{error}");
    let limits = Limits::default().operations(1000);
    let context = SkillContext::builder("test").limits(limits).build();
    let error = executor.execute_with_context(SkillInput::default(), Some(&context)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Operations);
}

/// R2, R3, R11: no kind of growth exceeds the limit, in one step or in many.
#[test]
fn every_bomb_meets_the_memory_limit() {
    for body in [
        "let a = [1]; loop { a += a; }",
        "let a = [1]; loop { a = a + a; }",
        "let a = [1]; loop { a.append(a); }",
        "let a = [1]; loop { a = [a, a]; }",
        "let a = [1]; loop { a.push(a); }",
        "let a = [0, 0]; loop { a[0] = a; a[1] = a; }",
        "let a = []; loop { a = [a]; }",
        "let a = []; loop { a.push(#{x: \"y\"}); }",
        "let m = #{a: 1}; loop { m = #{a: m, b: m}; }",
        "let m = #{}; loop { m.a = m; m.b = m; }",
        "let m = #{}; let n = 0; loop { m[`key ${n}`] = [n, n, n, n]; n += 1; }",
        "let m = #{s: \"x\"}; loop { m.s += m.s; }",
        "let a = [1]; let f = || a; loop { a = [f, a, a, a]; }",
        "fn grow(a) { grow([a, a]) } grow([1])",
        "let s = \"x\"; loop { s += s; }",
        "let s = \"x\"; loop { s = s + s; }",
        "let s = \"x\"; loop { s = `${s}${s}`; }",
        "let s = \"x\"; s.pad(1000000, 'x'); let a = []; loop { a.push(s + a.len()); }",
        "let s = \"\"; s.pad(2000000000, 'x');",
        "let s = \"\"; s.pad(2000000000, \"xy\");",
        "let a = []; a.pad(2000000000, 0);",
        "blob(1000000000)",
        "blob(1000000000, 7)",
        "blob(9223372036854775807)",
        "let b = blob(); b.pad(1000000000, 1);",
        "let b = blob(8000000); b.to_array()",
        "let s = \"\"; s.pad(2000000, 'x'); s.replace(\"x\", s); s",
        "let s = \"\"; s.pad(2000000, 'x'); s.replace('x', s); s",
        "let s = \"\"; s.pad(2000000, 'x'); s.split('x')",
        "let s = \"\"; s.pad(2000000, 'x'); s.split(\"\", 9999999)",
        "let s = \"\"; s.pad(2000000, 'x'); s.split_rev(\"x\")",
        "let s = \"\"; s.pad(2000000, 'x'); s.to_chars()",
    ] {
        let error = stopped_within(body, RUN_TIMEOUT);
        // A script that grows in steps may reach the deadline first on a slow machine; one that grows at once may not.
        let in_time =
            error.kind() == ErrorKind::Timeout && ["loop", "grow"].iter().any(|word| body.contains(word));
        assert!(error.kind() == ErrorKind::Memory || in_time, "{body}: {error}");
    }
}

/// The bounded functions return the same results as the library's own.
#[test]
fn what_is_guarded_does_what_it_did() {
    answers("let s = \"ab\"; s.pad(5, 'x'); s", &json!("abxxx"));
    answers("let s = \"ab\"; s.pad(7, \"(!)\"); s", &json!("ab(!)(!"));
    answers("let s = \"ab\"; s.pad(-1, \"(!)\"); s.pad(5, \"\"); s", &json!("ab"));
    answers("let a = [1]; a.pad(3, 7); a.pad(1, 9); a", &json!([1, 7, 7]));
    answers("let b = blob(2, 300); b.pad(3, 1); b.to_array()", &json!([44, 44, 1]));
    answers(
        "let s = \"aXbX\"; s.replace(\"X\", \"--\"); s.replace('a', 'c'); s.replace('b', \"d\"); s",
        &json!("c--d--"),
    );
    answers("\"a,b,c\".split(\",\")", &json!(["a", "b", "c"]));
    answers("\"a,b,c\".split(',', 2)", &json!(["a", "b,c"]));
    answers("\"a b\".split()", &json!(["a", "b"]));
    answers("\"a,b,c\".split_rev(\",\", 2)", &json!(["c", "a,b"]));
    answers("\"abc\".split(1)", &json!(["a", "bc"]));
    answers("\"äb\".to_chars()", &json!(["ä", "b"]));
}

/// With the library's own size limits it is quadratic: each call measures the whole list.
#[test]
fn pushing_is_as_fast_as_without_limits() {
    let time = |count: u32| {
        let source = format!("let a = []; for i in 0..{count} {{ a.push(i); }} a.len()");
        let executor = script(&source);
        let limits = Limits::default().operations(u64::MAX);
        let context = SkillContext::builder("test").limits(limits).build();
        let started = Instant::now();
        let value = executor.execute_with_context(SkillInput::default(), Some(&context)).unwrap().value;
        assert_eq!(value, json!(count));
        started.elapsed()
    };
    let (few, many) = (time(2_000), time(40_000));
    assert!(many < few * 20 * 6, "2,000: {few:?}, 40,000: {many:?}");
}

/// R4: endless recursion is an error and not a crash.
#[test]
fn deep_recursion_is_an_error() {
    for body in [
        "fn f() { f() } f()",
        "fn f(n) { 1 + f(n + 1) } f(0)",
        "fn f(g) { g.call(g) } let g = |h| f(h); f(g)",
        "fn a() { [1].map(|x| b()) } fn b() { [1].map(|x| a()) } a()",
        "fn f() { try { f() } catch { f() } } f()",
    ] {
        let error = stopped(body);
        assert!(matches!(error.kind(), ErrorKind::Script | ErrorKind::Timeout), "{body}: {error}");
    }
}

/// R5: deep nesting ends in the parser.
#[test]
fn deep_nesting_does_not_parse() {
    for (open, close) in
        [("(", ")"), ("[", "]"), ("{", "}"), ("#{a:", "}"), ("!", "true"), ("-", "1"), ("|x| ", "1")]
    {
        let source = format!("let x = {}{}", open.repeat(20_000), close.repeat(20_000));
        assert!(loaded(&source).is_err(), "{open}");
    }
    invalid(&format!("let x = 1{}", " + 1".repeat(16_000)), "maximum complexity");
    assert!(loaded(&format!("let x = 1; x{}", ".a".repeat(30_000))).is_err());
    assert!(loaded(&format!("if true {{}} {}", "else if true {}".repeat(4_000))).is_err());
}

/// R9: floods end at the output limit.
#[test]
fn a_flood_of_print_meets_the_output_cap() {
    let line = "let s = \"\"; s.pad(1000, 'x');";
    assert_eq!(
        stopped_within(&format!("{line} loop {{ print(s); }}"), RUN_TIMEOUT).kind(),
        ErrorKind::Output
    );
    assert_eq!(
        stopped_within(&format!("{line} loop {{ try {{ debug(s); }} catch {{}} }}"), RUN_TIMEOUT).kind(),
        ErrorKind::Output
    );
}

/// R13: a panic in a host function does not affect the next run.
#[test]
fn a_panic_in_the_host_spoils_no_later_run() {
    struct Clumsy;
    impl HostApiClient for Clumsy {
        fn call(&self, _: &str, _: Vec<Value>) -> Result<Value> {
            panic!("dropped it");
        }
    }
    let executor = script("if input == 1 { for i in 0..3 { ctx.log(\"info\", \"x\"); } } input");
    for input in [1, 2, 1, 2] {
        let context = SkillContext::builder("test").host_api_client(Arc::new(Clumsy)).build();
        let run = || executor.execute_with_context(json!(input).into(), Some(&context)).unwrap().value;
        let ended = catch_unwind(AssertUnwindSafe(run));
        assert_eq!(ended.ok(), (input == 2).then_some(json!(2)));
    }
}

/// A method sees what it is called on, as in Rhai everywhere.
#[test]
fn methods_know_this() {
    answers("fn grow(by) { this.push(by); } let a = [1]; a.grow(2); a", &json!([1, 2]));
    assert_eq!(
        stopped_within("fn grow() { loop { this.push(this); } } let a = [1]; a.grow();", RUN_TIMEOUT).kind(),
        ErrorKind::Memory
    );
}

#[test]
fn a_late_stop_does_not_stop_the_next_run() {
    let source = "ctx.tool(\"next\", #{}); let sum = 0; for i in 1..=2000 { sum += i; } sum";
    metier_core::executor::testing::check_late_stop(&*script(source));
}

#[test]
fn one_executor_serves_many_threads() {
    let executor = script("let sum = 0; for i in 1..=1000 { sum += i * input; } sum");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let executor = &executor;
            scope.spawn(move || {
                for _ in 0..20 {
                    let value = executor.execute(json!(thread).into()).unwrap().value;
                    assert_eq!(value, json!(500_500 * thread));
                }
            });
        }
    });
}
