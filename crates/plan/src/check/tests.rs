//! Tests of the plan checker against tables of callees.

use serde_json::{Value, json};

use super::*;
use crate::Callee;
use crate::{from_contract, from_sequence};
use metier_core::error::{ErrorKind, SkillError};
use metier_core::policy::RequestedPermissions;

/// Callees, one row each.
#[derive(Default)]
pub(crate) struct TestCallees {
    skills: Vec<(String, Callee)>,
    tools: Vec<(String, Value)>,
}

impl TestCallees {
    /// Skills, and the skills that each of them calls.
    pub(crate) fn calling(rows: &[(&str, &[&str])]) -> Self {
        let skill = |(name, calls): &(&str, &[&str])| {
            let calls = calls.iter().map(|&name| name.to_owned()).collect();
            ((*name).to_owned(), Callee { identity: (*name).to_owned(), calls, ..callee(None, None) })
        };
        Self { skills: rows.iter().map(skill).collect(), tools: Vec::new() }
    }

    fn skill(mut self, name: &str, inputs: Value, outputs: Value) -> Self {
        let callee = Callee { identity: name.to_owned(), ..callee(Some(inputs), Some(outputs)) };
        self.skills.push((name.to_owned(), callee));
        self
    }

    fn tool(mut self, name: &str, schema: Value) -> Self {
        self.tools.push((name.to_owned(), schema));
        self
    }
}

fn callee(input_schema: Option<Value>, output_schema: Option<Value>) -> Callee {
    let requested = RequestedPermissions::Listed(Vec::new());
    Callee {
        identity: String::new(),
        input_schema,
        output_schema,
        calls: Vec::new(),
        requested,
        is_process: false,
        has_review: false,
    }
}

impl Callees for TestCallees {
    fn skill(&self, name: &str) -> CalleeLookup<Callee> {
        let missing = || SkillError::new(ErrorKind::UnknownSkill, format!("no skill is called `{name}`"));
        let found = self.skills.iter().find(|(known, _)| known == name);
        found.map_or_else(
            || CalleeLookup::Missing(missing()),
            |(_, callee)| CalleeLookup::Found(callee.clone()),
        )
    }

    fn tool(&self, name: &str) -> CalleeLookup<Value> {
        let missing = || SkillError::new(ErrorKind::Tool, format!("no tool is called `{name}`"));
        let found = self.tools.iter().find(|(known, _)| known == name);
        found.map_or_else(
            || CalleeLookup::Missing(missing()),
            |(_, schema)| CalleeLookup::Found(schema.clone()),
        )
    }
}

/// The plan of the article, and the callees of its steps.
const DEPLOY: &str = "
skill:
  name: deploy
  composed_of:
    - skill: cluster-auth
      inputs_from: {cluster: $inputs.cluster}
      on_failure: abort
    - skill: validate-chart
      inputs_from: {chart_path: $inputs.chart}
    - skill: helm-install
      inputs_from:
        kubeconfig: $steps.cluster-auth.outputs.kubeconfig
        chart_path: $inputs.chart
        label: 'chart ${inputs.chart}, valid: ${steps.validate-chart.outputs.valid}'
";

fn object(properties: &[(&str, &str)], required: &[&str]) -> Value {
    let properties: serde_json::Map<String, Value> =
        properties.iter().map(|(name, word)| ((*name).to_owned(), json!({"type": word}))).collect();
    json!({"type": "object", "properties": properties, "required": required})
}

fn cluster() -> TestCallees {
    TestCallees::default()
        .skill(
            "cluster-auth",
            object(&[("cluster", "string")], &["cluster"]),
            object(&[("kubeconfig", "object")], &[]),
        )
        .skill(
            "validate-chart",
            object(&[("chart_path", "string")], &["chart_path"]),
            object(&[("valid", "boolean")], &[]),
        )
        .skill(
            "helm-install",
            object(
                &[
                    ("kubeconfig", "object"),
                    ("chart_path", "string"),
                    ("label", "string"),
                    ("wait", "boolean"),
                ],
                &["kubeconfig", "chart_path"],
            ),
            object(&[("release", "string")], &[]),
        )
        .tool("search", object(&[("query", "string")], &["query"]))
        .tool("strict", json!({"type": "object", "properties": {"a": {}}, "additionalProperties": false}))
}

