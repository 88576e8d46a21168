//! What an embedder hands in, as scripts meet it: tools, a model, settings, secrets.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier::engine::{Engine, EngineBuilder, Invocation, Outcome};
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{
    ClosureTools, ConfigProvider, Fixtures, SampleMessage, SampleRequest, SampleResponse, SampleRole,
    SamplingProvider, SecretProvider, SkillContext, StoreProvider, Tool, ToolProvider,
};
use metier::policy::CancelToken;
use serde_json::{Map, Value, json};

use crate::support::engine::{Project, deadline, granted, kind, sentence, value};

/// Runs `x`, which asks for these permissions and is granted them all.
fn run(asks: &str, script: &str, provide: impl FnOnce(EngineBuilder) -> EngineBuilder) -> Outcome {
    let project = Project::lua_with_tools(asks, script);
    let engine = provide(project.builder()).build().unwrap();
    let grants: Vec<&str> = asks.split_whitespace().collect();
    engine.run(granted(Invocation::new("x"), &grants))
}

fn failing(kind: ErrorKind) -> ClosureTools {
    ClosureTools::new().tool("fails", "Fails", json!({}), move |_, _| {
        Err(SkillError::new(kind, "it rained").with_help("wait for sun"))
    })
}

#[test]
fn a_closure_is_a_tool() {
    let tools = ClosureTools::new().tool("add", "Adds two numbers", json!({}), |ctx, args| {
        assert_eq!(ctx.skill(), "x");
        Ok(json!({"sum": args["a"].as_i64().unwrap() + args["b"].as_i64().unwrap(), "args": args}))
    });
    let outcome = run("tool:add", "return ctx.tool('add', {a = 1, b = 2})", |engine| engine.tools(tools));
    assert_eq!(value(outcome), json!({"sum": 3, "args": {"a": 1, "b": 2}}));
}

#[test]
fn a_tool_that_fails_is_an_error_of_kind_tool_that_a_script_can_handle() {
    let outcome = run("tool:fails", "ctx.tool('fails')", |engine| engine.tools(failing(ErrorKind::Io)));
    assert_eq!(
        (kind(&outcome), sentence(&outcome).as_str()),
        (ErrorKind::Tool, "tool fails failed: it rained")
    );
    let error = outcome.result.unwrap_err();
    assert_eq!((error.help(), error.location().unwrap().line), (Some("wait for sun"), Some(1)));
    let handled = "local ok, e = pcall(ctx.tool, 'fails') return {e.kind, e.help}";
    let outcome = run("tool:fails", handled, |engine| engine.tools(failing(ErrorKind::Denied)));
    assert_eq!(value(outcome), json!(["tool", "wait for sun"]));
}

#[test]
fn what_stopped_a_tool_stays_what_it_is() {
    for stopped in [ErrorKind::Timeout, ErrorKind::Cancelled, ErrorKind::Memory, ErrorKind::Output] {
        let outcome = run("tool:fails", "ctx.tool('fails')", |engine| engine.tools(failing(stopped)));
        assert_eq!(kind(&outcome), stopped);
    }
}

