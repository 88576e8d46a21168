//! Asynchronous providers, and that none can hold a run beyond its end: not by blocking, waiting, panicking or calling back.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier::engine::{Engine, Invocation};
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{
    Async, AsyncConfigProvider, AsyncHttpClient, AsyncSamplingProvider, AsyncSecretProvider,
    AsyncStoreProvider, AsyncToolProvider, ClosureTools, ConfigProvider, HttpClient, HttpRequest,
    HttpResponse, SampleRequest, SampleResponse, SamplingProvider, SecretProvider, SkillContext, Tool,
    ToolProvider,
};
use metier::policy::{CancelToken, StopCause};
use metier::state::StateStore;
use serde_json::{Map, Value, json};
use tokio::runtime::Handle;

use crate::support::engine::{Project, deadline, granted, kind, sentence, value, wait_until};

const ASKS: &str = "tool:t sample secret:K net:example.com";
const GRANTS: [&str; 4] = ["tool:t", "sample", "secret:K", "net:example.com"];

/// What each provider is called with.
const CALLS: [&str; 5] = [
    "ctx.tool('t', {})",
    "ctx.sample(nil, 'hello')",
    "ctx.config('mode')",
    "ctx.secret('K')",
    "ctx.http('http://example.com/')",
];

/// Each answer is made by a task of the program's own runtime, after a timer of it.
#[derive(Clone)]
struct OnRuntime(Handle);

impl OnRuntime {
    async fn later<T: Send + 'static>(&self, value: T) -> Result<T> {
        let task = self.0.spawn(async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            value
        });
        task.await.map_err(|error| SkillError::new(ErrorKind::Unavailable, error.to_string()))
    }
}

fn tool() -> Vec<Tool> {
    vec![Tool::new("t", "d", json!({}))]
}

fn response() -> HttpResponse {
    HttpResponse::new(200, "http://example.com/", "body")
}

impl AsyncToolProvider for OnRuntime {
    fn tools(&self) -> Vec<Tool> {
        tool()
    }
    async fn call(&self, _: &SkillContext, name: &str, _: &Value) -> Result<Value> {
        self.later(json!(format!("{name} answers"))).await
    }
}

impl AsyncSamplingProvider for OnRuntime {
    async fn sample(&self, _: &SkillContext, request: &SampleRequest) -> Result<SampleResponse> {
        self.later(format!("{} back", request.prompt()).into()).await
    }
}

impl AsyncConfigProvider for OnRuntime {
    async fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        self.later(Map::from_iter([("mode".to_owned(), json!("dark"))])).await
    }
}

impl AsyncSecretProvider for OnRuntime {
    async fn secret(&self, _: &SkillContext, name: &str) -> Result<Option<String>> {
        self.later(Some(format!("secret of {name}"))).await
    }
}

impl AsyncHttpClient for OnRuntime {
    async fn send(&self, _: &SkillContext, _: HttpRequest) -> Result<HttpResponse> {
        self.later(response()).await
    }
}

impl AsyncStoreProvider for OnRuntime {
    async fn get(&self, _: &SkillContext, shared: Option<&str>, key: &str) -> Result<Option<Value>> {
        self.later(Some(json!([shared, key]))).await
    }
    async fn set(&self, _: &SkillContext, _: Option<&str>, _: &str, _: &Value) -> Result<()> {
        self.later(()).await
    }
    async fn keys(&self, _: &SkillContext, _: Option<&str>, prefix: &str) -> Result<Vec<String>> {
        self.later(vec![format!("{prefix}2"), format!("{prefix}1")]).await
    }
    async fn delete(&self, _: &SkillContext, _: Option<&str>, _: &str) -> Result<bool> {
        self.later(true).await
    }
}

#[test]
fn a_store_may_be_asynchronous_and_replaces_the_folder_for_state() {
    let script = "return {ctx.store_get('a', 'team'), ctx.store_set('a', 1), ctx.store_list('x'), ctx.store_delete('a')}";
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let project = Project::lua_with_tools("state store:team", script);
    let engine =
        project.builder().state(StateStore::new(&state)).store(Async(OnRuntime(runtime.handle().clone())));
    let outcome = engine.build().unwrap().run(granted(Invocation::new("x"), &["state", "store:team"]));
    assert_eq!(value(outcome), json!([["team", "a"], null, ["x1", "x2"], true]));
    assert!(!state.exists());
}

fn calling(call: &str) -> Project {
    Project::lua_with_tools(ASKS, &format!("return {call}"))
}

