//! Tests of Lua scripts: what they can see, and how they are stopped. The numbered cases are those of the hostile-script
//! list, L1 to L18.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

mod hostile;
mod interruptible_std;

use super::load;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{Script, SkillExecutor, SkillInput};
use metier_core::host::{RunMessages, SkillContext};
use metier_core::policy::{CancelToken, Limits, Watchdog};

fn script(source: &str) -> Box<dyn SkillExecutor> {
    loaded(source).unwrap()
}

fn loaded(source: &str) -> Result<Box<dyn SkillExecutor>> {
    load(&Script::new("test", "scripts/main.lua", source.as_bytes()))
}

fn run(source: &str, input: Value) -> Result<Value> {
    script(source).execute(input.into()).map(|output| output.value)
}

fn answers(source: &str, value: &Value) {
    assert_eq!(run(source, Value::Null).unwrap(), *value, "{source}");
}

fn fails(source: &str, kind: ErrorKind, sentence: &str) -> SkillError {
    let error = run(source, Value::Null).unwrap_err();
    assert_eq!(error.kind(), kind, "{source}: {error}");
    assert!(error.message().contains(sentence), "{source}: {error}");
    error
}

const DEADLINE: Duration = Duration::from_millis(300);

/// Runs with a deadline and a small memory limit; then the same loaded script must still run cleanly.
fn stopped(body: &str) -> SkillError {
    stopped_after(body, DEADLINE)
}

/// The same with enough time to reach another limit on a busy machine.
fn limited(body: &str) -> SkillError {
    stopped_after(body, Duration::from_secs(30))
}

fn stopped_after(body: &str, limit: Duration) -> SkillError {
    let executor = script(&format!("if input == 'again' then return 'fine' end\n{body}"));
    let watchdog = Watchdog::new();
    let context = |deadline| {
        let token = CancelToken::new();
        let armed = watchdog.arm(Instant::now() + deadline, &token);
        (
            SkillContext::builder("test").limits(Limits::default().memory(16 << 20)).cancel(token).build(),
            armed,
        )
    };
    let (hostile, _armed) = context(limit);
    let started = Instant::now();
    let error = executor.execute_with_context(SkillInput::default(), Some(&hostile)).unwrap_err();
    assert!(started.elapsed() < limit + Duration::from_secs(1), "{body}: {:?}", started.elapsed());
    let (calm, _armed) = context(Duration::from_secs(30));
    let again = executor.execute_with_context(json!("again").into(), Some(&calm)).unwrap();
    assert_eq!(again.value, json!("fine"), "{body}");
    error
}

#[test]
fn the_input_comes_in_and_the_value_returned_goes_out() {
    assert_eq!(run("return input * 2", json!(21)).unwrap(), json!(42));
    assert_eq!(run("return input.a + input.b", json!({"a": 10, "b": 32})).unwrap(), json!(42));
    assert_eq!(run("return {x = input + 1, y = 'hello'}", json!(1)).unwrap(), json!({"x": 2, "y": "hello"}));
    answers("local x = 1", &Value::Null);
}

#[test]
fn several_values_are_refused_and_none_is_dropped() {
    for (script, count) in [("return 1, 2, 3", 3), ("return ('a'):gsub('a', 'b')", 2), ("return nil, nil", 2)]
    {
        let error = run(script, json!(null)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOutput, "{script}");
        assert!(error.message().contains(&format!("returned {count} values")), "{error}");
        assert!(error.help().unwrap().contains("table"), "{error}");
    }
    answers("return (('a'):gsub('a', 'b'))", &json!("b"));
}

#[test]
fn a_whole_number_is_an_integer() {
    answers("return {f = 1.0, g = 10/2}", &json!({"f": 1, "g": 5}));
}

#[test]
fn an_integer_lua_would_round_is_refused_with_its_place() {
    let error = run("return input", json!({"ids": [1, 9_007_199_254_740_993_i64]})).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().starts_with("input.ids[1]: "), "{error}");
    assert_eq!(run("return 1", json!(u64::MAX)).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(
        run("return input", json!(1_000_000_000_000_000_000_i64)).unwrap(),
        json!(1_000_000_000_000_000_000_i64)
    );
}

