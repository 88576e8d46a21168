//! Skill objects of SWEny, by the numbers of the acceptance cases.

use metier::engine::Invocation;
use metier::error::ErrorKind;
use metier::host::Fixtures;
use metier::skill::contract::DefinitionFormat;
use serde_json::{Value, json};

use crate::formats::{contract, refused};
use crate::support::engine::{Project, granted, kind, sentence, value};

const SAMPLE: &str = include_str!("samples/sweny-github.yaml");

/// A skill object with these keys besides those that each has.
fn object(more: &Value) -> String {
    let mut object = json!({"id": "x", "name": "X", "description": "d", "category": "general", "config": {}});
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object.to_string()
}

#[test]
fn the_sample_is_read_field_by_field() {
    let read = contract("skill.yaml", SAMPLE);
    assert_eq!(read.format, DefinitionFormat::Sweny);
    assert_eq!(read.name.as_deref(), Some("github"));
    assert_eq!(read.publication.display_name.as_deref(), Some("GitHub"));
    assert_eq!(read.publication.category.as_deref(), Some("git"));
    let setting = &read.config[0];
    assert_eq!((setting.key.as_str(), setting.env.as_deref()), ("GITHUB_TOKEN", Some("GITHUB_TOKEN")));
    assert_eq!(setting.requirement, metier::policy::ConfigRequirement::Required, "SW-T13");
    let names: Vec<&str> = read.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["search_code", "create_issue"]);
    let schema = read.tools[1].input_schema.as_ref().unwrap();
    assert!(schema.validate(&json!({"repo": "a", "title": "b"})).is_ok());
    assert!(schema.validate(&json!({"repo": "a"})).is_err());
    let json = serde_json::to_string(&sample_as_json()).unwrap();
    assert_eq!(contract("skill.json", &json).tools, read.tools, "JSON says the same");
}

/// The sample as JSON.
fn sample_as_json() -> Value {
    json!({
        "id": "github", "name": "GitHub", "category": "git",
        "description": "Search code, manage issues and pull requests on GitHub.",
        "config": {"GITHUB_TOKEN": {
            "description": "GitHub personal access token or installation token.", "required": true, "env": "GITHUB_TOKEN",
        }},
        "tools": [
            {"name": "search_code", "description": "Search for code across repositories.", "input_schema": {
                "type": "object", "properties": {"query": {"type": "string"}, "repo": {"type": "string"}}, "required": ["query"],
            }},
            {"name": "create_issue", "description": "Create a new issue in a repository.", "input_schema": {
                "type": "object",
                "properties": {"repo": {"type": "string"}, "title": {"type": "string"}, "body": {"type": "string"}},
                "required": ["repo", "title"],
            }},
        ],
    })
}

#[test]
fn sw_t24_what_the_schema_of_the_format_accepts_and_refuses() {
    let tool = json!({"name": "t", "description": "d", "input_schema": {"type": "object"}});
    for accepted in [
        json!({"tools": [tool]}),
        json!({"instruction": "Do it."}),
        json!({"mcp": {"type": "http", "url": "https://example.com/mcp", "headers": {"a": "b"}, "env": {"KEY": "what it is"}}}),
        json!({"mcp": {"command": "server", "args": ["--stdio"]}}),
        json!({"mcp": {"url": "HTTPS://x.example/mcp"}}),
        json!({"instruction": "x", "mcpAliases": {"search": ["find", "look"]}}),
    ] {
        contract("skill.json", &object(&accepted));
    }
    for (wrong, words) in [
        (json!({}), "at least one of"),
        (json!({"tools": []}), "`tools` is empty"),
        (json!({"instruction": "x", "id": " x"}), "`id` must be"),
        (json!({"instruction": "x", "id": "x\n"}), "`id` must be"),
        (json!({"instruction": "x", "category": " git"}), "is not a category"),
        (
            json!({"tools": [{"name": "t", "description": "d", "input_schema": null}]}),
            "input_schema must be a map",
        ),
        (
            json!({"instruction": "x", "config": {"A": {"description": "d", "required": null}}}),
            "required must be",
        ),
        (json!({"instruction": "x", "extra": 1}), "`extra` is not a key"),
        (json!({"mcp": {"args": ["x"]}}), "neither which program"),
        (json!({"mcp": {"type": "http", "command": "x"}}), "neither which program"),
        (json!({"mcp": {"type": "carrier-pigeon", "url": "https://a.b"}}), "must be stdio or http"),
        (json!({"mcp": {"url": "file:///etc/passwd"}}), "not the address of a server"),
        (json!({"instruction": "x", "mcpAliases": {"a": []}}), "no other names"),
        (json!({"tools": [tool, tool]}), "two tools are called `t`"),
        (json!({"tools": [{"name": "t", "description": "d"}]}), "needs `input_schema`"),
        (json!({"tools": [{"name": "", "description": "d", "input_schema": {}}]}), "`name` must be"),
        (json!({"instruction": "x", "category": "sports"}), "not a category"),
        (json!({"instruction": "x", "config": {"KEY": {"required": true}}}), "needs `description`"),
        (
            json!({"instruction": "x", "config": {"KEY": {"description": "d", "secret": true}}}),
            "`secret` is not a key",
        ),
    ] {
        refused("skill.json", &object(&wrong), words);
    }
}

