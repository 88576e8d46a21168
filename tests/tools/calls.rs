//! A tool is called by its skill and its name: by a person, by a script in every language, and by a plan.

use std::time::Duration;

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::host::ClosureTools;
use serde_json::json;

use crate::support::engine::{ENDLESS, Project, granted, kind, sentence, value};
use crate::tools::{FORECAST, FORECAST_SCRIPT, call, forecast};

#[test]
fn a_tool_is_called_with_its_defaults_and_its_value_is_validated() {
    // AK-03
    // SW-05, SW-13
    let project = forecast();
    let engine = project.engine();
    let answer = call(&engine, "forecast", json!({"city": "Oslo"}), &[]);
    assert_eq!(value(answer), json!({"text": "Oslo in 3 days"}));
    for (input, words) in [
        (json!({}), "/city: expected a string, found nothing"),
        (json!({"city": 1}), "/city: expected a string"),
        (json!({"city": "x", "town": "y"}), "/town"),
    ] {
        let outcome = call(&engine, "forecast", input, &[]);
        assert_eq!(kind(&outcome), ErrorKind::InvalidInput);
        let told = sentence(&outcome);
        assert!(told.contains("the tool forecast of weather") && told.contains(words), "{told}");
    }
}

#[test]
fn a_value_of_the_wrong_type_is_no_value() {
    let project = Project::offering(FORECAST, &[("forecast.lua", "return {text = 5}")]);
    let outcome = call(&project.engine(), "forecast", json!({"city": "x"}), &[]);
    assert_eq!(kind(&outcome), ErrorKind::InvalidOutput);
    assert!(sentence(&outcome).contains("/text: expected a string"), "{outcome:?}");
}

#[test]
fn an_invalid_input_never_reaches_the_handler() {
    // SW-13, AK-T3
    let project =
        Project::offering(FORECAST, &[("forecast.lua", "ctx.log('info', 'it runs') return {text = ''}")]);
    let outcome = call(&project.engine(), "forecast", json!({"city": 5}), &[]);
    assert_eq!((kind(&outcome), outcome.log.len()), (ErrorKind::InvalidInput, 0));
}

#[test]
fn a_script_calls_a_tool_of_another_skill_by_one_name() {
    let script = "return {ctx.tool('weather.forecast', {city = 'Oslo'}), \
        ctx.tool('project/.metier:weather.forecast', {city = 'Rome', days = 1})}";
    let asks = "tool:weather.forecast tool:project/.metier:weather.forecast";
    let project = forecast().caller(asks, script);
    let grants: Vec<&str> = asks.split(' ').collect();
    let answer = value(project.run(&grants));
    assert_eq!(answer, json!([{"text": "Oslo in 3 days"}, {"text": "Rome in 1 days"}]));
}

#[test]
fn a_call_needs_the_permission_of_that_tool_from_the_caller_and_from_the_skill() {
    let call = "return ctx.tool('weather.forecast', {city = 'x'})";
    for (asks, grants) in [
        ("read", &["tool:weather.forecast"][..]),
        ("tool:weather.forecast", &[]),
        ("tool:weather.forecast", &["tool:weather"]),
        ("tool:weather.forecast", &["skill:weather"]),
        ("skill:weather", &["skill:weather"]),
        ("tool:weather.other", &["tool:weather.forecast", "tool:weather.other"]),
    ] {
        let outcome = forecast().caller(asks, call).run(grants);
        assert_eq!(kind(&outcome), ErrorKind::Denied, "{asks} {grants:?}");
        assert!(sentence(&outcome).contains("weather.forecast"), "{outcome:?}");
    }
}

