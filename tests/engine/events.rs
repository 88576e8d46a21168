//! One stream of events: what an observer, and a reader of the stream, get of a run while it happens.

mod spans;
mod streamed;

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream;
use metier::engine::{Engine, EventStream, Invocation};
use metier::error::ErrorKind;
use metier::host::{ClosureTools, Event, EventKind, Observer, OutputStream, RunId, SkillContext, StepStatus};
use metier::policy::{CancelToken, Limits, StopCause};
use serde_json::{Value, json};

use crate::engine::leaks::FixedSecret;
use crate::support::engine::{ENDLESS, Project, deadline, granted, kind, value, wait_until};

/// An observer that keeps what it gets.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Event>>>);

impl Observer for Recorder {
    fn on_event(&self, event: &Event) {
        self.0.lock().unwrap().push(event.clone());
    }
}

impl Recorder {
    fn events(&self) -> Vec<Event> {
        self.0.lock().unwrap().clone()
    }

    /// The names of the kinds, each with the skill and what tells it from others.
    fn lines(&self) -> Vec<String> {
        self.events().iter().map(line).collect()
    }
}

fn line(event: &Event) -> String {
    let skill = &event.skill;
    match &event.kind {
        EventKind::Started { script, .. } => {
            format!("{skill} started {}", script.as_deref().unwrap_or("nothing"))
        }
        EventKind::HostCall { function, permission, error, .. } => {
            let (permission, error) =
                (permission.as_deref().unwrap_or("-"), error.map_or("ok", ErrorKind::name));
            format!("{skill} called {function} {permission} {error}")
        }
        EventKind::Log(line) => format!("{skill} logged {}", line.message),
        EventKind::Progress(progress) => format!("{skill} progressed {}", progress.message),
        EventKind::Output { line, .. } => format!("{skill} wrote {line}"),
        EventKind::StepStarted { step, .. } => {
            format!("{skill} step {}{}", step.id, step.item.map_or(String::new(), |at| format!("[{at}]")))
        }
        EventKind::StepFinished { step, status, value, error, .. } => {
            let item = step.item.map_or(String::new(), |at| format!("[{at}]"));
            let value = value.as_ref().map_or(String::new(), |value| format!(" {value}"));
            let error = error.as_ref().map_or(String::new(), |error| format!(" ({error})"));
            format!("{skill} step {}{item} {}{value}{error}", step.id, status.name())
        }
        EventKind::Stopping { cause, .. } => format!("{skill} stopping {cause:?}"),
        EventKind::Finished { outcome, .. } => format!("{skill} finished {}", outcome.result.is_ok()),
        other => format!("{skill} {other:?}"),
    }
}

/// The events of one run of `x`.
fn events_of(project: &Project, grants: &[&str]) -> Recorder {
    let recorder = Recorder::default();
    let invocation = granted(Invocation::new("x"), grants).observer(Arc::new(recorder.clone()));
    project.engine().run(invocation);
    recorder
}

fn callee(project: Project, name: &str, script: &str) -> Project {
    project.skill(name, "").file(&format!(".metier/skills/{name}/scripts/main.lua"), script)
}

fn plan(steps: &Value) -> Project {
    Project::new().skill("x", "").file(".metier/skills/x/scripts/sequence.json", steps.to_string())
}

/// A plan whose steps run side by side.
fn parallel_plan(steps: &Value) -> Project {
    let contract = json!({"steps": steps}).to_string();
    Project::new().skill("x", "").file(".metier/skills/x/skill.yaml", contract)
}

/// Each run has its start first and its end last, and names the run that called it.
#[track_caller]
fn assert_well_ordered(events: &[Event]) {
    let mut runs: HashMap<RunId, Vec<&Event>> = HashMap::new();
    for event in events {
        runs.entry(event.run).or_default().push(event);
    }
    let mut invoked = 0;
    for own in runs.values() {
        let is_start = |event: &Event| matches!(event.kind, EventKind::Started { .. });
        let is_end = |event: &Event| matches!(event.kind, EventKind::Finished { .. });
        assert!(is_start(own[0]) && is_end(own[own.len() - 1]), "{own:#?}");
        assert_eq!(own.iter().filter(|event| is_start(event) || is_end(event)).count(), 2, "{own:#?}");
        assert!(own.iter().all(|event| event.caller == own[0].caller && event.skill == own[0].skill));
        match own[0].caller {
            None => invoked += 1,
            Some(caller) => assert!(runs.contains_key(&caller), "{own:#?}"),
        }
    }
    assert_eq!(invoked, 1);
}

