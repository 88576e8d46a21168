//! A bound on the runs of an engine at a time, and the other work of an engine as futures.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use futures_core::Stream;
use metier::engine::{Engine, Invocation, Outcome, RunFuture};
use metier::error::ErrorKind;
use metier::executor::{SkillExecutor, SkillInput, SkillOutput};
use metier::host::{ClosureTools, EventKind, SkillContext};
use metier::policy::{CancelToken, Permission};
use serde_json::json;

#[cfg(target_os = "linux")]
use crate::support::alone::is_alone;
use crate::support::engine::{PanickingExecutor, Project, deadline, granted, kind, value, wait_until};

/// How many runs are in the tool `work`, how many were at most, and which came in which order.
#[derive(Clone, Default)]
struct Works {
    now: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    order: Arc<Mutex<Vec<u64>>>,
    /// Whether runs stay in the tool.
    are_held: Arc<AtomicUsize>,
}

impl Works {
    fn engine(&self, project: &Project, max_runs: usize) -> Engine {
        let works = self.clone();
        let tools = ClosureTools::new().tool("work", "Takes a moment", json!({}), move |_, args| {
            works.order.lock().unwrap().push(args["n"].as_u64().unwrap_or(0));
            works.most.fetch_max(works.now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::sleep(Duration::from_micros(300));
            while works.are_held.load(Ordering::SeqCst) > 0 {
                thread::sleep(Duration::from_millis(1));
            }
            works.now.fetch_sub(1, Ordering::SeqCst);
            Ok(json!(true))
        });
        project.builder().tools(tools).max_runs(max_runs).build().unwrap()
    }

    fn hold(&self) {
        self.are_held.store(1, Ordering::SeqCst);
    }

    fn let_go(&self) {
        self.are_held.store(0, Ordering::SeqCst);
    }

    fn wait_for(&self, runs: usize) {
        wait_until(Duration::from_secs(10), || self.now.load(Ordering::SeqCst) == runs);
    }
}

fn working_project() -> Project {
    Project::lua_with_tools("tool:work", "ctx.tool('work', {n = input.n}) return input.n")
}

fn work(n: u64) -> Invocation {
    granted(Invocation::new("x").input(json!({"n": n})), &["tool:work"])
}

fn poll(run: &mut RunFuture) -> Poll<Outcome> {
    Pin::new(run).poll(&mut Context::from_waker(Waker::noop()))
}

/// The threads of this process that run skills.
fn run_threads() -> usize {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm")).ok();
    threads.filter_map(name).filter(|name| name.trim() == "metier-run").count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_thousand_futures_under_a_bound_of_eight_have_eight_threads() {
    if !is_alone("engine::bounded::a_thousand_futures_under_a_bound_of_eight_have_eight_threads") {
        return;
    }
    let (project, works) = (working_project(), Works::default());
    let engine = works.engine(&project, 8);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    works.hold();
    let count = runtime.block_on(async {
        let runs: Vec<_> = (0..1000).map(|n| tokio::spawn(engine.run_async(work(n)))).collect();
        tokio::task::yield_now().await;
        works.wait_for(8);
        let held = run_threads();
        thread::sleep(Duration::from_millis(50));
        assert_eq!((held, run_threads()), (8, 8), "while eight runs are held");
        works.let_go();
        let mut most = 0;
        for (n, run) in runs.into_iter().enumerate() {
            assert_eq!(value(run.await.unwrap()), json!(n));
            most = most.max(run_threads());
        }
        most
    });
    assert_eq!(works.most.load(Ordering::SeqCst), 8);
    // A thread that gave its place away may not have ended yet.
    assert!(count <= 16, "{count} threads");
}

#[test]
fn a_thousand_blocking_runs_keep_the_bound() {
    let (project, works) = (working_project(), Works::default());
    let engine = works.engine(&project, 3);
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                for n in 0..50 {
                    assert_eq!(value(engine.run(work(n))), json!(n));
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!((done.into_inner(), works.most.load(Ordering::SeqCst)), (1000, 3));
}

#[test]
fn runs_start_in_the_order_of_their_arrival() {
    let (project, works) = (working_project(), Works::default());
    let engine = works.engine(&project, 1);
    works.hold();
    let mut runs: Vec<_> = (0..6).map(|n| engine.run_async(work(n))).collect();
    for run in &mut runs {
        assert!(poll(run).is_pending());
    }
    works.let_go();
    let mut left = runs.len();
    let mut is_done = vec![false; left];
    while left > 0 {
        // The last ones are asked first, which does not help them.
        for (run, is_done) in runs.iter_mut().zip(&mut is_done).rev().filter(|(_, is_done)| !**is_done) {
            if let Poll::Ready(outcome) = poll(run) {
                assert!(outcome.result.is_ok());
                (*is_done, left) = (true, left - 1);
            }
        }
    }
    assert_eq!(*works.order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_run_that_waits_can_be_cancelled_and_dropped() {
    let (project, works) = (working_project(), Works::default());
    let engine = works.engine(&project, 1);
    works.hold();
    let mut first = engine.run_async(work(0));
    assert!(poll(&mut first).is_pending());
    works.wait_for(1);
    let token = CancelToken::new();
    let (mut cancelled, mut dropped) =
        (engine.run_async(work(1).cancel(token.clone())), engine.run_async(work(2)));
    let mut last = engine.run_async(work(3));
    for run in [&mut cancelled, &mut dropped, &mut last] {
        assert!(poll(run).is_pending());
    }
    let blocked = {
        let (engine, token) = (engine.clone(), token.clone());
        thread::spawn(move || engine.run(work(4).cancel(token)))
    };
    let mut streamed = engine.run_streamed(work(5).cancel(token.clone()));
    let mut next = || Pin::new(&mut streamed).poll_next(&mut Context::from_waker(Waker::noop()));
    assert!(next().is_pending());
    token.cancel();
    assert_eq!(kind(&blocked.join().unwrap()), ErrorKind::Cancelled);
    let Poll::Ready(outcome) = poll(&mut cancelled) else { panic!("it still waits") };
    assert_eq!(kind(&outcome), ErrorKind::Cancelled);
    let events: Vec<EventKind> = std::iter::from_fn(|| match next() {
        Poll::Ready(event) => event.map(|event| event.kind),
        Poll::Pending => panic!("it still waits"),
    })
    .collect();
    assert!(matches!(&events[..], [EventKind::Started { .. }, EventKind::Finished { .. }]), "{events:?}");
    drop(dropped);
    works.let_go();
    let mut outcome = None;
    wait_until(Duration::from_secs(10), || {
        if let Poll::Ready(ended) = poll(&mut last) {
            outcome = Some(ended);
        }
        outcome.is_some()
    });
    assert_eq!(value(outcome.unwrap()), json!(3));
    assert_eq!(*works.order.lock().unwrap(), [0, 3]);
}

#[test]
fn the_deadline_of_a_run_starts_when_it_starts() {
    let (project, works) = (working_project(), Works::default());
    let engine = works.engine(&project, 1);
    works.hold();
    thread::scope(|scope| {
        let first = scope.spawn(|| engine.run(work(0)));
        works.wait_for(1);
        let second = scope.spawn(|| engine.run(work(1).limits(deadline(300))));
        thread::sleep(Duration::from_millis(500));
        works.let_go();
        assert_eq!(value(first.join().unwrap()), json!(0));
        let second = second.join().unwrap();
        assert!(second.duration < Duration::from_millis(300), "{:?}", second.duration);
        assert_eq!(value(second), json!(1));
    });
}

#[test]
fn the_skills_that_a_run_calls_do_not_wait() {
    let project = Project::lua_with_tools("skill:y skill:z", "return ctx.skill('y')")
        .skill("y", "allowed-tools: skill:z\n")
        .file(".metier/skills/y/scripts/main.lua", "return ctx.skill('z')")
        .skill("z", "")
        .file(".metier/skills/z/scripts/main.lua", "return 'deep'");
    let engine = project.builder().max_runs(0).build().unwrap();
    for _ in 0..3 {
        let run = granted(Invocation::new("x"), &["skill:y", "skill:z"]);
        assert_eq!(value(engine.run(run)), json!("deep"));
    }
}

/// Ends the test if the work does not end: a run that waits for ever has no deadline.
fn within_ten_seconds<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, done) = std::sync::mpsc::channel();
    thread::spawn(move || sender.send(work()));
    done.recv_timeout(Duration::from_secs(10)).unwrap()
}

/// What a provider of a program runs in an engine that is built around it.
#[derive(Clone, Default)]
struct Nested(Arc<std::sync::OnceLock<Engine>>);

impl Nested {
    /// Runs the skill `inner` in each way.
    fn run(&self) -> serde_json::Value {
        let Some(engine) = self.0.get() else { return json!("no engine") };
        let run = || Invocation::new("inner");
        let block_on = |mut future: RunFuture| {
            let mut outcome = None;
            wait_until(Duration::from_secs(5), || {
                if let Poll::Ready(ended) = poll(&mut future) {
                    outcome = Some(ended);
                }
                outcome.is_some()
            });
            outcome.unwrap()
        };
        json!([value(engine.run(run())), value(block_on(engine.run_async(run())))])
    }
}

impl metier::host::SkillProvider for Nested {
    fn run(
        &self,
        _: &SkillContext,
        _: &str,
        _: serde_json::Value,
    ) -> metier::error::Result<serde_json::Value> {
        Ok(Self::run(self))
    }
}

impl metier::host::Approver for Nested {
    fn approve(
        &self,
        _: &SkillContext,
        _: &metier::host::ApprovalRequest,
    ) -> metier::error::Result<metier::policy::Approval> {
        Ok((Self::run(self) == json!(["inner", "inner"])).into())
    }
}

impl metier::host::FileProvider for Nested {
    fn unsaved(&self, _: &SkillContext, _: &str) -> metier::error::Result<Option<Vec<u8>>> {
        Ok(Some(Self::run(self).to_string().into_bytes()))
    }

    fn unsaved_paths(&self, _: &SkillContext) -> metier::error::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

impl SkillExecutor for Nested {
    fn execute_with_context(
        &self,
        _: SkillInput,
        _: Option<&SkillContext>,
    ) -> metier::error::Result<SkillOutput> {
        Ok(SkillOutput::from(Self::run(self)))
    }
}

#[test]
fn what_the_program_runs_for_a_run_takes_no_place() {
    let asks = "allowed-tools: tool:nest skill:other write\n";
    let scripts = [
        ("tool", "return ctx.tool('nest', {})"),
        ("skill", "return ctx.skill('other')"),
        ("file", "return ctx.read_file('a.txt')"),
        ("approver", "return (pcall(ctx.write, 'b.txt', ''))"),
        ("observer", "return 1"),
        ("inner", "return 'inner'"),
    ];
    let project = scripts.iter().fold(Project::new().file("a.txt", ""), |project, (name, script)| {
        project.skill(name, asks).file(&format!(".metier/skills/{name}/scripts/main.lua"), script)
    });
    let project = project
        .skill("plan", "metadata:\n  runtime: tool-sequence\n")
        .file(".metier/skills/plan/scripts/sequence.json", r#"[{"skill": "other"}]"#)
        .skill("executor", "")
        .file(".metier/skills/executor/scripts/main.nest", "");
    let nested = Nested::default();
    let tools = {
        let nested = nested.clone();
        ClosureTools::new().tool("nest", "Runs a skill", json!({}), move |_, _| Ok(nested.run()))
    };
    let executor = nested.clone();
    let engine = project
        .builder()
        .providers(metier::host::Providers::default().skills(nested.clone()))
        .max_runs(1)
        .tools(tools)
        .files(nested.clone())
        .approver(nested.clone())
        .runtime("nest", &["nest"], move |_| Ok(Box::new(executor.clone())))
        .build()
        .unwrap();
    assert!(nested.0.set(engine.clone()).is_ok());
    let both = json!(["inner", "inner"]);
    for (name, expected) in [
        ("tool", both.clone()),
        ("skill", both.clone()),
        ("plan", both.clone()),
        ("executor", both.clone()),
        ("file", json!(both.to_string())),
        ("approver", json!(true)),
    ] {
        let engine = engine.clone();
        let outcome = within_ten_seconds(move || {
            engine.run(granted(Invocation::new(name), &["tool:nest", "skill:other"]))
        });
        assert_eq!(value(outcome), expected, "{name}");
    }
    let seen = Arc::new(Mutex::new(Vec::new()));
    let observe = {
        let (nested, seen) = (nested.clone(), seen.clone());
        move |_: &metier::host::Event| {
            let ran = nested.run();
            seen.lock().unwrap().push(ran);
        }
    };
    let run = Invocation::new("observer").observer(Arc::new(observe));
    let outer = engine.clone();
    assert_eq!(value(within_ten_seconds(move || outer.run(run))), json!(1));
    let seen = seen.lock().unwrap();
    assert!(seen.len() >= 2 && seen.iter().all(|ran| *ran == both), "{seen:?}");
    // The bound itself is kept, and no thread stays marked.
    drop(seen);
    assert_eq!(value(within_ten_seconds(move || engine.run(Invocation::new("inner")))), json!("inner"));
}

#[test]
fn a_run_that_panics_or_is_dropped_gives_its_place_away() {
    let project = Project::lua("return 1").skill("p", "").file(".metier/skills/p/scripts/main.boom", "");
    let builder =
        project.builder().max_runs(1).runtime("boom", &["boom"], |_| Ok(Box::new(PanickingExecutor)));
    let engine = builder.build().unwrap();
    for _ in 0..3 {
        assert!(engine.run(Invocation::new("p")).result.is_err());
        let mut dropped = engine.run_async(Invocation::new("x"));
        let _ = poll(&mut dropped);
        drop(dropped);
        assert_eq!(value(engine.run(Invocation::new("x"))), json!(1));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn an_engine_is_built_explained_and_diagnosed_without_blocking() {
    let project = Project::lua_with_tools("write", "return 1");
    let engine = project.builder().build_async().await.unwrap();
    let explained = engine.explain_async(granted(Invocation::new("x"), &["write"])).await.unwrap();
    assert_eq!(explained.permissions, [Permission::READ, Permission::WRITE]);
    let unknown = engine.explain_async(Invocation::new("none")).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::UnknownSkill);
    let cancelled = CancelToken::new();
    cancelled.cancel();
    let explained = engine.explain_async(Invocation::new("x").cancel(cancelled)).await;
    assert_eq!(explained.unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(engine.diagnosis_async().await.unwrap().project, engine.project());
    let missing = Engine::builder(project.path("none")).build_async().await;
    assert_eq!(missing.map(drop).unwrap_err().kind(), ErrorKind::Io);
}
