//! Allowed and denied tools: what the caller of a run leaves, whatever is granted.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::policy::ToolFilter;
use serde_json::json;

use crate::support::engine::{Project, granted, kind, sentence, value};
use crate::tools::forecast;

const NAMES: [&str; 3] = ["weather.forecast", "project/.metier:weather.forecast", "weather@0.0.0.forecast"];

fn filter(allowed: &[&str], denied: &[&str]) -> ToolFilter {
    let filter = ToolFilter::default();
    let filter = if allowed.is_empty() { filter } else { filter.allow(allowed.to_vec()).unwrap() };
    if denied.is_empty() { filter } else { filter.deny(denied.to_vec()).unwrap() }
}

/// A project whose skill `x` calls the tool by the name in its input.
fn calling() -> Project {
    let asks = NAMES.map(|name| format!("tool:{name}")).join(" ");
    forecast().caller(&asks, "return ctx.tool(input.name, {city = 'a', days = 1})")
}

#[test]
fn a_filter_holds_for_a_call_by_every_name() {
    // SW-18, SW-T04
    let project = calling();
    let engine = project.engine();
    let grants = NAMES.map(|name| format!("tool:{name}"));
    let grants: Vec<&str> = grants.iter().map(String::as_str).collect();
    for (filter, may) in [
        (filter(&[], &[]), true),
        (filter(&["weather.*"], &[]), true),
        (filter(&["weather.forecast"], &[]), true),
        (filter(&["other.*"], &[]), false),
        (filter(&[], &["weather.forecast"]), false),
        (filter(&[], &["weather.*"]), false),
        (filter(&["weather.forecast"], &["weather.forecast"]), false),
        (filter(&[], &["project/.metier:weather@0.0.0.forecast"]), false),
    ] {
        for name in NAMES {
            let run = Invocation::new("x").input(json!({"name": name})).tool_filter(filter.clone());
            let outcome = engine.run(granted(run, &grants));
            assert_eq!(outcome.result.is_ok(), may, "{filter:?} {name}: {:?}", outcome.result);
            if !may {
                assert_eq!(kind(&outcome), ErrorKind::Denied);
                assert!(sentence(&outcome).contains("left the tool out"), "{outcome:?}");
            }
        }
    }
}

#[test]
fn a_filter_holds_for_the_tool_that_is_called_first() {
    let project = forecast();
    let engine = project.engine();
    let call = |filter: ToolFilter| {
        engine
            .run(Invocation::new("weather").tool("forecast").input(json!({"city": "x"})).tool_filter(filter))
    };
    assert!(call(filter(&["weather.forecast"], &[])).result.is_ok());
    assert_eq!(kind(&call(filter(&[], &["weather.forecast"]))), ErrorKind::Denied);
    assert_eq!(kind(&call(filter(&["search"], &[]))), ErrorKind::Denied);
    let qualified =
        Invocation::new("project/.metier:weather@0.0.0").tool("forecast").input(json!({"city": "x"}));
    let outcome = engine.run(qualified.tool_filter(filter(&[], &["weather.forecast"])));
    assert_eq!(kind(&outcome), ErrorKind::Denied);
}

#[test]
fn a_filter_that_leaves_nothing_does_not_end_the_run() {
    // SW-T04
    let project =
        forecast().caller("tool:weather.forecast", "return (pcall(ctx.tool, 'weather.forecast', {}))");
    let run = granted(Invocation::new("x"), &["tool:weather.forecast"]);
    assert_eq!(value(project.engine().run(run.tool_filter(filter(&["nothing"], &[])))), false);
}
