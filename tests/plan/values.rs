//! What goes from step to step, and what comes out.

use metier::error::ErrorKind;
use serde_json::{Value, json};

use crate::plan::project::{Project, failure};

/// The value of a sequence that was run with these inputs and may call every tool.
fn answer(steps: &Value, input: Value) -> Value {
    let outcome = Project::new().sequence("x", "", steps).run_with(&["tool:echo"], input);
    outcome.result.unwrap()
}

/// What `echo` is given by this argument after a step that answered `{"list": [{"n": 1}], "text": "t", "none": null}`.
fn resolve(argument: &Value) -> Value {
    let first =
        json!({"tool": "echo", "args": {"list": [{"n": 1.5}], "text": "t", "none": null, "big": u64::MAX}});
    answer(
        &json!([first, {"tool": "echo", "args": {"v": argument}}]),
        json!({"a": {"b c": [true]}, "name": "Ada"}),
    )["v"]
        .clone()
}

#[test]
fn a_reference_keeps_its_type_and_one_among_text_becomes_text() {
    for (argument, value) in [
        (json!("$result[0].list"), json!([{"n": 1.5}])),
        (json!("$result[0].list[0].n"), json!(1.5)),
        (json!("$step_0.big"), json!(u64::MAX)),
        (json!("$result[0].none"), json!(null)),
        (json!("$steps.echo.outputs.text"), json!("t")),
        (json!("$inputs.a[\"b c\"]"), json!([true])),
        (
            json!("n=${result[0].list[0].n}, ${result[0].list}, ${result[0].text}$inputs.name"),
            json!("n=1.5, [{\"n\":1.5}], tAda"),
        ),
        (json!("${result[0].none}!"), json!("null!")),
        (json!("$$inputs.a costs $$5"), json!("$inputs.a costs $5")),
        (json!({"$inputs.a": ["$inputs.name", 1]}), json!({"$inputs.a": ["Ada", 1]})),
        (json!([]), json!([])),
        (json!({}), json!({})),
    ] {
        assert_eq!(resolve(&argument), value, "{argument}");
    }
}

#[test]
fn sy_t30_a_typed_value_goes_from_a_tool_to_the_next_and_a_failure_names_index_and_tool() {
    let project =
        Project::new().file("a.txt", "one\nTODO two\n").file("b.txt", "TODO three\nTODO four\n").sequence(
            "x",
            "",
            &json!([
                {"tool": "grep", "args": {"pattern": "TODO", "path": "."}},
                {"tool": "read_file", "args": {"path": "$result[0][2].file"}},
                {"tool": "echo", "args": {"hit": "$result[0][2]", "text": "$result[1]"}},
            ]),
        );
    let answer = project.run(&["tool:echo"]).result.unwrap();
    assert_eq!(answer["hit"]["file"], "b.txt");
    assert_eq!(answer["hit"]["line"], json!(2), "a number stays a number");
    assert_eq!(answer["text"], "TODO three\nTODO four\n");
    let outcome = Project::new()
        .sequence("x", "", &json!([{"tool": "tree"}, {"tool": "read_file", "args": {"path": "gone"}}]))
        .run(&[]);
    let (kind, sentence) = failure(&outcome);
    assert_eq!(kind, ErrorKind::Io);
    assert!(
        sentence.starts_with("step 2 of 2 (id read_file, read_file) failed: failed to read gone"),
        "{sentence}"
    );
    assert!(sentence.ends_with("; it was given {\"path\": \"gone\"}"), "{sentence}");
}

#[test]
fn the_value_is_the_last_steps_unless_the_plan_says_otherwise() {
    assert_eq!(answer(&json!([]), json!({})), Value::Null, "the value of no steps");
    assert_eq!(answer(&json!([{"tool": "echo", "args": {"a": 1}}]), json!({})), json!({"a": 1}));
    let steps = json!([{"tool": "echo", "args": {"a": 1}}, {"id": "b", "tool": "echo", "args": {"b": 2}}, {"tool": "tree"}]);
    for (outputs, value) in [
        (json!("b"), json!({"b": 2})),
        (json!("$result[0].a"), json!(1)),
        (
            json!({"first": "$result[0]", "text": "b is ${steps.b.outputs.b}"}),
            json!({"first": {"a": 1}, "text": "b is 2"}),
        ),
        (json!(["$inputs", 7]), json!([{"in": 1}, 7])),
    ] {
        assert_eq!(
            answer(&json!({"steps": steps, "outputs_from": outputs}), json!({"in": 1})),
            value,
            "{outputs}"
        );
    }
}

#[test]
fn text_that_is_json_stays_text() {
    let project = Project::new().file("data.json", "{\"a\": 1}").sequence(
        "x",
        "",
        &json!([{"tool": "read_file", "args": {"path": "data.json"}}]),
    );
    assert_eq!(project.value(json!({})), json!("{\"a\": 1}"));
}

#[test]
fn ar_t10_outputs_of_a_skill_reach_a_later_one_with_their_type() {
    let project = Project::new()
        .lua("cluster-auth", "", "return {kubeconfig = {server = input.cluster, port = 6443}}")
        .lua("validate", "", "return {valid = true}")
        .lua("helm-install", "", "return {port = input.kubeconfig.port + 1, label = input.label}")
        .contract(
            "x",
            "",
            "skill:\n  composed_of:\n  - skill: cluster-auth\n    inputs_from: {cluster: $inputs.cluster}\n    on_failure: abort\n  \
             - skill: validate\n  - skill: helm-install\n    inputs_from:\n      kubeconfig: $steps.cluster-auth.outputs.kubeconfig\n      \
             label: 'valid: ${steps.validate.outputs.valid}'\n",
        );
    assert_eq!(project.value(json!({"cluster": "c1"})), json!({"port": 6444, "label": "valid: true"}));
}

