//! Lua, Rhai and WebAssembly in worker processes: in both levels and as an ordinary user, where nobody waits for the answer any
//! more, and where the process lies.
#![cfg(feature = "lua-runtime")]

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use metier::engine::{Engine, Invocation};
use metier::error::{ErrorKind, Result};
use metier::host::{ApprovalRequest, Approver, Event, EventKind, Providers, SecretProvider, SkillContext};
use metier::policy::{Approval, ExecutionMode, Limits};
use serde_json::json;

use crate::sandbox::case::LEVELS;
use crate::sandbox::fixture::{self, Fixture, RunResult};
use crate::sandbox::{attackers, ordinary, survivors};
use crate::support::not_run::not_run;

/// As long as a loaded machine may take to kill a process.
const MOMENT: Duration = Duration::from_secs(5);

/// Runs a test in each level that this machine has.
fn for_each_level(test: impl Fn()) {
    for (level, name) in [LEVELS[0], LEVELS[1]] {
        if fixture::helper().is_none() {
            return not_run("worker processes", "the command line is not built in");
        }
        match fixture::check_level(level) {
            Ok(()) => test(),
            Err(reason) => not_run(&format!("worker processes in the level {name}"), &reason),
        }
    }
}

/// A fixture whose worker processes carry its mark in their name.
fn marked_fixture(script: &str, text: &str) -> Fixture {
    let fixture = Fixture::new(script, text).file("project/.env", "SECRET=1");
    copy_helper(&fixture, "helper");
    fixture
}

/// The helper once more, in the fixture.
fn copy_helper(fixture: &Fixture, name: &str) {
    let helper = fixture::helper().unwrap();
    let own = fixture.at(name);
    if fs::hard_link(&helper, &own).is_err() {
        fs::copy(&helper, &own).unwrap();
    }
}

fn engine(fixture: &Fixture) -> Engine {
    fixture.builder().helper(fixture.at("helper")).build().unwrap()
}

fn invocation(fixture: &Fixture) -> Invocation {
    fixture.invocation().execution_mode(ExecutionMode::Worker)
}

fn run(fixture: &Fixture) -> RunResult {
    fixture.result(engine(fixture).run(invocation(fixture)))
}

/// The worker processes of a fixture.
fn count_workers(fixture: &Fixture) -> usize {
    let is_worker = |pid: &i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).any(|word| word == b"__metier-worker")
    };
    survivors::with_mark(fixture.mark()).iter().filter(|pid| is_worker(pid)).count()
}

#[track_caller]
fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < MOMENT * 4, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn scripts_run_in_workers_as_in_the_host() {
    for_each_level(|| {
        let ran = run(&marked_fixture(
            "main.lua",
            "ctx.log('info', 'hi') return {ctx.read_file('own'), input.n + 1}",
        )
        .input(json!({"n": 1})));
        assert_eq!(*ran.assert_ok().0.result.as_ref().unwrap(), json!(["own\n", 2]));
        assert_eq!(ran.0.log[0].message, "hi");
        if cfg!(feature = "rhai-runtime") {
            let ran = run(&marked_fixture("main.rhai", "ctx.read_file(\"own\")"));
            assert_eq!(*ran.assert_ok().0.result.as_ref().unwrap(), json!("own\n"));
        }
        for (script, kind) in [
            ("ctx.write('new', 'x')", ErrorKind::Denied),
            ("ctx.read_file('.env')", ErrorKind::Denied),
            ("ctx.read_file('../outside/secret')", ErrorKind::OutsideProject),
            ("error('mine')", ErrorKind::Script),
            ("local t = {} while true do t[#t + 1] = ('a'):rep(1e6) .. #t end", ErrorKind::Memory),
        ] {
            let fixture = marked_fixture("main.lua", script).deadline(60_000);
            assert_eq!(run(&fixture).error().kind(), kind, "{script}");
            assert!(!fixture.at("project/new").exists());
        }
        let asks = "---\nname: x\ndescription: writes\nallowed-tools: write\n---\n";
        let fixture = marked_fixture("main.lua", "ctx.write('new', 'x')")
            .grant("write")
            .file("skills/x/SKILL.md", asks);
        assert!(run(&fixture).0.result.is_ok());
        assert_eq!(fs::read(fixture.at("project/new")).unwrap(), b"x");
    });
}

#[test]
fn what_a_script_in_a_worker_does_is_observed() {
    for_each_level(|| {
        let script = "print('hi') ctx.progress('half', 1, 2) return ctx.read_file('own')";
        let fixture = marked_fixture("main.lua", script);
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = lines.clone();
        let observer = move |event: &Event| {
            let line = match &event.kind {
                EventKind::Started { .. } => "started".to_owned(),
                EventKind::HostCall { function, .. } => format!("called {function}"),
                EventKind::Log(line) => line.message.clone(),
                EventKind::Progress(progress) => progress.message.clone(),
                EventKind::Finished { .. } => "finished".to_owned(),
                other => panic!("{other:?}"),
            };
            sink.lock().unwrap().push(line);
        };
        let outcome = engine(&fixture).run(invocation(&fixture).observer(Arc::new(observer)));
        assert!(outcome.result.is_ok(), "{outcome:?}");
        let expected =
            ["started", "hi", "called log", "half", "called progress", "called read_file", "finished"];
        assert_eq!(*lines.lock().unwrap(), expected);
    });
}