fn found(yaml: &str) -> Vec<Diagnostic> {
    match from_contract(yaml.as_bytes(), "skill.yaml") {
        Ok(plan) => {
            let inputs = object(
                &[("cluster", "string"), ("chart", "string"), ("list", "array"), ("flag", "string")],
                &["cluster", "chart", "list"],
            );
            check(&plan.expect("a plan"), "deploy", Some(&inputs), &cluster())
        }
        Err(found) => found,
    }
}

fn codes(yaml: &str) -> Vec<(&'static str, u32)> {
    found(yaml).into_iter().map(|found| (found.code, found.line)).collect()
}

#[test]
fn the_composite_of_the_article_has_no_fault() {
    assert_eq!(found(DEPLOY), []);
    let plan = from_contract(DEPLOY.as_bytes(), "skill.yaml").unwrap().unwrap();
    assert_eq!(
        plan.steps().iter().map(|step| step.id.as_str()).collect::<Vec<_>>(),
        ["cluster-auth", "validate-chart", "helm-install"]
    );
    assert!(plan.to_string().contains("kubeconfig = $steps.cluster-auth.outputs.kubeconfig"), "{plan}");
}

#[test]
fn ar_t12_what_leads_nowhere_is_found_where_it_stands() {
    for (from, to, code, line) in [
        (
            "$steps.cluster-auth.outputs.kubeconfig",
            "$steps.helm-install.outputs.release",
            "reference-forward",
            12,
        ),
        (
            "{cluster: $inputs.cluster}",
            "{cluster: $steps.helm-install.outputs.release}",
            "reference-forward",
            6,
        ),
        ("{cluster: $inputs.cluster}", "{cluster: '${result[2].release}'}", "reference-forward", 6),
        ("{cluster: $inputs.cluster}", "{cluster: '$result[9]'}", "reference-unknown", 6),
        ("$steps.cluster-auth.outputs", "$steps.cluster-auht.outputs", "reference-unknown", 12),
        ("outputs.kubeconfig", "outputs.kubeconfg", "reference-output", 12),
        ("outputs.kubeconfig", "outputs[0]", "reference-output", 12),
        ("$inputs.cluster", "$inputs.clutser", "reference-input", 6),
        ("$inputs.cluster", "$item", "reference-unknown", 6),
        ("chart_path: $inputs.chart}", "chart: $inputs.chart}", "parameter-unknown", 9),
        ("{chart_path: $inputs.chart}", "{chart_path: 5}", "parameter-value", 9),
        ("    kubeconfig: $steps.cluster-auth.outputs.kubeconfig", "    wait: true", "parameter-missing", 12),
        ("skill: validate-chart", "skill: validate-charts", "skill-unknown", 8),
        ("skill: validate-chart", "tool: validate-chart", "tool-unknown", 8),
        ("skill: validate-chart", "skill: cluster-auth", "step-id-twice", 8),
        ("skill: validate-chart", "{skill: a, tool: b}", "yaml-invalid", 0),
        ("skill: validate-chart", "skil: validate-chart", "step-call", 8),
        ("on_failure: abort", "on_failure: retry(0)", "step-on-failure", 7),
        ("on_failure: abort", "on_failure: retry(11)", "step-on-failure", 7),
        ("on_failure: abort", "on_failure: retry(3, 61s)", "step-on-failure", 7),
        ("on_failure: abort", "on_failure: retry(3, soon)", "step-on-failure", 7),
        ("on_failure: abort", "on_failure: [abort]", "step-on-failure", 7),
        ("on_failure: abort", "after: helm-install", "step-after", 7),
        ("on_failure: abort", "after: {a: b}", "step-after", 7),
        ("on_failure: abort", "timeout: soon", "step-timeout", 7),
        ("on_failure: abort", "timeout: 0s", "step-timeout", 7),
        ("on_failure: abort", "when: $inputs.cluster =", "step-when", 7),
        ("on_failure: abort", "when: $inputs.nobody", "reference-input", 7),
        ("on_failure: abort", "when: [a]", "step-when", 7),
        ("on_failure: abort", "id: 'a b'", "step-id", 7),
        ("on_failure: abort", "for_each: {as: x}", "step-for-each", 7),
        ("on_failure: abort", "for_each: {in: $inputs.list, max: 0}", "step-for-each", 7),
        ("on_failure: abort", "for_each: {in: $inputs.list, max: 10001}", "step-for-each", 7),
        ("on_failure: abort", "for_each: {in: $inputs.list, as: inputs}", "step-for-each", 7),
        ("on_failure: abort", "for_each: {in: $item}", "reference-unknown", 7),
        ("on_failure: abort", "for_each: null", "step-for-each", 7),
        ("on_failure: abort", "for_each: words", "step-for-each", 7),
        ("on_failure: abort", "for_each: {in: 5}", "step-for-each", 7),
        ("on_failure: abort", "for_each: {in: {a: $inputs.list}}", "step-for-each", 7),
        ("on_failure: abort", "for_each: $inputs.chart", "step-for-each", 7),
        ("{chart_path: $inputs.chart}", "{chart_path: $inputs.list}", "parameter-type", 9),
        ("{chart_path: $inputs.chart}", "{chart_path: [$inputs.chart]}", "parameter-type", 9),
        (
            "{chart_path: $inputs.chart}",
            "{chart_path: $steps.cluster-auth.outputs.kubeconfig}",
            "parameter-type",
            9,
        ),
        ("{chart_path: $inputs.chart}", "{chart_path: $inputs.flag}", "parameter-optional", 9),
        ("on_failure: abort", "on_error: abort", "step-key-unknown", 7),
        ("inputs_from: {cluster: $inputs.cluster}", "inputs_from: [a]", "step-args", 6),
        ("cluster: $inputs.cluster", "cluster: .nan", "step-args", 6),
        ("cluster: $inputs.cluster", "cluster: costs $5", "reference-syntax", 6),
    ] {
        let yaml = DEPLOY.replacen(from, to, 1);
        assert_ne!(yaml, DEPLOY, "{from}");
        let codes = codes(&yaml);
        let is_told = codes.iter().any(|found| found.0 == code && (line == 0 || found.1 == line));
        assert!(is_told, "{to}: expected {code} in line {line}, found {codes:?}");
    }
}

