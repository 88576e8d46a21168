//! The tools that skills offer, as tools of the server: their names, their risk, their filter, and who is asked.

use serde_json::{Value, json};

use crate::mcp::client::Client;
use crate::support::cli::Project;

const CONTRACT: &str = "
description: Knows the weather.
permissions: ['write:out']
tools:
  - name: forecast
    description: Says how the weather will be.
    inputs: {city: {type: string, required: true}}
    outputs: {text: {type: string}}
    entrypoint: {path: scripts/tools.lua, function: forecast}
    permissions: []
  - name: delete
    description: Removes it.
    entrypoint: {path: scripts/tools.lua, function: delete}
    risk_level: critical
  - name: broken
    entrypoint: scripts/gone.lua
";
const SCRIPT: &str = "function forecast(input) return {text = 'sun in ' .. input.city} end
function delete(input) ctx.write('out/a.txt', 'gone') return 'deleted' end";

fn untrusted() -> Project {
    Project::new()
        .skill(".metier/skills/weather")
        .file(".metier/skills/weather/skill.yaml", CONTRACT)
        .file(".metier/skills/weather/scripts/tools.lua", SCRIPT)
        .file("out/keep", "")
}

fn project() -> Project {
    untrusted().trusted()
}

fn listed(client: &mut Client) -> Vec<Value> {
    client.result("tools/list", json!({}))["tools"].as_array().unwrap().clone()
}

fn names(client: &mut Client) -> Vec<String> {
    let is_of_skill = |name: &String| name.starts_with("weather") || name.starts_with("other");
    listed(client).iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).filter(is_of_skill).collect()
}

