//! The value of a response: what the declaration expects of it is checked, and what it asks for is taken.

use serde_json::{Value, json};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::excerpt::shorten;
use metier_core::strict_json;
use metier_core::template::{Reference, ReferenceRoot, ResolveError, Resolver};
use metier_skill::contract::{HttpCall, RESPONSE};

/// The most characters of a response that an error repeats.
const MAX_SHOWN: usize = 300;

/// The value of what `ctx.http` answered with, of at most so many bytes; `tool` where the response is none that the call expects.
pub(super) fn result_value(
    call: &HttpCall,
    input: &Value,
    response: &Value,
    max_bytes: u64,
) -> Result<Value> {
    let text = response["body"].as_str().unwrap_or_default();
    let status =
        response["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or_default();
    if !call.statuses.iter().any(|range| range.contains(&status)) {
        let shown = shorten(text.trim(), MAX_SHOWN);
        let shown = if shown.is_empty() { String::new() } else { format!(": {shown}") };
        return Err(response_error(format!("the server answered with the status {status}{shown}")));
    }
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