#[test]
fn a_script_and_the_skill_it_calls_report_what_they_do() {
    let script = "print('one') ctx.progress('half', 1, 2) pcall(ctx.write, 'a/b.txt', 'x')
        ctx.read_file('docs/a.md') return ctx.skill('y')";
    let project = callee(
        Project::lua_with_tools("skill:y read", script).file("docs/a.md", "a"),
        "y",
        "ctx.log('warn', 'two') ctx.progress('on') return 7",
    );
    let recorder = events_of(&project, &["skill:y", "read"]);
    let expected = [
        "x started scripts/main.lua",
        "x logged one",
        "x called log - ok",
        "x progressed half",
        "x called progress - ok",
        "x called write write:a/b.txt denied",
        "x called read_file read:docs/a.md ok",
        "y started scripts/main.lua",
        "y logged y: two",
        "y called log - ok",
        "y progressed y: on",
        "y called progress - ok",
        "y finished true",
        "x called skill skill:y ok",
        "x finished true",
    ];
    assert_eq!(recorder.lines(), expected);
    let events = recorder.events();
    assert_well_ordered(&events);
    assert_eq!(events[7].caller, Some(events[0].run));
}

#[test]
fn a_plan_reports_its_steps_with_values_errors_and_items() {
    // SW-T23
    let steps = json!([
        {"id": "each", "tool": "config", "args": {"key": "$item"}, "for_each": {"in": ["a", "b"]}},
        {"id": "call", "skill": "y", "after": "each"},
        {"id": "lost", "tool": "read_file", "args": {"path": "gone"}, "on_failure": "continue", "after": "call"},
        {"id": "off", "tool": "tree", "when": "false", "after": "lost"},
    ]);
    let project = callee(plan(&steps), "y", "return {n = 1}");
    let recorder = events_of(&project, &[]);
    let lines: Vec<_> =
        recorder.lines().into_iter().map(|line| line.split(" (").next().unwrap().to_owned()).collect();
    let expected = [
        "x started scripts/sequence.json",
        "x step each",
        "x step each[0]",
        "x called config - ok",
        "x step each[0] ok null",
        "x step each[1]",
        "x called config - ok",
        "x step each[1] ok null",
        "x step each ok [null,null]",
        "x step call",
        "y started scripts/main.lua",
        "y finished true",
        "x step call ok {\"n\":1}",
        "x step lost",
        "x called read_file read:gone io",
        "x step lost failed",
        "x logged step lost failed, and the run goes on: failed to read gone: No such file or directory",
        "x step off",
        "x step off skipped",
        "x finished true",
    ];
    assert_eq!(lines, expected);
    let started = recorder.events().into_iter().find(|event| &*event.skill == "y").unwrap();
    assert!(matches!(started.kind, EventKind::Started { step: Some(1), .. }), "{started:?}");
    let call = recorder.events().into_iter().find(|event| line(event).contains("read:gone")).unwrap();
    assert!(matches!(call.kind, EventKind::HostCall { step: Some(2), .. }), "{call:?}");
}

#[test]
fn steps_side_by_side_keep_the_order_of_each_run() {
    let steps: Vec<_> = (0..24).map(|at| json!({"id": format!("s{at}"), "skill": "y"})).collect();
    let project =
        callee(parallel_plan(&json!(steps)), "y", "for i = 1, 20 do print(i) ctx.progress('p') end return 1");
    let recorder = events_of(&project, &[]);
    let events = recorder.events();
    assert_well_ordered(&events);
    let runs: HashSet<_> = events.iter().map(|event| event.run).collect();
    assert_eq!((runs.len(), events.len()), (25, 2 + 24 * (2 + 2 + 80)));
    for run in runs.iter().filter(|run| **run != events[0].run) {
        let logged: Vec<_> = events.iter().filter(|event| event.run == *run).collect();
        let numbers = logged.iter().filter_map(|event| match &event.kind {
            EventKind::Log(line) => line.message.strip_prefix("y: ")?.parse::<usize>().ok(),
            _ => None,
        });
        assert!(numbers.eq(1..=20), "the lines of one run in their order");
    }
}