#[test]
fn every_provider_may_be_asynchronous_on_a_runtime_of_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let own = OnRuntime(runtime.handle().clone());
    let script = format!("{{{}, {}, {}, #{}, {}.status}}", CALLS[0], CALLS[1], CALLS[2], CALLS[3], CALLS[4]);
    let project = calling(&script);
    let builder = project.builder().tools(Async(own.clone())).sampling(Async(own.clone()));
    let builder = builder.config(Async(own.clone())).secrets(Async(own.clone())).http(Async(own));
    let engine = builder.build().unwrap();
    let outcome = runtime.block_on(engine.run_async(granted(Invocation::new("x"), &GRANTS)));
    assert_eq!(value(outcome), json!(["t answers", "hello back", "dark", 11, 200]));
}

/// A provider that does not come back.
#[derive(Clone)]
struct Stuck {
    how: How,
    /// How many calls were begun, and whether the future of one was dropped.
    begun: Arc<AtomicUsize>,
    dropped: Arc<AtomicBool>,
    /// Ends those that block, when the test is over.
    release: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Pending,
    Blocking,
    Panicking,
}

impl Stuck {
    fn new(how: How) -> Self {
        Self { how, begun: Arc::default(), dropped: Arc::default(), release: Arc::default() }
    }

    fn block<T>(&self) -> Result<T> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        assert!(self.how != How::Panicking, "on purpose");
        while !self.release.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(SkillError::new(ErrorKind::Unavailable, "released"))
    }

    async fn wait<T>(&self) -> Result<T> {
        struct SetOnDrop(Arc<AtomicBool>);
        impl Drop for SetOnDrop {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let _dropped = SetOnDrop(self.dropped.clone());
        self.begun.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }

    fn engine(&self, project: &Project) -> Engine {
        let (builder, own) = (project.builder(), self.clone());
        let builder = if self.how == How::Pending {
            let builder = builder.tools(Async(own.clone())).sampling(Async(own.clone()));
            builder.config(Async(own.clone())).secrets(Async(own.clone())).http(Async(own))
        } else {
            let builder = builder.tools(own.clone()).sampling(own.clone());
            builder.config(own.clone()).secrets(own.clone()).http(own)
        };
        builder.build().unwrap()
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        if Arc::strong_count(&self.begun) <= 2 {
            self.release.store(true, Ordering::SeqCst);
        }
    }
}

impl ToolProvider for Stuck {
    fn tools(&self) -> Vec<Tool> {
        tool()
    }
    fn call(&self, _: &SkillContext, _: &str, _: &Value) -> Result<Value> {
        self.block()
    }
}

impl SamplingProvider for Stuck {
    fn sample(&self, _: &SkillContext, _: &SampleRequest) -> Result<SampleResponse> {
        self.block()
    }
}

impl ConfigProvider for Stuck {
    fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        self.block()
    }
}

impl SecretProvider for Stuck {
    fn secret(&self, _: &SkillContext, _: &str) -> Result<Option<String>> {
        self.block()
    }
}

impl HttpClient for Stuck {
    fn send(&self, _: &SkillContext, _: HttpRequest) -> Result<HttpResponse> {
        self.block()
    }
}

impl AsyncToolProvider for Stuck {
    fn tools(&self) -> Vec<Tool> {
        tool()
    }
    async fn call(&self, _: &SkillContext, _: &str, _: &Value) -> Result<Value> {
        self.wait().await
    }
}

impl AsyncSamplingProvider for Stuck {
    async fn sample(&self, _: &SkillContext, _: &SampleRequest) -> Result<SampleResponse> {
        self.wait().await
    }
}

impl AsyncConfigProvider for Stuck {
    async fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
        self.wait().await
    }
}

impl AsyncSecretProvider for Stuck {
    async fn secret(&self, _: &SkillContext, _: &str) -> Result<Option<String>> {
        self.wait().await
    }
}

impl AsyncHttpClient for Stuck {
    async fn send(&self, _: &SkillContext, _: HttpRequest) -> Result<HttpResponse> {
        self.wait().await
    }
}