#[test]
fn a_way_out_is_named() {
    let help = |from: &str, to: &str| found(&DEPLOY.replacen(from, to, 1)).remove(0).help.unwrap();
    assert_eq!(help("outputs.kubeconfig", "outputs.kubeconfg"), "did you mean `kubeconfig`?");
    assert_eq!(help("$inputs.cluster", "$inputs.clutser"), "did you mean `cluster`?");
    assert_eq!(help("on_failure: abort", "on_failur: abort"), "did you mean `on_failure`?");
}

#[test]
fn a_loop_hands_out_a_list_of_what_its_step_answers_with() {
    let plan = |reference: &str| {
        format!(
            "steps:\n- {{skill: validate-chart, for_each: $inputs.list, args: {{chart_path: $item}}}}\n- {{tool: strict, args: {{a: '{reference}'}}}}"
        )
    };
    for reference in ["$result[0]", "$result[0][3].valid", "$steps.validate-chart.outputs[0]"] {
        assert_eq!(codes(&plan(reference)), [], "{reference}");
    }
    for reference in ["$result[0].valid", "$result[0][0].vald"] {
        assert_eq!(codes(&plan(reference)), [("reference-output", 3)], "{reference}");
    }
}

#[test]
fn functions_and_tools_are_validated_against_what_they_take() {
    let codes = |step: &str| codes(&format!("steps:\n- {step}"));
    assert_eq!(codes("{tool: grep, args: {pattern: a, path: '.', options: {}}}"), []);
    assert_eq!(codes("{tool: vfs.read, args: {path: a}}"), [("tool-unknown", 2)]);
    assert_eq!(
        codes("{tool: grep, args: {patern: a}}"),
        [("parameter-missing", 2), ("parameter-unknown", 2)]
    );
    assert_eq!(codes("{tool: head, args: {path: a, lines: many}}"), [("parameter-value", 2)]);
    assert_eq!(codes("{tool: search, args: {query: a, more: b}}"), [], "open, as JSON Schema has it");
    assert_eq!(codes("{tool: strict, args: {a: 1, b: 2}}"), [("parameter-unknown", 2)]);
    assert_eq!(codes("{tool: search}"), [("parameter-missing", 2)]);
}