#[test]
fn a_tool_hears_of_the_deadline() {
    let waits = ClosureTools::new().tool("wait", "Waits", json!({}), |ctx, _| {
        while ctx.cancel().check().is_ok() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(SkillError::new(ErrorKind::Io, "connection lost"))
    });
    let project = Project::lua_with_tools("tool:wait", "ctx.tool('wait')");
    let engine = project.builder().tools(waits).build().unwrap();
    let begun = Instant::now();
    let outcome = engine.run(granted(Invocation::new("x"), &["tool:wait"]).limits(deadline(100)));
    assert_eq!(kind(&outcome), ErrorKind::Timeout);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[test]
fn an_unknown_tool_is_reported_with_the_nearest_name() {
    let tools = || ClosureTools::new().tool("search", "Searches", json!({}), |_, _| Ok(Value::Null));
    let outcome = run("tool:serach", "ctx.tool('serach')", |engine| engine.tools(tools()));
    assert_eq!(kind(&outcome), ErrorKind::Tool);
    assert_eq!(outcome.result.unwrap_err().help(), Some("did you mean `search`?"));
}

#[test]
fn a_permission_for_one_tool_is_none_for_another() {
    let called = Arc::new(AtomicUsize::new(0));
    let count = called.clone();
    let body = move |_: &SkillContext, _: &Value| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(Value::Null)
    };
    let tools =
        ClosureTools::new().tool("search", "d", json!({}), body.clone()).tool("Search", "d", json!({}), body);
    let project = Project::lua_with_tools("tool:search tool:sear", "return ctx.tool(input.name)");
    let engine = project.builder().tools(tools).build().unwrap();
    for (name, grants, may) in [
        ("search", &["tool:search"][..], true),
        ("search", &["tool:sear", "tool:*", "tool:Search"], false),
        ("Search", &["tool:search", "tool:Search"], false),
        ("search ", &["tool:search"], false),
    ] {
        let invocation = Invocation::new("x").input(json!({"name": name}));
        let outcome = engine.run(granted(invocation, grants));
        assert_eq!(outcome.result.is_ok(), may, "{name:?} {grants:?}: {:?}", outcome.result);
        assert!(may || kind(&outcome) == ErrorKind::Denied);
    }
    assert_eq!(called.load(Ordering::SeqCst), 1);
}

#[test]
fn hostile_names_reach_nobody() {
    struct Nobody;
    impl ToolProvider for Nobody {
        fn tools(&self) -> Vec<Tool> {
            panic!("asked for a tool");
        }
        fn call(&self, _: &SkillContext, _: &str, _: &Value) -> Result<Value> {
            panic!("asked for a tool");
        }
    }
    impl SecretProvider for Nobody {
        fn secret(&self, _: &SkillContext, _: &str) -> Result<Option<String>> {
            panic!("asked for a secret");
        }
    }
    for call in ["tool", "skill", "secret"] {
        for (name, expected) in [
            ("('x'):rep(1000000)", ErrorKind::InvalidArgument),
            ("'a\\27[2J'", ErrorKind::InvalidArgument),
            ("'a\\0b'", ErrorKind::InvalidArgument),
            ("''", ErrorKind::InvalidArgument),
            ("'../x'", ErrorKind::Denied),
            ("'/etc/passwd'", ErrorKind::Denied),
        ] {
            let script = format!("return ctx.{call}({name})");
            let outcome = run("sample", &script, |engine| engine.tools(Nobody).secrets(Nobody));
            assert_eq!(kind(&outcome), expected, "{script}");
            assert!(sentence(&outcome).len() < 400, "{script}: {}", sentence(&outcome).len());
        }
    }
    let outcome = run("skill:../x", "return ctx.skill('../x')", |engine| engine);
    assert_eq!(kind(&outcome), ErrorKind::UnknownSkill);
}

#[test]
fn a_model_is_asked_in_the_order_of_the_context_api() {
    struct Model(Arc<Mutex<Vec<SampleRequest>>>);
    impl SamplingProvider for Model {
        fn sample(&self, _: &SkillContext, request: &SampleRequest) -> Result<SampleResponse> {
            self.0.lock().unwrap().push(request.clone());
            Ok(request.prompt().to_uppercase().into())
        }
    }
    let script = "return {ctx.sample('be brief', 'hi', 5), ctx.sample(nil, 'ho'), ctx.sample('', 'he', 0)}";
    let asked = Arc::default();
    let outcome = run("sample", script, |engine| engine.sampling(Model(Arc::clone(&asked))));
    assert_eq!(value(outcome), json!(["HI", "HO", "HE"]));
    let asked = asked.lock().unwrap();
    let expected = [(Some("be brief"), "hi", Some(5)), (None, "ho", None), (None, "he", None)];
    for (request, (system, prompt, max_tokens)) in asked.iter().zip(expected) {
        let mut plain = SampleRequest::default();
        plain.messages = vec![SampleMessage::new(SampleRole::User, prompt)];
        plain.system = system.map(str::to_owned);
        plain.max_tokens = max_tokens;
        assert_eq!(*request, plain);
    }
    assert_eq!(asked.len(), 3);
}

