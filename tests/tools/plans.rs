//! Tools in plans: as steps, and as what runs when a tool is called.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, value};
use crate::tools::{call, forecast};

fn with_plan(steps: &str) -> Project {
    forecast().skill("x", "").file(".metier/skills/x/skill.yaml", steps)
}

#[test]
fn a_step_calls_a_tool_of_a_skill() {
    let plan = "
inputs: {city: {type: string, required: true}}
steps:
  - {id: weather, tool: weather.forecast, args: {city: $inputs.city, days: 2}}
";
    let project = with_plan(plan);
    let run = |grants: &[&str]| {
        project.engine().run(granted(Invocation::new("x").input(json!({"city": "Oslo"})), grants))
    };
    assert_eq!(value(run(&["tool:weather.forecast"])), json!({"text": "Oslo in 2 days"}));
    assert_eq!(kind(&run(&[])), ErrorKind::Denied, "a plan requests the tool, and somebody has to grant it");
}

#[test]
fn a_step_that_cannot_be_is_an_error_before_the_first_step() {
    for (step, words) in [
        ("{id: a, tool: weather.forcast, args: {city: x}}", "offers no tool called `forcast`"),
        ("{id: a, tool: weather.forecast, args: {city: x, town: x}}", "has no parameter"),
        ("{id: a, tool: weather.forecast, args: {city: 5}}", "cannot be 5"),
        ("{id: a, tool: nobody.forecast, args: {}}", "no function and no tool is called"),
    ] {
        let outcome = with_plan(&format!("steps:\n  - {step}\n")).run(&["tool:weather.forecast"]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidSkill, "{step}");
        assert!(sentence(&outcome).contains(words), "{step}: {outcome:?}");
    }
}

#[test]
fn a_plan_is_a_handler_with_the_input_of_its_tool() {
    let contract = "
inputs: {of_the_skill: {type: string, required: true}}
tools:
  - {name: twice, entrypoint: scripts/sequence.json, inputs: {path: {type: string, required: true}}}
";
    let plan = r#"{"steps": [{"id": "a", "tool": "read_file", "args": {"path": "$inputs.path"}}]}"#;
    let project = Project::offering(contract, &[("sequence.json", plan)]).file("a.txt", "text");
    assert_eq!(value(call(&project.engine(), "twice", json!({"path": "a.txt"}), &[])), "text");
    let wrong = plan.replace("inputs.path", "inputs.of_the_skill");
    let project = Project::offering(contract, &[("sequence.json", &wrong)]);
    assert_eq!(kind(&call(&project.engine(), "twice", json!({"path": "a"}), &[])), ErrorKind::InvalidSkill);
}

#[test]
fn the_digest_of_a_skill_counts_the_skills_whose_tools_it_calls() {
    let script = "return ctx.tool('weather.forecast', {city = 'x'})";
    let project = forecast().caller("tool:weather.forecast", script);
    let digest = |project: &Project| {
        let engine = project.engine();
        let registry = engine.registry();
        engine.skill_files(registry.find("x").unwrap()).unwrap()
    };
    let before = digest(&project);
    assert_eq!(before.callees.len(), 1);
    let project = project.file(".metier/skills/weather/scripts/forecast.lua", "return {text = 'changed'}");
    assert_ne!(digest(&project).digest, before.digest);
    let planned = with_plan("steps:\n  - {id: a, tool: weather.forecast, args: {city: x}}\n");
    assert_eq!(digest(&planned).callees.len(), 1);
}

#[test]
fn what_a_run_could_reach_names_the_tools_that_it_may_call() {
    let project = forecast().caller("tool:weather.forecast", "return 1");
    let engine = project.engine();
    let explained = engine.explain(&granted(Invocation::new("x"), &["tool:weather.forecast"])).unwrap();
    let callee = &explained.callees[0];
    assert_eq!(callee.tool.as_deref(), Some("forecast"));
    assert_eq!(callee.script.as_deref(), Some("scripts/forecast.lua"));
    let own =
        engine.explain(&Invocation::new("weather").tool("forecast").input(json!({"city": "x"}))).unwrap();
    assert_eq!((own.tool.as_deref(), own.script.as_str()), (Some("forecast"), "scripts/forecast.lua"));
}
