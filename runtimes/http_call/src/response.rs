//! The value of a response: what the declaration expects of it is checked, and what it asks for is taken.

use serde_json::{Value, json};

use http::StatusCode;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::excerpt::shorten;
use metier_core::strict_json;
use metier_core::template::{Reference, ReferenceRoot, ResolveError, Resolver};
use metier_skill::contract::{HttpCall, RESPONSE};

/// The most characters of a response that an error repeats.
const MAX_SHOWN: usize = 300;

/// The status of a response that `ctx.http` answered with.
fn status_of(response: &Value) -> u16 {
    response["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or_default()
}

/// `tool` where the status is none that the call expects, in the words of the service: `[GitHub] Not Found (HTTP 404)`.
pub(super) fn check_status(call: &HttpCall, response: &Value) -> Result<()> {
    let status = status_of(response);
    if call.statuses.iter().any(|range| range.contains(&status)) {
        return Ok(());
    }
    let text = response["body"].as_str().unwrap_or_default().trim();
    let known = || StatusCode::from_u16(status).ok()?.canonical_reason().map(str::to_owned);
    let reason = named_reason(text).or_else(|| (!text.is_empty()).then(|| text.to_owned())).or_else(known);
    let reason = shorten(&reason.unwrap_or_else(|| "no reason was given".into()), MAX_SHOWN);
    let service = call.service.as_deref().unwrap_or_else(|| host_of(&call.base_url));
    Err(response_error(format!("[{service}] {reason} (HTTP {status})")))
}

/// What an answer in JSON says about its failure, in the places where services write it.
fn named_reason(text: &str) -> Option<String> {
    const PLACES: [&str; 9] = [
        "/error/message",
        "/message",
        "/errors/0/message",
        "/errors/0/detail",
        "/errors/0",
        "/error_description",
        "/detail",
        "/error",
        "/title",
    ];
    let body: Value = serde_json::from_str(text).ok()?;
    let found =
        PLACES.iter().find_map(|place| body.pointer(place)?.as_str().filter(|text| !text.trim().is_empty()));
    found.map(|reason| reason.trim().to_owned())
}

fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

/// The value of what `ctx.http` answered with, of at most so many bytes; `tool` where the response is none that the call expects.
pub(super) fn result_value(
    call: &HttpCall,
    input: &Value,
    response: &Value,
    max_bytes: u64,
) -> Result<Value> {
    let text = response["body"].as_str().unwrap_or_default();
    let status = status_of(response);
    let body = match (call.is_text, text.trim().is_empty()) {
        (true, _) => Value::from(text),
        (false, true) => Value::Null,
        (false, false) => strict_json::parse_repaired(text)
            .map_err(|error| response_error(format!("the body of the response is no JSON: {error}")))?,
    };
    let response = json!({RESPONSE: {"status": status, "headers": response["headers"], "body": body}});
    let lookup = |reference: &Reference| match &reference.root {
        ReferenceRoot::Inputs => reference.resolve_in(input),
        ReferenceRoot::Variable(name) => reference.resolve_in(response.get(name)?),
        _ => None,
    };
    if let Some(missing) = call.required.iter().find(|field| lookup(field).is_none_or(Value::is_null)) {
        return Err(response_error(format!("the response has no {missing}")));
    }
    let Some(template) = &call.result else { return Ok(body_of(response)) };
    let value = Resolver::new(lookup, max_bytes).value(template).map_err(|error| match error {
        ResolveError::Missing(reference) => response_error(format!("the response has no {reference}")),
        ResolveError::TooLarge => {
            SkillError::new(ErrorKind::Output, "the value is larger than the output limit")
                .with_help("take less of the response")
        }
    })?;
    Ok(value.unwrap_or_default())
}

fn body_of(mut response: Value) -> Value {
    response[RESPONSE]["body"].take()
}

fn response_error(sentence: String) -> SkillError {
    SkillError::new(ErrorKind::Tool, sentence)
}