#[test]
fn every_failure_of_a_tool_is_an_error_that_its_caller_can_hold() {
    // SW-16
    let contract = "
tools:
  - {name: raises, entrypoint: scripts/raises.lua}
  - {name: hangs, entrypoint: scripts/hangs.lua, timeout: 100ms}
  - {name: wrong, entrypoint: scripts/wrong.lua, outputs: {type: string}}
  - {name: strict, entrypoint: scripts/wrong.lua, inputs: {a: {type: string, required: true}}}
  - {name: deep, entrypoint: scripts/deep.lua}
";
    let script = "local kinds = {}
        for _, name in {'raises', 'hangs', 'wrong', 'strict', 'deep', 'nothing'} do
            local ok, e = pcall(ctx.tool, 'weather.' .. name, {})
            kinds[name] = {ok, e.kind, e.message}
        end
        return kinds";
    let names = ["raises", "hangs", "wrong", "strict", "deep", "nothing"];
    let asks = names.map(|name| format!("tool:weather.{name}"));
    let project = Project::offering(
        contract,
        &[
            ("raises.lua", "error('on purpose')"),
            ("hangs.lua", ENDLESS),
            ("wrong.lua", "return 5"),
            ("deep.lua", "local function f(n) return f(n + 1) + 1 end return f(1)"),
        ],
    )
    .caller(&asks.join(" "), script);
    let grants: Vec<&str> = asks.iter().map(String::as_str).collect();
    let kinds = value(project.run(&grants));
    for (name, kind) in names.into_iter().zip([
        "script",
        "timeout",
        "invalid-output",
        "invalid-input",
        "script",
        "unknown-skill",
    ]) {
        assert_eq!((&kinds[name][0], &kinds[name][1]), (&json!(false), &json!(kind)), "{name}: {kinds}");
    }
    let raised = kinds["raises"][2].as_str().unwrap();
    assert!(
        raised.contains("weather.raises failed at scripts/raises.lua:1") && raised.contains("on purpose"),
        "{raised}"
    );
}

#[test]
fn the_tool_runs_with_the_settings_and_the_log_of_its_own_skill() {
    // SW-14, SW-W04
    let contract = "
config: {region: {default: north}}
tools: [{name: region, entrypoint: scripts/region.lua}]
";
    let script =
        "ctx.log('warn', 'from the tool') return {ctx.config('region'), (pcall(ctx.config, 'other'))}";
    let project = Project::offering(contract, &[("region.lua", script)])
        .skill("x", "allowed-tools: tool:weather.region\n")
        .file(".metier/skills/x/skill.yaml", "config: {other: {default: secret of x}}\n")
        .file(".metier/skills/x/scripts/main.lua", "return ctx.tool('weather.region')");
    let outcome = project.run(&["tool:weather.region"]);
    assert!(outcome.log.iter().any(|line| line.message == "weather: from the tool"), "{:?}", outcome.log);
    let answer = value(outcome);
    assert_eq!((&answer[0], &answer[1]), (&json!("north"), &json!(false)), "{answer}");
}

#[test]
fn a_tool_of_the_host_keeps_its_name() {
    let project =
        forecast().caller("tool:weather.forecast", "return ctx.tool('weather.forecast', {city = 'x'})");
    let tools = ClosureTools::new().tool("weather.forecast", "d", json!({}), |_, _| Ok(json!("the host's")));
    let engine = project.builder().tools(tools).build().unwrap();
    assert_eq!(value(engine.run(granted(Invocation::new("x"), &["tool:weather.forecast"]))), "the host's");
}

