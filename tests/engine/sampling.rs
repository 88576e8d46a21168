//! What a script may ask a model, what it gets, and what an observer sees of the answer while it comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::error::Result;
use metier::host::{
    Event, EventKind, Fixtures, SampleMessage, SampleRequest, SampleResponse, SampleRole, SampleUsage,
    SamplingProvider, SkillContext, StopReason,
};
use metier::policy::Limits;
use serde_json::{Value, json};

use crate::support::engine::{Project, granted, kind, sentence, value};

/// A model that hands on these pieces and answers with all of them.
#[derive(Clone, Default)]
struct Model {
    pieces: Vec<String>,
    asked: Arc<Mutex<Vec<SampleRequest>>>,
    /// The contexts of its calls, which it should not have kept.
    kept: Arc<Mutex<Vec<SkillContext>>>,
}

impl Model {
    fn new(pieces: &[&str]) -> Self {
        Self { pieces: pieces.iter().map(|piece| (*piece).to_owned()).collect(), ..Self::default() }
    }
}

impl SamplingProvider for Model {
    fn sample(&self, ctx: &SkillContext, request: &SampleRequest) -> Result<SampleResponse> {
        self.asked.lock().unwrap().push(request.clone());
        self.kept.lock().unwrap().push(ctx.clone());
        self.pieces.iter().for_each(|piece| ctx.stream_sample(piece));
        let usage = SampleUsage::new(7, 2);
        let answer = SampleResponse::new(self.pieces.concat()).model("m-1").usage(usage);
        Ok(answer.stop_reason(StopReason::StopSequence))
    }
}

/// Runs a script and returns its value, and the text that an observer saw meanwhile.
fn observed(model: Model, script: &str, limits: Limits) -> (Result<Value>, Vec<String>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = seen.clone();
    let observer = move |event: &Event| match &event.kind {
        EventKind::SampleText { text, .. } => sink.lock().unwrap().push(text.clone()),
        EventKind::HostCall { function: "sample", .. } => sink.lock().unwrap().push("| ".into()),
        _ => {}
    };
    let project = Project::lua_with_tools("sample secret:KEY", script);
    let secrets = Fixtures::new(r#"{"secrets": {"KEY": "hunter2-hunter2"}}"#).unwrap();
    let engine = project.builder().sampling(model).secrets(secrets).build().unwrap();
    let invocation = Invocation::new("x").observer(Arc::new(observer)).limits(limits);
    let outcome = engine.run(granted(invocation, &["sample", "secret:KEY"]));
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (outcome.result, seen)
}

#[test]
fn a_conversation_with_every_option_reaches_the_model_and_the_whole_response_the_script() {
    let model = Model::new(&["fine"]);
    let script = "return ctx.sample('be brief', 'and now?', 5, {temperature = 0.5, stop = {'\\n', 'END'}, model = 'small',
        response = true, messages = {{role = 'user', content = 'how are you?'}, {role = 'assistant', content = 'well'}}})";
    let (answer, _) = observed(model.clone(), script, Limits::default());
    let expected = json!({"text": "fine", "model": "m-1", "stop_reason": "stop_sequence",
        "usage": {"input_tokens": 7, "output_tokens": 2}});
    assert_eq!(answer.unwrap(), expected);
    let asked = model.asked.lock().unwrap().remove(0);
    let message = |role, content: &str| SampleMessage::new(role, content);
    assert_eq!(
        asked.messages,
        [
            message(SampleRole::User, "how are you?"),
            message(SampleRole::Assistant, "well"),
            message(SampleRole::User, "and now?"),
        ]
    );
    assert_eq!(
        (asked.system.as_deref(), asked.max_tokens, asked.temperature),
        (Some("be brief"), Some(5), Some(0.5))
    );
    assert_eq!(
        (asked.stop, asked.model.as_deref()),
        (vec!["\n".to_owned(), "END".to_owned()], Some("small"))
    );
}

#[test]
fn a_response_says_only_what_the_model_said_and_fixtures_can_say_all() {
    let project = Project::lua_with_tools("sample", "return ctx.sample(nil, 'p', nil, {response = true})");
    for (fixture, expected) in [
        (json!("Paris"), json!({"text": "Paris"})),
        (
            json!({"text": "a", "usage": {"output_tokens": 3}}),
            json!({"text": "a", "usage": {"input_tokens": 0, "output_tokens": 3}}),
        ),
        (
            json!({"text": "a", "stop_reason": "max_tokens", "model": "m"}),
            json!({"text": "a", "stop_reason": "max_tokens", "model": "m"}),
        ),
    ] {
        let fixtures = Fixtures::new(&json!({"model": fixture}).to_string()).unwrap();
        let engine = project.builder().sampling(fixtures).build().unwrap();
        assert_eq!(value(engine.run(granted(Invocation::new("x"), &["sample"]))), expected);
    }
}

