//! Plans that mean harm: none costs more than its limits.

use std::time::Duration;

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::policy::Limits;
use serde_json::{Value, json};

use crate::plan::project::{Project, failure, x};

const TOOLS: [&str; 2] = ["tool:echo", "tool:fail"];

#[test]
fn text_that_doubles_with_every_step_ends_at_the_output_limit() {
    let mut steps = vec![json!({"tool": "echo", "args": {"t": "0123456789"}})];
    steps.extend(
        (0..60).map(
            |at| json!({"tool": "echo", "args": {"t": format!("${{result[{at}].t}}${{result[{at}].t}}")}}),
        ),
    );
    let outcome = Project::new().sequence("x", "", &Value::from(steps)).run(&TOOLS);
    assert!(matches!(failure(&outcome).0, ErrorKind::Output | ErrorKind::Memory), "{:?}", outcome.result);
}

#[test]
fn values_that_double_with_every_step_end_at_the_limits() {
    let mut steps = vec![json!({"tool": "echo", "args": {"a": 1}})];
    steps.extend((0..60).map(
        |at| json!({"tool": "echo", "args": {"a": format!("$result[{at}]"), "b": format!("$result[{at}]")}}),
    ));
    let outcome = Project::new().sequence("x", "", &Value::from(steps)).run(&TOOLS);
    assert!(matches!(failure(&outcome).0, ErrorKind::Output | ErrorKind::Memory), "{:?}", outcome.result);
}

#[test]
fn values_that_grow_deeper_with_every_step_end_before_they_cannot_be_handed_around() {
    let mut steps = vec![json!({"tool": "echo", "args": {"a": 1}})];
    steps.extend((0..5_000).map(|at| json!({"tool": "echo", "args": {"a": format!("$result[{at}]")}})));
    let (kind, sentence) = failure(&Project::new().sequence("x", "", &Value::from(steps)).run(&TOOLS));
    assert_eq!(kind, ErrorKind::Output);
    assert!(sentence.contains("nested deeper than 127 levels"), "{sentence}");
}

#[test]
fn an_answer_that_names_one_value_a_thousand_times_ends_at_the_output_limit() {
    let outputs: Vec<&str> = vec!["$result[0]"; 5_000];
    let steps = json!({"steps": [{"tool": "read_file", "args": {"path": "big"}}], "outputs_from": outputs});
    let (kind, sentence) =
        failure(&Project::new().file("big", "x".repeat(1 << 20)).sequence("x", "", &steps).run(&[]));
    assert_eq!(kind, ErrorKind::Output);
    assert!(sentence.contains("what is put together is larger"), "{sentence}");
}

#[test]
fn what_all_steps_hold_together_is_bounded_by_the_memory_of_the_run() {
    let steps: Vec<Value> = (0..200).map(|_| json!({"tool": "read_file", "args": {"path": "big"}})).collect();
    let project = Project::new().file("big", "x".repeat(1 << 20)).sequence("x", "", &Value::from(steps));
    let (kind, sentence) = failure(&project.run(&[]));
    assert_eq!(kind, ErrorKind::Memory);
    assert!(
        sentence.contains("step 64 of 200") || sentence.contains("step 63 of 200"),
        "{}",
        &sentence[..200]
    );
}

#[test]
fn a_loop_over_a_million_items_meets_its_bound() {
    let items: Vec<u32> = (0..1_000_000).collect();
    let project = Project::new().sequence(
        "x",
        "",
        &json!([{"tool": "echo", "for_each": "$inputs.items", "args": {"i": "$item"}}]),
    );
    let limits = Limits::default().output(64 << 20);
    let outcome = project.engine().run(x(&TOOLS).input(json!({"items": items})).limits(limits));
    assert!(failure(&outcome).1.contains("1000000 items, more than its 1000"), "{:?}", outcome.result);
}

