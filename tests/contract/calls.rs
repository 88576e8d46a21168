//! Skills that skills call: the callee's contract holds, whoever calls and in whichever language.

use metier::engine::{Engine, Invocation};
use metier::error::ErrorKind;
use metier::host::ClosureTools;
use serde_json::{Value, json};

use crate::contract::violations;
use crate::support::engine::{Project, granted, kind, sentence, value};

const CALLEE: &str = "inputs:
  n: {type: integer, minimum: 1, required: true}
  unit: {type: string, default: km}
outputs:
  doubled: {type: integer, required: true}
";

/// A callee with a contract, whose script must not run when the input breaks it.
fn callee(project: Project) -> Project {
    project
        .skill("y", "")
        .file(
            ".metier/skills/y/scripts/main.lua",
            "if input.n == 13 then return {} end return {doubled = input.n * 2, unit = input.unit}",
        )
        .contract("y", CALLEE)
}

/// A caller in each language that hands its input on to `y`.
fn callers() -> Vec<(&'static str, Project)> {
    let asks = "allowed-tools: skill:y\n";
    let caller = |file: &str, script: &str| {
        Project::new().skill("x", asks).file(&format!(".metier/skills/x/scripts/{file}"), script)
    };
    let mut callers = vec![("lua", caller("main.lua", "return ctx.skill('y', input)"))];
    if cfg!(feature = "rhai-runtime") {
        callers.push(("rhai", caller("main.rhai", "ctx.skill(\"y\", input)")));
    }
    if cfg!(all(target_os = "linux", feature = "sandboxed")) {
        let script = "import json, sys\nfrom metier import ctx\nprint(json.dumps(ctx.skill('y', json.load(sys.stdin))))\n";
        callers.push(("external", caller("main.py", script)));
    }
    callers.into_iter().map(|(name, project)| (name, callee(project))).collect()
}

#[test]
fn a_callees_input_is_filled_in_and_validated_in_every_language() {
    for (language, project) in callers() {
        let good = project.run_with(json!({"n": 4}), &["skill:y"]);
        assert_eq!(value(good), json!({"doubled": 8, "unit": "km"}), "{language}");
        let bad = project.run_with(json!({"n": 0, "m": 1}), &["skill:y"]);
        let told = sentence(&bad);
        for part in [
            "the input breaks the contract of y",
            "/n: expected at least 1, found 0",
            "/m: expected no such field",
        ] {
            assert!(told.contains(part), "{language}: {told}");
        }
    }
}

#[test]
fn a_callees_value_is_validated_in_every_language() {
    for (language, project) in callers() {
        let outcome = project.run_with(json!({"n": 13}), &["skill:y"]);
        let told = sentence(&outcome);
        assert!(
            told.contains("/doubled: expected a whole number, found nothing (required)"),
            "{language}: {told}"
        );
    }
}

#[test]
fn a_callees_fault_keeps_its_kind() {
    let project = callee(Project::lua_with_tools("skill:y", "return ctx.skill('y', input)"));
    assert_eq!(kind(&project.run_with(json!({"n": "x"}), &["skill:y"])), ErrorKind::InvalidInput);
    assert_eq!(kind(&project.run_with(json!({"n": 13}), &["skill:y"])), ErrorKind::InvalidOutput);
    let script = "local ok, err = pcall(ctx.skill, 'y', {n = 'x'}) return {ok = ok, kind = err.kind}";
    let caught = callee(Project::lua_with_tools("skill:y", script)).run(&["skill:y"]);
    assert_eq!(value(caught), json!({"ok": false, "kind": "invalid-input"}));
}

#[test]
fn a_callee_whose_contract_does_not_stand_does_not_run() {
    let project = Project::lua_with_tools("skill:y", "return ctx.skill('y')")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return 1")
        .contract("y", "inputs: {a: {typ: string}}");
    let outcome = project.run(&["skill:y"]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidSkill);
}

#[test]
fn a_callee_asks_by_its_contract() {
    let writes = "ctx.write('out.txt', 'y') return true";
    let project = |permissions: &str| {
        Project::lua_with_tools("skill:y write", "return ctx.skill('y')")
            .skill("y", "")
            .file(".metier/skills/y/scripts/main.lua", writes)
            .contract("y", &format!("permissions: [{permissions}]"))
    };
    assert_eq!(value(project("write").run(&["skill:y", "write"])), json!(true));
    for asks in ["", "read", "'filesystem:write'", "'write:src'"] {
        assert_eq!(kind(&project(asks).run(&["skill:y", "write"])), ErrorKind::Denied, "{asks}");
    }
}

#[test]
fn tools_and_skills_stay_behind_one_door() {
    let project = Project::with_contract(
        "permissions: ['tool:echo']\ninputs: {word: {type: string, required: true}}",
        "return ctx.tool('echo', {word = input.word})",
    );
    let tools =
        || ClosureTools::new().tool("echo", "says it again", json!({}), |_, arguments| Ok(arguments.clone()));
    let engine: Engine = project.builder().tools(tools()).build().unwrap();
    let call = |input: Value| engine.run(granted(Invocation::new("x").input(input), &["tool:echo"]));
    assert_eq!(value(call(json!({"word": "hi"}))), json!({"word": "hi"}));
    assert_eq!(violations(&call(json!({"wrod": "hi"}))), ["/wrod additionalProperties", "/word required"]);
    let ungranted = engine.run(Invocation::new("x").input(json!({"word": "hi"})));
    assert_eq!(kind(&ungranted), ErrorKind::Denied);
}
