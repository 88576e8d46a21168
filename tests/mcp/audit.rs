//! What the server records of its calls: the client by its name, and over HTTP without any configuration.

use serde_json::{Value, json};

use crate::support::cli::{Project, write};

fn project() -> Project {
    Project::new().lua("hello", "return 'hello'").trusted()
}

fn records(project: &Project) -> Vec<Value> {
    let answer = project.metier(&["audit", "show", "--skill", "hello", "--json"]);
    answer.json().as_array().unwrap().iter().map(|line| line["record"].clone()).collect()
}

#[test]
fn a_call_is_recorded_as_that_of_a_model_through_the_client_of_this_name() {
    let project = project();
    write(&project.home().join(".config/metier/config.toml"), "audit.enabled = true");
    let mut client = project.modern_client(&[]);
    assert_eq!(client.call("hello", json!({}))["content"][0]["text"], "hello");
    let records = records(&project);
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(records[0]["kind"], "run_started");
    assert_eq!(records[0]["who"], json!({"actor": "model", "face": "mcp", "client": "test"}));
    assert!(records[0]["digest"].is_string(), "{records:?}");
}

#[test]
fn over_http_every_call_is_recorded() {
    let project = project();
    let server = project.http_server(&[]);
    assert_eq!(server.text("hello", json!({})), "hello");
    let records = records(&project);
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!((&records[1]["kind"], &records[1]["outcome"]), (&json!("run_ended"), &json!("ok")));
    assert_eq!(project.metier(&["audit", "verify"]).code, 0);
}