#[test]
fn an_unknown_skill_starts_and_finishes_too() {
    let recorder = Recorder::default();
    Project::new().engine().run(Invocation::new("none").observer(Arc::new(recorder.clone())));
    assert_eq!(recorder.lines(), ["none started nothing", "none finished false"]);
}

#[test]
fn a_process_reports_each_line_while_it_runs() {
    let script = "echo one; echo err >&2; sleep 0.3; touch second; echo two; printf three";
    let project = Project::shell("allowed-tools: exec write\n", script);
    let second = project.path("second");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let observer = move |event: &Event| {
        if let EventKind::Output { stream, line, continues, .. } = &event.kind {
            assert!(!continues);
            let stream = if *stream == OutputStream::Stdout { "" } else { "!" };
            sink.lock().unwrap().push((format!("{stream}{line}"), second.exists()));
        }
    };
    let invocation = granted(Invocation::new("x"), &["exec", "write"]).observer(Arc::new(observer));
    let outcome = project.engine().run(invocation);
    assert_eq!(value(outcome), json!("one\ntwo\nthree"));
    let mut seen = seen.lock().unwrap().clone();
    seen[..2].sort();
    let expected = [("!err", false), ("one", false), ("two", true), ("three", true)];
    assert_eq!(*seen, expected.map(|(line, is_later)| (line.to_owned(), is_later)));
}

#[test]
fn the_lines_of_a_callees_process_carry_its_run() {
    let project = Project::lua_with_tools("skill:y exec", "return ctx.skill('y')")
        .skill("y", "allowed-tools: exec\n")
        .file(".metier/skills/y/scripts/main.sh", "echo hello");
    let recorder = events_of(&project, &["skill:y", "exec"]);
    let events = recorder.events();
    assert_well_ordered(&events);
    let output = events.iter().find(|event| matches!(event.kind, EventKind::Output { .. })).unwrap();
    assert_eq!((line(output).as_str(), output.caller), ("y wrote hello", Some(events[0].run)));
}

#[test]
fn the_lines_of_a_process_end_at_the_output_limit() {
    for (policy, ok) in
        [(metier::policy::OutputPolicy::Kill, false), (metier::policy::OutputPolicy::Truncate, true)]
    {
        let project = Project::shell("allowed-tools: exec\n", "yes 0123456789 | head -n 200000");
        let recorder = Recorder::default();
        let limits = Limits::default().output(20_000).on_output(policy);
        let invocation =
            granted(Invocation::new("x"), &["exec"]).limits(limits).observer(Arc::new(recorder.clone()));
        assert_eq!(project.engine().run(invocation).result.is_ok(), ok);
        let lines = recorder.lines();
        let written: usize =
            lines.iter().filter_map(|line| line.strip_prefix("x wrote ")).map(|l| l.len() + 1).sum();
        assert!((19_000..=20_001).contains(&written), "{written}");
        assert!(lines.last().unwrap().starts_with("x finished"), "{:?}", lines.last());
    }
}

/// What no event may contain, in JSON or as a text for people who debug.
#[track_caller]
fn assert_nowhere(secret: &str, recorder: &Recorder) {
    for event in recorder.events() {
        let json = serde_json::to_string(&event).unwrap();
        assert!(!json.contains(secret) && !format!("{event:?}").contains(secret), "{json}");
    }
}

const SECRET: &str = "hunter2-of-many-letters";