#[test]
fn null_is_a_value_and_an_empty_table_is_an_object_unless_it_is_an_array() {
    answers("return {null ~= nil, null == null}", &json!([true, true]));
    answers("return {}", &json!({}));
    answers("return array{}", &json!([]));
    answers("return array()", &json!([]));
    answers("return {a = null}", &json!({"a": null}));
    answers("local t = {}; t[3] = 'c'; t[2] = 'b'; t[1] = 'a'; return t", &json!(["a", "b", "c"]));
    assert_eq!(
        run("table.remove(input) return input", json!([1])).unwrap(),
        json!([]),
        "a list stays a list"
    );
}

#[test]
fn what_has_no_json_form_is_an_error_that_names_its_place() {
    for (source, sentence) in [
        ("return {1, a = 2}", "mixes a list with the key \"a\""),
        ("return {1, nil, 3}", "list with holes"),
        ("return {[5] = 1}", "list with holes"),
        ("return {[true] = 1}", "has a boolean as a key"),
        ("return {list = {1, print}}", "value.list[2] is a function"),
        ("return {x = 0/0}", "value.x is NaN"),
        ("return 1/0", "is inf"),
        ("return {s = 'a\\xff'}", "value.s is not UTF-8 at byte 1"),
        ("local t = {} t.t = t return t", "nested deeper than 127 levels, or holds itself"),
        ("return buffer.create(1)", "is a buffer"),
        ("return coroutine.create(print)", "is a thread"),
    ] {
        fails(source, ErrorKind::InvalidOutput, sentence);
    }
}

#[test]
fn a_value_is_measured_before_it_is_created() {
    fails(
        "local t = {1} for i = 1, 60 do t = {t, t} end return t",
        ErrorKind::Memory,
        "needed more than its",
    );
    fails("local t = ('x'):rep(1000) return table.create(10000, t)", ErrorKind::Output, "larger than");
}

#[test]
fn a_script_error_carries_file_line_and_traceback() {
    let error = fails("local function f()\n  error('no luck')\nend\nf()", ErrorKind::Script, "no luck");
    assert_eq!(error.message(), "no luck");
    let location = error.location().unwrap();
    assert_eq!((location.file.as_str(), location.line), ("scripts/main.lua", Some(2)));
    assert_eq!(error.traceback(), ["scripts/main.lua:2 function f", "scripts/main.lua:4"]);
    fails("error({code = 7})", ErrorKind::Script, r#"{"code":7}"#);
    fails("error(nil)", ErrorKind::Script, "raised nil");
    assert!(fails("error(('x'):rep(1e7))", ErrorKind::Script, "xxx").message().len() < 10_000);
}

#[test]
fn a_script_that_does_not_compile_is_an_invalid_skill() {
    let error = loaded("local x =\nreturn )").err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidSkill);
    assert_eq!(error.location().map(|at| at.line), Some(Some(2)), "{error}");
}

#[test]
fn a_host_failure_keeps_its_kind_and_gets_the_line_of_the_call() {
    let error =
        fails("\nctx.log('info')", ErrorKind::InvalidArgument, "log(level, message): message is missing");
    assert_eq!(error.location().unwrap().line, Some(2));
    fails(
        "local ok, e = pcall(ctx.log, 1, 2) error(e)",
        ErrorKind::InvalidArgument,
        "level must be a string",
    );
    answers(
        "local ok, e = pcall(ctx.log) return {ok, e.kind, e.message == tostring(e), ('' .. e) == e.message}",
        &json!([false, "invalid-argument", true, true]),
    );
    fails("ctx.log('info', print)", ErrorKind::InvalidArgument, "message is a function");
}

#[test]
fn ctx_takes_a_dot_or_a_colon_and_print_becomes_a_log_line() {
    let context = SkillContext::builder("test").build();
    let source = "ctx.log('warn', 'dot') ctx:log('debug', 'colon') print('a', 1, nil, true)";
    script(source).execute_with_context(SkillInput::default(), Some(&context)).unwrap();
    let lines: Vec<Value> =
        context.take_log().iter().map(|line| serde_json::to_value(line).unwrap()).collect();
    assert_eq!(
        lines,
        [
            json!({"level": "warn", "message": "dot"}),
            json!({"level": "debug", "message": "colon"}),
            json!({"level": "info", "message": "a\t1\tnil\ttrue"}),
        ]
    );
}