#[test]
fn sw_t07_ids_that_are_no_identities_are_refused() {
    for id in ["../../etc/passwd", "MySkill", "bad--name", &"a".repeat(65)] {
        refused("skill.json", &object(&json!({"instruction": "x", "id": id})), "`id` must be");
    }
}

#[test]
fn sw_10_to_sw_12_settings_of_a_definition_reach_the_script() {
    let config =
        json!({"X_PLACE_OF_TESTS": {"description": "A place", "required": true, "env": "X_PLACE_OF_TESTS"}});
    let project = Project::new()
        .file(
            ".metier/skills/x/skill.json",
            object(&json!({"instruction": "i", "category": "git", "config": config})),
        )
        .file(".metier/skills/x/scripts/main.lua", "return ctx.config('X_PLACE_OF_TESTS')")
        .skill("y", "")
        .file(".metier/skills/y/scripts/main.lua", "return 2");
    settings_reach_the_script(&project, "git");
}

/// The skill `x` of that category answers with its required setting `X_PLACE_OF_TESTS`, and without it breaks no other.
pub fn settings_reach_the_script(project: &Project, category: &str) {
    let engine = project.engine();
    let run = |variables: &[(&str, &str)]| {
        let invocation = granted(Invocation::new("x"), &["env:X_PLACE_OF_TESTS"]);
        engine.run(variables.iter().fold(invocation, |run, (name, value)| run.env(*name, *value)))
    };
    let missing = run(&[]);
    assert_eq!(kind(&missing), ErrorKind::Unavailable, "SW-12");
    assert!(sentence(&missing).contains("X_PLACE_OF_TESTS is not provided (A place)"), "SW-11");
    assert!(sentence(&run(&[("X_PLACE_OF_TESTS", "")])).contains("is set to empty"), "SW-11");
    assert_eq!(value(run(&[("X_PLACE_OF_TESTS", "abc")])), json!("abc"), "SW-10");
    assert_eq!(value(engine.run(Invocation::new("y"))), json!(2), "SW-12: it breaks no other");
    let registry = engine.registry();
    let availability = engine.availability(registry.find("x").unwrap());
    assert!(availability.cannot_run().is_some(), "SW-12");
    let report = engine.diagnosis().settings;
    let [missing] = &report.missing[..] else { panic!("SW-26: {report:?}") };
    assert_eq!(
        (missing.category.as_str(), &missing.missing_env[..]),
        (category, &["X_PLACE_OF_TESTS".to_owned()][..])
    );
}

#[test]
fn names_and_variables_of_settings_are_checked() {
    for (config, words) in [
        (json!({"a b": {"description": "d"}}), "the name of a setting"),
        (json!({"K": {"description": "d", "env": "LD_PRELOAD"}}), "LD_PRELOAD"),
        (json!({"K": {"description": "d", "env": "not a name"}}), "not a name"),
    ] {
        refused("skill.json", &object(&json!({"instruction": "i", "config": config})), words);
    }
    let many: serde_json::Map<String, Value> =
        (0..101).map(|number| (format!("K{number}"), json!({"description": "d"}))).collect();
    refused("skill.json", &object(&json!({"instruction": "i", "config": many})), "more than 100 settings");
}

