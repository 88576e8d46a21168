//! `http_request` of Extism: a request of the host function `http`, under its permission and limits.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::extism_response::LatestResponse;
use super::run_state::RunState;
use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::host::{SkillContext, function};

/// A request as Extism's kits write it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    method: Option<String>,
}

/// Sends the request whose JSON text is one block, with the other block as its body, and returns the block of the response's
/// body. The blocks belong to the host afterwards. Any error ends the run, as in Extism.
pub(super) fn http_request(run: &mut RunState, request: u64, body: u64) -> Result<u64> {
    run.response = LatestResponse::none();
    let cost = run.charge_argument(request)? + run.charge_body(body)?;
    let text = run.memory.block(request).unwrap_or_default();
    let Request { url, headers, method } = serde_json::from_slice(text).map_err(|error| {
        let sentence = format!("http_request: the request is not one of Extism: {error}");
        SkillError::new(ErrorKind::InvalidArgument, sentence)
            .with_help("its JSON has a `url`, and may have `headers` and a `method`")
    })?;
    run.release(request)?;
    let mut options = json!({"headers": headers, "encoding": "base64"});
    if let Some(method) = method {
        options["method"] = method.into();
    }
    if let Some(most) = run.max_response_bytes() {
        options["max_bytes"] = most.into();
    }
    if body != 0 {
        let bytes = run.memory.block(body).ok_or_else(|| {
            let sentence = "http_request: the body is not the offset of a block";
            SkillError::new(ErrorKind::InvalidArgument, sentence)
        })?;
        options["body_base64"] = STANDARD.encode(bytes).into();
        run.release(body)?;
    }
    let context = run.context().clone();
    let response = call_http(&context, url, options);
    run.refund(cost);
    context.cancel().check()?;
    let mut response = response?;
    run.response = LatestResponse {
        status: response["status"].as_u64().unwrap_or_default(),
        headers: response["headers"].to_string(),
    };
    let Value::String(body) = response["body"].take() else { return Ok(0) };
    let body = STANDARD.decode(body).map_err(|error| {
        SkillError::new(ErrorKind::Io, format!("the answer of `http` is not base64: {error}"))
    })?;
    run.store_block(&body)
}

fn call_http(context: &SkillContext, url: String, options: Value) -> Result<Value> {
    let http =
        function("http").ok_or_else(|| SkillError::new(ErrorKind::Unavailable, "there is no `http`"))?;
    http.call(context, vec![url.into(), options])
}