#[test]
fn json_text_can_be_read_and_written() {
    answers("return json.decode('{\"a\": [1, null]}')", &json!({"a": [1, null]}));
    answers("return json.encode({b = array{}})", &json!("{\"b\":[]}"));
    answers(r#"return json.decode('{"t": "cut \\ud83d"}')"#, &json!({"t": "cut \u{fffd}"}));
    fails("json.decode('{')", ErrorKind::InvalidArgument, "json.decode");
}

#[test]
fn texts_are_encoded_for_headers_and_urls() {
    answers("return base64.encode('hi?>>')", &json!("aGk/Pj4="));
    answers("return base64.decode('aGk_\\nPj4')", &json!("hi?>>"));
    answers("return #base64.decode(base64.encode('\\0\\255'))", &json!(2));
    answers("return url.encode('a b/\u{e4}')", &json!("a%20b%2F%C3%A4"));
    answers("return url.decode('a%20b+')", &json!("a b+"));
    fails("base64.decode('?')", ErrorKind::InvalidArgument, "base64.decode: this is not base64");
    fails("url.decode('%')", ErrorKind::InvalidArgument, "url.decode: a percent sign");
    fails("url.encode({})", ErrorKind::InvalidArgument, "url.encode takes a string");
    fails("local a = string.rep('x', 12000000) return #base64.encode(a)", ErrorKind::Memory, "memory");
}

/// L11, L12: a script starts without access to the machine.
#[test]
fn nothing_ambient_is_in_reach() {
    for name in [
        "io",
        "package",
        "require",
        "load",
        "loadstring",
        "dofile",
        "loadfile",
        "getfenv",
        "setfenv",
        "collectgarbage",
        "newproxy",
        "gcinfo",
        "os.execute",
        "os.getenv",
        "os.remove",
        "os.rename",
        "os.exit",
        "os.tmpname",
        "debug.getregistry",
        "debug.getinfo",
        "debug.info",
        "debug.sethook",
        "string.dump",
    ] {
        answers(&format!("return {name} == nil"), &json!(true));
    }
    let source = "local names = {} for name in pairs(_G) do table.insert(names, name) end table.sort(names) return names";
    answers(source, &json!(["_G", "input"]));
}

/// L13: the changes of one run to its globals and to the libraries are invisible to the next run.
#[test]
fn runs_do_not_see_each_other() {
    for (poison, probe) in [
        ("x = 1", "return x == nil"),
        ("_G.y = 2", "return y == nil and _G.y == nil"),
        ("pcall(function() string.format = nil end)", "return string.format('%d', 1) == '1'"),
        ("pcall(function() getmetatable('').__index = {} end)", "return ('a'):upper() == 'A'"),
        ("pcall(function() getmetatable(_G).__index = {} end)", "return type(print) == 'function'"),
        ("pcall(setmetatable, _G, {__index = function() return 'evil' end})", "return undefined == nil"),
        ("pcall(function() ctx.log = error end)", "ctx.log('info', 'x') return true"),
        ("pcall(function() rawset(ctx, 'log', error) end)", "ctx.log('info', 'x') return true"),
        (
            "pcall(function() array(ctx) end) pcall(function() array(string) end)",
            "return getmetatable(ctx) == nil",
        ),
        ("pcall(function() table.insert(math, 1) end)", "return #math == 0"),
        ("pcall(function() getmetatable(array{}).__index = error end)", "return #array{} == 0"),
        ("print = error string = nil math = nil", "return math.abs(-1) == 1 and string.len('ab') == 2"),
        (
            "math.randomseed(1) first = math.random(1e9)",
            "math.randomseed(1) return math.random(1e9) == math.random(1e9) or true",
        ),
    ] {
        let executor = script(&format!("if input == 1 then {poison} return true end {probe}"));
        executor.execute(json!(1).into()).unwrap_or_else(|e| panic!("{poison}: {e}"));
        for _ in 0..3 {
            assert_eq!(executor.execute(json!(2).into()).unwrap().value, json!(true), "{poison}");
        }
    }
}

#[test]
fn the_seed_of_one_run_does_not_foretell_the_next() {
    let executor = script("if input == 'seed' then math.randomseed(7) end return math.random(1, 2^30)");
    let drawn = |input: &str| executor.execute(json!(input).into()).unwrap().value;
    drawn("seed");
    let first = drawn("");
    drawn("seed");
    assert_ne!(drawn(""), first);
}

/// L1 to L8, L14, L15, L18: no kind of loop outlives the deadline.
#[test]
fn every_endless_script_stops_at_its_deadline() {
    for body in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() for i = 1, 100 do pcall(error) end return pcall(f) end while true do f() end",
        "while true do xpcall(error, function() while true do end end) end",
        "string.find(('a'):rep(3000), '.-.-.-.-b$')",
        "string.find(('a'):rep(40), ('a*'):rep(15) .. 'b')",
        "string.find(('('):rep(200000), ('%b()'):rep(50))",
        "while true do coroutine.wrap(function() while true do coroutine.yield() end end)() end",
        "local co = coroutine.create(function() while true do end end) coroutine.resume(co) while true do end",
        "local t = {} for i = 1, 1000 do t[i] = i end table.sort(t, function() while true do end end)",
        "tostring(setmetatable({}, {__tostring = function() while true do end end}))",
        "error(setmetatable({}, {__tostring = function() while true do end end, __index = function() while true do end end}), 0) while true do end",
        "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
        "local t = setmetatable({}, {__concat = function() while true do end end}) return t .. ''",
        "while true do pcall(ctx.log, 'info', 'x') end",
        "while true do pcall(print, 'x') end",
        "while true do local ok, e = pcall(ctx.log) pcall(tostring, e) end",
        "while true do pcall(json.decode, '[') end",
        "repeat until false",
        "for i = 1, math.huge do end",
    ] {
        let error = stopped(body);
        let raised_first = body.starts_with("error(");
        assert_eq!(
            error.kind(),
            if raised_first { ErrorKind::Script } else { ErrorKind::Timeout },
            "{body}: {error}"
        );
    }
}

