//! Tests of scripts that run long without a check, take much memory before it is counted, or keep the compiler busy. A new
//! case is a new line.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{loaded, script};
use metier_core::error::ErrorKind;
use metier_core::executor::SkillInput;
use metier_core::host::SkillContext;
use metier_core::policy::{CancelToken, Limits, Watchdog};

const DEADLINE: Duration = Duration::from_millis(200);

/// Ten times the promised delay, for a busy machine and an unoptimized build.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// A script a line; a new case is a new line.
const ENDLESS: &str = include_str!("endless.txt");

#[test]
fn whatever_a_script_does_it_ends_at_its_deadline() {
    let watchdog = Watchdog::new();
    let mut late = Vec::new();
    for source in ENDLESS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let executor = script(source);
        let token = CancelToken::new();
        let context = SkillContext::builder("test").cancel(token.clone()).build();
        let started = Instant::now();
        let _armed = watchdog.arm(started + DEADLINE, &token);
        let result = executor.execute_with_context(SkillInput::default(), Some(&context));
        let ran = started.elapsed();
        // Some are now so fast that they end by themselves, and some exhaust the memory first.
        let kind = result.as_ref().err().map_or(ErrorKind::Timeout, metier_core::error::SkillError::kind);
        if !matches!(kind, ErrorKind::Timeout | ErrorKind::Memory) || ran > DEADLINE + MAX_DELAY {
            late.push(format!("{ran:?} {result:?}: {source}"));
        }
    }
    assert!(late.is_empty(), "{late:#?}");
}

/// A source of the maximum size is compiled or refused within a bound, on a small stack.
#[test]
fn whatever_a_source_is_it_is_compiled_in_bounded_time_or_refused() {
    const LONGEST: usize = 192 << 10;
    let filled = |head: &str, piece: &str, tail: &str| {
        let times = (LONGEST - head.len() - tail.len()) / piece.len();
        format!("{head}{}{tail}", piece.repeat(times))
    };
    let nested = |open: &str, inner: &str, close: &str| {
        let times = (LONGEST - inner.len()) / (open.len() + close.len());
        format!("{}{inner}{}", open.repeat(times), close.repeat(times))
    };
    let sources = [
        filled("", "a=1 ", ""),
        filled("", "f()", ""),
        filled("", "f(function()end)", ""),
        filled("return {", "function()end,", "}"),
        filled("return {", "1,", "}"),
        filled("return {", "{{{{{{}}}}}},", "}"),
        filled("return ", "a..", "a"),
        filled("return ", "a and b or ", "a"),
        filled("return ", "1+", "1"),
        filled("return a", ".a", ""),
        filled("return a", "()", ""),
        filled("return ", "not ", "a"),
        filled("return ", "- ", "a"),
        filled("if a then ", "elseif a then ", "end"),
        filled("return ", "if a then b else ", "c"),
        filled("return `", "{a}", "`"),
        filled("type T=", "number|", "nil"),
        filled("type T=", "()->", "()"),
        filled("type T=", "{", ""),
        filled("return '", "\\u{10FFFF}", "'"),
        filled("while a do ", "if a then break end ", "end"),
        filled("local ", "a,", "a"),
        filled("a=", "a,", "a"),
        filled("return 0x", "f", ""),
        filled("return ", "9", ""),
        filled("", ") ", ""),
        filled("", "= ", ""),
        filled("", "\u{201c}", ""),
        filled("", "@a ", ""),
        nested("(", "1", ")"),
        nested("{", "", "}"),
        nested("do ", "", "end "),
        nested("f(function() ", "", "end) "),
        nested("while a do ", "", "end "),
        nested("if a then ", "", "end "),
        nested("return function() ", "", "end "),
        nested("a[", "a", "]"),
        nested("f(", "a", ")"),
        nested("`{", "a", "}`"),
        nested("x=(", "a", ")"),
        nested("x={a=", "1", "}"),
        nested("type T={", "a", "}"),
        nested("type T=(", "a", ")->a"),
    ];
    // The default stack of a thread; a debug build uses most of it.
    let compiled = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        for source in sources {
            let started = Instant::now();
            let result = loaded(&source);
            let ran = started.elapsed();
            assert!(ran < Duration::from_secs(15), "{ran:?}: {}", &source[..40]);
            if let Err(error) = result {
                assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{}", &source[..40]);
            }
        }
    });
    compiled.unwrap().join().unwrap();
    let error = loaded(&" ".repeat(LONGEST + 1)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidSkill);
    assert!(error.message().contains("longer than the 196608 bytes"), "{error}");
    assert!(error.help().is_some_and(|help| help.contains("ctx.asset")), "{error}");
    assert!(loaded(&" ".repeat(LONGEST)).is_ok());
}

fn run_in(memory: u64, source: &str) -> metier_core::error::Result<Value> {
    let limits = Limits::default().memory(memory);
    let context = SkillContext::builder("test").limits(limits).build();
    script(source).execute_with_context(SkillInput::default(), Some(&context)).map(|output| output.value)
}