#[test]
fn a_circle_of_skills_is_reported_where_it_begins() {
    let table = TestCallees::calling(&[("a", &["b"]), ("b", &["deploy"]), ("deploy", &["a"]), ("c", &[])]);
    let plan = from_contract(b"steps:\n- skill: c\n- skill: a\n", "skill.yaml").unwrap().unwrap();
    let found = check(&plan, "deploy", None, &table);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].code, found[0].line), ("skill-circle", 3));
    assert!(found[0].message.ends_with("deploy > a > b > deploy"), "{}", found[0].message);
    let itself = from_contract(b"steps:\n- skill: deploy\n", "skill.yaml").unwrap().unwrap();
    assert_eq!(check(&itself, "deploy", None, &table)[0].code, "skill-circle");
}

#[test]
fn outputs_from_names_steps_and_only_what_they_have() {
    let with = |outputs: &str| format!("{DEPLOY}  outputs_from: {outputs}\n");
    for outputs in
        ["helm-install", "$steps.helm-install.outputs.release", "{a: '$result[0]', b: ['$result[1].valid']}"]
    {
        assert_eq!(codes(&with(outputs)), [], "{outputs}");
    }
    for (outputs, code) in [
        ("nobody", "outputs-from"),
        ("5", "outputs-from"),
        ("$steps.nobody.outputs", "reference-unknown"),
        ("$steps.helm-install.outputs.relase", "reference-output"),
        ("$item", "reference-unknown"),
    ] {
        assert_eq!(codes(&with(outputs))[0].0, code, "{outputs}");
    }
}

