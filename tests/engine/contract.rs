//! From invocation to outcome: limits, log, JSON, scripts and the executors that run them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier::engine::{Engine, Invocation};
use metier::error::{ErrorKind, Result};
use metier::executor::{RuntimeId, SkillExecutor, SkillInput, SkillOutput};
use metier::host::{Event, EventKind, Observer, SkillContext};
use metier::policy::{Limits, Permission, RuntimeLimit};
use serde_json::{Value, json};

use crate::support::engine::{ENDLESS, Project, deadline, granted, kind, sentence, value, write};

/// An executor that is one function.
struct FunctionExecutor<F>(F);

impl<F: Fn(&SkillContext) -> Result<Value> + Send + Sync> SkillExecutor for FunctionExecutor<F> {
    fn execute_with_context(&self, _: SkillInput, context: Option<&SkillContext>) -> Result<SkillOutput> {
        (self.0)(context.unwrap()).map(SkillOutput::from)
    }
}

/// An engine whose Rhai is this function, and a project with such a skill.
fn engine_with_executor(
    body: impl Fn(&SkillContext) -> Result<Value> + Send + Sync + Clone + 'static,
) -> (Project, Engine) {
    let project = Project::new().skill("x", "").file(".metier/skills/x/scripts/main.rhai", "1");
    let load =
        move |_: &_| -> Result<Box<dyn SkillExecutor>> { Ok(Box::new(FunctionExecutor(body.clone()))) };
    let engine = project.builder().runtime(RuntimeId::RHAI, &[], load).build().unwrap();
    (project, engine)
}

#[test]
fn a_runtime_of_ones_own_stands_behind_the_same_trait() {
    let (project, engine) = engine_with_executor(|context| context.call("read_file", vec![json!("a.txt")]));
    write(&project.path("a.txt"), "hello");
    assert_eq!(value(engine.run(Invocation::new("x"))), json!("hello"));
    assert!(engine.availability(&engine.registry().skills()[0]).is_runnable());
    let without = project.engine().run(Invocation::new("x"));
    match metier::supports(RuntimeId::RHAI) {
        Ok(()) => assert_eq!(value(without), json!(1), "what is built in"),
        Err(_) => assert_eq!(kind(&without), ErrorKind::Unavailable),
    }
}

#[test]
fn a_panic_in_a_runtime_ends_the_run_and_nothing_else() {
    let (_project, engine) = engine_with_executor(|_| panic!("on purpose"));
    for _ in 0..3 {
        let outcome = engine.run(Invocation::new("x"));
        assert_eq!(
            (kind(&outcome), sentence(&outcome).as_str()),
            (ErrorKind::Script, "the runtime panicked: on purpose")
        );
    }
}

#[test]
fn a_panic_in_a_loader_does_too() {
    let project = Project::lua("print('x') return 1");
    let panics = |_: &_| -> Result<Box<dyn SkillExecutor>> { panic!("on purpose") };
    let engine = project.builder().runtime(RuntimeId::LUA, &[], panics).build().unwrap();
    assert_eq!(kind(&engine.run(Invocation::new("x"))), ErrorKind::Script);
    assert_eq!(kind(&engine.run(Invocation::new("x"))), ErrorKind::Script, "again, and not as a hang");
    assert_eq!(value(project.engine().run(Invocation::new("x"))), json!(1));
}

#[test]
fn a_run_has_thirty_seconds_unless_somebody_says_otherwise() {
    assert_eq!(Limits::default().timeout, Duration::from_secs(30));
    let project = Project::lua(ENDLESS);
    let engine = project.builder().limits(deadline(60)).build().unwrap();
    for (limits, expected) in [(None, 60), (Some(deadline(120)), 120), (Some(deadline(0)), 0)] {
        let begun = Instant::now();
        let invocation = Invocation::new("x");
        let outcome = engine.run(match limits {
            Some(limits) => invocation.limits(limits),
            None => invocation,
        });
        assert_eq!(kind(&outcome), ErrorKind::Timeout);
        assert_eq!(
            (outcome.limits.hit, outcome.limits.timeout),
            (Some(ErrorKind::Timeout), Duration::from_millis(expected))
        );
        let took = begun.elapsed();
        assert!(
            (Duration::from_millis(expected)..Duration::from_millis(expected + 500)).contains(&took),
            "{took:?}"
        );
        assert!(outcome.duration <= took);
    }
}

#[test]
fn a_deadline_beyond_what_the_clock_holds_is_none() {
    let outcome = Project::lua("return 1").engine_with(Limits::default().timeout(Duration::MAX));
    assert_eq!(value(outcome), json!(1));
}

impl Project {
    fn engine_with(&self, limits: Limits) -> metier::engine::Outcome {
        self.engine().run(Invocation::new("x").limits(limits))
    }
}