/// L9, L10: no kind of growth exceeds the limit.
#[test]
fn every_bomb_meets_the_memory_limit() {
    for body in [
        "return ('x'):rep(1e9)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} while true do t[#t + 1] = {} end",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end",
        "return table.concat(table.create(1e8, 'xxxxxxxxxx'))",
        "return buffer.create(1e9)",
        "return string.gsub(('x'):rep(1e6), 'x', ('y'):rep(100))",
        "local t = table.create(1e7, 1) return {table.unpack(t)}",
        "local t = {} while true do t[#t + 1] = coroutine.create(function() end) end",
    ] {
        let error = limited(body);
        assert!(
            matches!(error.kind(), ErrorKind::Memory | ErrorKind::Script),
            "{body}: {:?} {error}",
            error.kind()
        );
    }
    assert_eq!(limited("local t = {} while true do t[#t + 1] = {} end").kind(), ErrorKind::Memory);
}

/// L14: deep recursion, in Lua and through C, is an error and not a crash.
#[test]
fn deep_recursion_is_an_error() {
    for body in [
        "local function f() return 1 + f() end f()",
        "local function f(s) return (s:gsub('.', f)) end f('x')",
        "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x",
        "local function f() local ok, e = pcall(f) error(e) end f()",
    ] {
        let kind = stopped(body).kind();
        assert!(matches!(kind, ErrorKind::Script | ErrorKind::Memory | ErrorKind::Timeout), "{body}: {kind}");
    }
}

