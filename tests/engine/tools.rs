//! A tool is called with what its own schema takes, whoever calls and in whichever language.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metier::engine::{Engine, Invocation, Outcome};
use metier::error::{ErrorKind, Result, SkillError};
use metier::host::{ClosureTools, SkillContext, Tool, ToolProvider};
use serde_json::{Value, json};

use crate::support::engine::{Project, granted, kind, sentence, value};

const EXPECTED_ERROR: &str = "the input breaks the contract of tool add:
/a: expected at least 0, found -1 (minimum)
/b: expected a number, found \"2\" (type)";

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"a": {"type": "number", "minimum": 0}, "b": {"type": "number"}},
        "required": ["a"],
        "additionalProperties": false,
    })
}

/// A tool of that schema that counts its calls and answers with what it was given.
fn counting_tools(schema: Value) -> (ClosureTools, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let tools = ClosureTools::new().tool("add", "Adds", schema, move |_, args| {
        count.fetch_add(1, Ordering::SeqCst);
        Ok(args.clone())
    });
    (tools, calls)
}

/// A skill in each language that hands its input on to the tool.
fn callers() -> Vec<(&'static str, Project)> {
    let caller = |file: &str, script: &str| {
        Project::new()
            .skill("x", "allowed-tools: tool:add\n")
            .file(&format!(".metier/skills/x/scripts/{file}"), script)
    };
    let mut callers = vec![("lua", caller("main.lua", "return ctx.tool('add', input.args)"))];
    if cfg!(feature = "rhai-runtime") {
        callers.push(("rhai", caller("main.rhai", "ctx.tool(\"add\", input.args)")));
    }
    if cfg!(all(target_os = "linux", feature = "sandboxed")) {
        let script =
            "import json\nfrom metier import ctx, input\nprint(json.dumps(ctx.tool('add', input['args'])))\n";
        callers.push(("python", caller("main.py", script)));
    }
    let steps = "inputs: {args: {type: object, required: true}}\nsteps:\n  - {id: s, tool: add, args: {a: $inputs.args.a, b: $inputs.args.b}}\n";
    callers.push(("a plan", Project::new().skill("x", "").file(".metier/skills/x/skill.yaml", steps)));
    callers
}

fn call(engine: &Engine, args: &Value) -> Outcome {
    engine.run(granted(Invocation::new("x").input(json!({"args": args})), &["tool:add"]))
}

/// A Lua script that calls `add` of that schema with what is written.
fn lua(schema: Value, arguments: &str) -> (Outcome, usize) {
    let project =
        Project::lua_with_tools("tool:add", &format!("return {{got = ctx.tool('add'{arguments})}}"));
    let (tools, calls) = counting_tools(schema);
    let engine = project.builder().tools(tools).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &["tool:add"]));
    (outcome, calls.load(Ordering::SeqCst))
}

#[test]
fn arguments_are_validated_against_the_schema_of_the_tool_in_every_language() {
    for (language, project) in callers() {
        let (open, calls) = counting_tools(json!({}));
        let wrong = json!({"a": -1, "b": "2"});
        let outcome = call(&project.builder().tools(open).build().unwrap(), &wrong);
        assert_eq!((value(outcome), calls.load(Ordering::SeqCst)), (wrong.clone(), 1), "{language}");

        let (tools, calls) = counting_tools(schema());
        let engine = project.builder().tools(tools).build().unwrap();
        for _ in 0..2 {
            let outcome = call(&engine, &wrong);
            assert_eq!(kind(&outcome), ErrorKind::InvalidInput, "{language}: {outcome:?}");
            assert!(sentence(&outcome).contains(EXPECTED_ERROR), "{language}: {}", sentence(&outcome));
            let record = serde_json::to_value(&outcome).unwrap();
            let violations = record["error"]["violations"].as_array().unwrap();
            let expected = json!({"path": "/b", "keyword": "type", "expected": "a number", "found": "\"2\""});
            assert_eq!((violations.len(), &violations[1]), (2, &expected), "{language}: {record:#}");
        }
        assert_eq!(calls.load(Ordering::SeqCst), 0, "{language}: the tool was called");
    }
}

#[test]
fn what_fits_reaches_the_tool_as_it_is() {
    let with_default = json!({"type": "object", "properties": {"a": {"default": 1}}});
    for (schema, arguments, got) in [
        (schema(), ", {a = 1}", json!({"a": 1})),
        (with_default, ", {}", json!({})),
        (json!({"type": "string"}), ", 'text'", json!("text")),
        (json!({}), ", {1, 2}", json!([1, 2])),
    ] {
        let (outcome, calls) = lua(schema, arguments);
        assert_eq!((value(outcome), calls), (json!({"got": got}), 1), "{arguments}");
    }
}