/// What the host builds for a script is charged before it is built.
#[test]
fn values_that_the_host_creates_are_counted_before_they_exist() {
    const SHARED: &str = "local t = {1} for i = 1, 60 do t = {t, t} end ";
    for (source, kinds) in [
        // Arguments beyond those that any function takes are not even read.
        (
            "ctx.config(table.unpack(table.create(1000, table.create(1000, 'abc'))))",
            [ErrorKind::InvalidArgument; 2],
        ),
        ("ctx.log('info', 'x', table.create(1e6, 'abc'))", [ErrorKind::InvalidArgument; 2]),
        ("ctx.log(table.unpack(table.create(2e5, {})))", [ErrorKind::InvalidArgument; 2]),
        // Lists take sixteen times the memory of their text.
        ("return table.create(7e5, 1)", [ErrorKind::Memory; 2]),
        ("json.encode(table.create(7e5, 1))", [ErrorKind::Memory; 2]),
        ("ctx.log('info', table.create(7e5, 1))", [ErrorKind::Memory; 2]),
        (
            "local t = {} for i = 1, 4e5 do t[i] = t end return t",
            [ErrorKind::InvalidOutput, ErrorKind::Memory],
        ),
        ("local one = {a = 1} local t = table.create(2e5, one) return t", [ErrorKind::Memory; 2]),
        // A value that is referenced twice counts twice.
        (&format!("{SHARED} return t"), [ErrorKind::Output, ErrorKind::Memory]),
        (&format!("{SHARED} json.encode(t)"), [ErrorKind::Output, ErrorKind::Memory]),
        (&format!("{SHARED} ctx.log('info', t)"), [ErrorKind::InvalidArgument, ErrorKind::Memory]),
        // Control characters take six bytes each.
        ("json.encode(('\\1'):rep(2e6))", [ErrorKind::Memory; 2]),
        // Decoding counts as it goes.
        ("json.decode('[' .. ('1,'):rep(1e6) .. '1]')", [ErrorKind::Memory; 2]),
        ("json.decode('[' .. ('[],'):rep(1e6) .. '1]')", [ErrorKind::Memory; 2]),
        ("json.decode('[' .. ('{\"a\":1},'):rep(5e5) .. '1]')", [ErrorKind::Memory; 2]),
        ("json.decode('\"' .. ('a'):rep(6e6) .. 'b\"')", [ErrorKind::Memory; 2]),
    ] {
        let result = run_in(16 << 20, source);
        let Err(error) = result else { panic!("{source}: {result:?}") };
        assert!(kinds.contains(&error.kind()), "{source}: {:?} {error}", error.kind());
    }
}

/// Names in errors are complete or absent, since redaction would not recognize a part of a secret. The script's own message
/// stays complete here, and is shortened after its secrets were removed.
#[test]
fn an_error_repeats_no_long_name() {
    for source in [
        "return {1, [('x'):rep(1e6)] = 2}",
        "return {[('x'):rep(1e6)] = print}",
        "return {{[('x'):rep(201)] = {print}}}",
        "ctx.log('info', {[('x'):rep(1e6)] = print})",
        "return json.decode('{\"' .. ('x'):rep(1e6) .. '\": 9007199254740993}')",
    ] {
        let error = run_in(64 << 20, source).unwrap_err();
        assert!(error.message().len() < 1000 && !error.message().contains("xxxx"), "{source}: {error}");
    }
    let error = run_in(64 << 20, "local ok, e = pcall(ctx.log) error(e .. ('x'):rep(1e6))").unwrap_err();
    assert!(error.message().contains("log(level, message)"), "{error}");
}

#[test]
fn json_decodes_to_what_it_did() {
    for (text, value) in [
        (
            r#"{"a": {"b": [1, 2.5, null, true, "x\n"]}, "a\u0041": []}"#,
            json!({"a": {"b": [1, 2.5, null, true, "x\n"]}, "aA": []}),
        ),
        (r#"{"a": 1, "a": {"c": 2}}"#, json!({"a": {"c": 2}})),
        (r#"{"a": 9007199254740993, "a": 1}"#, json!({"a": 1})),
        ("[]", json!([])),
        ("{}", json!({})),
        (" 7 ", json!(7)),
    ] {
        assert_eq!(super::run("return json.decode(input)", json!(text)).unwrap(), value, "{text}");
    }
    let long: Value = (0..1000).map(|i| json!({"i": i, "t": format!("t{i}")})).collect();
    assert_eq!(super::run("return json.decode(input)", json!(long.to_string())).unwrap(), long);
    let fields: Value =
        (0..1000).map(|i| (format!("k{i}"), json!([i]))).collect::<serde_json::Map<_, _>>().into();
    assert_eq!(super::run("return json.decode(input)", json!(fields.to_string())).unwrap(), fields);
    let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
    for (text, sentence) in [
        ("[1,", "EOF while parsing"),
        ("[9007199254740993,", "EOF while parsing"),
        ("[1] 2", "trailing characters"),
        ("nulx", "expected ident"),
        (deep.as_str(), "recursion limit exceeded"),
        (r#"{"a": [1, 9007199254740993]}"#, "the answer.a[1]: Lua cannot hold the integer"),
        ("\"\u{1}\"", "control character"),
    ] {
        let error = super::run("return json.decode(input)", json!(text)).unwrap_err();
        assert!(error.message().contains(sentence), "{text}: {error}");
    }
}

/// Memory may run out anywhere, also while the host creates values of its result, and is an error there.
#[test]
fn memory_that_runs_out_in_the_middle_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("big.json"), format!("[{}1]", "[1],".repeat(200_000))).unwrap();
    for memory in (16..26).map(|power| (1_u64 << power) + 4321) {
        let files = metier_core::host::Files::open(folder.path()).unwrap();
        let limits = Limits::default().memory(memory);
        let context = SkillContext::builder("test").project(files).limits(limits).build();
        let source =
            "local text = ctx.read_file('big.json') local t = json.decode(text) return #json.encode(t)";
        match script(source).execute_with_context(SkillInput::default(), Some(&context)) {
            Ok(output) => assert_eq!(output.value, json!(800_003)),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Memory, "{memory}: {error}"),
        }
    }
}
