//! What comes of a step that fails.

use std::time::{Duration, Instant};

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::host::StepStatus;
use metier::policy::{CancelToken, Limits};
use metier_plan::StepFailure;
use serde_json::{Value, json};

use crate::plan::project::{Project, error, failure, within_ten_seconds, x};

const TOOLS: [&str; 4] = ["tool:echo", "tool:fail", "tool:counted", "write"];

fn trace(id: &str) -> Value {
    json!({"id": id, "tool": "append", "args": {"path": "trace", "content": format!("{id}\n")}})
}

#[test]
fn ar_t11_a_step_that_fails_stops_those_after_it_and_is_named() {
    let project = Project::new()
        .lua("auth", "", "error('no credentials')")
        .contract("x", "write", "steps:\n- {id: login, skill: auth, args: {cluster: $inputs.c}, on_failure: abort}\n- {id: b, tool: append, args: {path: trace, content: b}}\n");
    let outcome = project.run_with(&TOOLS, json!({"c": "prod"}));
    let (kind, sentence) = failure(&outcome);
    assert_eq!(kind, ErrorKind::Script);
    assert!(
        sentence.starts_with("step 1 of 2 (id login, skill auth) failed: skill auth failed"),
        "{sentence}"
    );
    assert!(
        sentence.contains("no credentials") && sentence.ends_with("it was given {\"cluster\": \"prod\"}"),
        "{sentence}"
    );
    assert_eq!(project.read("trace"), "");
    let statuses: Vec<StepStatus> = outcome.steps.iter().map(|step| step.status).collect();
    assert_eq!(statuses, [StepStatus::Failed, StepStatus::Skipped]);
}

#[test]
fn the_error_carries_what_the_finished_steps_came_to() {
    let steps = json!([{"id": "a", "tool": "echo", "args": {"n": 1}}, {"id": "b", "tool": "fail", "args": {"m": "$result[0].n"}}]);
    let outcome = Project::new().sequence("x", "", &steps).run(&TOOLS);
    let source = std::error::Error::source(error(&outcome)).unwrap();
    let failure: &StepFailure = source.downcast_ref().unwrap();
    assert_eq!((failure.index, failure.id.as_str(), failure.call.as_str()), (1, "b", "tool fail"));
    assert_eq!(failure.input, json!({"m": 1}).as_object().cloned());
    assert_eq!(failure.finished, [("a".to_owned(), json!({"n": 1}))]);
    let record = serde_json::to_value(&outcome).unwrap();
    assert_eq!(record["steps"][0]["value"], json!({"n": 1}));
    assert_eq!(
        record["steps"][1],
        json!({"index": 1, "id": "b", "call": "tool fail", "status": "failed", "attempts": 1, "duration_ms": record["steps"][1]["duration_ms"], "input": {"m": 1}, "error": "tool fail failed: on purpose", "value": null})
    );
    assert_eq!(record["error"]["location"]["file"], "scripts/sequence.json");
}

#[test]
fn a_failure_may_be_passed_over_or_end_the_run_well() {
    for (word, expected, left) in
        [("continue", json!([[], null]), "a\nc\n"), ("skip_rest", json!([[], null]), "a\n")]
    {
        let mut failing = json!({"id": "b", "tool": "fail"});
        failing["on_failure"] = word.into();
        let steps = json!({"steps": [{"id": "t", "tool": "glob", "args": {"pattern": "*.none"}}, trace("a"), failing, trace("c")], "outputs_from": ["$steps.t.outputs", "$steps.b.outputs.deep"]});
        let project = Project::new().sequence("x", "write", &steps);
        let outcome = project.run(&TOOLS);
        assert_eq!(outcome.result.as_ref().unwrap(), &expected, "{word}");
        assert_eq!(project.read("trace"), left, "{word}");
        assert!(
            outcome.log[0].message.starts_with("step b failed, and the run goes on"),
            "{:?}",
            outcome.log
        );
    }
}

#[test]
fn a_step_is_tried_again_as_often_as_it_says_and_no_more() {
    for (times, after, ok) in [(2, 3, true), (1, 3, false), (10, 11, true)] {
        let steps = json!([{"tool": "counted", "args": {"after": after}, "on_failure": format!("retry({times}, 1ms)")}]);
        let outcome = Project::new().sequence("x", "", &steps).run(&TOOLS);
        assert_eq!(outcome.result.is_ok(), ok, "{times} {after}");
        assert_eq!(outcome.steps[0].attempts, times + 1);
    }
}