#[test]
fn a_declared_input_that_was_not_given_leaves_its_parameter_out() {
    let yaml = "inputs:\n  a: {type: string, required: true}\n  b: {type: string}\nsteps:\n- {tool: echo, args: {a: $inputs.a, b: $inputs.b}}\n";
    let project = Project::new().contract("x", "", yaml);
    assert_eq!(project.run_with(&["tool:echo"], json!({"a": "1"})).result.unwrap(), json!({"a": "1"}));
    assert_eq!(
        project.run_with(&["tool:echo"], json!({"a": "1", "b": "2"})).result.unwrap(),
        json!({"a": "1", "b": "2"})
    );
    let undeclared = Project::new().sequence("x", "", &json!([{"tool": "echo", "args": {"b": "$inputs.b"}}]));
    let (kind, sentence) = failure(&undeclared.run(&["tool:echo"]));
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(sentence.contains("there is no $inputs.b"), "{sentence}");
}

#[test]
fn a_condition_decides_whether_a_step_runs() {
    let steps = json!([
        {"id": "a", "tool": "echo", "args": {"n": 1}, "when": "$inputs.go"},
        {"id": "b", "tool": "echo", "args": {"n": 2}, "when": "$steps.a.outputs.n == 1"},
        {"id": "c", "tool": "echo", "args": {"a": "$steps.a.outputs", "b": "$steps.b.outputs"}},
    ]);
    assert_eq!(answer(&steps, json!({"go": true})), json!({"a": {"n": 1}, "b": {"n": 2}}));
    assert_eq!(answer(&steps, json!({"go": false})), json!({"a": null, "b": null}));
    assert_eq!(answer(&steps, json!({})), json!({"a": null, "b": null}));
}

#[test]
fn a_part_of_what_a_skipped_step_would_have_answered_is_an_error_that_says_so() {
    let steps = json!([{"id": "a", "tool": "tree", "when": "false"}, {"id": "b", "tool": "echo", "args": {"x": "$steps.a.outputs[0]"}}]);
    let (_, sentence) = failure(&Project::new().sequence("x", "", &steps).run(&["tool:echo"]));
    assert!(sentence.contains("there is no $steps.a.outputs[0], since a was skipped"), "{sentence}");
}

#[test]
fn a_loop_runs_its_step_for_each_item_up_to_its_bound() {
    let steps = |max: u64| json!([{"tool": "echo", "for_each": {"in": "$inputs.files", "as": "file", "max": max}, "args": {"f": "$file.name", "t": "<$file.name>"}}]);
    let input = json!({"files": [{"name": "a"}, {"name": "b"}]});
    assert_eq!(answer(&steps(2), input.clone()), json!([{"f": "a", "t": "<a>"}, {"f": "b", "t": "<b>"}]));
    assert_eq!(answer(&steps(2), json!({"files": []})), json!([]));
    for (input, words) in
        [(input, "the loop is for 2 items, more than its 1"), (json!({"files": {}}), "is not a list")]
    {
        let (_, sentence) =
            failure(&Project::new().sequence("x", "", &steps(1)).run_with(&["tool:echo"], input));
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[test]
fn a_function_is_called_by_the_names_of_its_parameters() {
    let project = Project::new().file("a.txt", "1\n2\n3\n").sequence(
        "x",
        "",
        &json!([{"tool": "head", "args": {"lines": "$inputs.n", "path": "a.txt"}}]),
    );
    assert_eq!(project.value(json!({"n": 2})), json!("1\n2"));
}

#[test]
fn a_plan_without_an_engine_runs_functions_and_says_what_is_not_there() {
    use metier::executor::{RuntimeId, Script, SkillInput};
    let script = |steps: Value| Script::new("x", "scripts/sequence.json", steps.to_string().into_bytes());
    let loaded = metier::ScriptLoader::new()
        .load(
            RuntimeId::TOOL_SEQUENCE,
            &script(json!([{"tool": "log", "args": {"level": "info", "message": "$inputs.m"}}])),
        )
        .unwrap();
    assert_eq!(loaded.execute(SkillInput::from(json!({"m": "hello"}))).unwrap().value, Value::Null);
    let loaded =
        metier::ScriptLoader::new().load(RuntimeId::TOOL_SEQUENCE, &script(json!([{"skill": "a"}]))).unwrap();
    assert_eq!(loaded.execute(SkillInput::default()).unwrap_err().kind(), ErrorKind::Unavailable);
    let refused = metier::ScriptLoader::new()
        .load(RuntimeId::TOOL_SEQUENCE, &script(json!([{"skill": "a", "args": []}])))
        .err()
        .unwrap();
    assert_eq!(refused.kind(), ErrorKind::InvalidSkill);
    assert_eq!(refused.location().unwrap().file, "scripts/sequence.json");
}

#[test]
fn defaults_of_a_skill_stand_in_for_what_its_step_does_not_give() {
    let inner = "{type: object, properties: {k: {type: string, default: v}}, required: [k]}";
    let inputs = format!(
        "{{type: object, properties: {{a: {{type: string, default: x}}, o: {inner}}}, required: [a]}}"
    );
    let project = Project::new()
        .lua("y", "", "return input")
        .file(".metier/skills/y/skill.yaml", format!("inputs: {inputs}\n"))
        .contract("x", "", "steps: [{skill: y, args: {o: {}}}]\n");
    assert_eq!(project.value(json!({})), json!({"a": "x", "o": {"k": "v"}}));
}