#[test]
fn sy_t15_a_sequence_is_a_list_of_calls() {
    let steps =
        |json: &str| from_sequence(json.as_bytes(), "scripts/sequence.json").map(|plan| plan.steps().len());
    let two = r#"[{"tool": "glob", "args": {"pattern": "*"}}, {"tool": "tree"}]"#;
    assert_eq!(steps(two), Ok(2));
    assert_eq!(steps(&format!(r#"{{"steps": {two}}}"#)), Ok(2));
    assert_eq!(steps("[]"), Ok(0));
    for (json, code) in [
        ("{}", "plan-shape"),
        ("null", "plan-shape"),
        (r#"{"steps": {}}"#, "plan-shape"),
        (r#"{"step": []}"#, "plan-shape"),
        ("[1]", "step-shape"),
        (r#"[{"args": {}}]"#, "step-call"),
        (r#"[{"tool": 5}]"#, "step-call"),
        (r#"[{"tool": ""}]"#, "step-call"),
        (r#"[{"tool": "a\nb"}]"#, "step-call"),
        (r#"[{"tool": "tree", "args": []}]"#, "step-args"),
        (r#"[{"tool": "tree", "args": "x"}]"#, "step-args"),
        (r#"[{"tool": "tree", "id": "a\u001b"}]"#, "step-id"),
        ("[", "plan-syntax"),
        (r#"[{"tool": "tree", "tool": "tree"}]"#, "plan-syntax"),
        ("[{\"tool\": \"tree\", \"args\": {\"depth\": 99999999999999999999}}]", "plan-syntax"),
    ] {
        let found = from_sequence(json.as_bytes(), "scripts/sequence.json").unwrap_err();
        assert_eq!(found[0].code, code, "{json}: {found:?}");
    }
    assert_eq!(from_sequence(b"\xff", "x").unwrap_err()[0].code, "plan-not-utf8");
}

#[test]
fn the_place_of_a_fault_in_json_is_line_and_column() {
    let found = from_sequence(b"[\n  {\"tool\": \"tree\"},\n  {\"tool\": \"tree\", \"args\": 5}\n]", "x")
        .unwrap_err();
    assert_eq!((found[0].line, found[0].column), (3, 28));
    let found = from_sequence(b"[\n  {\"tool\" \"tree\"}]", "x").unwrap_err();
    assert_eq!(found[0].line, 2);
}

#[test]
fn steps_of_a_sequence_without_ids_get_their_number_behind_a_name_that_is_taken() {
    let json = br#"[{"tool": "tree"}, {"tool": "tree"}, {"id": "x", "tool": "tree"}, {"skill": "project/.metier:a@1.0.0"}]"#;
    let plan = from_sequence(json, "x").unwrap();
    assert_eq!(
        plan.steps().iter().map(|step| step.id.as_str()).collect::<Vec<_>>(),
        ["tree", "tree-1", "x", "a"]
    );
}

#[test]
fn hostile_plans_end_in_few_words() {
    let many = format!("[{}]", vec![r#"{"tool": "tree"}"#; 100_000].join(","));
    assert_eq!(from_sequence(many.as_bytes(), "x").unwrap_err()[0].code, "plan-too-large");
    let wrong = format!("[{}]", vec![r#"{"tool": "tree", "x": "$"}"#; 10_000].join(","));
    assert_eq!(from_sequence(wrong.as_bytes(), "x").unwrap_err().len(), 50);
    let large = format!("[{{\"tool\": \"tree\", \"args\": {{\"a\": \"{}\"}}}}]", "x".repeat(10 << 20));
    assert_eq!(from_sequence(large.as_bytes(), "x").unwrap_err()[0].code, "plan-too-large");
    let deep =
        format!("[{{\"tool\": \"tree\", \"args\": {}1{}}}]", "{\"a\":".repeat(5_000), "}".repeat(5_000));
    assert_eq!(from_sequence(deep.as_bytes(), "x").unwrap_err()[0].code, "plan-syntax");
    let names = format!(
        "[{}]",
        (0..9_000)
            .map(|at| format!(r#"{{"tool": "t{at}", "args": {{"a": "$nobody"}}}}"#))
            .collect::<Vec<_>>()
            .join(",")
    );
    let plan = from_sequence(names.as_bytes(), "x").unwrap();
    assert_eq!(check(&plan, "own", None, &TestCallees::default()).len(), 50);
}

#[test]
fn an_object_that_is_open_may_have_any_name() {
    let open =
        json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": true});
    let table = TestCallees::default().skill("y", open.clone(), open.clone());
    let yaml =
        b"steps:\n- {id: first, skill: y, args: {b: $inputs.other}}\n- {skill: y, args: {a: '$result[0].other'}}\n";
    let plan = from_contract(yaml, "skill.yaml").unwrap().unwrap();
    assert_eq!(check(&plan, "x", Some(&open), &table), []);
}

#[test]
fn a_plain_value_is_validated_against_all_that_is_declared_for_it() {
    let takes = json!({"type": "object", "properties": {
        "a": {"type": "integer", "minimum": 2},
        "b": {"type": "object", "properties": {"c": {"type": "string", "pattern": "^x"}}},
        "d": {"type": "array", "maxItems": 1}, "e": {},
    }, "required": ["a", "e"]});
    let table = TestCallees::default().skill("y", takes, json!({}));
    let told = |args: &str| {
        let yaml = format!("steps:\n- {{skill: y, args: {{e: 1, {args}}}}}\n");
        let plan = from_contract(yaml.as_bytes(), "skill.yaml").unwrap().unwrap();
        let found = check(&plan, "x", None, &table);
        found.into_iter().map(|found| (found.code, found.message, found.help.unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(told("a: 2, b: {c: xy}, d: [1]"), []);
    for (args, message, help) in [
        ("a: 1", "a of skill y cannot be 1", "/a: expected"),
        ("a: two", "a of skill y cannot be \"two\"", "it is an integer"),
        ("a: 2, b: {c: y}", "b of skill y cannot be {\"c\":\"y\"}", "/b/c: expected"),
        ("a: 2, d: [1, 2]", "d of skill y cannot be [1,2]", "/d: expected"),
    ] {
        let found = told(args);
        assert_eq!(found.len(), 1, "{args}: {found:?}");
        assert_eq!((found[0].0, found[0].1.as_str()), ("parameter-value", message));
        assert!(found[0].2.starts_with(help), "{found:?}");
    }
}

#[test]
fn types_that_may_meet_are_left_to_the_run() {
    let number = |word: Value| json!({"type": "object", "properties": {"n": {"type": word}}});
    for (given, taken, is_told) in [
        (json!("integer"), json!("number"), false),
        (json!("number"), json!("integer"), false),
        (json!(["string", "null"]), json!("string"), false),
        (json!("string"), json!(["integer", "null"]), true),
        (json!("boolean"), json!("object"), true),
    ] {
        let table = TestCallees::default().skill("y", number(taken.clone()), json!({}));
        let plan =
            from_contract(b"steps: [{skill: y, args: {n: $inputs.n}}]", "skill.yaml").unwrap().unwrap();
        let found = check(&plan, "x", Some(&number(given.clone())), &table);
        assert_eq!(!found.is_empty(), is_told, "{given} {taken}: {found:?}");
    }
}

#[test]
fn an_input_that_may_be_left_out_is_fine_where_something_stands_in_or_asks_for_it() {
    let inputs = json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"default": "x"}}});
    let codes = |step: &str| {
        let yaml = format!("steps:\n- {step}\n");
        let plan = from_contract(yaml.as_bytes(), "skill.yaml").unwrap().unwrap();
        let found = check(&plan, "x", Some(&inputs), &TestCallees::default());
        found.into_iter().map(|found| (found.code, found.blocks)).collect::<Vec<_>>()
    };
    assert_eq!(codes("{tool: read_file, args: {path: $inputs.a}}"), [("parameter-optional", false)]);
    assert_eq!(codes("{tool: read_file, args: {path: $inputs.b}}"), []);
    assert_eq!(codes("{tool: read_file, args: {path: $inputs.a}, when: $inputs.a}"), []);
    assert_eq!(codes("{tool: tree, args: {path: $inputs.a}}"), []);
}

#[test]
fn a_chain_deeper_than_skills_may_call_is_reported_before_it_runs() {
    let names: Vec<String> = (0..10).map(|at| format!("s{at}")).collect();
    let rows: Vec<(&str, Vec<&str>)> = (0..10)
        .map(|at| (names[at].as_str(), names.get(at + 1).map(String::as_str).into_iter().collect()))
        .collect();
    let rows: Vec<(&str, &[&str])> = rows.iter().map(|(name, calls)| (*name, calls.as_slice())).collect();
    let table = TestCallees::calling(&rows);
    let found = |first: &str| {
        let yaml = format!("steps: [{{skill: {first}}}]");
        check(&from_contract(yaml.as_bytes(), "skill.yaml").unwrap().unwrap(), "x", None, &table)
    };
    assert_eq!(found("s2"), [], "eight are as many as there may be");
    let told = found("s1").remove(0);
    assert_eq!(told.code, "skill-depth");
    assert!(
        told.message.starts_with("skills may call one another 8 deep, and these would be 9 deep: s1 > s2"),
        "{told}"
    );
}

#[test]
fn a_review_names_nothing_to_call_and_is_never_left_out() {
    let step = |step: &str| {
        let yaml = format!("steps:\n- {{id: a, tool: tree}}\n- {step}\n");
        codes(&yaml).into_iter().map(|(code, _)| code).collect::<Vec<_>>()
    };
    for fine in [
        "{review: Look at it}",
        "{review: }",
        "{review: null, id: look, after: [a]}",
        "{review: '$inputs.nothing {{x}}'}",
        "{id: look, review: x}\n- {tool: log, args: {level: info, message: '${steps.look.outputs.applied} paths'}}",
    ] {
        assert_eq!(step(fine), [] as [&str; 0], "{fine}");
    }
    for (wrong, code) in [
        ("{review: x, tool: tree}", "step-call"),
        ("{review: x, skill: helm-install}", "step-call"),
        ("{review: 5}", "step-review"),
        ("{review: true}", "step-review"),
        ("{review: [x]}", "step-review"),
        ("{review: \"a\\nb\"}", "step-review"),
        ("{review: x, when: $inputs.flag}", "step-review"),
        ("{review: x, for_each: $inputs.list}", "step-review"),
        ("{review: x, on_failure: continue}", "step-review"),
        ("{review: x, timeout: 5s}", "step-review"),
        ("{review: x, args: {}}", "step-review"),
        ("{review: x, inputs_from: {}}", "step-review"),
        ("{review: x, reviewer: me}", "step-key-unknown"),
        (
            "{id: l, review: x}\n- {tool: log, args: {level: info, message: '${steps.l.outputs.files} files'}}",
            "reference-output",
        ),
    ] {
        assert_eq!(step(wrong), [code], "{wrong}");
    }
    assert_eq!(step(&format!("{{review: {}}}", "x".repeat(1_000))), [] as [&str; 0]);
    assert_eq!(step(&format!("{{review: {}}}", "x".repeat(1_001))), ["step-review"]);
}

#[test]
fn no_plan_is_called_that_has_a_review_itself_or_below() {
    let mut table = TestCallees::calling(&[("a", &["b"]), ("b", &["c", "a2"]), ("c", &[]), ("a2", &[])]);
    let found = |table: &TestCallees| {
        let plan = from_contract(b"steps: [{skill: a}, {skill: a2}]", "skill.yaml").unwrap().unwrap();
        check(&plan, "x", None, table).into_iter().map(|found| found.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(found(&table), [] as [String; 0]);
    table.skills.iter_mut().filter(|(name, _)| name == "c").for_each(|(_, callee)| callee.has_review = true);
    let told = found(&table);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("the plan of the skill c has a review, so no other skill can call it"),
        "{told:?}"
    );
}

#[test]
fn a_tool_that_nobody_tells_of_is_a_warning_and_nearly_a_function_an_error() {
    let codes = |tool: &str| {
        let json = format!("[{{\"tool\": \"{tool}\"}}]");
        let plan = from_sequence(json.as_bytes(), "x").unwrap();
        let found = check(&plan, "x", None, &crate::NoCallees);
        found.into_iter().map(|found| (found.code, found.blocks, found.help.unwrap())).collect::<Vec<_>>()
    };
    let help =
        "it runs only where that tool is offered; the documentation of the host API lists the functions";
    assert_eq!(codes("search"), [("tool-untold", false, help.to_owned())]);
    assert_eq!(codes("read_fiel"), [("tool-slip", false, "did you mean `read_file`?".to_owned())]);
    assert_eq!(codes("tree"), []);
}

#[test]
fn sentences_say_what_stands_there_and_what_was_meant() {
    let first = |yaml: &str| found(yaml).remove(0);
    let steps = "steps:\n- {id: ab, tool: tree}\n- {id: fetch, tool: tree}\n";
    let slip = first(&format!("{steps}- {{tool: tree, args: {{path: $steps.fetchh.outputs}}}}"));
    assert_eq!(slip.help.as_deref(), Some("did you mean `fetch`?"));
    let none = first(&format!("{steps}- {{tool: tree, args: {{path: '$result[7]'}}}}"));
    assert_eq!(none.help.as_deref(), Some("there are ab, fetch"));
    assert!(first("steps: [{tool: tree, id: 3}]").message.starts_with("\"3\" is not an id"));
    let retry = first("steps: [{tool: tree, on_failure: {retry: 3}}]").message;
    assert!(retry.starts_with("a map is nothing that can come"), "{retry}");
    assert!(first("steps: [{tool: tree, args: {path: 3}}]").message.ends_with("cannot be 3"));
}

#[test]
fn a_duplicate_key_is_reported_where_it_stands_again() {
    let found = from_sequence(b"[\n  {\"tool\": \"tree\",\n   \"tool\": \"tree\"}]", "x").unwrap_err();
    assert_eq!((found[0].code, found[0].line), ("plan-syntax", 3));
}

#[test]
fn a_plan_of_many_references_into_a_large_schema_is_checked_with_one_look_at_it() {
    let properties: serde_json::Map<String, Value> = (0..9_000)
        .map(|at| (format!("p{at}"), json!({"type": "string", "description": "d".repeat(40)})))
        .collect();
    let large = json!({"type": "object", "properties": properties});
    let table = TestCallees::default().skill("y", large.clone(), large.clone());
    let mut steps = vec![json!({"skill": "y"})];
    let args: serde_json::Map<String, Value> =
        (0..4).map(|at| (format!("p{at}"), json!(format!("$result[0].p{at}")))).collect();
    steps.extend((0..9_999).map(|at| json!({"id": format!("s{at}"), "skill": "y", "args": args})));
    let plan = from_sequence(Value::from(steps).to_string().as_bytes(), "x").unwrap();
    assert_eq!(check(&plan, "x", Some(&large), &table), []);
}

#[test]
fn what_stands_in_for_a_parameter_need_not_be_given_to_a_skill() {
    let inner =
        json!({"type": "object", "properties": {"k": {"type": "string", "default": "v"}}, "required": ["k"]});
    let takes = json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "x"}, "b": {"type": "string"}, "o": inner,
    }, "required": ["a"]});
    let table = TestCallees::default().skill("y", takes.clone(), json!({})).tool("t", takes);
    let inputs = object(&[("a", "string")], &[]);
    let codes = |step: &str| {
        let plan = from_contract(format!("steps:\n- {step}\n").as_bytes(), "skill.yaml").unwrap().unwrap();
        let found = check(&plan, "x", Some(&inputs), &table);
        found.into_iter().map(|found| found.code).collect::<Vec<_>>()
    };
    for args in ["", ", args: {o: {}}", ", args: {o: {k: w}}", ", args: {b: y}", ", args: {a: $inputs.a}"] {
        assert_eq!(codes(&format!("{{skill: y{args}}}")), [""; 0], "{args}");
    }
    assert_eq!(codes("{skill: y, args: {o: {k: 5}}}"), ["parameter-value"]);
    assert_eq!(codes("{tool: t}"), ["parameter-missing"], "a tool gets nothing filled in");
    assert_eq!(codes("{tool: t, args: {a: x, o: {}}}"), ["parameter-value"]);
    assert_eq!(codes("{tool: t, args: {a: $inputs.a}}"), ["parameter-optional"]);
}

#[test]
fn a_text_is_a_way_out_only_where_one_is_taken() {
    let table =
        TestCallees::default().skill("y", object(&[("s", "string"), ("n", "integer")], &[]), json!({}));
    let inputs = object(&[("o", "object")], &["o"]);
    let help = |args: &str| {
        let yaml = format!("steps: [{{skill: y, args: {args}}}]");
        let plan = from_contract(yaml.as_bytes(), "skill.yaml").unwrap().unwrap();
        let mut found = check(&plan, "x", Some(&inputs), &table);
        assert_eq!((found.len(), found[0].code), (1, "parameter-type"), "{found:?}");
        found.remove(0).help.unwrap()
    };
    let within = "give what fits, or put it into a text, as in \"item: $inputs.o\"";
    assert_eq!(help("{s: $inputs.o}"), within);
    assert_eq!(help("{s: '${inputs.o}'}"), within);
    assert_eq!(help("{n: $inputs.o}"), "give what fits");
    let yaml = "steps: [{skill: y, args: {s: 'item: $inputs.o'}}]";
    let plan = from_contract(yaml.as_bytes(), "skill.yaml").unwrap().unwrap();
    assert_eq!(check(&plan, "x", Some(&inputs), &table), [], "the way out leads out");
}

#[test]
fn words_of_other_workflows_are_reported_with_what_they_are_called_here() {
    let first = |yaml: &str| {
        let found = found(yaml).remove(0);
        (found.code, found.blocks, found.help.unwrap())
    };
    for (word, meant) in [("depends_on", "after"), ("needs", "after"), ("arguments", "args"), ("if", "when")]
    {
        let told = first(&format!("steps: [{{tool: tree, {word}: a}}]"));
        assert_eq!(told, ("step-key-unknown", true, format!("did you mean `{meant}`?")));
    }
    let told = first("steps: [{tool: tree, for_each: {in: $inputs.list, depends_on: a}}]");
    assert_eq!(told.2, "there are in, as, max", "a loop comes after nothing");
    assert_eq!(first("steps: [{tool: ctx.tree}]"), ("tool-unknown", true, "did you mean `tree`?".to_owned()));
    let plan = from_sequence(br#"[{"tool": "ctx.tree"}]"#, "x").unwrap();
    let found = check(&plan, "x", None, &crate::NoCallees);
    assert_eq!((found[0].code, found[0].help.as_deref()), ("tool-slip", Some("did you mean `tree`?")));
}

#[test]
fn a_reference_in_the_braces_of_other_templates_is_reported_as_text() {
    let told = |args: &str| {
        let yaml =
            format!("steps:\n- {{tool: search, args: {{query: x}}}}\n- {{tool: strict, args: {args}}}\n");
        let found = found(&yaml);
        found
            .into_iter()
            .map(|found| (found.code, found.blocks, found.line, found.help.unwrap()))
            .collect::<Vec<_>>()
    };
    for (args, meant) in [
        ("{a: '{{inputs.chart}}'}", "$inputs.chart"),
        ("{a: 'see {{ steps.search.outputs[0] }}.'}", "$steps.search.outputs[0]"),
        ("{a: {b: ['{{x}} {{result[0]}}']}}", "$result[0]"),
        ("{a: ['$inputs.chart: {{ inputs.list }}']}", "$inputs.list"),
    ] {
        let help = format!("write {meant} for its value, or ${{{}}} beside other text", &meant[1..]);
        assert_eq!(told(args), [("text-braces", false, 3, help)], "{args}");
    }
    for args in
        ["{a: '{{ .Values.inputs }}'}", "{a: '{{name}} {{'}", "{a: '{inputs.chart}'}", "{a: '{{{{{{'}"]
    {
        assert_eq!(told(args), [], "{args}");
    }
}