#[test]
fn cu_t06_each_reading_of_a_secret_is_an_event_with_its_name_alone() {
    let project = Project::lua_with_tools(
        "secret:KEY",
        "ctx.secret('KEY') pcall(ctx.secret, 'OTHER') return #ctx.secret('KEY')",
    );
    let engine = project.builder().secrets(FixedSecret(SECRET.to_owned())).build().unwrap();
    let recorder = Recorder::default();
    let invocation = granted(Invocation::new("x"), &["secret:KEY"]);
    let observed = engine.run(invocation.clone().observer(Arc::new(recorder.clone())));
    assert_eq!(value(observed), SECRET.len());
    assert_nowhere(SECRET, &recorder);
    let lines = recorder.lines();
    let expected = [
        "x started scripts/main.lua",
        "x called secret secret:KEY ok",
        "x called secret secret:OTHER denied",
        "x called secret secret:KEY ok",
        "x finished true",
    ];
    assert_eq!(lines, expected);
    // Each event has the id of its run; and nobody needs to listen.
    let events = recorder.events();
    assert!(events.iter().all(|event| event.run == events[0].run));
    assert_eq!(value(engine.run(invocation)), SECRET.len());
}

#[test]
fn secrets_are_redacted_in_every_kind_of_event() {
    let script = "local k = ctx.secret('KEY') print(k) ctx.progress(k, 1, 2) pcall(ctx.read_file, 'a/' .. k)
        pcall(ctx.tool, 'fail', {say = k}) local v = ctx.skill('y', {k = k})
        pcall(ctx.skill, 'typed', {n = k}) pcall(ctx.skill, 'fails', {k = k}) ctx.skill('plan', {k = k}) error(v)";
    let typed = "inputs:\n  n: {type: integer}\n";
    let steps = json!([
        {"id": "echo", "tool": "echo", "args": {"k": "$inputs.k"}},
        {"id": "each", "tool": "echo", "args": {"k": "$item"}, "for_each": {"in": ["$inputs.k"]}},
        {"id": "lost", "tool": "read_file", "args": {"path": "$inputs.k"}, "on_failure": "continue"},
    ]);
    let asks = "secret:KEY skill:y skill:typed skill:fails skill:plan read tool:fail tool:echo";
    let project = Project::lua_with_tools(asks, script);
    let project = callee(project, "y", "return input.k");
    let project = callee(project, "typed", "return 1").file(".metier/skills/typed/skill.yaml", typed);
    let project = callee(project, "fails", "error(input.k)");
    let project = project
        .skill("plan", "allowed-tools: read tool:echo\n")
        .file(".metier/skills/plan/scripts/sequence.json", steps.to_string());
    let tools = ClosureTools::new()
        .tool("fail", "fails", json!({}), |_, args| {
            Err(metier::error::SkillError::new(ErrorKind::Tool, args["say"].as_str().unwrap_or_default()))
        })
        .tool("echo", "answers", json!({}), |_, args| Ok(args.clone()));
    let engine = project.builder().secrets(FixedSecret(SECRET.to_owned())).tools(tools).build().unwrap();
    let recorder = Recorder::default();
    let grants: Vec<_> = asks.split(' ').collect();
    let outcome = engine.run(granted(Invocation::new("x"), &grants).observer(Arc::new(recorder.clone())));
    assert_eq!(kind(&outcome), ErrorKind::Script);
    assert_nowhere(SECRET, &recorder);
    let lines = recorder.lines();
    for expected in [
        "x logged [secret:KEY]",
        "x progressed [secret:KEY]",
        "x called read_file read:a/[secret:KEY] io",
        "x called tool tool:fail tool",
        "y finished true",
        "typed finished false",
        "fails finished false",
        "plan step echo ok {\"k\":\"[secret:KEY]\"}",
        "plan step each[0] ok {\"k\":\"[secret:KEY]\"}",
        "x finished false",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}: {lines:#?}");
    }
    assert!(
        lines.iter().any(|line| line.starts_with("plan step lost failed (failed to read [secret:KEY]")),
        "{lines:#?}"
    );
    let of_y = recorder.events().into_iter().rfind(|event| &*event.skill == "y").unwrap();
    assert_eq!(serde_json::to_value(&of_y).unwrap()["outcome"]["value"], "[secret:KEY]", "a caller's secret");
}

