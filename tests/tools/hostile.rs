//! Tools that attack: circles, depth, names, and what a model may reach.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::trust::TrustStore;
use serde_json::json;

use crate::support::engine::{PanickingExecutor, Project, granted, kind, sentence, value};
use crate::tools::{FORECAST, FORECAST_SCRIPT, call};

#[test]
fn a_tool_that_calls_itself_ends_at_the_depth() {
    let contract = "permissions: ['tool:weather.t']\ntools: [{name: t, entrypoint: scripts/t.lua}]";
    let script = "return ctx.tool('weather.t', {n = (input.n or 0) + 1})";
    let project = Project::offering(contract, &[("t.lua", script)]);
    let outcome = call(&project.engine(), "t", json!({}), &["tool:weather.t"]);
    assert_eq!(kind(&outcome), ErrorKind::Script);
    assert!(sentence(&outcome).contains("8 deep"), "{outcome:?}");
}

#[test]
fn a_circle_through_two_skills_ends_too() {
    let offer = |project: Project, name: &str, other: &str| {
        let contract = format!(
            "permissions: ['tool:{other}.t', 'tool:{name}.t']\ntools: [{{name: t, entrypoint: scripts/t.lua}}]"
        );
        project.offer(name, &contract, &[("t.lua", &format!("return ctx.tool('{other}.t', {{}})"))])
    };
    let project = offer(offer(Project::new(), "weather", "other"), "other", "weather");
    let outcome = call(&project.engine(), "t", json!({}), &["tool:weather.t", "tool:other.t"]);
    assert_eq!(kind(&outcome), ErrorKind::Script);
    let told = sentence(&outcome);
    assert!(told.contains("weather.t") && told.contains("other.t") && told.contains("8 deep"), "{told}");
    // Through plans, skills and tools in turn.
    let plan = r#"{"steps": [{"id": "a", "tool": "weather.t", "args": {}}]}"#;
    let project = Project::offering(
        "permissions: ['tool:weather.t']\ntools: [{name: t, entrypoint: scripts/sequence.json}]",
        &[("sequence.json", plan)],
    );
    let outcome = call(&project.engine(), "t", json!({}), &["tool:weather.t"]);
    assert!(sentence(&outcome).contains("8 deep"), "{outcome:?}");
}

#[test]
fn hostile_names_in_a_call_are_errors_and_never_another_tool() {
    let script = "local kinds = {} for i, name in ipairs(input) do
        local ok, e = pcall(ctx.tool, name, {city = 'x'}) kinds[i] = if ok then 'called' else e.kind end return kinds";
    let project = Project::offering(FORECAST, &[("forecast.lua", FORECAST_SCRIPT)]);
    let names = [
        "weather.__proto__",
        "weather..forecast",
        "weather.",
        ".forecast",
        "weather/forecast",
        "weather.forecast ",
        "weather.FORECAST",
        "../weather.forecast",
        "weather.forecast\0",
        "weather\n.forecast",
        "*.forecast",
        "weather.*",
        "WEATHER.forecast",
        "weather.forecast.",
        "weather.forecast.x",
    ];
    let long = format!("weather.{}", "a".repeat(10_000));
    let names: Vec<&str> = names.into_iter().chain([long.as_str()]).collect();
    let project = project.caller("tool:weather.forecast", script);
    let run = Invocation::new("x").input(json!(names));
    let kinds = value(project.engine().run(granted(run, &["tool:weather.forecast"])));
    for (name, kind) in names.iter().zip(kinds.as_array().unwrap()) {
        // A dot at the beginning means a tool of the skill that calls, which has none.
        let expected =
            if *name == ".forecast" { ["unknown-skill"; 2] } else { ["denied", "invalid-argument"] };
        assert!(kind.as_str().is_some_and(|kind| expected.contains(&kind)), "{name:?}: {kind}");
    }
}

#[test]
fn a_model_calls_no_tool_of_a_skill_that_nobody_trusts() {
    let project = Project::offering(FORECAST, &[("forecast.lua", FORECAST_SCRIPT)])
        .caller("tool:weather.forecast", "return ctx.tool('weather.forecast', {city = 'x'})");
    let store = tempfile::tempdir().unwrap();
    let store = TrustStore::new(store.path().join("trust"));
    let engine = project.builder().trust(store).build().unwrap();
    let direct = Invocation::new("weather").tool("forecast").input(json!({"city": "x"}));
    let outcome = engine.run(direct.clone().for_model());
    assert_eq!(kind(&outcome), ErrorKind::Untrusted);
    assert!(!sentence(&outcome).contains("forecast"), "no text of the skill: {outcome:?}");
    assert_eq!(value(engine.run(direct)), json!({"text": "x in 3 days"}), "a person decides for itself");
    let unknown = Invocation::new("weather").tool("nothing").for_model();
    assert_eq!(kind(&engine.run(unknown)), ErrorKind::Untrusted, "an unknown tool says nothing either");
    let nested = granted(Invocation::new("x"), &["tool:weather.forecast"]).for_model();
    assert_eq!(kind(&engine.run(nested)), ErrorKind::Untrusted);
}

#[test]
fn a_file_below_a_path_of_state_is_no_handler() {
    let contract = "state: [data]\ntools: [{name: t, entrypoint: data/t.lua}]";
    let project = Project::offering(contract, &[])
        .file(".metier/skills/weather/data/t.lua", "return 'written by a run'");
    assert_eq!(kind(&call(&project.engine(), "t", json!({}), &[])), ErrorKind::Denied);
}

#[test]
fn a_panic_of_a_handler_is_an_error_of_its_call() {
    let project = Project::offering("tools: [{name: t, entrypoint: scripts/t.boom}]", &[("t.boom", "")])
        .caller("tool:weather.t", "local ok, e = pcall(ctx.tool, 'weather.t') return {ok, e.kind}");
    let engine =
        project.builder().runtime("boom", &["boom"], |_| Ok(Box::new(PanickingExecutor))).build().unwrap();
    let outcome = engine.run(granted(Invocation::new("x"), &["tool:weather.t"]));
    assert_eq!(value(outcome), json!([false, "script"]));
}
