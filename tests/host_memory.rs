//! What a host function reads, builds and answers is counted before it is there: no input makes the host larger than it may be.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use metier::alloc_counter::CountingAllocator;
use metier::error::{ErrorKind, Result};
use metier::host::{Files, Fixtures, SkillContext, functions};
use metier::policy::{CancelToken, Limits, Permission, Permissions, RequestedPermissions};
use metier_core::alloc_counter;
use metier_core::host::RunContextBuilder;
use metier_core::policy::PathProtection;
use serde_json::{Value, json};

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

const MIB: usize = 1 << 20;
/// What a call may take beside what it counts: buffers, compiled patterns, errors.
const SLACK: i64 = 12 << 20;

fn context(folder: &Path, limits: Limits, cancel: CancelToken) -> SkillContext {
    let granted: Vec<Permission> =
        ["write", "net", "tool:t", "sample", "state"].iter().map(|text| text.parse().unwrap()).collect();
    SkillContext::builder("test")
        .project(Files::open(folder).unwrap())
        .skill_files(Files::open(folder).unwrap())
        .permissions(Permissions::new(RequestedPermissions::All, granted, PathProtection::default()))
        .providers(
            Fixtures::new(r#"{"tools": {"t": 1}, "model": "x", "config": {"a": 1}, "store": {"a": 1}}"#)
                .unwrap()
                .providers(),
        )
        .limits(limits)
        .cancel(cancel)
        .build()
}

/// Calls a function with so much memory, and tells the most that its thread held meanwhile.
fn call_measured(folder: &Path, limits: Limits, function: &str, args: Value) -> (Result<Value>, i64) {
    let ctx = context(folder, limits, CancelToken::new());
    let args = serde_json::from_value(args).unwrap();
    alloc_counter::reset_peak();
    let before = alloc_counter::net_bytes();
    let answer = ctx.call(function, args);
    (answer, alloc_counter::peak_bytes() - before)
}

/// The call answers or fails within its memory; the kind of its error, where it failed.
fn assert_bounded(folder: &Path, memory: usize, function: &str, args: Value) -> Option<ErrorKind> {
    let given = i64::try_from(args.to_string().len()).unwrap();
    let (answer, peak) = call_measured(folder, Limits::default().memory(memory as u64), function, args);
    let most = i64::try_from(memory).unwrap() + given + SLACK;
    assert!(peak <= most, "{function} held {peak} bytes, more than {most}");
    answer.err().map(|error| {
        assert!(error.message().len() < 1000, "{function}: an error of {} bytes", error.message().len());
        if matches!(error.kind(), ErrorKind::Memory | ErrorKind::Output) {
            assert!(error.help().is_some(), "{error}");
        }
        error.kind()
    })
}

/// Files that are large in the ways that matter.
fn hostile_project() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &[u8]| fs::write(folder.path().join(name), content).unwrap();
    write("letters", &vec![b'a'; 4 * MIB]);
    write("lines", &b"x\n".repeat(2 * MIB));
    write("wide", &[vec![b'x'; 1999], vec![b'\n']].concat().repeat(4000));
    write("line", &vec![b'x'; 15 * MIB]);
    write("bytes", &vec![1; 15 * MIB]);
    write("empty", b"");
    folder
}

#[test]
fn an_edit_is_no_larger_than_a_file_may_be_and_is_never_put_together() {
    let folder = hostile_project();
    let many = "b".repeat(5000);
    let edit = |new: &str, limits| {
        call_measured(folder.path(), limits, "edit", json!(["letters", "a", new, {"all": true}]))
    };
    let (refused, peak) = edit(&many, Limits::default());
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Output, "{refused}");
    assert!(refused.message().contains("it would have 20971520000 bytes"), "{refused}");
    assert!(refused.help().is_some_and(|help| help.contains("the limit of a file's size")), "{refused}");
    assert!(peak < 6 << 20, "{peak}");
    assert_eq!(fs::metadata(folder.path().join("letters")).unwrap().len(), 4 * MIB as u64);

    // 40 MiB are written with the memory of the 4 that were read.
    let (changed, peak) = edit("bbbbbbbbbb", Limits::default().memory(5 << 20));
    assert_eq!(changed.unwrap(), json!(4 * MIB));
    assert!(peak < 6 << 20, "{peak}");
    assert_eq!(fs::read(folder.path().join("letters")).unwrap(), vec![b'b'; 40 * MIB]);
}