#[test]
fn the_value_is_capped_in_every_runtime() {
    let limits = Limits::default().output(1000);
    let large = Project::lua("return string.rep('x', 2000)").engine_with(limits.clone());
    assert_eq!((kind(&large), large.limits.hit), (ErrorKind::Output, Some(ErrorKind::Output)));
    assert_eq!(
        value(Project::lua("return string.rep('x', 998)").engine_with(limits.clone()))
            .as_str()
            .unwrap()
            .len(),
        998
    );
    let (_project, engine) = engine_with_executor(|_| Ok(Value::String("x".repeat(999))));
    assert_eq!(kind(&engine.run(Invocation::new("x").limits(limits))), ErrorKind::Output);
}

#[test]
fn the_log_is_capped_and_survives_a_failure() {
    let limits = Limits::default().output(1000);
    let flood = Project::lua("for i = 1, 1000 do print('twenty letters or so') end").engine_with(limits);
    assert_eq!(kind(&flood), ErrorKind::Output);
    assert!((10..50).contains(&flood.log.len()), "{}", flood.log.len());
    let failed = Project::lua("print('before') error('no')").run(&[]);
    assert_eq!((kind(&failed), failed.log[0].message.as_str()), (ErrorKind::Script, "before"));
}

#[test]
fn an_observer_hears_log_and_progress_while_the_script_runs() {
    #[derive(Default)]
    struct Heard(Mutex<Vec<String>>, Mutex<Option<metier::policy::CancelToken>>);
    impl Observer for Heard {
        fn on_event(&self, event: &Event) {
            match &event.kind {
                EventKind::Log(line) => self.0.lock().unwrap().push(line.message.clone()),
                EventKind::Progress(progress) => {
                    let text = format!("{} {:?}/{:?}", progress.message, progress.done, progress.total);
                    self.0.lock().unwrap().push(text);
                    // Only a live ear can end the endless loop below.
                    let token = self.1.lock().unwrap().take();
                    token.unwrap().cancel();
                }
                _ => {}
            }
        }
    }
    let project =
        Project::lua("print('one') ctx.log('info', 'two') ctx.progress('half', 1, 2) while true do end");
    let (heard, token) = (Arc::new(Heard::default()), metier::policy::CancelToken::new());
    *heard.1.lock().unwrap() = Some(token.clone());
    let outcome = project.engine().run(Invocation::new("x").observer(heard.clone()).cancel(token));
    assert_eq!(kind(&outcome), ErrorKind::Cancelled);
    assert_eq!(*heard.0.lock().unwrap(), ["one", "two", "half Some(1.0)/Some(2.0)"]);
}

#[test]
fn an_observer_hears_no_more_than_the_log_holds() {
    let project = Project::lua("for i = 1, 10000 do pcall(print, 'twenty letters or so') end return 1");
    let count = Arc::new(AtomicUsize::new(0));
    let counter = count.clone();
    let observer = move |event: &Event| {
        let is_line = matches!(event.kind, EventKind::Log(_));
        counter.fetch_add(usize::from(is_line), Ordering::SeqCst);
    };
    let invocation = Invocation::new("x").observer(Arc::new(observer)).limits(Limits::default().output(1000));
    let outcome = project.engine().run(invocation);
    assert_eq!(count.load(Ordering::SeqCst), outcome.log.len());
}

#[test]
fn an_outcome_in_json_has_every_key_every_time() {
    let keys = [
        "ok",
        "skill",
        "version",
        "value",
        "error",
        "log",
        "duration_ms",
        "limits",
        "process",
        "sandbox",
        "steps",
        "warnings",
        "grants",
        "refused",
        "digest",
        "cached",
        "changes",
        "sanitized",
    ];
    let shell = Project::shell("metadata: {version: 1.2.0}\n", "echo '{\"a\": 1}'; echo talk >&2; exit 3\n");
    let engine = Project::lua("return nil");
    for outcome in [
        engine.run(&[]),
        shell.run(&[]),
        shell.run(&["exec"]),
        engine.engine().run(Invocation::new("y")),
        metier::engine::Outcome::failed("z", metier::error::SkillError::new(ErrorKind::Usage, "no")),
    ] {
        let json = serde_json::to_value(&outcome).unwrap();
        let mut found: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
        let mut expected = keys;
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected);
        let limits: Vec<_> = json["limits"].as_object().unwrap().keys().collect();
        assert_eq!(limits.len(), 11, "{limits:?}");
        assert_eq!(json["ok"], json!(outcome.result.is_ok()));
    }
    let json = serde_json::to_value(shell.run(&["exec"])).unwrap();
    assert_eq!((&json["version"], &json["error"]["kind"]), (&json!("1.2.0"), &json!("script")));
    assert_eq!((&json["process"]["exit_code"], &json["process"]["stderr"]), (&json!(3), &json!("talk\n")));
    assert!(["kind", "message", "help", "location"].iter().all(|key| json["error"].get(key).is_some()));
}