#[test]
fn settings_are_those_of_the_skill() {
    struct Settings;
    impl ConfigProvider for Settings {
        fn config(&self, ctx: &SkillContext) -> Result<Map<String, Value>> {
            Ok(Map::from_iter([("whose".to_owned(), ctx.skill().into()), ("list".to_owned(), json!([]))]))
        }
    }
    let script = "return {ctx.config(), ctx.config('whose'), ctx.config('other'), ctx.config('list')}";
    let outcome = run("read", script, |engine| engine.config(Settings));
    assert_eq!(value(outcome), json!([{"whose": "x", "list": []}, "x", null, []]));
    let outcome = run("read", "return {ctx.config(), ctx.config('k')}", |engine| engine);
    assert_eq!(value(outcome), json!([{}, null]));
}

#[test]
fn a_secret_that_is_not_set_or_blank_is_unavailable() {
    let canned = Fixtures::new(r#"{"secrets": {"EMPTY": "", "BLANK": " \n"}}"#).unwrap();
    for (name, words) in [("NONE", "is not set"), ("EMPTY", "is blank"), ("BLANK", "is blank")] {
        let asks = format!("secret:{name}");
        let outcome =
            run(&asks, &format!("return ctx.secret('{name}')"), |engine| engine.secrets(canned.clone()));
        assert_eq!(kind(&outcome), ErrorKind::Unavailable);
        assert_eq!(sentence(&outcome), format!("the secret {name} of skill x {words}"));
    }
}

#[test]
fn a_provider_that_panics_fails_the_call_and_nothing_else() {
    struct Panics;
    impl SamplingProvider for Panics {
        fn sample(&self, _: &SkillContext, _: &SampleRequest) -> Result<SampleResponse> {
            panic!("out of {}", "tokens");
        }
    }
    impl ConfigProvider for Panics {
        fn config(&self, _: &SkillContext) -> Result<Map<String, Value>> {
            panic!("on purpose");
        }
    }
    impl SecretProvider for Panics {
        fn secret(&self, _: &SkillContext, _: &str) -> Result<Option<String>> {
            panic!("on purpose");
        }
    }
    let tools = ClosureTools::new().tool("t", "d", json!({}), |_, _| panic!("on purpose"));
    let script = "local said = {}
        for _, call in {{'tool', 't'}, {'sample', nil, 'p'}, {'config'}, {'secret', 's'}} do
            local ok, e = pcall(ctx[call[1]], call[2], call[3])
            table.insert(said, `{e.kind}: {e.message}`)
        end
        return said";
    let outcome = run("tool:t sample secret:s", script, |engine| {
        engine.tools(tools).sampling(Panics).config(Panics).secrets(Panics)
    });
    assert_eq!(
        value(outcome),
        json!([
            "tool: tool t failed: its provider panicked: on purpose",
            "unavailable: the provider of the model panicked: out of tokens",
            "unavailable: the provider of settings panicked: on purpose",
            "unavailable: the provider of secrets panicked: on purpose",
        ])
    );
}

#[test]
fn what_a_host_does_not_offer_is_unavailable() {
    for (asks, call) in [("tool:t", "tool('t')"), ("sample", "sample(nil, 'p')"), ("secret:s", "secret('s')")]
    {
        let outcome = run(asks, &format!("return ctx.{call}"), |engine| engine);
        assert_eq!(kind(&outcome), ErrorKind::Unavailable, "{call}");
        assert!(sentence(&outcome).starts_with("this host does not provide "), "{}", sentence(&outcome));
    }
}

#[test]
fn canned_answers_stand_in_for_every_provider_of_an_engine() {
    let canned = Fixtures::new(
        r#"{"tools": {"add": 3}, "skills": {"y": "from y"}, "model": "said", "secrets": {"K": "s3cret"}}"#,
    );
    let script = "return {ctx.tool('add'), ctx.skill('y'), ctx.sample(nil, 'p'), ctx.secret('K')}";
    let outcome = run("tool:add skill:y sample secret:K", script, |engine| {
        engine.providers(canned.unwrap().providers())
    });
    assert_eq!(value(outcome), json!([3, "from y", "said", "[secret:K]"]));
}

#[test]
fn an_engine_with_providers_goes_when_its_last_clone_does() {
    let held = Arc::new(());
    let kept = held.clone();
    let project = Project::lua_with_tools("tool:t skill:y", "return ctx.tool('t')");
    let tools =
        ClosureTools::new().tool("t", "d", json!({}), move |_, _| Ok(json!(Arc::strong_count(&kept) > 1)));
    let engine: Engine = project.builder().tools(tools).build().unwrap();
    assert_eq!(
        value(engine.run(granted(Invocation::new("x"), &["tool:t"]).cancel(CancelToken::new()))),
        json!(true)
    );
    drop(engine);
    assert_eq!(Arc::strong_count(&held), 1);
}

/// Answers one request on loopback with this body.
fn server(body: &'static str) -> std::net::SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let (mut asked, mut byte) = (Vec::new(), [0]);
        while !asked.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() > 0 {
            asked.push(byte[0]);
        }
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).unwrap();
    });
    address
}