#[test]
fn what_trying_again_cannot_change_is_not_tried_again() {
    let steps =
        json!([{"tool": "write", "args": {"path": "a", "content": "x"}, "on_failure": "retry(5, 60s)"}]);
    let outcome = Project::new().sequence("x", "", &steps).run(&[]);
    assert_eq!(failure(&outcome).0, ErrorKind::Denied);
    assert_eq!(outcome.steps[0].attempts, 1);
}

#[test]
fn a_wait_between_tries_ends_with_the_run() {
    let steps = json!([{"tool": "fail", "on_failure": "retry(10, 60s)"}]);
    let project = Project::new().sequence("x", "", &steps);
    let started = Instant::now();
    let limits = Limits::default().timeout(Duration::from_millis(300));
    let outcome = project.engine().run(x(&TOOLS).limits(limits));
    assert_eq!(failure(&outcome).0, ErrorKind::Timeout);
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[test]
fn one_deadline_holds_for_all_steps_and_cancelling_stops_all() {
    let project = Project::new().lua("endless", "", "while true do end").contract(
        "x",
        "",
        "steps:\n- {id: a, skill: endless}\n- {id: b, skill: endless}\n- {id: c, skill: endless}\n",
    );
    let limits = Limits::default().timeout(Duration::from_millis(400));
    let outcome = project.engine().run(Invocation::new("x").limits(limits));
    assert_eq!(failure(&outcome).0, ErrorKind::Timeout);
    assert_eq!(outcome.limits.hit, Some(ErrorKind::Timeout));
    let token = CancelToken::new();
    let canceller = token.clone();
    let cancelling = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        canceller.cancel();
    });
    let outcome = project.engine().run(Invocation::new("x").cancel(token));
    assert_eq!(failure(&outcome).0, ErrorKind::Cancelled);
    cancelling.join().unwrap();
}

#[test]
fn a_step_has_a_time_limit_of_its_own() {
    let project = Project::new().lua("endless", "", "while true do end").contract(
        "x",
        "",
        "steps:\n- {id: a, skill: endless, timeout: 200ms, on_failure: continue}\n- {id: b, tool: glob, args: {pattern: '*.none'}}\n",
    );
    let outcome = project.run(&[]);
    assert_eq!(outcome.result.as_ref().unwrap(), &json!([]));
    assert!(outcome.log[0].message.contains("it did not end within its 200 ms"), "{:?}", outcome.log);
}

#[test]
fn a_failing_item_is_named_and_may_be_passed_over() {
    let steps = |word: &str| json!([{"tool": "read_file", "for_each": "$inputs.files", "args": {"path": "$item"}, "on_failure": word}]);
    let input = json!({"files": ["a", "gone", "b"]});
    let project = Project::new().file("a", "1").file("b", "2").sequence("x", "", &steps("abort"));
    let (_, sentence) = failure(&project.run_with(&[], input.clone()));
    assert!(sentence.contains("item 1: failed to read gone"), "{sentence}");
    let project = Project::new().file("a", "1").file("b", "2").sequence("x", "", &steps("continue"));
    assert_eq!(project.value(input), json!(["1", null, "2"]));
}

#[test]
fn a_tool_that_panics_fails_its_step_and_leaves_nobody_waiting() {
    use metier::host::ClosureTools;
    let steps = "steps:\n- {id: a, tool: boom, on_failure: continue}\n- {id: b, tool: glob, args: {pattern: '*.none'}}\n";
    let project = Project::new().contract("x", "", steps);
    let tools = ClosureTools::new().tool("boom", "d", json!({}), |_, _| panic!("on purpose"));
    let outcome = project.builder().tools(tools).build().unwrap().run(x(&["tool:boom"]));
    assert_eq!(outcome.result.unwrap(), json!([]));
}

