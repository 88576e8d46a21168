//! A value arrives as it was written: with its keys in their order, its numbers and its texts, whichever way it takes.

use metier::engine::Invocation;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::{Map, Value, json};

use crate::support::engine::Project;

/// Keys that are not sorted, also below the top.
const UNSORTED: &str =
    r#"{"date":"2026-01-02","amount":10,"currency":"EUR","by":{"z":[{"b":1.5,"a":null}],"é":"\"\\"}}"#;

/// The JSON text of what `x` returns.
fn text_from(project: &Project, input: &Value) -> String {
    let invocation = Invocation::new("x").grant("skill:cat".parse().unwrap());
    project.engine().run(invocation.input(input.clone())).result.unwrap().to_string()
}

fn cat() -> Project {
    Project::shell("", "cat")
}

fn plan(steps: &Value) -> Project {
    let project = Project::new().skill("x", "allowed-tools: skill:cat\n").skill("cat", "");
    project
        .file(".metier/skills/x/scripts/sequence.json", steps.to_string())
        .file(".metier/skills/cat/scripts/main.sh", "cat")
}

/// The skill `x` that passes its input on, by each way on which nothing has to sort keys.
fn ways() -> [Project; 3] {
    let step = json!({"id": "c", "skill": "cat", "args": {"v": "$inputs"}});
    [
        cat(),
        plan(&json!({"steps": [{"tool": "tree"}], "outputs_from": "$inputs"})),
        plan(&json!({"steps": [step], "outputs_from": "$steps.c.outputs.v"})),
    ]
}

#[test]
fn what_a_script_prints_keeps_its_order_and_bare_text_that_looks_like_a_number() {
    let printed = |text: &str| {
        let project = Project::shell("", "cat printed").file("printed", text);
        project.engine().run(Invocation::new("x")).result.unwrap()
    };
    assert_eq!(printed(UNSORTED).to_string(), UNSORTED);
    for text in ["1.10\n", "5417e39\n", "100.00", "-0", "1e5", "007"] {
        assert_eq!(printed(text), json!(text));
    }
    for (text, value) in [("42\n", json!(42)), ("1.5", json!(1.5)), ("null\n", Value::Null)] {
        assert_eq!(printed(text), value);
    }
}

#[test]
fn a_half_of_a_surrogate_pair_is_replaced_with_a_warning() {
    let project = Project::shell("", "cat printed").file("printed", r#"{"t":"abc\ud83d"}"#);
    let outcome = project.engine().run(Invocation::new("x"));
    assert!(outcome.log.iter().any(|line| line.message.contains("U+FFFD")), "{:?}", outcome.log);
    assert_eq!(outcome.result.unwrap(), json!({"t": "abc\u{fffd}"}));
}

#[test]
fn a_bare_number_is_one_in_any_form_where_the_contract_asks_for_it() {
    let run = |text: &str, contract: &str| {
        let project =
            Project::shell("", &format!("echo {text}")).file(".metier/skills/x/skill.yaml", contract);
        project.engine().run(Invocation::new("x")).result
    };
    assert_eq!(run("1.10", "outputs: {type: number}").unwrap(), json!(1.1));
    assert_eq!(run("1e5", "outputs: {type: [number, 'null']}").unwrap(), json!(1e5));
    assert_eq!(run("1.10", "outputs: {type: string}").unwrap(), json!("1.10\n"));
    assert!(run("1.1x", "outputs: {type: number}").is_err());
    assert!(run("'\"1.10\"'", "outputs: {type: number}").is_err(), "quoted text is text");
}

#[test]
fn keys_keep_their_order_by_every_way() {
    let value: Value = serde_json::from_str(UNSORTED).unwrap();
    for project in ways() {
        assert_eq!(text_from(&project, &value), UNSORTED);
    }
}

#[test]
fn a_process_reads_an_input_as_it_is_written_if_nothing_has_changed_it() {
    let text = "{\"price\": 1.50,\n \"a\": [1e2, \"\\u00e9 \\\" b\"]}\n";
    let one_line = r#"{"price":1.50,"a":[1e2,"\u00e9 \" b"]}"#;
    let value = json!({"price": 1.5, "a": [100.0, "é \" b"]});
    let read = |contract: &str, value: &Value| {
        let project = Project::shell("", "cat > read; echo").file(".metier/skills/x/skill.yaml", contract);
        let project = project
            .file(".metier/skills/x/SKILL.md", "---\nname: x\ndescription: d\nallowed-tools: write\n---\n");
        let invocation = Invocation::new("x").grant("write".parse().unwrap());
        project.engine().run(invocation.input(value.clone()).input_text(text)).result.unwrap();
        project.read("read")
    };
    assert_eq!(read("version: 1.0.0", &value), one_line);
    assert_eq!(read("inputs: {price: {type: number}, a: {type: array}}", &value), one_line);
    let filled =
        read("inputs: {price: {type: number}, a: {type: array}, b: {type: integer, default: 1}}", &value);
    assert_eq!(filled, r#"{"price":1.5,"a":[100.0,"é \" b"],"b":1}"#);
    assert_eq!(read("version: 1.0.0", &json!({"other": 1})), r#"{"other":1}"#, "the text of another input");
}

#[test]
fn lua_and_rhai_sort_the_keys_of_what_they_return() {
    let sorted = |mut value: Value| {
        value.sort_all_objects();
        value.to_string()
    };
    let value: Value = serde_json::from_str(UNSORTED).unwrap();
    let project = Project::lua("return input");
    assert_eq!(text_from(&project, &value), sorted(value.clone()));
    if cfg!(feature = "rhai-runtime") {
        let project = Project::new().skill("x", "").file(".metier/skills/x/scripts/main.rhai", "input");
        assert_eq!(text_from(&project, &value), sorted(value));
    }
}

#[cfg(feature = "cli")]
#[test]
fn an_argument_of_the_shell_that_looks_like_a_number_stays_text() {
    let project = Project::shell("allowed-tools: skill:cat\n", "metier ctx --json skill cat \"$(cat sent)\"")
        .skill("cat", "")
        .file(".metier/skills/cat/scripts/main.lua", "return {got = input}");
    let engine = project.builder().helper(env!("CARGO_BIN_EXE_metier")).build().unwrap();
    for (sent, got) in
        [("5417e39", json!("5417e39")), ("1.10", json!("1.10")), ("1.5", json!(1.5)), ("[1]", json!([1]))]
    {
        crate::support::engine::write(&project.path("sent"), sent);
        let invocation = Invocation::new("x").grant("skill:cat".parse().unwrap());
        assert_eq!(engine.run(invocation).result.unwrap(), json!({"got": got}));
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        let fields = prop::collection::vec((any::<String>(), inner.clone()), 0..5);
        prop_oneof![
            prop::collection::vec(inner, 0..5).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// What a plan takes is an object, and its references are not to be read as such.
fn any_object() -> impl Strategy<Value = Value> {
    let fields = prop::collection::vec(("[a-z]{1,6}", any_value()), 0..6);
    fields.prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>()))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_json_arrives_unchanged_by_every_way(value in any_object()) {
        for project in ways() {
            prop_assert_eq!(text_from(&project, &value), value.to_string());
        }
    }
}
