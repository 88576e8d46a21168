//! Activation, composition and the registry of packages of AgentsKit, by the numbers of the acceptance cases.

use std::sync::Mutex;

use metier::engine::{Activation, Delegate, Engine};
use metier::error::{ErrorKind, Result};
use metier::formats::{PackageFilter, PackageRegistry};
use metier::host::{SkillContext, Tool, ToolProvider};
use serde_json::{Value, json};

use crate::support::engine::Project;

/// One tool, which nobody calls here.
struct Search;

impl ToolProvider for Search {
    fn tools(&self) -> Vec<Tool> {
        vec![Tool::new("web_search", "Searches the web.", json!({"type": "object"}))]
    }

    fn call(&self, _: &SkillContext, _: &str, _: &Value) -> Result<Value> {
        panic!("activating calls nothing")
    }
}

impl Project {
    /// Adds a persona with these keys besides those that each has.
    fn persona(self, name: &str, more: &Value) -> Self {
        let mut persona = json!({"name": name, "description": format!("Is {name}."), "systemPrompt": format!("You are {name}.")});
        persona.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.file(&format!(".metier/skills/{name}/skill.json"), persona.to_string())
    }

    /// Adds the script that runs when the persona is activated.
    fn hook(self, name: &str, script: &str) -> Self {
        self.file(&format!(".metier/skills/{name}/on_activate.lua"), script)
    }

    fn with_search(&self) -> Engine {
        self.builder().tools(Search).build().unwrap()
    }
}

fn tools(activation: &Activation) -> Vec<&str> {
    activation.tools.iter().map(|tool| tool.name.as_str()).collect()
}

#[test]
fn ak_a20_ak_a21_an_activation_has_what_the_skill_names_and_nothing_else() {
    let project = Project::new()
        .persona(
            "researcher",
            &json!({
                "tools": ["web_search", "double", "missing"], "delegates": ["critic", "nobody"], "temperature": 0.3,
                "examples": [{"input": "q", "output": "a"}], "metadata": {"a": 1},
            }),
        )
        .persona("critic", &json!({}))
        .skill("double", "")
        .file(".metier/skills/double/skill.yaml", "inputs: {n: {type: integer}}")
        .file(".metier/skills/double/scripts/main.lua", "return input.n * 2");
    let engine = project.with_search();
    let activation = engine.activate(&["researcher"]).unwrap();
    assert_eq!(activation.instructions, "You are researcher.");
    assert_eq!((activation.examples.len(), activation.temperature), (1, Some(0.3)));
    assert_eq!(tools(&activation), ["web_search", "double"]);
    assert_eq!(activation.tools[1].input_schema["properties"]["n"]["type"], "integer");
    assert_eq!(activation.delegates.len(), 1);
    assert_eq!(
        (activation.delegates[0].name.as_str(), activation.delegates[0].is_in_circle),
        ("critic", false)
    );
    let [tool, delegate] = &activation.problems[..] else { panic!("{:?}", activation.problems) };
    assert!(tool.starts_with("AK_TOOL_NOT_FOUND") && tool.contains("missing"), "{tool}");
    assert!(delegate.contains("nobody"), "{delegate}");
    assert_eq!(engine.activate(&["researcher"]).unwrap(), activation, "twice is the same");
    let text = Project::new()
        .skill("notes", "")
        .file(".metier/skills/notes/SKILL.md", "---\nname: notes\ndescription: d\n---\nWrite.\n");
    assert_eq!(text.engine().activate(&["notes"]).unwrap().instructions.trim(), "Write.");
    assert_eq!(text.engine().activate(&["other"]).unwrap_err().kind(), ErrorKind::UnknownSkill);
}

#[test]
fn an_activation_has_the_tools_that_the_skill_offers() {
    let contract = "
tools:
  - {name: forecast, description: Says it., inputs: {city: {type: string}}, entrypoint: scripts/forecast.lua}
  - {name: raw, internal: true, entrypoint: scripts/raw.lua}
";
    let project = Project::new()
        .skill("weather", "")
        .file(".metier/skills/weather/skill.yaml", contract)
        .file(".metier/skills/weather/scripts/forecast.lua", "return 1")
        .file(".metier/skills/weather/scripts/raw.lua", "return 2");
    let activation = project.with_search().activate(&["weather"]).unwrap();
    assert_eq!(tools(&activation), ["weather.forecast"]);
    assert_eq!(activation.tools[0].description, "Says it.");
    assert_eq!(activation.tools[0].input_schema["properties"]["city"]["type"], "string");
    assert!(activation.problems.is_empty(), "{:?}", activation.problems);
}

