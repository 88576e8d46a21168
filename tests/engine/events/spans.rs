//! The spans of runs, for programs that trace.

use std::fmt::Debug;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::thread::ThreadId;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber, subscriber};

use super::*;

/// Keeps the fields of each span, which spans each thread is in, and each event with the spans it lies in.
#[derive(Default)]
struct Spans {
    last: AtomicU64,
    fields: Mutex<HashMap<u64, HashMap<String, String>>>,
    entered: Mutex<HashMap<ThreadId, Vec<u64>>>,
    events: Mutex<Vec<(String, Vec<u64>)>>,
}

struct Fields<'a>(&'a mut HashMap<String, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

struct Shared(&'static Spans);

impl Subscriber for Shared {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.0.last.fetch_add(1, Ordering::SeqCst) + 1;
        let mut fields = HashMap::from([("name".to_owned(), span.metadata().name().to_owned())]);
        span.record(&mut Fields(&mut fields));
        self.0.fields.lock().unwrap().insert(id, fields);
        Id::from_u64(id)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = HashMap::new();
        event.record(&mut Fields(&mut fields));
        let spans = self.0.entered.lock().unwrap().get(&std::thread::current().id()).cloned();
        let message = fields.remove("message").unwrap_or_default();
        self.0.events.lock().unwrap().push((message, spans.unwrap_or_default()));
    }
    fn enter(&self, span: &Id) {
        let mut entered = self.0.entered.lock().unwrap();
        entered.entry(std::thread::current().id()).or_default().push(span.into_u64());
    }
    fn exit(&self, span: &Id) {
        let mut entered = self.0.entered.lock().unwrap();
        let own = entered.entry(std::thread::current().id()).or_default();
        if let Some(at) = own.iter().rposition(|id| *id == span.into_u64()) {
            own.remove(at);
        }
    }
}

fn spans() -> &'static Spans {
    static SPANS: OnceLock<&'static Spans> = OnceLock::new();
    SPANS.get_or_init(|| {
        let spans = &*Box::leak(Box::<Spans>::default());
        subscriber::set_global_default(Shared(spans)).unwrap();
        spans
    })
}

impl Spans {
    /// The run of each span around the messages that contain this text, outermost first.
    fn runs_around(&self, text: &str) -> Vec<Vec<String>> {
        let fields = self.fields.lock().unwrap();
        let run = |span: &u64| fields[span].get("run_id").cloned().unwrap_or_default();
        let events = self.events.lock().unwrap();
        let lines = events.iter().filter(|(message, _)| message.contains(text));
        lines.map(|(_, around)| around.iter().map(run).collect()).collect()
    }
}

#[test]
fn what_metier_traces_lies_in_the_span_of_its_run_on_every_thread() {
    let spans = spans();
    let steps: Vec<_> = (0..4).map(|at| json!({"id": format!("s{at}"), "skill": "y"})).collect();
    let project = callee(parallel_plan(&json!(steps)), "y", "print('a') return 1");
    assert_traced(spans, &events_of(&project, &[]).events(), 5);
    let project = Project::lua_with_tools("skill:y skill:z", "return ctx.skill('y')")
        .skill("y", "allowed-tools: skill:z\n")
        .file(".metier/skills/y/scripts/main.lua", "return ctx.skill('z')");
    let project = callee(project, "z", "return 1");
    assert_traced(spans, &events_of(&project, &["skill:y", "skill:z"]).events(), 3);
}

/// Each of so many runs traced its end in its own span, inside that of its caller.
#[track_caller]
fn assert_traced(spans: &Spans, events: &[Event], runs: usize) {
    assert_well_ordered(events);
    let started = events.iter().filter(|event| matches!(event.kind, EventKind::Started { .. }));
    let callers: HashMap<String, Option<String>> =
        started.map(|event| (event.run.to_string(), event.caller.map(|run| run.to_string()))).collect();
    assert_eq!(callers.len(), runs);
    let around: Vec<_> = spans.runs_around("ran");
    for (run, caller) in &callers {
        // A thread of its own is in the span of the caller when the run begins.
        let is_own = |around: &&Vec<String>| {
            let mut inward = around.iter().rev();
            inward.next() == Some(run) && inward.next() == caller.as_ref()
        };
        assert_eq!(around.iter().filter(is_own).count(), 1, "{caller:?} > {run} in {around:?}");
    }
    let fields = spans.fields.lock().unwrap();
    let is_own =
        |fields: &&HashMap<_, String>| fields.get("run_id").is_some_and(|run| callers.contains_key(run));
    let own = fields.values().filter(is_own);
    let mut skills: Vec<_> = own.map(|fields| format!("{} {}", fields["name"], fields["skill"])).collect();
    skills.sort();
    assert_eq!((skills.len(), &*skills[0], &*skills[1]), (runs, "run \"x\"", "run \"y\""));
}

#[test]
fn the_panic_of_an_observer_is_traced_once_in_its_run() {
    let spans = spans();
    let run = Arc::new(Mutex::new(String::new()));
    let sink = run.clone();
    let observer = move |event: &Event| {
        *sink.lock().unwrap() = event.run.to_string();
        assert!(matches!(event.kind, EventKind::Started { .. }), "a panic to be traced");
    };
    let project = Project::lua("print('a') print('b') return 1");
    value(project.engine().run(Invocation::new("x").observer(Arc::new(observer))));
    let run = run.lock().unwrap().clone();
    let around = spans.runs_around("the observer panicked: a panic to be traced; it gets no further events");
    assert_eq!(around, [[run]]);
}
