//! What a reader of a stream of events gets, however slowly it reads.

use super::*;

fn next(stream: &mut EventStream) -> Option<Event> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(poll_fn(|context| Pin::new(&mut *stream).poll_next(context)))
}

fn all(mut stream: EventStream) -> Vec<Event> {
    std::iter::from_fn(|| next(&mut stream)).collect()
}

fn poll_once(stream: &mut EventStream) -> Poll<Option<Event>> {
    Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_stream_has_the_events_of_the_observer_and_ends_with_the_last() {
    let project = callee(
        Project::lua_with_tools("skill:y", "print('a') return ctx.skill('y')"),
        "y",
        "print('b') return 2",
    );
    let recorder = Recorder::default();
    let invocation = granted(Invocation::new("x"), &["skill:y"]).observer(Arc::new(recorder.clone()));
    let events = all(project.engine().run_streamed(invocation));
    assert_well_ordered(&events);
    assert_eq!(events.iter().map(line).collect::<Vec<_>>(), recorder.lines());
    let Some(EventKind::Finished { outcome, .. }) = events.last().map(|event| &event.kind) else {
        panic!("{events:?}")
    };
    assert_eq!(outcome.result.clone().unwrap(), json!(2));
}

#[test]
fn the_observer_of_a_streamed_run_may_panic() {
    let project = Project::lua("print('a') return 1");
    let observer = |_: &Event| panic!("on purpose");
    let events = all(project.engine().run_streamed(Invocation::new("x").observer(Arc::new(observer))));
    assert_eq!(
        events.iter().map(line).collect::<Vec<_>>(),
        ["x started scripts/main.lua", "x logged a", "x called log - ok", "x finished true"]
    );
}

#[test]
fn a_stream_that_is_not_polled_starts_nothing_and_one_that_is_dropped_cancels_its_run() {
    let project = Project::lua(ENDLESS);
    let recorder = Recorder::default();
    let engine = project.engine();
    let start = || engine.run_streamed(Invocation::new("x").observer(Arc::new(recorder.clone())));
    drop(start());
    assert_eq!(recorder.lines(), [""; 0]);
    let mut stream = start();
    while !matches!(poll_once(&mut stream), Poll::Ready(Some(_))) {
        std::thread::yield_now();
    }
    drop(stream);
    wait_until(Duration::from_secs(10), || recorder.lines().len() == 3);
    let expected = ["x started scripts/main.lua", "x stopping Cancelled", "x finished false"];
    assert_eq!(recorder.lines(), expected);
}

/// Runs `x` to its end without reading the stream, then reads it. Returns what was read, and how many events there were.
fn read_late(engine: &Engine, invocation: Invocation) -> (Vec<Event>, u64) {
    let (count, has_ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let (counter, ended) = (count.clone(), has_ended.clone());
    let observer = move |event: &Event| {
        counter.fetch_add(1, Ordering::SeqCst);
        let is_end = event.caller.is_none() && matches!(event.kind, EventKind::Finished { .. });
        ended.fetch_or(is_end, Ordering::SeqCst);
    };
    let mut stream = engine.run_streamed(invocation.observer(Arc::new(observer)));
    let mut events = Vec::new();
    if let Poll::Ready(event) = poll_once(&mut stream) {
        events.extend(event);
    }
    wait_until(Duration::from_mins(1), || has_ended.load(Ordering::SeqCst));
    events.extend(all(stream));
    (events, count.load(Ordering::SeqCst) as u64)
}

fn dropped(events: &[Event]) -> u64 {
    let count = |event: &Event| match event.kind {
        EventKind::Dropped { count, .. } => count,
        _ => 0,
    };
    events.iter().map(count).sum()
}

#[test]
fn a_flood_of_small_events_is_left_out_counted_and_bounded() {
    let script = "for i = 1, 20000 do ctx.progress('p') end return 1";
    let (events, count) = read_late(&Project::lua(script).engine(), Invocation::new("x"));
    assert_eq!(count, 40_002);
    // The first poll may take one, in whose place another waits.
    assert!(events.len() <= 1024 + 4, "{}", events.len());
    let gaps = events.iter().filter(|event| matches!(event.kind, EventKind::Dropped { .. })).count();
    assert_eq!((events.len() - gaps) as u64 + dropped(&events), count);
    assert_well_ordered(&events);
}

#[test]
fn a_flood_of_large_events_is_bounded_in_bytes() {
    let script = "for i = 1, 5000 do ctx.progress(('x'):rep(100000)) end return 1";
    let (events, count) = read_late(&Project::lua(script).engine(), Invocation::new("x"));
    assert_eq!(count, 10_002);
    let bytes: usize = events.iter().map(|event| serde_json::to_string(event).unwrap().len()).sum();
    assert!(bytes < 2 << 20, "{bytes}");
    assert_well_ordered(&events);
}

#[test]
fn a_flood_of_calls_is_left_out_run_by_run() {
    let script = "for i = 1, 1500 do ctx.skill('y') end return 1";
    let project = callee(Project::lua_with_tools("skill:y skill:z", script), "y", "ctx.skill('z') return 1")
        .skill("y", "allowed-tools: skill:z\n");
    let project = callee(project, "z", "return ('x'):rep(10)");
    let invocation = granted(Invocation::new("x"), &["skill:y", "skill:z"]).limits(deadline(60_000));
    let (events, count) = read_late(&project.engine(), invocation);
    assert_eq!(count, 2 + 1500 * 6);
    assert!(events.len() < 1024 + 20, "{}", events.len());
    assert_well_ordered(&events);
    assert!(dropped(&events) > 7000);
}

#[test]
fn the_steps_of_a_plan_are_all_there_however_late_they_are_read() {
    let items: Vec<usize> = (0..900).collect();
    let steps = json!([{"id": "each", "tool": "echo", "args": {"k": "$item", "long": "x".repeat(4000)}, "for_each": {"in": items}}]);
    let project = plan(&steps);
    let tools = ClosureTools::new().tool("echo", "answers", json!({}), |_, args| Ok(args.clone()));
    let engine = project.builder().tools(tools).build().unwrap();
    let (events, _) = read_late(&engine, granted(Invocation::new("x"), &["tool:echo"]));
    let ended =
        |event: &&Event| matches!(&event.kind, EventKind::StepFinished { status: StepStatus::Ok, .. });
    assert_eq!(events.iter().filter(ended).count(), 901);
    let has_value = |event: &&Event| matches!(&event.kind, EventKind::StepFinished { value: Some(_), .. });
    let with_value = events.iter().filter(has_value).count();
    assert!((50..500).contains(&with_value), "{with_value} values were in the queue");
    assert!(dropped(&events) > 0);
}

#[test]
fn a_reader_that_keeps_up_misses_nothing() {
    let project = Project::lua("for i = 1, 300 do print(i) end return 1");
    let began = Instant::now();
    let events = all(project.engine().run_streamed(Invocation::new("x")));
    assert_eq!((events.len(), dropped(&events)), (602, 0), "{:?}", began.elapsed());
}