#[test]
fn an_edit_finds_what_stands_across_the_pieces_it_looks_through() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    for sought in ["ab", &"ab".repeat(700_000), &("b".repeat(MIB) + "c")] {
        for before in [0, MIB - 1, MIB, 3 * MIB - 1] {
            fs::write(&path, format!("{}{sought}é{sought}{sought}", "b".repeat(before))).unwrap();
            let args = json!(["a", sought, "ß", {"all": true}]);
            let (changed, _) = call_measured(folder.path(), Limits::default(), "edit", args);
            assert_eq!(changed.unwrap(), 3, "{before}");
            assert_eq!(fs::read_to_string(&path).unwrap(), "b".repeat(before) + "ßéßß");
        }
    }
}

#[test]
fn the_limit_of_a_file_holds_for_what_the_host_writes() {
    let folder = tempfile::tempdir().unwrap();
    let call = |function: &str, args| {
        let (answer, _) = call_measured(folder.path(), Limits::default().file_size(10), function, args);
        answer.map_err(|error| error.kind())
    };
    assert_eq!(call("write", json!(["a", "0123456789"])), Ok(Value::Null));
    assert_eq!(call("write", json!(["a", "01234567890"])), Err(ErrorKind::Output));
    assert_eq!(call("write", json!(["new/b", "01234567890"])), Err(ErrorKind::Output));
    assert!(!folder.path().join("new").exists(), "nothing is made for what is refused");
    assert_eq!(
        call("write", json!(["b", "MDEyMzQ1Njc4OTA=", {"encoding": "base64"}])),
        Err(ErrorKind::Output)
    );
    assert_eq!(call("append", json!(["a", "x"])), Err(ErrorKind::Output));
    assert_eq!(call("append", json!(["a", ""])), Ok(Value::Null));
    assert_eq!(call("edit", json!(["a", "9", "99"])), Err(ErrorKind::Output));
    assert_eq!(call("edit", json!(["a", "89", "9"])), Ok(json!(1)));
    assert_eq!(call("append", json!(["a", "x"])), Ok(Value::Null));
    assert_eq!(fs::read_to_string(folder.path().join("a")).unwrap(), "012345679x");
}

#[test]
fn a_search_with_much_context_stays_within_its_memory() {
    let folder = hostile_project();
    let grep = |options| assert_bounded(folder.path(), 64 * MIB, "grep", json!(["x", ".", options]));
    assert_eq!(grep(json!({"context": 100, "max": 20000})), Some(ErrorKind::Memory));
    assert_eq!(grep(json!({"context": 100})), Some(ErrorKind::Memory));
    assert_eq!(grep(json!({"context": 3, "max": 100})), None);
    assert_eq!(grep(json!({"context": 100, "regex": true, "max": 20000})), Some(ErrorKind::Memory));
    // A line that is a file takes memory to search, too.
    let line = |memory| assert_bounded(folder.path(), memory, "grep", json!(["y", "line"]));
    assert_eq!((line(64 * MIB), line(4 * MIB)), (None, Some(ErrorKind::Memory)));
}