#[test]
fn options_that_no_model_takes_are_refused_before_it_is_asked() {
    for (options, words) in [
        (
            "{messages = {{role = 'system', content = 'x'}}}",
            "unknown variant `system`, expected `user` or `assistant`",
        ),
        ("{messages = {{role = 'user'}}}", "missing field `content`"),
        ("{messages = {{role = 'user', content = 'x', tool = 1}}}", "not `tool`"),
        ("{stop = 'x'}", "an object whose `stop` is a list"),
        ("{temperature = 'hot'}", "an object whose `temperature` is a number"),
        ("{seed = 1}", "(not `seed`)"),
    ] {
        let project =
            Project::lua_with_tools("sample", &format!("return ctx.sample(nil, 'p', nil, {options})"));
        let model = Model::new(&["x"]);
        let engine = project.builder().sampling(model.clone()).build().unwrap();
        let outcome = engine.run(granted(Invocation::new("x"), &["sample"]));
        assert_eq!(kind(&outcome), ErrorKind::InvalidArgument, "{options}");
        assert!(sentence(&outcome).contains(words), "{options}: {}", sentence(&outcome));
        assert!(model.asked.lock().unwrap().is_empty());
    }
}

#[test]
fn text_is_seen_while_it_comes_and_the_script_gets_the_whole() {
    let (answer, seen) =
        observed(Model::new(&["one ", "two ", "three"]), "return ctx.sample(nil, 'p')", Limits::default());
    assert_eq!(
        (answer.unwrap(), seen),
        (json!("one two three"), vec!["one ".into(), "two ".into(), "three".into(), "| ".into()])
    );
    let (_, seen) = observed(Model::new(&[&"ü".repeat(10_000)]), "ctx.sample(nil, 'p')", Limits::default());
    assert_eq!(seen.concat(), "ü".repeat(10_000) + "| ");
    assert!(seen.iter().all(|text| text.len() <= 8 << 10));
}

#[test]
fn no_part_of_a_secret_is_streamed_however_the_text_is_cut() {
    let text = "it is hunter2-hunter2, and hunter2-hunt";
    let script = "ctx.secret('KEY') return ctx.sample(nil, 'p'):len()";
    for size in [1, 2, 5, 100] {
        let pieces: Vec<String> =
            text.as_bytes().chunks(size).map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect();
        let (answer, seen) = observed(Model { pieces, ..Model::default() }, script, Limits::default());
        assert_eq!(answer.unwrap(), text.len());
        assert_eq!(seen.concat(), "it is [secret:KEY], and hunter2-hunt| ", "pieces of {size}");
        assert!(seen.iter().all(|text| !text.contains("hunter2-hunter2")));
    }
}

#[test]
fn a_flood_of_text_ends_at_the_output_limit_and_nothing_comes_after_the_answer() {
    let model = Model { pieces: vec!["x".repeat(1000); 1000], ..Model::default() };
    let limits = Limits::default().output(100_000);
    let (answer, seen) = observed(model.clone(), "return ctx.sample(nil, 'p'):len()", limits);
    assert_eq!(answer.unwrap(), 1_000_000);
    assert_eq!(seen.concat(), "x".repeat(100_000) + "| ");
    let late = model.kept.lock().unwrap().remove(0);
    late.stream_sample("late");
    let own = SkillContext::builder("x").build();
    own.stream_sample("nobody asked");
    let script = "ctx.sample(nil, 'p') return ctx.sample(nil, 'q')";
    let (_, seen) = observed(Model::new(&["one"]), script, Limits::default());
    assert_eq!(seen, ["one", "| ", "one", "| "], "each answer has a stream of its own");
}

/// A model whose text comes on a thread that does not end with its call.
struct Straggler(Arc<AtomicBool>);

impl SamplingProvider for Straggler {
    fn sample(&self, ctx: &SkillContext, _: &SampleRequest) -> Result<SampleResponse> {
        let own = ctx.clone();
        std::thread::spawn(move || own.stream_sample("text"));
        while !self.0.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok("text".into())
    }
}

#[test]
fn an_observer_that_is_busy_with_a_part_does_not_hold_the_run() {
    let [is_busy, is_released] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (busy, released) = (is_busy.clone(), is_released.clone());
    let observer = move |event: &Event| {
        if matches!(event.kind, EventKind::SampleText { .. }) {
            busy.store(true, Ordering::SeqCst);
            let started = Instant::now();
            while !released.load(Ordering::SeqCst) && started.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    };
    let project = Project::lua_with_tools("sample", "return ctx.sample(nil, 'p')");
    let engine = project.builder().sampling(Straggler(is_busy)).build().unwrap();
    let started = Instant::now();
    let outcome = engine.run(granted(Invocation::new("x").observer(Arc::new(observer)), &["sample"]));
    assert_eq!(outcome.result.unwrap(), json!("text"));
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    is_released.store(true, Ordering::SeqCst);
}