#[test]
fn a_plan_of_retries_ends_with_the_first_step_that_runs_out_of_them() {
    let steps: Vec<Value> =
        (0..1_000).map(|_| json!({"tool": "fail", "on_failure": "retry(10, 1ms)"})).collect();
    let project = Project::new().sequence("x", "", &Value::from(steps));
    let outcome = project.engine().run(
        Invocation::new("x")
            .grant("tool:fail".parse().unwrap())
            .limits(Limits::default().timeout(Duration::from_mins(1))),
    );
    assert_eq!(outcome.steps[0].attempts, 11);
    assert_eq!(outcome.steps[1].attempts, 0);
}

#[test]
fn a_hundred_thousand_steps_and_ten_megabytes_are_refused_before_they_run() {
    for text in [
        format!("[{}]", vec![r#"{"tool":"tree"}"#; 100_000].join(",")),
        format!(r#"[{{"tool":"echo","args":{{"a":"{}"}}}}]"#, "x".repeat(10 << 20)),
        format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        let project = Project::new()
            .sequence("x", "", &json!([]))
            .file(".metier/skills/x/scripts/sequence.json", &text);
        assert_eq!(failure(&project.run(&TOOLS)).0, ErrorKind::InvalidSkill);
    }
}

#[test]
fn ten_thousand_steps_run() {
    let steps: Vec<Value> =
        (0..10_000).map(|_| json!({"tool": "log", "args": {"level": "debug", "message": "m"}})).collect();
    let outcome = Project::new().sequence("x", "", &Value::from(steps)).run(&[]);
    outcome.result.unwrap();
    assert_eq!(outcome.steps.len(), 10_000);
}

#[test]
fn a_failing_step_s_huge_input_is_cut_in_the_sentence() {
    let project = Project::new().sequence(
        "x",
        "",
        &json!([{"tool": "fail", "args": {"a": "$inputs.a", "l": "$inputs.l"}}]),
    );
    let input = json!({"a": "x".repeat(1 << 20), "l": vec![1; 100_000]});
    let (_, sentence) = failure(&project.run_with(&TOOLS, input));
    assert!(sentence.len() < 600, "{}", sentence.len());
}

#[test]
fn a_condition_that_compares_much_ends_at_the_deadline() {
    let much = vec!["$inputs.a == $inputs.b"; 10_000].join(" and ");
    let steps = json!([{"tool": "tree", "when": much}]);
    let list: Vec<u32> = (0..500_000).collect();
    let limits = Limits::default().timeout(Duration::from_millis(300));
    let project = Project::new().sequence("x", "", &steps);
    let outcome = project.engine().run(x(&[]).input(json!({"a": list, "b": list})).limits(limits));
    assert_eq!(failure(&outcome).0, ErrorKind::Timeout);
}

#[test]
fn steps_that_are_all_skipped_end_at_the_deadline() {
    let steps: Vec<Value> = vec![json!({"tool": "tree", "when": "$inputs.a != $inputs.b"}); 10_000];
    let list: Vec<u32> = (0..500_000).collect();
    let limits = Limits::default().timeout(Duration::from_millis(300));
    let project = Project::new().sequence("x", "", &Value::from(steps));
    let outcome = project.engine().run(x(&[]).input(json!({"a": list, "b": list})).limits(limits));
    assert_eq!(failure(&outcome).0, ErrorKind::Timeout);
}

#[test]
fn what_small_objects_take_of_memory_counts_and_not_what_they_say() {
    let steps: Vec<Value> = (0..40).map(|_| json!({"tool": "echo", "args": {"l": "$inputs.l"}})).collect();
    let list: Vec<Value> = vec![json!({"a": 1}); 10_000];
    let project = Project::new().sequence("x", "", &Value::from(steps));
    let outcome = project.engine().run(x(&TOOLS).input(json!({"l": list})));
    let (kind, sentence) = failure(&outcome);
    assert_eq!(kind, ErrorKind::Memory, "{sentence}");
}