#[test]
fn a_tool_has_no_permission_that_its_caller_or_its_own_list_lacks() {
    let contract = "
permissions: [write]
tools:
  - {name: all, entrypoint: scripts/write.lua}
  - {name: some, entrypoint: scripts/write.lua, permissions: ['write:out']}
  - {name: none, entrypoint: scripts/write.lua, permissions: []}
  - {name: more, entrypoint: scripts/write.lua, permissions: [write, exec, 'net:a.test']}
";
    let script = "return {(pcall(ctx.write, 'out/a', '')), (pcall(ctx.write, 'b', '')), (pcall(ctx.http, 'https://a.test/'))}";
    let project = Project::offering(contract, &[("write.lua", script)]);
    let engine = project.engine();
    for (tool, may) in [
        ("all", [true, true, false]),
        ("some", [true, false, false]),
        ("none", [false, false, false]),
        ("more", [true, true, false]),
    ] {
        let outcome = call(&engine, tool, json!({}), &["write", "net:a.test"]);
        assert_eq!(value(outcome), json!(may), "{tool}");
    }
    let project = project.caller("tool:weather.all write:out", "return ctx.tool('weather.all')");
    let outcome = project.run(&["tool:weather.all", "write"]);
    assert_eq!(value(outcome), json!([true, false, false]), "no more than its caller");
    let outcome = call(&project.engine(), "none", json!({}), &["write"]);
    assert!(outcome.result.is_ok());
}

#[test]
fn a_refusal_says_that_the_tool_does_not_list_the_permission() {
    let contract = "
permissions: [write]
tools: [{name: t, entrypoint: scripts/t.lua, permissions: []}]
";
    let project = Project::offering(contract, &[("t.lua", "ctx.write('a', '')")]);
    let told = sentence(&call(&project.engine(), "t", json!({}), &["write"]));
    assert!(
        told.contains("list write under permissions in the skill.yaml of weather, for its tool t"),
        "{told}"
    );
}

#[test]
fn the_time_of_a_tool_is_its_own() {
    let contract = "
timeout: 50ms
tools:
  - {name: long, entrypoint: scripts/sleep.lua, timeout: 1h}
  - {name: short, entrypoint: scripts/hang.lua, timeout: 10ms}
";
    let project = Project::offering(contract, &[("sleep.lua", ENDLESS), ("hang.lua", ENDLESS)]);
    for (tool, limit) in [("long", 50), ("short", 10)] {
        let outcome = call(&project.engine(), tool, json!({}), &[]);
        assert_eq!(kind(&outcome), ErrorKind::Timeout, "{tool}");
        assert_eq!(
            outcome.limits.timeout,
            Duration::from_millis(limit),
            "a file lowers a limit and never raises it"
        );
    }
}

#[test]
fn a_tool_that_nobody_offers_is_named_with_those_that_are() {
    let project = forecast();
    for (name, help) in [("forcast", "did you mean `forecast`?"), ("xyzzy", "it offers forecast")] {
        let error = call(&project.engine(), name, json!({}), &[]).result.unwrap_err();
        assert_eq!((error.kind(), error.help()), (ErrorKind::UnknownSkill, Some(help)), "{error}");
    }
    let error = project.engine().run(Invocation::new("weather")).result.unwrap_err();
    assert_eq!(error.help(), Some("call one of its tools: forecast"), "{error}");
    let both = Invocation::new("weather").tool("forecast").script("scripts/forecast.lua");
    assert_eq!(kind(&project.engine().run(both)), ErrorKind::Usage);
}

#[test]
fn the_script_of_a_tool_runs_in_no_other_way() {
    let project = forecast();
    for script in ["scripts/forecast.lua", "forecast.lua", "forecast", "./scripts/forecast.lua"] {
        let outcome = project.engine().run(Invocation::new("weather").script(script));
        assert_eq!(kind(&outcome), ErrorKind::Usage, "{script}");
        assert!(sentence(&outcome).contains("runs only when its tool is called: forecast"), "{outcome:?}");
    }
    let engine = project.engine();
    assert_eq!(engine.scripts(engine.registry().find("weather").unwrap()).unwrap(), Vec::<String>::new());
    // Unless its author names it as an entrypoint, too.
    let both = format!("{FORECAST}\nentrypoint: scripts/forecast.lua\n");
    let project = Project::offering(&both, &[("forecast.lua", FORECAST_SCRIPT)]);
    let outcome = project.engine().run(Invocation::new("weather").input(json!({"city": "a", "days": 1})));
    assert_eq!(value(outcome), json!({"text": "a in 1 days"}));
}