#[test]
fn observers_hear_each_step_start_and_end() {
    use metier::host::{Event, EventKind};
    use std::sync::{Arc, Mutex};
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = heard.clone();
    let observer = move |event: &Event| {
        let (step, ended) = match &event.kind {
            EventKind::StepStarted { step, .. } => (step, "starts"),
            EventKind::StepFinished { step, status, .. } => (step, status.name()),
            _ => return,
        };
        let line = format!("{} {}/{} {} {ended}", event.skill, step.index + 1, step.count, step.id);
        sink.lock().unwrap().push(line);
    };
    let inner = json!([{"id": "inner", "tool": "tree"}]);
    let steps = json!([{"id": "a", "tool": "tree"}, {"id": "b", "tool": "tree", "when": "false"}, {"id": "c", "skill": "y"}]);
    let project = Project::new().sequence("x", "", &steps).sequence("y", "", &inner);
    project.engine().run(Invocation::new("x").observer(Arc::new(observer))).result.unwrap();
    let expected = [
        "x 1/3 a starts",
        "x 1/3 a ok",
        "x 2/3 b starts",
        "x 2/3 b skipped",
        "x 3/3 c starts",
        "y 1/1 inner starts",
        "y 1/1 inner ok",
        "x 3/3 c ok",
    ];
    assert_eq!(*heard.lock().unwrap(), expected);
}

#[test]
fn a_failure_among_steps_side_by_side_stops_the_others() {
    let project = Project::new()
        .lua("endless", "", "ctx.log('info', 'begun') while true do end")
        .contract("x", "", "steps:\n- {id: a, skill: endless}\n- {id: b, tool: read_file, args: {path: gone}}\n- {id: c, tool: tree, after: a}\n");
    let engine = project.engine();
    let run = std::thread::spawn(move || engine.run(Invocation::new("x")));
    within_ten_seconds(|| run.is_finished());
    let (_, sentence) = failure(&run.join().unwrap());
    assert!(sentence.contains("step 2 of 3 (id b, read_file) failed"), "{sentence}");
}

#[test]
fn a_step_that_is_stopped_for_another_s_failure_is_reported_as_that() {
    let project = Project::new()
        .contract(
            "x",
            "",
            "steps:\n- {id: long, skill: endless}\n- {id: bad, tool: read_file, args: {path: gone}}\n",
        )
        .lua("endless", "", "while true do end");
    let outcome = project.run(&[]);
    assert_eq!(failure(&outcome).0, ErrorKind::Io);
    let told: Vec<_> =
        outcome.steps.iter().map(|step| (step.status, step.error.is_some(), &step.input)).collect();
    let given = json!({"path": "gone"});
    assert_eq!(told, [(StepStatus::Stopped, false, &Value::Null), (StepStatus::Failed, true, &given)]);
}

#[test]
fn a_time_limit_of_a_step_is_none_of_the_run() {
    let project = Project::new().contract("x", "", "steps:\n- {skill: endless, timeout: 50ms}\n").lua(
        "endless",
        "",
        "while true do end",
    );
    let outcome = project.run(&[]);
    assert_eq!(failure(&outcome).0, ErrorKind::Timeout);
    assert_eq!(outcome.limits.hit, None);
    let limits = Limits::default().timeout(Duration::from_millis(50));
    assert_eq!(project.engine().run(x(&[]).limits(limits)).limits.hit, Some(ErrorKind::Timeout));
}

#[test]
fn outputs_that_cannot_be_put_together_are_reported_with_their_place_and_what_there_is() {
    let plan = "inputs: {l: {type: array, required: true}}\nsteps:\n- {id: a, tool: read_file, args: {path: f}}\noutputs_from:\n  p: $inputs.l[3]\n";
    let project = Project::new().contract("x", "", plan).file("f", "text");
    let outcome = project.run_with(&[], json!({"l": []}));
    let found = error(&outcome);
    assert_eq!(found.to_string(), "outputs_from: there is no $inputs.l[3]");
    let place = found.location().unwrap();
    assert_eq!((place.file.as_str(), place.line), ("skill.yaml", Some(5)));
    assert_eq!(outcome.steps[0].value, json!("text"), "what was done is not lost");
}

#[test]
fn a_declared_input_that_was_not_given_is_null_in_the_outputs() {
    let plan = "inputs:\n  flag: {type: string}\nsteps:\n- {id: a, tool: read_file, args: {path: f}}\noutputs_from: {p: $inputs.flag, q: $steps.a.outputs}\n";
    let project = Project::new().contract("x", "", plan).file("f", "text");
    assert_eq!(project.value(json!({})), json!({"p": null, "q": "text"}));
}

#[test]
fn the_error_of_a_refused_step_has_the_permission_that_is_missing() {
    let steps = json!([{"id": "w", "tool": "write", "args": {"path": "out/a", "content": ""}}]);
    let project = Project::new().sequence("x", "write:out", &steps);
    let error = project.engine().run(x(&[])).result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied);
    assert_eq!(error.missing().unwrap().to_string(), "write:out");
}
