//! Every case of every tool once more, over a real connection to a server that answers as the case says.

use metier::engine::Outcome;
use serde_json::Value;

use crate::services::server::{Redirected, Server};
use crate::services::{Services, ToolCase, tool_cases};

#[test]
fn every_case_holds_over_a_real_connection() {
    let cases = tool_cases();
    let failed: Vec<String> = std::thread::scope(|scope| {
        let part = |cases| scope.spawn(move || failures(cases));
        let parts: Vec<_> = cases.chunks(cases.len().div_ceil(4)).map(part).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap()).collect()
    });
    assert!(cases.len() >= 300, "{}", cases.len());
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[test]
fn a_secret_key_of_supabase_is_sent_in_one_header_alone() {
    let cases = tool_cases();
    let case = cases.iter().find(|case| case.name == "rows-with-a-secret-key.json").unwrap();
    let server = Server::of_case(case.given("http"));
    let services = Services::new(case, Redirected::new(server.address));
    let outcome = services.call(case, case.case["input"].clone());
    assert!(outcome.result.is_ok(), "{:?}", outcome.result);
    let requests = server.requests();
    assert_eq!(requests[0]["headers"]["apikey"], case.given("secrets")["SUPABASE_SECRET_KEY"]);
    assert_eq!(requests[0]["headers"].get("authorization"), None);
}

fn failures(cases: &[ToolCase]) -> Vec<String> {
    let mut failed = Vec::new();
    for case in cases {
        let server = Server::of_case(case.given("http"));
        let services = Services::new(case, Redirected::new(server.address));
        let input = case.case.get("input").cloned().unwrap_or_default();
        let outcome = services.call(case, input);
        if let Err(reason) = compare(case, &outcome, &server.requests()) {
            failed.push(format!("{}: {reason}", case.title()));
        }
    }
    failed
}

fn compare(case: &ToolCase, outcome: &Outcome, requests: &[Value]) -> Result<(), String> {
    let expect = &case.case["expect"];
    match (&outcome.result, expect.get("error")) {
        (Ok(value), None) => {
            if expect.get("value").is_some_and(|whole| whole != value) {
                return Err(format!("the value is {value}"));
            }
            if expect.get("contains").is_some_and(|part| !contains(value, part)) {
                return Err(format!("the value is {value}"));
            }
        }
        (Err(error), Some(expected)) => {
            let message = expected["message"].as_str().unwrap_or_default();
            if expected["kind"] != error.kind().name() || !error.message().contains(message) {
                return Err(format!("the error is {}: {error}", error.kind().name()));
            }
        }
        (result, _) => return Err(format!("the result is {result:?}")),
    }
    let Some(expected) = expect.get("requests") else { return Ok(()) };
    if contains(&Value::from(requests.to_vec()), expected) {
        Ok(())
    } else {
        Err(format!("the requests are {requests:#?}"))
    }
}

/// Whether a value has all of a part: objects may have more fields, lists have the same length.
fn contains(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::Object(value), Value::Object(part)) => {
            part.iter().all(|(key, part)| value.get(key).is_some_and(|value| contains(value, part)))
        }
        (Value::Array(value), Value::Array(part)) => {
            value.len() == part.len() && value.iter().zip(part).all(|(value, part)| contains(value, part))
        }
        (value, part) => value == part || value.as_f64().is_some() && value.as_f64() == part.as_f64(),
    }
}