#[test]
fn a_script_is_compiled_once_and_again_when_it_changes() {
    let loads = Arc::new(AtomicUsize::new(0));
    let counter = loads.clone();
    let project = Project::lua("return 1");
    let load = move |script: &_| {
        counter.fetch_add(1, Ordering::SeqCst);
        metier::ScriptLoader::new().load(RuntimeId::LUA, script)
    };
    let engine = project.builder().runtime(RuntimeId::LUA, &[], load).build().unwrap();
    let script = project.path(".metier/skills/x/scripts/main.lua");
    for (text, loaded) in [("return 1", 1), ("return 2", 2), ("return 1", 2), ("return 2", 2)] {
        write(&script, text);
        for _ in 0..3 {
            assert_eq!(value(engine.run(Invocation::new("x"))), json!(text[7..].parse::<i64>().unwrap()));
        }
        assert_eq!(loads.load(Ordering::SeqCst), loaded, "{text}");
    }
}

#[test]
fn thousands_of_scripts_do_not_pile_up() {
    struct Counted(Arc<AtomicUsize>);
    impl SkillExecutor for Counted {
        fn execute_with_context(&self, _: SkillInput, _: Option<&SkillContext>) -> Result<SkillOutput> {
            Ok(json!(1).into())
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let alive = Arc::new(AtomicUsize::new(0));
    let counter = alive.clone();
    let project = Project::lua("");
    let load = move |_: &_| -> Result<Box<dyn SkillExecutor>> {
        counter.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Counted(counter.clone())))
    };
    let engine = project.builder().runtime(RuntimeId::LUA, &[], load).build().unwrap();
    for number in 0..2000 {
        write(&project.path(".metier/skills/x/scripts/main.lua"), number.to_string());
        assert!(engine.run(Invocation::new("x")).result.is_ok());
    }
    assert!((1..=64).contains(&alive.load(Ordering::SeqCst)));
}

#[test]
fn of_several_scripts_one_is_named() {
    let project = Project::new()
        .skill("x", "")
        .file(".metier/skills/x/scripts/one.lua", "return 1")
        .file(".metier/skills/x/scripts/two.lua", "return 2")
        .file(".metier/skills/x/scripts/three.sh", "echo 3\n");
    let outcome = project.run(&[]);
    assert_eq!(kind(&outcome), ErrorKind::Usage);
    for script in ["scripts/one.lua", "scripts/two.lua", "scripts/three.sh"] {
        assert!(sentence(&outcome).contains(script), "{outcome:?}");
    }
    for (script, expected) in
        [("scripts/two.lua", 2), ("./scripts/one.lua", 1), ("one.lua", 1), ("three.sh", 3)]
    {
        let invocation = granted(Invocation::new("x").script(script), &["exec"]);
        assert_eq!(value(project.engine().run(invocation)), json!(expected), "{script}");
    }
    let missing = project.engine().run(Invocation::new("x").script("four.lua"));
    assert_eq!(kind(&missing), ErrorKind::UnknownSkill);
    assert!(missing.result.unwrap_err().help().unwrap().contains("scripts/one.lua"));
}

#[test]
fn builtin_skills_run_from_an_empty_project() {
    let folder = tempfile::tempdir().unwrap();
    let roots = metier::registry::Roots::standard("metier-test-of-the-engine", folder.path());
    let engine = Engine::builder(folder.path()).roots(roots).build().unwrap();
    let counted = engine.run(Invocation::new("builtin:word-count").input(json!({"text": "one two"})));
    assert_eq!(value(counted)["total"]["words"], json!(2));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "and leave nothing there");
}

#[test]
fn an_explanation_says_which_dependency_is_missing_as_a_run_does() {
    let project = Project::lua("return 1")
        .file(".metier/skills/x/skill.yaml", "dependencies:\n  tools: [{name: no-such-program-anywhere}]\n");
    let engine = project.engine();
    let reason = engine.explain(&Invocation::new("x")).unwrap().reason.unwrap();
    let run = engine.run(Invocation::new("x")).result.unwrap_err();
    assert_eq!((reason.kind(), reason.message()), (ErrorKind::Unavailable, run.message()));
    assert_eq!(reason.help(), Some("install the program, and see that it is on PATH"));
}

#[test]
fn an_explanation_in_json_has_names_and_milliseconds() {
    let project = Project::lua_with_tools("read write:out", "return 1");
    let invocation = granted(Invocation::new("x"), &["write:out", "write:a/b"]);
    let limits = Limits::default().timeout(Duration::from_millis(1500)).cpu(Duration::from_secs(2));
    let explained = project.engine().explain(&invocation.limits(limits)).unwrap();
    assert_eq!(explained.permissions, [Permission::READ, Permission::write("out").unwrap()]);
    assert_eq!(explained.limits.not_applied, [RuntimeLimit::Cpu]);
    let json = serde_json::to_value(&explained).unwrap();
    assert_eq!(json["permissions"], json!(["read", "write:out"]));
    assert_eq!(json["sandbox_mode"], json!(explained.sandbox_mode.name()));
    let limits = &json["limits"];
    assert_eq!((&limits["timeout_ms"], &limits["cpu_ms"]), (&json!(1500), &Value::Null));
    assert_eq!((&limits["not_applied"], &limits["on_output"]), (&json!(["cpu"]), &json!("kill")));
    let write = json["functions"].as_array().unwrap().iter().find(|function| function["name"] == "write");
    assert_eq!(write.unwrap()["granted_by"], json!(["write:out"]));
}