#[test]
fn a_secret_that_a_process_writes_in_parts_is_redacted_in_its_lines() {
    let script = r#"k=$(sed 's/.*"k":"\([^"]*\)".*/\1/'); echo "a $k b"; printf 'c %s' "${k%letters}"; sleep 0.1
        printf 'let'; sleep 0.1; printf 'ters d\n'; printf '%s\n' "${k%-of*}"; sleep 0.1; echo "-of-many-letters e"
        echo "$k" >&2; echo end"#;
    let caller = "return ctx.skill('y', {k = ctx.secret('KEY')})";
    let project = Project::lua_with_tools("skill:y exec secret:KEY", caller)
        .skill("y", "allowed-tools: exec\n")
        .file(".metier/skills/y/scripts/main.sh", script);
    let engine = project.builder().secrets(FixedSecret(SECRET.to_owned())).build().unwrap();
    let recorder = Recorder::default();
    let grants = ["exec", "skill:y", "secret:KEY"];
    let outcome = engine.run(granted(Invocation::new("x"), &grants).observer(Arc::new(recorder.clone())));
    let written = "a [secret:KEY] b\nc [secret:KEY] d\n[secret:KEY] e\nend\n";
    assert_eq!(value(outcome), json!(written));
    assert_nowhere(SECRET, &recorder);
    let lines = recorder.lines();
    let mut lines: Vec<_> = lines.iter().filter_map(|line| line.strip_prefix("y wrote ")).collect();
    let mut expected: Vec<_> = written.lines().chain(["[secret:KEY]"]).collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
}

#[test]
fn an_observer_that_panics_is_not_called_again_and_the_run_goes_on() {
    // SW-T22
    let project = callee(
        Project::lua_with_tools("skill:y", "print('a') ctx.skill('y') print('b') return 1"),
        "y",
        "print('c')",
    );
    for max in 0..8 {
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = calls.clone();
        let observer = move |_: &Event| assert!(counter.fetch_add(1, Ordering::SeqCst) < max, "on purpose");
        let invocation = granted(Invocation::new("x"), &["skill:y"]).observer(Arc::new(observer));
        assert_eq!(value(project.engine().run(invocation)), json!(1));
        assert_eq!(calls.load(Ordering::SeqCst), max + 1);
    }
}

#[test]
fn an_observer_may_run_skills_in_every_event() {
    let steps = json!([
        {"id": "a", "skill": "y"}, {"id": "b", "skill": "y"}, {"id": "c", "tool": "glob", "args": {"pattern": "*"}},
        {"id": "bad", "tool": "read_file", "args": {"path": "gone"}, "after": ["a", "b", "c"]},
    ]);
    let project = callee(parallel_plan(&steps), "y", "print('a') return 1");
    let project = callee(project, "inner", "print('b') return 2");
    let engine = project.engine();
    let (inner, count) = (engine.clone(), Arc::new(AtomicUsize::new(0)));
    let counter = count.clone();
    let observer = move |_: &Event| {
        assert_eq!(value(inner.run(Invocation::new("inner"))), json!(2));
        counter.fetch_add(1, Ordering::SeqCst);
    };
    let outcome = engine.run(Invocation::new("x").observer(Arc::new(observer)));
    assert_eq!(kind(&outcome), ErrorKind::Io);
    assert_eq!(count.load(Ordering::SeqCst), 2 + 2 * 2 + 2 * 4 + 2 * 3);
}

#[test]
fn an_observer_may_run_skills_when_a_step_is_stopped_for_the_failure_of_another() {
    let steps =
        json!([{"id": "long", "skill": "y"}, {"id": "bad", "tool": "read_file", "args": {"path": "gone"}}]);
    let project = callee(parallel_plan(&steps), "y", ENDLESS);
    let project = callee(project, "inner", "return 2");
    let engine = project.engine();
    let (inner, count) = (engine.clone(), Arc::new(AtomicUsize::new(0)));
    let counter = count.clone();
    let observer = move |event: &Event| {
        if matches!(event.kind, EventKind::Stopping { .. }) {
            assert_eq!(value(inner.run(Invocation::new("inner"))), json!(2));
            counter.fetch_add(1, Ordering::SeqCst);
        }
    };
    let outcome = engine.run(Invocation::new("x").observer(Arc::new(observer)));
    assert_eq!((kind(&outcome), count.load(Ordering::SeqCst)), (ErrorKind::Io, 1));
}

