//! Cases that call tools: with the requests that a case records, the host that a setting names, and a person who agrees.

use metier::cases::{Case, CaseStatus, Suite};
use metier::registry::Registry;
use serde_json::{Value, json};

use crate::support::engine::Project;

const CONTRACT: &str = "
base_url: $config.URL
service: Example
config:
  URL: {default: https://api.test/v1}
  token: {secret: true}
tools:
  - name: create
    inputs: {title: {type: string, required: true}}
    requires_confirmation: true
    http:
      method: POST
      path: /items
      headers: {Authorization: 'Bearer ${secrets.token}'}
      body: {title: $inputs.title}
      result: {id: $response.body.id}
  - name: list
    entrypoint: scripts/list.lua
  - name: read_items
    internal: true
    http: {path: /items, paging: {next: link, into: query.page, item: $item.id}}
";

fn status(case: &Value) -> CaseStatus {
    let project = Project::offering(CONTRACT, &[("list.lua", "return ctx.tool('.read_items').items")]);
    let roots = project.roots();
    let registry = Registry::discover(&roots);
    let case = Case::parse("c", "cases/c.json", case.to_string().as_bytes()).unwrap();
    Suite::new(roots).run(registry.find("weather").unwrap(), &case).status
}

fn differences(case: &Value) -> Vec<String> {
    match status(case) {
        CaseStatus::Failed(differences) => differences.into_iter().map(|one| one.path).collect(),
        other => panic!("{other:?}"),
    }
}

fn create() -> Value {
    json!({
        "tool": "create",
        "confirm": true,
        "input": {"title": "x"},
        "given": {
            "secrets": {"token": "hunter2/secret"},
            "http": {"POST https://api.test/v1/items": {"status": 201, "json": {"id": 7, "noise": 1}}},
        },
        "expect": {
            "value": {"id": 7},
            "requests": [{
                "method": "POST",
                "url": "https://api.test/v1/items",
                "headers": {"authorization": "Bearer hunter2/secret"},
                "json": {"title": "x"},
            }],
        },
    })
}

fn with(mut case: Value, pointer: &str, value: Value) -> Value {
    *case.pointer_mut(pointer).unwrap() = value;
    case
}

#[test]
fn a_case_calls_a_tool_and_sees_its_requests() {
    assert_eq!(status(&create()), CaseStatus::Passed);
    let other = with(create(), "/expect/requests/0/json/title", json!("y"));
    assert_eq!(differences(&other), ["requests[0].json.title"]);
    let more = with(create(), "/expect/requests", json!([]));
    assert_eq!(differences(&more), ["requests[0]"]);
    let refused = with(create(), "/confirm", json!(false));
    assert_eq!(differences(&refused).first().map(String::as_str), Some("the error"));
    let mut elsewhere = create();
    elsewhere["given"]["config"] = json!({"URL": "https://ghe.test"});
    elsewhere["given"]["http"] =
        json!({"https://ghe.test/items": {"status": 404, "json": {"message": "Not Found"}}});
    elsewhere["expect"] = json!({"error": {"kind": "tool", "message": "[Example] Not Found (HTTP 404)"}});
    assert_eq!(status(&elsewhere), CaseStatus::Passed);
}

#[test]
fn a_case_answers_pages_one_after_the_other() {
    let link = r#"<https://api.test/v1/items?page=2>; rel="next""#;
    let case = json!({
        "tool": "list",
        "given": {"http": {
            "https://api.test/v1/items": {"headers": {"Link": link}, "json": [{"id": 1}]},
            "https://api.test/v1/items?page=2": {"json": [{"id": 2}]},
        }},
        "expect": {"value": [1, 2], "requests": [{"url": "https://api.test/v1/items"}, {"url": "https://api.test/v1/items?page=2"}]},
    });
    assert_eq!(status(&case), CaseStatus::Passed);
}

#[test]
fn a_case_that_calls_no_tool_of_the_skill_is_no_passed_one() {
    for (tool, kind) in [("gone", "unknown-skill"), ("read_items", "unknown-skill")] {
        let case = json!({"tool": tool, "given": {"http": {}}, "expect": {"error": {"kind": kind}}});
        assert_eq!(status(&case), CaseStatus::Passed, "{tool}");
    }
    let both = br#"{"tool": "a", "script": "b", "expect": {"value": 1}}"#;
    assert!(Case::parse("c", "c", both).unwrap_err().message().contains("a script and a tool"));
}