#[test]
fn what_is_read_is_counted_before_it_is_read() {
    let folder = hostile_project();
    let read = |memory, function, args| assert_bounded(folder.path(), memory * MIB, function, args);
    assert_eq!(read(14, "read_file", json!(["line"])), Some(ErrorKind::Memory));
    assert_eq!(read(16, "read_file", json!(["line"])), None);
    assert_eq!(read(16, "asset", json!(["line"])), None);
    assert_eq!(read(30, "read_file", json!(["line", {"encoding": "base64"}])), Some(ErrorKind::Memory));
    assert_eq!(read(36, "read_file", json!(["line", {"encoding": "base64"}])), None);
    assert_eq!(read(14, "asset", json!(["line"])), Some(ErrorKind::Memory));
    assert_eq!(read(4, "head", json!(["line", 1])), Some(ErrorKind::Memory));
    assert_eq!(read(4, "tail", json!(["line", 1])), Some(ErrorKind::Memory));
    assert_eq!(read(4, "head", json!(["lines", 4 * MIB])), Some(ErrorKind::Memory));
    assert_eq!(read(4, "tail", json!(["lines", 4 * MIB])), Some(ErrorKind::Memory));
    assert_eq!(read(1, "head", json!(["lines", 10])), None);
    assert_eq!(read(1, "tail", json!(["lines", 10])), None);
    assert_eq!(read(1, "read_file", json!(["empty"])), None);
    assert_eq!(read(2, "edit", json!(["letters", "a", "b"])), Some(ErrorKind::Memory));
    let base64 = "AAAA".repeat(MIB);
    assert_eq!(read(2, "write", json!(["new", base64, {"encoding": "base64"}])), Some(ErrorKind::Memory));
}

#[test]
fn what_is_listed_is_counted_name_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let below = folder.path().join("d".repeat(200)).join("e".repeat(200));
    fs::create_dir_all(&below).unwrap();
    (0..3000).for_each(|at| fs::write(below.join(format!("{at}{}", "f".repeat(200))), "").unwrap());
    let list = |memory: usize, function, args| assert_bounded(folder.path(), memory << 10, function, args);
    for (function, args) in [
        ("list_dir", json!([format!("{}/{}", "d".repeat(200), "e".repeat(200))])),
        ("tree", json!([".", 9])),
        ("glob", json!(["**"])),
        ("find", json!([".", "f"])),
        ("grep", json!(["x"])),
        ("remove", json!(["d".repeat(200), {"recursive": true}])),
    ] {
        assert_eq!(list(600, function, args.clone()), Some(ErrorKind::Memory), "{function}");
        assert_eq!(list(16 << 10, function, args), None, "{function}");
    }
}

#[test]
fn patterns_that_would_grow_are_refused_soon() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a"), "a").unwrap();
    let nested = format!("{}a{}", "(".repeat(20), "{1000})".repeat(20));
    let refused = |function, pattern: &str, options| {
        let start = Instant::now();
        let args =
            if function == "glob" { json!([pattern, options]) } else { json!([pattern, ".", options]) };
        let kind = assert_bounded(folder.path(), 64 * MIB, function, args);
        assert!(start.elapsed() < Duration::from_secs(30), "{function} took {:?}", start.elapsed());
        kind
    };
    let invalid = Some(ErrorKind::InvalidArgument);
    for pattern in ["{a,b}".repeat(2000), "*".repeat(MIB), "[!a]".repeat(MIB)] {
        assert_eq!(refused("glob", &pattern, json!({})), invalid, "{pattern:.20}");
    }
    for pattern in [
        "{a,b}".repeat(200),
        "*a".repeat(500),
        "**/".repeat(300),
        "?".repeat(1000),
        "[!a]".repeat(250),
        format!("{}{}", "{".repeat(300), "}".repeat(300)),
    ] {
        assert_eq!(refused("glob", &pattern, json!({})), None, "{pattern:.20}");
    }
    for pattern in [
        r"\w{1000}".repeat(9),
        nested,
        "(a|b)".repeat(MIB),
        format!("{}{}", "(".repeat(5000), ")".repeat(5000)),
        r"[\w\W]".repeat(1000),
        r"\p{L}".repeat(1000),
        r"[\x{0}-\x{10ffff}]".repeat(400),
    ] {
        assert_eq!(
            refused("grep", &pattern, json!({"regex": true, "ignore_case": true})),
            invalid,
            "{pattern:.20}"
        );
    }
    assert_eq!(refused("grep", &"k".repeat(16 * MIB), json!({"ignore_case": true})), invalid);
    assert_eq!(refused("grep", &"\u{10ffff}".repeat(MIB), json!({})), invalid);
    assert_eq!(refused("grep", &"k".repeat(1000), json!({"ignore_case": true})), None);
}