#[test]
fn ak_16_a_prompt_is_kept_as_it_is_written() {
    let prompt = "\n  P \r\n\tQ \n\n";
    let project = Project::new()
        .persona("a", &json!({"systemPrompt": prompt}))
        .persona("b", &json!({"systemPrompt": "R\n"}));
    let engine = project.with_search();
    assert_eq!(engine.activate(&["a"]).unwrap().instructions, prompt);
    let both = engine.activate(&["a", "b"]).unwrap().instructions;
    assert_eq!(both, format!("--- a ---\n{prompt}\n\n--- b ---\nR\n"));
}

/// How many skills stand in a tree of delegations.
fn count(delegates: &[Delegate]) -> usize {
    delegates.iter().map(|delegate| 1 + count(&delegate.delegates)).sum()
}

#[test]
fn s7_delegations_in_a_circle_end() {
    let mut project = Project::new().persona("itself", &json!({"delegates": ["itself"]}));
    for (name, next) in [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "a")] {
        project = project.persona(name, &json!({"delegates": [next]}));
    }
    let names: Vec<String> = (0..30).map(|number| format!("m{number}")).collect();
    for name in &names {
        project = project.persona(name, &json!({"delegates": names}));
    }
    let engine = project.engine();
    let itself = engine.activate(&["itself"]).unwrap();
    assert!(itself.delegates[0].is_in_circle && itself.delegates[0].delegates.is_empty());
    let a = engine.activate(&["a"]).unwrap();
    let mut path = Vec::new();
    let mut next: Option<&Delegate> = a.delegates.first();
    while let Some(delegate) = next {
        path.push(delegate.name.as_str());
        next = delegate.delegates.first();
    }
    assert_eq!(path, ["b", "c", "d"], "three deep");
    let many = engine.activate(&["m0"]).unwrap();
    assert!(count(&many.delegates) <= 100);
    assert!(
        many.problems.iter().any(|problem| problem.contains("others are left out")),
        "{:?}",
        many.problems
    );
}

#[test]
fn s9_a_script_may_add_tools_and_nothing_else() {
    let activated = |script: &str| {
        Project::new()
            .persona("x", &json!({"tools": ["web_search"]}))
            .hook("x", script)
            .with_search()
            .activate(&["x"])
    };
    let added = activated(
        "return {tools = {{name = 'look', description = 'Looks.', inputSchema = {type = 'object'}}, {name = 'web_search'}}}",
    )
    .unwrap();
    assert_eq!(tools(&added), ["look", "web_search"], "the last one of a name");
    assert_eq!(added.tools[1].description, "");
    for nothing in ["return nil", "return {}", "local n = 1"] {
        assert_eq!(tools(&activated(nothing).unwrap()), ["web_search"], "{nothing}");
    }
    for (script, words) in [
        ("return 1", "returns no tools"),
        ("return {instructions = 'Obey.'}", "may return tools alone"),
        ("return {tools = 'x'}", "is not a list"),
        ("return {tools = {'x'}}", "is not an object"),
        ("return {tools = {{name = 'not a name'}}}", "no name that is one"),
        ("return {tools = {{name = 'a', execute = 'x'}}}", "a tool has execute"),
        ("return {tools = {{name = 'a', inputSchema = 'x'}}}", "is not an object"),
    ] {
        let error = activated(script).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSkill, "{script}");
        assert!(
            error.message().starts_with("AK_SKILL_INVALID, S9") && error.message().contains(words),
            "{error}"
        );
    }
}

#[test]
fn s9_a_script_changes_nothing_and_calls_nothing() {
    for script in [
        "ctx.write('mark', 'x') return nil",
        "ctx.tool('web_search', {}) return nil",
        "ctx.skill('y') return nil",
        "ctx.secret('KEY') return nil",
        "ctx.http('https://example.com') return nil",
        "while true do end",
    ] {
        let project = Project::new()
            .persona("x", &json!({"tools": ["web_search"]}))
            .persona("y", &json!({}))
            .hook("x", script);
        let limits = crate::support::engine::deadline(500);
        let engine = project.builder().tools(Search).limits(limits).build().unwrap();
        let error = engine.activate(&["x"]).unwrap_err();
        assert!(error.message().starts_with("failed to activate x"), "{script}: {error}");
        assert!(!project.path("mark").exists(), "{script}");
    }
    let twice = Project::new()
        .persona("x", &json!({}))
        .hook("x", "return nil")
        .file(".metier/skills/x/on_activate.rhai", "()");
    assert!(twice.engine().activate(&["x"]).unwrap_err().message().contains("several of them"));
}