#[test]
fn arguments_left_out_count_as_an_empty_object_where_one_is_taken() {
    let (outcome, calls) = lua(json!({"type": "object", "properties": {"a": {"type": "number"}}}), "");
    assert_eq!((outcome.result.is_ok(), calls), (true, 1));
    let (outcome, calls) = lua(schema(), "");
    assert!(sentence(&outcome).contains("/a: expected a number, found nothing (required)"), "{outcome:?}");
    assert_eq!(calls, 0);
    let (outcome, calls) = lua(json!({"type": "string"}), "");
    assert!(
        sentence(&outcome).contains("the whole value: expected a string, found null (type)"),
        "{outcome:?}"
    );
    assert_eq!(calls, 0);
}

#[test]
fn a_script_can_handle_the_refusal() {
    let script = "local ok, e = pcall(ctx.tool, 'add', {aa = 1}) return {e.kind, e.help}";
    let (tools, _) = counting_tools(schema());
    let project = Project::lua_with_tools("tool:add", script);
    let engine = project.builder().tools(tools).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &["tool:add"]));
    assert_eq!(value(outcome), json!(["invalid-input", "did you mean `a`?"]));
}

#[test]
fn a_schema_that_cannot_be_enforced_leaves_the_judgement_to_the_tool() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"type": "object", "properties": {"a": {"pattern": "(?=x)"}}}),
        json!({"properties": {"a": {"$ref": "https://example.com/schema.json"}}}),
        json!({"type": "no such type"}),
        json!(null),
        json!(true),
    ] {
        let (outcome, calls) = lua(schema.clone(), ", {a = 5}");
        assert_eq!((value(outcome), calls), (json!({"got": {"a": 5}}), 1), "{schema}");
    }
}

#[test]
fn a_tools_own_errors_stay_its_own() {
    let project = Project::lua_with_tools("tool:add", "return ctx.tool('add', {a = 1})");
    let tools = ClosureTools::new()
        .tool("add", "Adds", schema(), |_, _| Err(SkillError::new(ErrorKind::InvalidInput, "it overflows")));
    let engine = project.builder().tools(tools).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &["tool:add"]));
    assert_eq!(
        (kind(&outcome), sentence(&outcome)),
        (ErrorKind::Tool, "tool add failed: it overflows".into())
    );
}

/// A provider whose tool takes something else from call to call, and which has a word of its own to say.
struct ChangingTools(AtomicUsize);

impl ToolProvider for ChangingTools {
    fn tools(&self) -> Vec<Tool> {
        panic!("whoever has many tools is not asked for a list");
    }

    fn tool(&self, name: &str) -> Option<Tool> {
        let kind = ["string", "number"][self.0.fetch_add(1, Ordering::SeqCst) / 2 % 2];
        let tool = |name: &str| Tool::new(name, "", json!({"type": kind}));
        (name == "add").then(|| tool(name))
    }

    fn check(&self, _: &str, args: &Value) -> Result<()> {
        let is_odd = args.as_i64().is_some_and(|number| number % 2 == 1);
        let refused = SkillError::new(ErrorKind::InvalidArgument, "it is odd");
        if is_odd { Err(refused) } else { Ok(()) }
    }

    fn call(&self, _: &SkillContext, _: &str, args: &Value) -> Result<Value> {
        Ok(args.clone())
    }
}

#[test]
fn a_tool_is_validated_by_what_it_says_now_and_its_provider_may_refuse_more() {
    let project = Project::lua_with_tools("tool:add", "return ctx.tool('add', input.args)");
    let engine = project.builder().tools(ChangingTools(AtomicUsize::new(0))).build().unwrap();
    let told = |args: Value| call(&engine, &args).result.map_err(|error| error.kind());
    assert_eq!(told(json!("text")), Ok(json!("text")));
    assert_eq!(told(json!("text")), Err(ErrorKind::InvalidInput));
    assert_eq!(told(json!("text")), Ok(json!("text")));
    assert_eq!(told(json!(7)), Err(ErrorKind::InvalidArgument));
}

#[test]
fn a_callee_meets_the_same_door() {
    let project = Project::lua_with_tools("skill:y tool:add", "return ctx.skill('y')")
        .skill("y", "allowed-tools: tool:add\n")
        .file(".metier/skills/y/scripts/main.lua", "return ctx.tool('add', {a = 'x'})");
    let (tools, calls) = counting_tools(schema());
    let engine = project.builder().tools(tools).build().unwrap();
    let outcome = engine.run(granted(granted(Invocation::new("x"), &["tool:add"]), &["skill:y"]));
    assert_eq!((kind(&outcome), calls.load(Ordering::SeqCst)), (ErrorKind::InvalidInput, 0));
}