#[test]
fn every_function_of_the_table_has_a_hostile_call() {
    let hostile: Vec<String> = hostile_calls().into_iter().map(|(function, _)| function.to_owned()).collect();
    for function in functions() {
        assert!(hostile.iter().any(|name| name == function.name), "{} has none", function.name);
    }
}

#[test]
fn every_hostile_call_stays_within_its_memory() {
    let folder = hostile_project();
    for (function, args) in hostile_calls() {
        assert_bounded(folder.path(), 8 * MIB, function, args);
    }
}

/// Calls that are made to take as much memory as they can.
fn hostile_calls() -> Vec<(&'static str, Value)> {
    let text = |bytes: usize| "\u{1}".repeat(bytes);
    let large = MIB;
    vec![
        ("read_file", json!(["line"])),
        ("read_file", json!(["line", {"encoding": "base64"}])),
        ("read_file", json!([text(large)])),
        ("read_file", json!(["empty", {"encoding": text(large)}])),
        ("read_file", json!(["empty", {text(large): 1}])),
        ("head", json!(["line", u32::MAX])),
        ("head", json!(["lines", u32::MAX])),
        ("tail", json!(["line", u32::MAX])),
        ("tail", json!(["lines", u32::MAX])),
        ("list_dir", json!([text(large)])),
        ("stat", json!(["a/".repeat(large / 2)])),
        ("tree", json!([".", u32::MAX, {"hidden": true}])),
        ("grep", json!(["x", ".", {"context": 100, "max": 20000}])),
        ("grep", json!(["x|a", ".", {"context": 100, "regex": true, "ignore_case": true}])),
        ("grep", json!([text(large), ".", {"regex": true}])),
        ("grep", json!([text(large), ".", {"ignore_case": true}])),
        ("glob", json!(["{a,b}".repeat(large / 5)])),
        ("glob", json!(["**"])),
        ("find", json!([".", text(large)])),
        ("write", json!(["out", text(large)])),
        ("write", json!(["out", "AAAA".repeat(large / 4), {"encoding": "base64"}])),
        ("write", json!([text(large), ""])),
        ("append", json!(["out", text(large)])),
        ("edit", json!(["letters", "a", text(5000), {"all": true}])),
        ("edit", json!(["letters", "a", text(20), {"all": true}])),
        ("edit", json!(["lines", text(large), text(large)])),
        ("mkdir", json!(["m/".repeat(5000)])),
        ("remove", json!([text(large), {"recursive": true}])),
        ("asset", json!(["line", {"encoding": "base64"}])),
        ("asset", json!([text(large)])),
        ("log", json!([text(large), text(large)])),
        ("progress", json!([text(large), 1, 2])),
        ("tool", json!(["t", vec![Value::Null; large / 32]])),
        ("tool", json!([text(large)])),
        ("skill", json!([text(200), text(large)])),
        ("sample", json!([text(large), text(large)])),
        ("config", json!([text(large)])),
        ("secret", json!([text(large)])),
        ("store_get", json!([text(large)])),
        ("store_get", json!(["a", text(large)])),
        ("store_set", json!([text(large), 1])),
        ("store_set", json!(["a", text(large)])),
        ("store_set", json!(["a", vec![Value::Null; large / 32]])),
        ("store_list", json!([text(large)])),
        ("store_delete", json!([text(large)])),
        ("http", json!([format!("http://a.test/{}", "x".repeat(large))])),
        ("http", json!(["http://a.test/", {"method": "POST", "json": vec![text(10); large / 64]}])),
        ("http", json!(["http://a.test/", {"headers": {"x": text(large)}}])),
    ]
}

/// Bytes of address space that the host has left, in the process of the test below.
const HEADROOM_VARIABLE: &str = "METIER_TEST_HEADROOM";

