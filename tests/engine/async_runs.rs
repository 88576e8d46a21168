//! Blocking runs, which need no async runtime, and futures that any async runtime polls.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use metier::engine::{Engine, EngineBuilder, Invocation, Outcome, RunFuture};
use metier::error::{ErrorKind, Result};
use metier::executor::{RuntimeId, SkillExecutor, SkillInput, SkillOutput};
use metier::host::SkillContext;
use metier::policy::CancelToken;
use metier::registry::Registry;
use serde_json::json;

use crate::support::engine::{ENDLESS, Project, deadline, granted, kind, value, wait_until};

/// An executor without a runtime: it sleeps until it is woken.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Starts a run, and answers with its future while it is under way.
fn start_run(run: RunFuture) -> std::pin::Pin<Box<RunFuture>> {
    let mut run = Box::pin(run);
    assert!(run.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    run
}

/// How many processes work in a folder. One that has stopped works nowhere; in a sandbox a process has another number than here.
fn count_processes_in(folder: &std::path::Path) -> usize {
    let folder = std::fs::canonicalize(folder).unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let works = |process: &std::fs::DirEntry| {
        std::fs::read_link(process.path().join("cwd")).is_ok_and(|at| at == folder)
    };
    processes.filter(works).count()
}

#[test]
fn everything_crosses_threads() {
    fn crosses<T: Send + Sync>() {}
    fn moves<T: Send>() {}
    crosses::<Engine>();
    crosses::<Registry>();
    crosses::<Outcome>();
    crosses::<CancelToken>();
    crosses::<SkillContext>();
    crosses::<Box<dyn SkillExecutor>>();
    moves::<RunFuture>();
    moves::<Invocation>();
    moves::<EngineBuilder>();
}

#[test]
fn a_blocking_run_needs_no_runtime() {
    let project = Project::lua("return input.a + 1");
    let invocation = Invocation::new("x").input(json!({"a": 1}));
    assert_eq!(value(project.engine().run(invocation)), json!(2));
}

#[test]
fn the_future_needs_no_runtime_either() {
    let project = Project::lua("return 'done'");
    assert_eq!(value(block_on(project.engine().run_async(Invocation::new("x")))), json!("done"));
}

#[tokio::test(flavor = "current_thread")]
async fn fifty_runs_at_once_share_one_thread_of_tokio() {
    let project = Project::lua("local n = 0 for i = 1, 20000 do n = n + i end return input.n");
    let engine = project.engine();
    let runs: Vec<_> = (0..50)
        .map(|n| tokio::spawn(engine.run_async(Invocation::new("x").input(json!({"n": n})))))
        .collect();
    for (n, run) in runs.into_iter().enumerate() {
        assert_eq!(value(run.await.unwrap()), json!(n));
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_timeout_around_the_future_is_in_time_while_the_script_spins() {
    let project = Project::lua(ENDLESS);
    let engine = project.engine();
    let begun = Instant::now();
    let waited =
        tokio::time::timeout(Duration::from_millis(50), engine.run_async(Invocation::new("x"))).await;
    assert!(waited.is_err() && begun.elapsed() < Duration::from_secs(2));
}

#[test]
fn nothing_runs_before_the_first_poll() {
    let project = Project::lua_with_tools("write", "ctx.write('ran', '') return 1");
    drop(project.engine().run_async(granted(Invocation::new("x"), &["write"])));
    std::thread::sleep(Duration::from_millis(50));
    assert!(!project.path("ran").exists());
}

#[test]
fn a_waker_may_poll_at_once_on_the_thread_that_wakes_it() {
    /// Polls where it is woken, as some executors do.
    struct PollsInPlace(
        std::sync::Mutex<Option<std::pin::Pin<Box<RunFuture>>>>,
        std::sync::mpsc::Sender<Outcome>,
    );
    impl Wake for PollsInPlace {
        fn wake(self: Arc<Self>) {
            let waker = Waker::from(self.clone());
            let mut run = self.0.lock().unwrap();
            let polled = run.as_mut().unwrap().as_mut().poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(outcome) = polled {
                self.1.send(outcome).unwrap();
                drop(run.take());
            }
        }
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let project = Project::lua("return 7");
    let run = project.engine().run_async(Invocation::new("x"));
    Arc::new(PollsInPlace(std::sync::Mutex::new(Some(Box::pin(run))), sender)).wake();
    assert_eq!(value(receiver.recv_timeout(Duration::from_secs(10)).unwrap()), json!(7));
}

#[test]
fn dropping_the_future_kills_the_process() {
    let project = Project::shell("", "sleep 600 & echo > begun\nwait\n");
    let run = start_run(project.engine().run_async(granted(Invocation::new("x"), &["write"])));
    project.wait_for_file("begun");
    let folder = project.path("begun").parent().unwrap().to_owned();
    wait_until(Duration::from_secs(5), || count_processes_in(&folder) == 2);
    drop(run);
    wait_until(Duration::from_secs(5), || count_processes_in(&folder) == 0);
}

#[test]
fn dropping_the_future_ends_the_loop_in_the_script() {
    let script = "local n = 0 while true do n = n + 1 ctx.write('beat', tostring(n)) end";
    let project = Project::lua_with_tools("write", script);
    let run = start_run(project.engine().run_async(granted(Invocation::new("x"), &["write"])));
    project.wait_for_file("beat");
    drop(run);
    let mut last = String::new();
    wait_until(Duration::from_secs(5), || {
        let before = std::mem::replace(&mut last, std::fs::read_to_string(project.path("beat")).unwrap());
        std::thread::sleep(Duration::from_millis(100));
        before == last
    });
}

#[test]
fn the_callers_token_cancels_before_during_and_twice() {
    let project = Project::lua(ENDLESS);
    let engine = project.engine();
    let (early, late) = (CancelToken::new(), CancelToken::new());
    early.cancel();
    assert_eq!(kind(&engine.run(Invocation::new("x").cancel(early))), ErrorKind::Cancelled);
    let canceller = late.clone();
    let second = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        canceller.cancel();
        canceller.cancel();
    });
    let outcome = engine.run(Invocation::new("x").cancel(late.clone()));
    second.join().unwrap();
    late.cancel();
    assert_eq!(kind(&outcome), ErrorKind::Cancelled);
    assert_eq!((outcome.limits.hit, outcome.exit_code()), (None, 130));
    assert_eq!(kind(&engine.run(Invocation::new("x").cancel(late))), ErrorKind::Cancelled, "it stays so");
}

#[test]
fn a_run_that_is_cancelled_before_it_starts_touches_nothing() {
    for project in
        [Project::lua_with_tools("write", "ctx.write('ran', '') return 1"), Project::shell("", "touch ran\n")]
    {
        let token = CancelToken::new();
        token.cancel();
        let invocation = granted(Invocation::new("x").cancel(token), &["write", "exec"]);
        assert_eq!(kind(&project.engine().run(invocation)), ErrorKind::Cancelled);
        assert!(!project.path("ran").exists());
    }
}

#[test]
fn one_token_stops_every_run_under_it_and_no_other() {
    let project = Project::lua(ENDLESS);
    let engine = project.engine();
    let (token, bystander) = (CancelToken::new(), CancelToken::new());
    let run = |token: &CancelToken, limits| {
        start_run(engine.run_async(Invocation::new("x").cancel(token.clone()).limits(limits)))
    };
    let stopped: Vec<_> = (0..8).map(|_| run(&token, deadline(30_000))).collect();
    let other = run(&bystander, deadline(1000));
    token.cancel();
    for run in stopped {
        assert_eq!(kind(&block_on(run)), ErrorKind::Cancelled);
    }
    assert_eq!(kind(&block_on(other)), ErrorKind::Timeout);
    assert!(!bystander.is_cancelled(), "a deadline is the run's own");
}

#[test]
fn an_engine_may_be_dropped_while_its_run_is_under_way() {
    let project = Project::shell("", "touch started\nwhile [ ! -e go ]; do sleep 0.01; done\necho 5\n");
    let engine = project.engine();
    let run = start_run(engine.run_async(granted(Invocation::new("x"), &["write"])));
    project.wait_for_file("started");
    drop(engine);
    crate::support::engine::write(&project.path("go"), "");
    assert_eq!(value(block_on(run)), json!(5));
}

#[test]
fn two_engines_share_nothing() {
    let script = "counter = (counter or 0) + 1 return counter";
    let (one, two) = (Project::lua(script), Project::lua(script));
    let (first, second) = (one.engine(), two.engine());
    for engine in [&first, &second, &first, &second] {
        assert_eq!(value(engine.run(Invocation::new("x"))), json!(1), "nor do two runs");
    }
    assert_ne!(first.project(), second.project());
}

#[test]
fn a_loader_is_asked_once_however_many_runs_start_together() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let loads = Arc::new(AtomicUsize::new(0));
    let counter = loads.clone();
    let project = Project::lua("return 1");
    // No run ends before all have started: each is under way when it is asked.
    let (all_started, waiting) = std::sync::mpsc::channel::<()>();
    let waiting = std::sync::Mutex::new(waiting);
    let builder = project.builder().runtime(RuntimeId::LUA, &[], move |script| {
        counter.fetch_add(1, Ordering::SeqCst);
        waiting.lock().unwrap().recv().unwrap_err();
        metier::ScriptLoader::new().load(RuntimeId::LUA, script)
    });
    let engine = builder.build().unwrap();
    let runs: Vec<_> = (0..50).map(|_| start_run(engine.run_async(Invocation::new("x")))).collect();
    drop(all_started);
    for run in runs {
        assert_eq!(value(block_on(run)), json!(1));
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

#[test]
fn the_machine_is_reported_as_the_doctor_tells_it() {
    let engine = Engine::builder(tempfile::tempdir().unwrap().path()).build().unwrap();
    let machine = engine.sandbox_support();
    assert_eq!(machine, engine.diagnosis().sandbox);
    assert_eq!(machine.reason.is_none(), machine.tree_kill.is_some(), "{machine:?}");
}

#[test]
fn what_an_own_loader_runs_is_available_whatever_the_machine_lacks() {
    struct Answers;
    impl SkillExecutor for Answers {
        fn execute_with_context(&self, _: SkillInput, _: Option<&SkillContext>) -> Result<SkillOutput> {
            Ok(json!(1).into())
        }
    }
    let project = Project::new().skill("x", "").file(".metier/skills/x/scripts/main.fish", "");
    let availability = |engine: EngineBuilder| {
        let engine = engine.build().unwrap();
        let ran = engine.run(Invocation::new("x")).result.is_ok();
        (engine.availability(engine.registry().find("x").unwrap()).is_runnable(), ran)
    };
    let own = project.builder().runtime(RuntimeId::EXTERNAL, &[], |_| Ok(Box::new(Answers)));
    assert_eq!(availability(own), (true, true));
    let (is_available, ran) = availability(project.builder());
    assert_eq!(is_available, ran, "fish may be installed");
}

#[cfg(all(feature = "sandboxed", target_os = "linux"))]
#[test]
fn a_program_that_forgot_its_first_line_is_reported_by_doctor() {
    let project = Project::new();
    let helps = |engine: EngineBuilder| {
        let findings = engine.build().unwrap().diagnosis().findings;
        findings.iter().filter(|finding| finding.help.contains("helper_main()")).count()
    };
    assert_eq!((helps(project.builder()), helps(project.builder().helper("/bin/true"))), (1, 0));
}