/// L19: operations are counted if a limit of them is set, and only then.
#[test]
fn operations_are_counted_where_they_are_limited() {
    let run = |source: &str, limits: Limits| {
        let context = SkillContext::builder("test").limits(limits).build();
        script(source).execute_with_context(SkillInput::default(), Some(&context)).map(|output| output.value)
    };
    let few = || Limits::default().operations(1000);
    for source in [
        "while true do end",
        "for i = 1, 1e9 do end",
        "while true do pcall(error) end",
        "while true do pcall(function() while true do end end) end",
        "local function f() return f() end f()",
        "while true do xpcall(error, function() while true do end end) end",
        "string.find(('a'):rep(3000), '.-.-.-.-b$')",
        "coroutine.wrap(function() while true do coroutine.yield() end end)() while true do end",
        "local co = coroutine.create(function() while true do end end) coroutine.resume(co) coroutine.close(co) while true do end",
        "tostring(setmetatable({}, {__tostring = function() while true do end end}))",
        "table.sort({3, 2, 1}, function() while true do end end)",
    ] {
        let error = run(source, few()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Operations, "{source}: {error}");
    }
    assert_eq!(run("local n = 0 for i = 1, 900 do n += i end return n", few()).unwrap(), json!(405_450));
    assert_eq!(run("for i = 1, 5000 do end return 1", Limits::default()).unwrap(), json!(1));
    let executor = script("for i = 1, input do end return true");
    let context = |limits| SkillContext::builder("test").limits(limits).build();
    for _ in 0..3 {
        let limited = executor.execute_with_context(json!(5000).into(), Some(&context(few())));
        assert_eq!(limited.unwrap_err().kind(), ErrorKind::Operations);
        let free = executor.execute_with_context(json!(5000).into(), Some(&context(Limits::default())));
        assert_eq!(free.unwrap().value, json!(true), "the next run counts its own");
    }
}

/// L16: floods end at the output limit.
#[test]
fn a_flood_of_print_meets_the_output_cap() {
    assert_eq!(limited("while true do print(('x'):rep(1000)) end").kind(), ErrorKind::Output);
}

/// L17: a host function that could block or work for long is stopped by the same token as the script.
#[cfg(unix)]
#[test]
fn no_host_function_blocks_past_the_deadline() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let project = tempfile::tempdir().unwrap();
    mknodat(CWD, project.path().join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let token = CancelToken::new();
    let files = metier_core::host::Files::open(project.path()).unwrap();
    let context = SkillContext::builder("test").project(files).cancel(token.clone()).build();
    let watchdog = Watchdog::new();
    let started = Instant::now();
    let _armed = watchdog.arm(started + DEADLINE, &token);
    let source = "pcall(ctx.read_file, 'pipe') while true do pcall(ctx.grep, 'x') pcall(ctx.tree) end";
    let error = script(source).execute_with_context(SkillInput::default(), Some(&context)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(started.elapsed() < DEADLINE + Duration::from_millis(500), "{:?}", started.elapsed());
}

#[test]
fn a_cancelled_run_ends_as_cancelled() {
    let executor = script("while true do end");
    let token = CancelToken::new();
    let context = SkillContext::builder("test").cancel(token.clone()).build();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        token.cancel();
    });
    let error = executor.execute_with_context(SkillInput::default(), Some(&context)).unwrap_err();
    canceller.join().unwrap();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

/// The stop arrives before, during and after runs that end by themselves; no run is affected by the stop of another.
#[test]
fn a_stop_that_races_the_end_of_its_run_harms_no_other_run() {
    let executor = script("local sum = 0 for i = 1, input do sum += i end return sum");
    let run = |context: &SkillContext| executor.execute_with_context(json!(2000).into(), Some(context));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..400 {
                    let token = CancelToken::new();
                    let stopped = SkillContext::builder("test").cancel(token.clone()).build();
                    let canceller = scope.spawn(move || {
                        std::thread::sleep(Duration::from_micros(round % 80));
                        token.cancel();
                    });
                    match run(&stopped) {
                        Ok(output) => assert_eq!(output.value, json!(2_001_000)),
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
                    }
                    let calm = run(&SkillContext::builder("test").build()).unwrap();
                    assert_eq!(calm.value, json!(2_001_000));
                    canceller.join().unwrap();
                }
            });
        }
    });
}

#[test]
fn a_late_stop_does_not_stop_the_next_run() {
    let source = "ctx.tool('next', {}) local sum = 0 for i = 1, 2000 do sum += i end return sum";
    metier_core::executor::testing::check_late_stop(&*script(source));
}

#[test]
fn one_executor_serves_many_threads() {
    let executor = script("local sum = 0 for i = 1, 1000 do sum += i * input end return sum");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let executor = &executor;
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(
                        executor.execute(json!(thread).into()).unwrap().value,
                        json!(500_500 * thread)
                    );
                }
            });
        }
    });
}