#[test]
fn the_web_needs_a_grant_and_nothing_from_the_embedder() {
    let script = format!("return ctx.http('http://{}/').body", server("hello"));
    assert_eq!(value(run("net:127.0.0.1", &script, |engine| engine)), json!("hello"));
    // Loopback is open to nobody who was not let there by name.
    assert_eq!(kind(&run("net", &script, |engine| engine)), ErrorKind::Denied);
    assert_eq!(kind(&run("net:example.com", &script, |engine| engine)), ErrorKind::Denied);
    assert_eq!(kind(&run("", &script, |engine| engine)), ErrorKind::Denied);
}

/// A program may keep values itself, and no home folders.
#[test]
fn a_store_of_the_program_takes_no_folder_for_state() {
    let fixtures = || Fixtures::new(r#"{"store": {"a": 1}}"#).unwrap().providers();
    let outcome =
        run("state", "ctx.store_set('b', 2) return ctx.store_list()", |engine| engine.providers(fixtures()));
    assert_eq!(value(outcome), json!(["a", "b"]));
    let outcome = run("state", "return ctx.store_get('a')", |engine| engine);
    assert_eq!(kind(&outcome), ErrorKind::Unavailable, "{outcome:?}");
    assert_eq!(sentence(&outcome), "this host does not provide a store to skills");
    let panics = run("state", "return ctx.store_get('a')", |engine| engine.store(Panicking));
    assert_eq!(kind(&panics), ErrorKind::Unavailable, "{panics:?}");
}

struct Panicking;

impl StoreProvider for Panicking {
    fn get(&self, _: &SkillContext, _: Option<&str>, _: &str) -> Result<Option<Value>> {
        panic!("a defect of the program")
    }
    fn set(&self, _: &SkillContext, _: Option<&str>, _: &str, _: &Value) -> Result<()> {
        panic!("a defect of the program")
    }
    fn keys(&self, _: &SkillContext, _: Option<&str>, _: &str) -> Result<Vec<String>> {
        panic!("a defect of the program")
    }
    fn delete(&self, _: &SkillContext, _: Option<&str>, _: &str) -> Result<bool> {
        panic!("a defect of the program")
    }
}