/// Whatever a script asks for, a host without memory says so and goes on.
#[test]
#[cfg(target_os = "linux")]
fn a_host_with_little_address_space_fails_and_does_not_end() {
    use std::process::Command;

    if let Ok(headroom) = std::env::var(HEADROOM_VARIABLE) {
        with_little_space(headroom.parse().unwrap());
        return;
    }
    let run = |kib: u64| {
        let test = "a_host_with_little_address_space_fails_and_does_not_end";
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(HEADROOM_VARIABLE, (kib << 10).to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        if child.status.success() && said.contains("all done") {
            return None;
        }
        let last = said.lines().last().unwrap_or_default();
        let error = String::from_utf8_lossy(&child.stderr);
        let error = error.lines().last().unwrap_or_default();
        Some(format!("{kib} KiB: {:?} in {last}: {error}", child.status))
    };
    let ended: Vec<String> = std::thread::scope(|scope| {
        let runs = [64, 512, 2048, 8192, 24576, 49152].map(|kib| scope.spawn(move || run(kib)));
        runs.into_iter().filter_map(|run| run.join().unwrap()).collect()
    });
    assert!(ended.is_empty(), "{}", ended.join("\n"));
}

/// Lets this process have so many bytes of addresses more than it has.
#[cfg(target_os = "linux")]
fn limit_addresses(headroom: u64) -> rustix::process::Rlimit {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let before = getrlimit(Resource::As);
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    let used: u64 = pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096;
    setrlimit(Resource::As, Rlimit { current: Some(used + headroom), ..before }).unwrap();
    before
}

/// What is set aside is there for a block that the system has no more for; then runs end with errors until it is there again.
#[test]
#[cfg(target_os = "linux")]
fn the_reserve_is_given_up_once_and_taken_back() {
    use std::process::Command;

    if std::env::var_os(HEADROOM_VARIABLE).is_none() {
        let test = "the_reserve_is_given_up_once_and_taken_back";
        let mut child = Command::new(std::env::current_exe().unwrap());
        let child =
            child.args(["--exact", test, "--test-threads=1"]).env(HEADROOM_VARIABLE, "0").output().unwrap();
        assert!(child.status.success(), "{child:?}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let ctx = context(folder.path(), Limits::default(), CancelToken::new());
    let call = || ctx.call("config", vec![]).map_err(|error| error.kind());
    assert!(alloc_counter::ensure_reserve() && call().is_ok());
    limit_addresses(1 << 20);
    assert!(!alloc_counter::is_reserve_released());
    // The allocator may have addresses of its own left, but not for all of these.
    let mut blocks = Vec::new();
    while !alloc_counter::is_reserve_released() {
        let mut block = Vec::<u8>::new();
        block.try_reserve_exact(8 * MIB).expect("it is set aside");
        blocks.push(block);
        assert!(blocks.len() < 20);
    }
    assert!(Vec::<u8>::new().try_reserve_exact(60 * MIB).is_err());
    assert_eq!(call(), Err(ErrorKind::Memory));
    drop(blocks);
    assert_eq!(call(), Ok(json!({"a": 1})));
    assert!(!alloc_counter::is_reserve_released());
}

#[cfg(target_os = "linux")]
fn with_little_space(headroom: u64) {
    use rustix::process::{Resource, setrlimit};

    let say = |text: &str| rustix::io::write(rustix::stdio::stdout(), text.as_bytes()).map(drop).unwrap();
    let folder = hostile_project();
    let ctx = context(folder.path(), Limits::default().memory(1 << 30), CancelToken::new());
    let calls: Vec<(&str, Vec<Value>)> = hostile_calls()
        .into_iter()
        .map(|(function, args)| (function, serde_json::from_value(args).unwrap()))
        .collect();
    let before = limit_addresses(headroom);
    for (function, args) in calls {
        say(function);
        let answer = ctx.call(function, args);
        say(if answer.is_ok() { ": ok\n" } else { ": error\n" });
    }
    setrlimit(Resource::As, before).unwrap();
    say("all done\n");
}