#[test]
fn no_provider_holds_a_run_beyond_its_deadline_and_its_future_is_dropped() {
    for how in [How::Pending, How::Blocking] {
        for call in CALLS {
            let (stuck, project) = (Stuck::new(how), calling(call));
            let engine = stuck.engine(&project);
            let outcome = engine.run(granted(Invocation::new("x").limits(deadline(150)), &GRANTS));
            assert_eq!(kind(&outcome), ErrorKind::Timeout, "{how:?} {call}");
            assert!(outcome.duration < Duration::from_secs(5), "{how:?} {call}: {:?}", outcome.duration);
            assert_eq!(stuck.begun.load(Ordering::SeqCst), 1, "{how:?} {call}");
            if how == How::Pending {
                wait_until(Duration::from_secs(5), || stuck.dropped.load(Ordering::SeqCst));
            }
            stuck.release.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_run_that_is_cancelled_leaves_its_provider_at_once() {
    for how in [How::Pending, How::Blocking] {
        let (stuck, project, token) = (Stuck::new(how), calling(CALLS[0]), CancelToken::new());
        let engine = stuck.engine(&project);
        std::thread::scope(|scope| {
            let run =
                scope.spawn(|| engine.run(granted(Invocation::new("x").cancel(token.clone()), &GRANTS)));
            wait_until(Duration::from_secs(10), || stuck.begun.load(Ordering::SeqCst) == 1);
            let cancelled = Instant::now();
            token.cancel();
            assert_eq!(kind(&run.join().unwrap()), ErrorKind::Cancelled);
            assert!(cancelled.elapsed() < Duration::from_secs(5), "{how:?}");
        });
        stuck.release.store(true, Ordering::SeqCst);
    }
}

#[test]
fn a_provider_that_panics_fails_its_call_and_the_next_run_is_well() {
    for call in CALLS {
        let (stuck, project) =
            (Stuck::new(How::Panicking), calling(&format!("(pcall(function() {call} end))")));
        let engine = stuck.engine(&project);
        for _ in 0..2 {
            assert_eq!(value(engine.run(granted(Invocation::new("x"), &GRANTS))), json!(false), "{call}");
        }
        assert_eq!(stuck.begun.load(Ordering::SeqCst), 2, "{call}");
    }
}

#[test]
fn a_tool_may_call_back_into_the_engine_and_its_own_context() {
    let engine: Arc<Mutex<Option<Engine>>> = Arc::default();
    let own = engine.clone();
    let tools = ClosureTools::new().tool("t", "d", json!({}), move |ctx, _| {
        let engine = own.lock().unwrap().clone().unwrap();
        let nested = engine.run(Invocation::new("y")).result?;
        Ok(json!([
            nested,
            ctx.call("read_file", vec!["a.txt".into()])?,
            ctx.call("config", vec!["mode".into()])?
        ]))
    });
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let settings = Async(OnRuntime(runtime.handle().clone()));
    let project = calling(CALLS[0])
        .file("a.txt", "text")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return ctx.config('mode')");
    let built = project.builder().tools(tools).config(settings).build().unwrap();
    *engine.lock().unwrap() = Some(built.clone());
    assert_eq!(value(built.run(granted(Invocation::new("x"), &GRANTS))), json!(["dark", "text", "dark"]));
    *engine.lock().unwrap() = None;
}

#[test]
fn a_hundred_runs_with_stuck_providers_end_at_their_deadlines() {
    let (stuck, project) = (Stuck::new(How::Blocking), calling(CALLS[0]));
    let (engine, started) = (stuck.engine(&project), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let invocation = granted(Invocation::new("x").limits(deadline(300)), &GRANTS);
                let outcome = engine.run(invocation);
                assert_eq!(kind(&outcome), ErrorKind::Timeout, "{}", sentence(&outcome));
            });
        }
    });
    assert!(started.elapsed() < Duration::from_secs(20));
    stuck.release.store(true, Ordering::SeqCst);
}

#[test]
fn a_plan_cannot_begin_calls_without_end_that_nobody_waits_for() {
    let stuck = Stuck::new(How::Blocking);
    let step = json!({"id": "s", "tool": "t", "for_each": {"in": "$inputs.l", "max": 1000}, "timeout": "1ms",
        "on_failure": "continue"});
    let project = Project::new()
        .skill("x", &format!("allowed-tools: {ASKS}\n"))
        .file(".metier/skills/x/scripts/sequence.json", json!([step]).to_string());
    let items: Vec<u32> = (0..400).collect();
    let invocation = granted(Invocation::new("x").input(json!({"l": items})), &GRANTS);
    let outcome = stuck.engine(&project).run(invocation);
    assert_eq!(value(outcome), json!(vec![Value::Null; 400]));
    let begun = stuck.begun.load(Ordering::SeqCst);
    assert!((100..=128).contains(&begun), "{begun}");
    stuck.release.store(true, Ordering::SeqCst);
}

#[test]
fn a_program_can_await_the_stop_of_a_run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let token = CancelToken::new();
        let child = token.child();
        let waits = tokio::spawn(async move { child.cancelled().await });
        let unused = token.cancelled();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!waits.is_finished());
        token.cancel();
        assert_eq!(waits.await.unwrap(), StopCause::Cancelled);
        assert_eq!(unused.await, StopCause::Cancelled, "one that is polled late is ready");
    });
}