#[test]
fn each_tool_of_a_skill_is_a_tool_of_the_server_with_its_own_schemas_and_risk() {
    let project = project();
    let mut client = project.client(&[]);
    let tools = listed(&mut client);
    let tool = |name: &str| {
        tools
            .iter()
            .find(|tool| tool["name"] == name)
            .cloned()
            .unwrap_or_else(|| panic!("no {name}: {tools:?}"))
    };
    let forecast = tool("weather_forecast");
    assert_eq!(forecast["description"], "Says how the weather will be.");
    assert_eq!(forecast["inputSchema"]["required"], json!(["city"]));
    assert_eq!(forecast["annotations"]["readOnlyHint"], true);
    let delete = tool("weather_delete");
    assert_eq!(
        (&delete["annotations"]["readOnlyHint"], &delete["annotations"]["destructiveHint"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(
        names(&mut client),
        ["weather_delete", "weather_forecast"],
        "what has no handler, and no main script, is not offered"
    );
    let result = client.call("weather_forecast", json!({"city": "Oslo"}));
    assert_eq!(result["structuredContent"], json!({"text": "sun in Oslo"}), "{result}");
    let wrong = client.call("weather_forecast", json!({"city": 5}));
    assert_eq!(
        (&wrong["isError"], &wrong["_meta"]["metier/error"]["kind"]),
        (&json!(true), &json!("invalid-input")),
        "{wrong}"
    );
}

#[test]
fn no_tool_of_an_untrusted_skill_is_offered_or_called() {
    let project = untrusted();
    let mut client = project.client(&[]);
    assert_eq!(names(&mut client), Vec::<String>::new());
    let answer =
        client.request("tools/call", json!({"name": "weather_forecast", "arguments": {"city": "x"}}));
    assert!(answer["error"].is_object() || answer["result"]["isError"] == true, "{answer}");
    assert!(!answer.to_string().contains("sun in"), "{answer}");
}

#[test]
fn a_filter_hides_and_refuses() {
    let project = project();
    let mut client = project.client(&["--deny-tools", "weather.delete"]);
    assert_eq!(names(&mut client), ["weather_forecast"]);
    let refused = client.request("tools/call", json!({"name": "weather_delete", "arguments": {}}));
    assert!(refused["error"].is_object(), "{refused}");
    let mut client = project.client(&["--tools", "weather.delete,nothing"]);
    assert_eq!(names(&mut client), ["weather_delete"]);
    client.close();
    let (_, stderr) = client.wait();
    assert!(stderr.contains("no tool that is offered is called nothing"), "{stderr}");
}

#[test]
fn names_that_meet_are_reported_and_the_skill_keeps_its_name() {
    let project = Project::new()
        .lua("weather_forecast", "return 'the skill'")
        .skill(".metier/skills/weather")
        .file(".metier/skills/weather/skill.yaml", CONTRACT)
        .file(".metier/skills/weather/scripts/tools.lua", SCRIPT)
        .trusted();
    let mut client = project.client(&[]);
    let result = client.call("weather_forecast", json!({}));
    assert_eq!(result["content"][0]["text"], "the skill", "{result}");
    client.close();
    let (_, stderr) = client.wait();
    assert!(
        stderr.contains("the tool forecast of the skill weather is not offered as the tool weather_forecast"),
        "{stderr}"
    );
}

fn answer(choice: &str) -> Value {
    json!({"approval": {"action": "accept", "content": {"answer": choice}}})
}

#[test]
fn consent_to_a_call_is_asked_for_with_all_that_the_call_lacks() {
    let project = project();
    let mut client = project.modern_client(&[]).asking();
    let call = |client: &mut Client, question: Option<(&Value, &str)>| {
        let mut params = json!({"name": "weather_delete", "arguments": {"input": {"path": "a"}}});
        if let Some((question, choice)) = question {
            params["requestState"] = question["requestState"].clone();
            params["inputResponses"] = answer(choice);
        }
        client.result("tools/call", params)
    };
    for _ in 0..2 {
        let question = call(&mut client, None);
        assert_eq!(question["resultType"], "input_required", "{question}");
        let request = &question["inputRequests"]["approval"]["params"];
        let message = request["message"].as_str().unwrap();
        for words in ["wants to call its tool delete", "risk: critical", "- write:out:", r#"{"path":"a"}"#] {
            assert!(message.contains(words), "{words}: {message}");
        }
        assert!(!request["requestedSchema"].to_string().contains("always"), "{request}");
        assert!(!project.path("out/a.txt").exists());
        let refused = call(&mut client, Some((&question, "no")));
        assert_eq!(refused["_meta"]["metier/error"]["kind"], "denied", "{refused}");
        let question = call(&mut client, None);
        // What was not offered is no yes for good.
        let result = call(&mut client, Some((&question, "always")));
        assert_eq!(result["content"][0]["text"], "deleted", "{result}");
        std::fs::remove_file(project.path("out/a.txt")).unwrap();
    }
    assert!(!project.metier(&["allow", "--list"]).stdout.contains("write:out"));
}

#[test]
fn a_client_that_cannot_ask_gets_a_refusal() {
    let project = project();
    let mut client = project.client(&["--allow", "write:out"]);
    let result = client.call("weather_delete", json!({}));
    assert_eq!(result["_meta"]["metier/error"]["kind"], "denied", "{result}");
    assert!(!project.path("out/a.txt").exists());
}

#[test]
fn a_nested_call_is_not_postponed() {
    let frontmatter = "---\nname: other\ndescription: d\nallowed-tools: tool:weather.delete write:out\n---\n";
    let project = untrusted()
        .file(".metier/skills/other/SKILL.md", frontmatter)
        .file(
            ".metier/skills/other/scripts/main.lua",
            "ctx.write('out/b.txt', '') return ctx.tool('weather.delete', {})",
        )
        .trusted();
    let mut client =
        project.modern_client(&["--allow", "write:out", "--allow", "tool:weather.delete"]).asking();
    let result = client.result("tools/call", json!({"name": "other", "arguments": {}}));
    assert_eq!(
        result["_meta"]["metier/error"]["kind"], "denied",
        "what has begun cannot be called again: {result}"
    );
    assert!(!project.path("out/a.txt").exists());
}

#[test]
fn a_declared_get_is_read_only_unless_its_author_says_more() {
    let contract = "
base_url: https://api.example.com
tools:
  - {name: read, http: {path: /status}}
  - {name: safe, risk_level: low, http: {path: /status}}
  - {name: purge, risk_level: high, http: {path: /purge}}
";
    let project = Project::new()
        .skill(".metier/skills/jobs")
        .file(".metier/skills/jobs/skill.yaml", contract)
        .trusted();
    let mut client = project.client(&[]);
    let mut hints = |name: &str| {
        let annotations = client.tool(name)["annotations"].clone();
        (annotations["readOnlyHint"].clone(), annotations["destructiveHint"].clone())
    };
    assert_eq!(hints("jobs_read"), (json!(true), json!(false)));
    assert_eq!(hints("jobs_safe"), (json!(true), json!(false)));
    assert_eq!(hints("jobs_purge"), (json!(false), json!(true)));
}