#[test]
fn sw_27_a_tool_is_found_by_the_names_that_activated_skills_declare_for_it() {
    let aliased = |names: &[&str]| object(&json!({"instruction": "i", "mcpAliases": {"double": names}}));
    let persona =
        json!({"name": "p", "description": "d", "systemPrompt": "p", "tools": ["twice", "thrice", "double"]});
    let project = Project::new()
        .file(".metier/skills/p/skill.json", persona.to_string())
        .file(".metier/skills/x/skill.json", aliased(&["twice"]))
        .file(".metier/skills/y/skill.json", aliased(&["twice"]).replace(r#""id":"x""#, r#""id":"y""#))
        .skill("double", "")
        .file(".metier/skills/double/scripts/main.lua", "return input.n * 2");
    let engine = project.engine();
    let activated = |names: &[&str]| {
        let activation = engine.activate(names).unwrap();
        let tools: Vec<String> = activation.tools.into_iter().map(|tool| tool.name).collect();
        (tools, activation.problems)
    };
    let (tools, problems) = activated(&["p", "x"]);
    assert_eq!(tools, ["double"], "once");
    assert!(matches!(&problems[..], [thrice] if thrice.contains("thrice")), "{problems:?}");
    // A skill that is not activated declares nothing, and what two declare counts for none.
    assert_eq!(activated(&["p"]).1.len(), 2);
    let (_, problems) = activated(&["p", "x", "y"]);
    let dropped = "x and y declare twice as another name of a tool, so it stands for none";
    assert!(problems.len() == 3 && problems.iter().any(|problem| problem == dropped), "{problems:?}");
    let findings = engine.diagnosis().findings;
    assert_eq!(findings.iter().filter(|finding| finding.message == dropped).count(), 1);
}

#[test]
fn a_tool_of_a_definition_that_says_how_is_called() {
    let tool = |http: &Value| {
        json!({
            "name": "get_issue", "description": "An issue.",
            "input_schema": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}, "http": http,
        })
    };
    let http = json!({
        "base_url": "$config.SERVICE_URL", "path": "/issues/$inputs.id", "headers": {"Authorization": "Bearer ${config.API_TOKEN}"},
    });
    let config = json!({"API_TOKEN": {"description": "t"}, "SERVICE_URL": {"description": "u"}});
    let silent = json!({"name": "other", "description": "o", "input_schema": {"type": "object"}});
    let definition = object(&json!({"config": config, "tools": [tool(&http), silent]}));
    let project = Project::new().file(".metier/skills/x/skill.json", definition);
    let given = r#"{
        "config": {"SERVICE_URL": "https://api.test/v1"}, "secrets": {"API_TOKEN": "hunter2/secret"},
        "http": {"https://api.test/v1/issues/7": {"json": {"id": "7"}}}
    }"#;
    let fixtures = Fixtures::new(given).unwrap();
    let engine = project.builder().providers(fixtures.providers()).build().unwrap();
    let call = |tool: &str, id: &str| {
        let run = Invocation::new("x").tool(tool).input(json!({"id": id}));
        engine.run(granted(run, &["net:api.test", "secret:API_TOKEN"]))
    };
    assert_eq!(value(call("get_issue", "7")), json!({"id": "7"}));
    assert_eq!(kind(&call("get_issue", "../7")), ErrorKind::InvalidInput);
    assert_eq!(kind(&call("other", "7")), ErrorKind::Unavailable);
    let activation = engine.activate(&["x"]).unwrap();
    let names: Vec<&str> = activation.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["x.get_issue"], "what cannot be called is not offered");
    for (http, words) in [
        (json!({"path": "/x"}), "no `base_url`"),
        (json!({"base_url": "https://a.test", "path": "/../x"}), "another path"),
        (json!({"base_url": "https://a.test", "path": "/$inputs.gone"}), "not an input of the tool"),
    ] {
        refused("skill.json", &object(&json!({"tools": [tool(&http)]})), words);
    }
}