#[test]
fn ak_a12_ak_a14_several_skills_are_activated_as_one_or_not_at_all() {
    // SW-T21
    let project = Project::new()
        .persona("a", &json!({"tools": ["web_search"], "temperature": 0.1, "delegates": ["b"]}))
        .hook("a", "return {tools = {{name = 't', description = 'of a'}}}")
        .persona("b", &json!({"temperature": 0.9}))
        .hook("b", "return {tools = {{name = 't', description = 'of b'}}}")
        .persona("bad", &json!({}))
        .hook("bad", "error('no')");
    let engine = project.with_search();
    let both = engine.activate(&["a", "b"]).unwrap();
    assert_eq!((both.name.as_str(), both.description.as_str()), ("a_b", "Composed skill: a, b"));
    assert_eq!(both.instructions, "--- a ---\nYou are a.\n\n--- b ---\nYou are b.");
    assert_eq!((tools(&both), both.temperature), (vec!["web_search", "t"], Some(0.9)));
    assert_eq!(both.tools[1].description, "of b", "the last one of a name");
    assert!(both.delegates[0].is_in_circle, "it is active already");
    assert!(engine.activate(&["a", "bad"]).unwrap_err().message().starts_with("failed to activate bad"));
    assert!(engine.activate(&[]).unwrap_err().message().starts_with("AK_CONFIG_INVALID"));
}

fn package(version: &str, more: &Value) -> Vec<u8> {
    let skill = json!({"name": "researcher", "description": "d", "systemPrompt": "p"});
    let mut package = json!({"version": version, "skill": skill});
    package.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    package.to_string().into_bytes()
}

fn registry(versions: &[&str]) -> PackageRegistry {
    let mut registry = PackageRegistry::default();
    for version in versions {
        registry.publish(&package(version, &json!({"publisher": "p", "tags": ["web"]}))).unwrap();
    }
    registry
}

#[test]
fn ak_a09_a_version_is_published_once() {
    let registry = Mutex::new(PackageRegistry::default());
    let results: Vec<_> = std::thread::scope(|scope| {
        let publish = || registry.lock().unwrap().publish(&package("1.0.0", &json!({}))).map(drop);
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(publish)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let refused: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert_eq!(refused.len(), 7);
    assert!(refused.iter().all(|error| error.message().starts_with("AK_SKILL_DUPLICATE")), "{refused:?}");
    let mut registry = registry.into_inner().unwrap();
    assert!(registry.publish(&package("1.0.0+build.2", &json!({}))).is_err(), "a build is not a version");
    assert!(registry.publish(&package("1.0.1", &json!({}))).is_ok());
    for wrong in [&b"{}"[..], b"", br#"{"name": "x", "description": "d", "systemPrompt": "p"}"#] {
        let error = registry.publish(wrong).unwrap_err();
        assert!(error.message().starts_with("AK_SKILL_INVALID"), "{error}");
    }
}

#[test]
fn ak_a10_a_range_finds_its_newest_version() {
    let registry = registry(&["1.0.0", "2.0.0", "1.2.0", "3.0.0-beta.1"]);
    for (text, version) in [
        ("researcher@^1.0.0", "1.2.0"),
        ("researcher@~1.0.0", "1.0.0"),
        ("researcher@1.0.0", "1.0.0"),
        ("researcher@>=1", "2.0.0"),
        ("researcher", "2.0.0"),
        ("researcher@*", "2.0.0"),
        ("researcher@^3.0.0-beta.1", "3.0.0-beta.1"),
    ] {
        assert_eq!(registry.find_named(text).unwrap().version.to_string(), version, "{text}");
    }
    for (text, kind) in [
        ("researcher@^4", ErrorKind::UnknownSkill),
        ("other", ErrorKind::UnknownSkill),
        ("researcher@words", ErrorKind::Usage),
        ("researcher@", ErrorKind::Usage),
    ] {
        assert_eq!(registry.find_named(text).unwrap_err().kind(), kind, "{text}");
    }
    let versions = |filter: &PackageFilter| {
        registry.list(filter).into_iter().map(|package| package.version.to_string()).collect::<Vec<_>>()
    };
    let mut filter = PackageFilter::default();
    assert_eq!(versions(&filter), ["3.0.0-beta.1", "2.0.0", "1.2.0", "1.0.0"]);
    (filter.tag, filter.publisher) = (Some("web".into()), Some("p".into()));
    filter.range = Some("^1".parse().unwrap());
    assert_eq!(versions(&filter), ["1.2.0", "1.0.0"]);
    filter.tag = Some("other".into());
    assert_eq!(versions(&filter), [""; 0]);
}

#[test]
fn ak_a11_what_is_published_does_not_change() {
    let mut registry = registry(&["1.0.0"]);
    let mut found = registry.find("researcher", None).unwrap().clone();
    found.contract.name = Some("other".into());
    found.source.clear();
    assert_eq!(registry.find("researcher", None).unwrap().contract.name.as_deref(), Some("researcher"));
    assert_eq!(
        registry.find("researcher", None).unwrap().source,
        package("1.0.0", &json!({"publisher": "p", "tags": ["web"]}))
    );
    let version = found.version;
    assert!(registry.unpublish("researcher", &version) && !registry.unpublish("researcher", &version));
    assert!(registry.find("researcher", None).is_none());
    assert!(registry.publish(&package("1.0.0", &json!({}))).is_ok(), "it may come back");
}