#[test]
fn a_worker_is_killed_at_the_deadline_whatever_it_does() {
    for_each_level(|| {
        let slow =
            "local a = ('a'):rep(6e6) string.find(a, ('a'):rep(3e6) .. 'b', 1, true) while true do end";
        let mut scripts = vec![
            ("main.lua", "while true do end"),
            ("main.lua", slow),
            ("main.lua", "while true do pcall(ctx.read_file, 'own') end"),
        ];
        if cfg!(feature = "wasm-runtime") {
            scripts.push(("main.wat", r#"(module (func (export "run") (loop $again (br $again))))"#));
        }
        for (name, script) in scripts {
            let fixture = marked_fixture(name, script).deadline(500);
            let (engine, began) = (engine(&fixture), Instant::now());
            let ran = fixture.result(engine.run(invocation(&fixture)));
            assert_eq!(ran.error().kind(), ErrorKind::Timeout, "{script}: {:?}", ran.0);
            assert!(began.elapsed() < MOMENT * 2, "{script}: {:?}", began.elapsed());
            assert_eq!(count_workers(&fixture), 0, "{script}");
        }
    });
}

#[test]
fn runs_with_different_grants_have_different_workers() {
    for_each_level(|| {
        let fixture = marked_fixture("main.lua", "return 1");
        let engine = engine(&fixture);
        for (grant, workers) in [(None, 1), (None, 1), (Some("write"), 2), (None, 2), (Some("write"), 2)] {
            let grants = grant.into_iter().map(|grant: &str| grant.parse().unwrap());
            let outcome = engine.run(grants.fold(invocation(&fixture), Invocation::grant));
            assert!(outcome.result.is_ok(), "{outcome:?}");
            assert_eq!(count_workers(&fixture), workers, "{grant:?}");
        }
    });
}

struct Permits;

impl Approver for Permits {
    fn approve(&self, _: &SkillContext, _: &ApprovalRequest) -> Result<Approval> {
        Ok(Approval::Once)
    }
}

#[test]
fn a_worker_whose_run_was_permitted_more_meanwhile_serves_no_other_run() {
    for_each_level(|| {
        let asks = "---\nname: x\ndescription: writes\nallowed-tools: write\n---\n";
        let script = "if input == 'write' then ctx.write('new', 'x') end return 1";
        let fixture = marked_fixture("main.lua", script).file("skills/x/SKILL.md", asks);
        let engine = engine(&fixture);
        for (input, workers) in [("read", 1), ("write", 0), ("read", 1)] {
            let providers = Providers::default().approver(Permits);
            let outcome = engine.run(invocation(&fixture).input(json!(input)).providers(providers));
            assert!(outcome.result.is_ok(), "{outcome:?}");
            assert_eq!(count_workers(&fixture), workers, "{input}");
        }
        assert_eq!(fs::read(fixture.at("project/new")).unwrap(), b"x");
    });
}

#[test]
fn a_worker_that_is_kept_has_the_limits_of_each_run() {
    for_each_level(|| {
        let fixture = marked_fixture("main.lua", "return ('x'):rep(input)");
        let engine = engine(&fixture);
        let run = |length: u64, output: u64| {
            let limits = Limits::default().output(output);
            engine
                .run(invocation(&fixture).input(json!(length)).limits(limits))
                .result
                .map_err(|error| error.kind())
        };
        assert_eq!(run(1, 1_000), Ok(json!("x")));
        assert_eq!(run(3_000_000, 8 << 20).map(|value| value.as_str().unwrap().len()), Ok(3_000_000));
        assert_eq!(run(2_000, 1_000), Err(ErrorKind::Output));
        assert_eq!(count_workers(&fixture), 1);
    });
}

struct OneSecret(String);

impl SecretProvider for OneSecret {
    fn secret(&self, _: &SkillContext, _: &str) -> Result<Option<String>> {
        Ok(Some(self.0.clone()))
    }
}

/// The worker knows no secret, so what it cuts may end in a part of one.
#[test]
fn no_part_of_a_secret_is_left_in_an_error_that_a_worker_cut() {
    for_each_level(|| {
        for (before, length) in [(8_190, 100), (8_100, 200), (3, 9_000), (4_090, 20)] {
            let secret: String =
                (0..26).cycle().take(length).map(|n| char::from(b'a' + n * 7 % 26)).collect();
            let script = format!("error(('-'):rep({before}) .. ctx.secret('KEY'))");
            let asks = "---\nname: x\ndescription: fails\nallowed-tools: secret:KEY\n---\n";
            let fixture =
                marked_fixture("main.lua", &script).grant("secret:KEY").file("skills/x/SKILL.md", asks);
            let engine = engine(&fixture);
            let providers = Providers::default().secrets(OneSecret(secret.clone()));
            let error = engine.run(invocation(&fixture).providers(providers)).result.unwrap_err();
            let text = error.message();
            let leaked = (3..secret.len().min(50)).any(|end| text.contains(&secret[..end]));
            assert!(error.kind() == ErrorKind::Script && !leaked, "{before}: {text}");
        }
    });
}

#[test]
fn a_worker_is_killed_where_nobody_waits_for_its_answer() {
    for_each_level(|| {
        for script in ["while true do end", "while true do pcall(ctx.read_file, 'own') end"] {
            let fixture = marked_fixture("main.lua", script).deadline(600_000);
            let engine = engine(&fixture);
            // It begins when it is asked for the first time.
            let mut run = Box::pin(engine.run_async(invocation(&fixture)));
            assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            wait_for("no worker began", || count_workers(&fixture) > 0);
            drop(run);
            wait_for("a worker is still alive", || count_workers(&fixture) == 0);
        }
        // Neither outlives its engine, one that waits for its next run included.
        let fixture = marked_fixture("main.lua", "return 1");
        let engine = engine(&fixture);
        assert!(engine.run(invocation(&fixture)).result.is_ok());
        assert_eq!(count_workers(&fixture), 1);
        drop(engine);
        wait_for("a worker is still alive", || count_workers(&fixture) == 0);
    });
}

/// What a worker process says is no more than what a script says: a value, or an error of its own.
#[test]
fn a_worker_that_lies_is_not_believed() {
    for_each_level(|| {
        let liar = match attackers::program("liar") {
            Ok(liar) => liar,
            Err(reason) => return not_run("a worker that lies", &format!("{reason:?}")),
        };
        for (how, expected) in [
            ("garbage", Err(ErrorKind::Script)),
            ("bytes", Err(ErrorKind::Script)),
            ("nothing", Err(ErrorKind::Script)),
            ("gone", Err(ErrorKind::Script)),
            ("other", Err(ErrorKind::Script)),
            ("unnumbered", Err(ErrorKind::Script)),
            ("more", Err(ErrorKind::Script)),
            ("both", Err(ErrorKind::Script)),
            ("kind", Err(ErrorKind::Script)),
            ("stopped", Err(ErrorKind::Script)),
            ("place", Err(ErrorKind::Script)),
            ("two", Ok(())),
            ("torn", Ok(())),
            ("lines", Ok(())),
            ("much", Err(ErrorKind::Output)),
            // Their memory is counted before they are parsed.
            ("heavy", Err(ErrorKind::Memory)),
            ("unclosed", Err(ErrorKind::Memory)),
            ("silent", Err(ErrorKind::Timeout)),
        ] {
            assert_not_believed(&liar, how, expected);
        }
    });
}

fn assert_not_believed(liar: &Path, how: &str, expected: Result<(), ErrorKind>) {
    let name = format!("liar-{how}");
    let deadline = if how == "silent" { 700 } else { 60_000 };
    let fixture = Fixture::new("main.lua", "return 2").deadline(deadline).output(8 << 20);
    fs::copy(liar, fixture.at(&name)).unwrap();
    copy_helper(&fixture, &format!("{name}.real"));
    let engine = fixture.builder().helper(fixture.at(&name)).build().unwrap();
    // What is an answer in form is one, and its process waits for the next run. Else that is answered by a process that has said
    // nothing yet.
    let waits = ["kind", "stopped", "place"].contains(&how);
    for _ in 0..if waits { 1 } else { 2 } {
        let outcome = engine.run(invocation(&fixture));
        match (&outcome.result, expected) {
            // One that never stops may have said more before the second run asks it, which is the answer to no request.
            (Err(error), Ok(())) if how == "lines" => assert_eq!(error.kind(), ErrorKind::Script, "{error}"),
            (Ok(value), Ok(())) => assert_eq!(*value, json!(1), "{how}"),
            (Err(error), Err(kind)) => {
                assert_eq!(error.kind(), kind, "{how}: {error}");
                assert!(error.location().is_none(), "{how}: {error:?}");
            }
            (Ok(_), Err(kind)) => panic!("{how}: believed, and not {kind:?}"),
            (result, _) => panic!("{how}: {result:?}"),
        }
        assert!(outcome.sandbox.is_some(), "{how}");
        // Of one that never stops the next line may come after the look.
        assert!(how == "lines" || count_workers(&fixture) == usize::from(waits), "{how}");
    }
}

#[test]
fn workers_of_an_ordinary_user_are_restricted_as_well() {
    for test in [
        "scripts_run_in_workers_as_in_the_host",
        "a_worker_is_killed_at_the_deadline_whatever_it_does",
        "a_worker_is_killed_where_nobody_waits_for_its_answer",
        "a_worker_that_lies_is_not_believed",
    ] {
        ordinary::run_as_nobody(&format!("sandbox::workers::{test}"));
    }
}
