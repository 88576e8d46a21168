//! What a skill that offers tools promises: called by name, from everywhere, under one set of rules.

mod calls;
mod cases;
mod confirmation;
mod definitions;
mod filters;
mod handlers;
mod hostile;
mod http;
mod http_attacks;
mod http_services;
mod plans;

use metier::engine::{Engine, Invocation, Outcome};
use serde_json::Value;

use crate::support::engine::{Project, granted};

impl Project {
    /// A project with the skill `weather`: this contract, and a Lua script for each tool that names one.
    fn offering(contract: &str, scripts: &[(&str, &str)]) -> Self {
        Self::new().offer("weather", contract, scripts)
    }

    /// Adds a skill with this contract and these files in `scripts/`.
    fn offer(self, name: &str, contract: &str, scripts: &[(&str, &str)]) -> Self {
        let folder = format!(".metier/skills/{name}");
        let project = self.skill(name, "").file(&format!("{folder}/skill.yaml"), contract);
        scripts.iter().fold(project, |project, (file, script)| {
            project.file(&format!("{folder}/scripts/{file}"), script)
        })
    }

    /// Adds the skill `x`, whose script is this Lua and which requests these permissions.
    fn caller(self, permissions: &str, script: &str) -> Self {
        self.skill("x", &format!("allowed-tools: {permissions}\n"))
            .file(".metier/skills/x/scripts/main.lua", script)
    }
}

/// A skill with the tool `forecast`, which takes a city and a number of days.
const FORECAST: &str = "
description: Knows the weather.
tools:
  - name: forecast
    description: Says how the weather will be.
    inputs: {city: {type: string, required: true}, days: {type: integer, default: 3}}
    outputs: {text: {type: string, required: true}}
    entrypoint: scripts/forecast.lua
";
const FORECAST_SCRIPT: &str = "return {text = input.city .. ' in ' .. input.days .. ' days'}";

fn forecast() -> Project {
    Project::offering(FORECAST, &[("forecast.lua", FORECAST_SCRIPT)])
}

/// Calls a tool of `weather`.
fn call(engine: &Engine, tool: &str, input: Value, grants: &[&str]) -> Outcome {
    engine.run(granted(Invocation::new("weather").tool(tool).input(input), grants))
}