#[test]
fn the_end_of_a_run_comes_after_an_event_that_another_thread_reports() {
    let (recorder, project) = (Recorder::default(), Project::lua(ENDLESS));
    let sink = recorder.clone();
    let observer = move |event: &Event| {
        if matches!(event.kind, EventKind::Stopping { .. }) {
            // The script has ended long before.
            std::thread::sleep(Duration::from_millis(300));
        }
        sink.on_event(event);
    };
    project.engine().run(Invocation::new("x").limits(deadline(60)).observer(Arc::new(observer)));
    let expected = ["x started scripts/main.lua", "x stopping Timeout", "x finished false"];
    assert_eq!(recorder.lines(), expected);
}

#[test]
fn an_observer_that_blocks_cannot_keep_a_run_from_ending() {
    let has_finished = Arc::new(AtomicBool::new(false));
    let ended = has_finished.clone();
    let observer = move |event: &Event| match event.kind {
        EventKind::Stopping { .. } => {
            wait_until(Duration::from_mins(1), || ended.load(Ordering::SeqCst));
        }
        EventKind::Finished { .. } => ended.store(true, Ordering::SeqCst),
        _ => {}
    };
    let began = Instant::now();
    let engine = Project::lua(ENDLESS);
    engine.engine().run(Invocation::new("x").limits(deadline(60)).observer(Arc::new(observer)));
    assert!(has_finished.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_run_that_is_stopped_says_so_before_its_end() {
    for (limits, cause) in [(deadline(60), StopCause::Timeout), (deadline(60_000), StopCause::Cancelled)] {
        let project = callee(Project::lua_with_tools("skill:y", "return ctx.skill('y')"), "y", ENDLESS);
        let (recorder, token) = (Recorder::default(), CancelToken::new());
        let (sink, stopper) = (recorder.clone(), token.clone());
        let observer = move |event: &Event| {
            sink.on_event(event);
            if cause == StopCause::Cancelled && line(event) == "y started scripts/main.lua" {
                stopper.cancel();
            }
        };
        let invocation = granted(Invocation::new("x"), &["skill:y"]).limits(limits).cancel(token);
        project.engine().run(invocation.observer(Arc::new(observer)));
        let lines = recorder.lines();
        assert_well_ordered(&recorder.events());
        assert!(lines.contains(&format!("x stopping {cause:?}")), "{lines:?}");
        assert!(lines.contains(&format!("y stopping {cause:?}")), "{lines:?}");
    }
}

#[test]
fn nothing_arrives_after_the_end_of_a_run() {
    let kept = Arc::new(Mutex::new(None::<SkillContext>));
    let keeper = kept.clone();
    let tools = ClosureTools::new().tool("keep", "d", json!({}), move |ctx, _| {
        *keeper.lock().unwrap() = Some(ctx.clone());
        Ok(json!(1))
    });
    let project = Project::lua_with_tools("tool:keep", "return ctx.tool('keep')");
    let recorder = Recorder::default();
    let invocation = granted(Invocation::new("x"), &["tool:keep"]).observer(Arc::new(recorder.clone()));
    project.builder().tools(tools).build().unwrap().run(invocation);
    let before = recorder.lines();
    let ctx = kept.lock().unwrap().take().unwrap();
    ctx.log(metier::host::LogLevel::Info, "late").unwrap();
    ctx.cancel().cancel();
    assert_eq!(recorder.lines(), before);
    assert_eq!(before.last().unwrap(), "x finished true");
}

#[test]
fn a_value_of_the_embedder_is_readable_from_the_events_of_every_run() {
    struct Tab(u32);
    let project = callee(Project::lua_with_tools("skill:y", "return ctx.skill('y')"), "y", "print('a')");
    let recorder = Recorder::default();
    let invocation =
        granted(Invocation::new("x"), &["skill:y"]).extension(Tab(3)).observer(Arc::new(recorder.clone()));
    project.engine().run(invocation);
    let events = recorder.events();
    assert!(
        events.len() > 5 && events.iter().all(|event| event.extension::<Tab>().is_some_and(|tab| tab.0 == 3))
    );
}

#[test]
fn an_event_in_json_has_the_names_that_programs_rely_on() {
    let steps = json!([
        {"id": "a", "tool": "log", "args": {"level": "info", "message": "m"}},
        {"id": "b", "tool": "progress", "args": {"message": "p", "done": 1}},
        {"id": "c", "tool": "read_file", "args": {"path": "gone"}},
    ]);
    let recorder = events_of(&plan(&steps), &[]);
    let mut found = Vec::new();
    for event in recorder.events() {
        let mut json = serde_json::to_value(&event).unwrap();
        let keys = json.as_object_mut().unwrap();
        let (run, caller) = (keys.shift_remove("run").unwrap(), keys.shift_remove("caller").unwrap());
        assert_eq!((run, caller), (json!(event.run.to_string()), json!(null)));
        assert_eq!(keys.shift_remove("skill").unwrap(), "x");
        for key in ["duration_us", "duration_ms"] {
            if let Some(duration) = keys.get_mut(key) {
                assert!(duration.is_u64());
                *duration = json!(0);
            }
        }
        if let Some(outcome) = keys.get_mut("outcome") {
            *outcome = outcome["ok"].take();
        }
        found.push(json);
    }
    let step = |index: usize, id: &str, call: &str| json!({"index": index, "count": 3, "id": id, "call": call, "item": null});
    let ended = |step: Value, status: &str, error: Value| json!({"event": "step_finished", "step": step, "status": status, "attempts": 1, "duration_ms": 0, "value": null, "error": error});
    let call = |step: usize, function: &str, permission: Value, error: Value| json!({"event": "host_call", "function": function, "permission": permission, "step": step, "error": error, "duration_us": 0});
    let started = |step: Value| json!({"event": "step_started", "step": step});
    let (a, b, c) = (step(0, "a", "log"), step(1, "b", "progress"), step(2, "c", "read_file"));
    let version = found[0]["version"].clone();
    assert!(found[0]["project"].is_string());
    let lost = found.iter().find(|json| json["event"] == "step_finished" && json["step"]["id"] == "c");
    let error = lost.unwrap()["error"].clone();
    assert!(error.as_str().unwrap().starts_with("failed to read gone"), "{error}");
    let mut expected = vec![
        json!({"event": "started", "qualified_name": format!("project/.metier:x@{}", version.as_str().unwrap()), "version": version, "runtime": "tool-sequence", "script": "scripts/sequence.json", "project": found[0]["project"], "step": null}),
        started(a.clone()),
        json!({"event": "log", "level": "info", "message": "m"}),
        call(0, "log", json!(null), json!(null)),
        ended(a, "ok", json!(null)),
        started(b.clone()),
        json!({"event": "progress", "message": "p", "done": 1.0, "total": null}),
        call(1, "progress", json!(null), json!(null)),
        ended(b, "ok", json!(null)),
        started(c.clone()),
        call(2, "read_file", json!("read:gone"), json!("io")),
        ended(c, "failed", error),
        json!({"event": "finished", "outcome": false}),
    ];
    // The steps may run side by side.
    let by_text = |json: &Value| json.to_string();
    found.sort_by_key(by_text);
    expected.sort_by_key(by_text);
    assert_eq!(found, expected);
    let output = events_of(&Project::shell("allowed-tools: exec\n", "echo hi"), &["exec"]);
    let output =
        output.events().into_iter().find(|event| matches!(event.kind, EventKind::Output { .. })).unwrap();
    let json = serde_json::to_value(&output).unwrap();
    let part = |key: &str| json[key].clone();
    assert_eq!(
        [part("event"), part("stream"), part("line"), part("continues")],
        [json!("output"), json!("stdout"), json!("hi"), json!(false)]
    );
}
