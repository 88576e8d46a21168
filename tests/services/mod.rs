//! The skills for services over real connections: what each tool sends and makes of the answers, what it does with servers that misbehave,
//! and that no input reaches another place of a request than its own.

mod cases;
mod hostile_inputs;
mod misbehaviour;
mod server;

use std::path::Path;
use std::sync::Arc;

use metier::engine::{Engine, Invocation, Outcome};
use metier::host::{Fixtures, HttpClient};
use metier::policy::{Limits, Permission};
use metier::registry::{Registry, Root, Roots, Scope, Skill};
use serde_json::{Map, Value};
use tempfile::TempDir;

/// The skills for services, with the number of their tools.
const SERVICES: [(&str, usize); 8] = [
    ("betterstack", 4),
    ("datadog", 3),
    ("github", 8),
    ("linear", 8),
    ("notification", 3),
    ("sentry", 4),
    ("slack", 2),
    ("supabase", 9),
];

/// A case that calls a tool.
#[derive(Clone)]
struct ToolCase {
    skill: &'static str,
    name: String,
    tool: String,
    case: Value,
}

impl ToolCase {
    fn title(&self) -> String {
        format!("{}/cases/{}", self.skill, self.name)
    }

    fn given(&self, key: &str) -> Map<String, Value> {
        self.case["given"][key].as_object().cloned().unwrap_or_default()
    }

    fn requests(&self) -> &[Value] {
        self.case["expect"]["requests"].as_array().map_or(&[], Vec::as_slice)
    }

    fn succeeds(&self) -> bool {
        self.case["expect"].get("error").is_none()
    }
}

/// The cases of all services, in order.
fn tool_cases() -> Vec<ToolCase> {
    let mut cases = Vec::new();
    for (skill, _) in SERVICES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills").join(skill).join("cases");
        let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        for file in files.iter().filter(|file| file.extension().is_some_and(|it| it == "json")) {
            let case: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            let Some(tool) = case["tool"].as_str().map(str::to_owned) else { continue };
            cases.push(ToolCase { skill, name, tool, case });
        }
    }
    cases
}

/// The skills, and an engine whose requests go to this client.
struct Services {
    engine: Engine,
    registry: Arc<Registry>,
    _project: TempDir,
}

impl Services {
    /// With the settings and secrets that a case gives.
    fn new(case: &ToolCase, client: impl HttpClient + 'static) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("skills");
        let roots = Roots::empty().with(Root::new(Scope::Explicit, "skills", folder));
        let project = TempDir::new().unwrap();
        let mut given = Map::new();
        for key in ["config", "secrets"] {
            given.insert(key.into(), case.given(key).into());
        }
        let fixtures = Fixtures::new(&Value::from(given).to_string()).unwrap();
        let engine = Engine::builder(project.path()).roots(roots);
        let engine = engine.providers(fixtures.providers().http(client)).build().unwrap();
        let registry = engine.registry();
        Self { engine, registry, _project: project }
    }

    fn skill(&self, name: &str) -> &Skill {
        self.registry.find(name).unwrap()
    }

    /// Calls the tool of the case with this input, with what the case or the tool grants.
    fn call(&self, case: &ToolCase, input: Value) -> Outcome {
        self.call_within(case, input, Limits::default())
    }

    fn call_within(&self, case: &ToolCase, input: Value, limits: Limits) -> Outcome {
        let skill = self.skill(case.skill);
        let invocation = Invocation::new(case.skill).tool(&*case.tool).limits(limits).confirmed();
        let invocation = if input.is_null() { invocation } else { invocation.input(input) };
        let granted: Vec<Permission> = if let Some(allowed) = case.case["allow"].as_array() {
            allowed.iter().map(|name| name.as_str().unwrap().parse().unwrap()).collect()
        } else {
            let tools = &skill.contract().unwrap().tools;
            let tool = tools.iter().find(|tool| tool.name == case.tool);
            tool.and_then(|tool| self.engine.tool_permissions(skill, tool)).unwrap_or_default()
        };
        self.engine.run(granted.into_iter().fold(invocation, Invocation::grant))
    }
}

#[test]
fn the_services_offer_41_tools_with_a_description_and_a_risk() {
    let case = tool_cases().remove(0);
    let services = Services::new(&case, server::NoService);
    for (name, count) in SERVICES {
        let skill = services.skill(name);
        assert!(skill.contract_error().is_none(), "{name}: {:?}", skill.contract_error());
        let tools = &skill.contract().unwrap().tools;
        assert_eq!(tools.len(), count, "{name}");
        for tool in tools {
            let title = format!("{name}.{}", tool.name);
            assert!(tool.description.as_ref().is_some_and(|text| text.len() >= 20), "{title}");
            assert!(
                tool.risk_score.is_some_and(|score| score < 90),
                "{title}: critical stays with the person"
            );
            assert!(!tool.name.starts_with(name), "{title}: the server adds the name of the skill");
        }
    }
    assert_eq!(SERVICES.iter().map(|(_, count)| count).sum::<usize>(), 41);
}

#[test]
fn every_tool_has_a_case_that_succeeds_and_a_service_one_that_fails() {
    let cases = tool_cases();
    let services = Services::new(&cases[0], server::NoService);
    for (name, _) in SERVICES {
        for tool in &services.skill(name).contract().unwrap().tools {
            let of_tool: Vec<&ToolCase> =
                cases.iter().filter(|case| (case.skill, &case.tool) == (name, &tool.name)).collect();
            let has = |succeeds: bool| of_tool.iter().any(|case| case.succeeds() == succeeds);
            assert!(has(true), "{name}.{} has no case that succeeds", tool.name);
            let sends = of_tool.iter().any(|case| case.succeeds() && !case.requests().is_empty());
            assert!(sends, "{name}.{} has no case that compares its request", tool.name);
        }
        let fails = |case: &ToolCase| case.skill == name && !case.succeeds();
        assert!(cases.iter().any(fails), "{name}");
    }
}
