//! The requests to a worker and its responses, each a line of JSON.

use serde_json::{Map, Value};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::executor::{SkillInput, input_text};
use metier_core::strict_json;

/// The request with that id: `{"id": 1, "input": .., "args": [..]}`, with its newline.
pub(crate) fn encode_request(id: u64, input: &SkillInput) -> Vec<u8> {
    let args = Value::from(input.args.clone());
    // The input may be large, so it is not copied into another value.
    let input = input_text(input).unwrap_or_else(|| Value::Null.to_string());
    format!("{{\"id\":{id},\"input\":{input},\"args\":{args}}}\n").into_bytes()
}

/// A response of a worker.
pub(crate) enum Response {
    Ok(Value),
    /// The message of the script's own error, and its hint.
    Failed(String, Option<String>),
    /// Why the response is invalid.
    Invalid(String),
}

/// Parses the response to the request with that id: `{"id": 1, "ok": ..}`, `{"id": 1, "error": {"message": .., "help": ..}}`, or
/// `{"id": 1, "error": ".."}`.
pub(crate) fn decode_response(id: u64, line: &[u8]) -> Response {
    parse_response(id, line).unwrap_or_else(Response::Invalid)
}

fn parse_response(id: u64, line: &[u8]) -> Result<Response, String> {
    let text = std::str::from_utf8(line).map_err(|_| "a line that is not UTF-8")?;
    let value =
        strict_json::parse_repaired(text).map_err(|reason| format!("a line that is no JSON: {reason}"))?;
    let Value::Object(mut parts) = value else { return Err("JSON that is not an object".into()) };
    let answered = parts.shift_remove("id").ok_or("an answer without an `id`")?;
    if answered != id {
        return Err("the answer to a request that it was not asked".into());
    }
    let answer = match (parts.shift_remove("ok"), parts.shift_remove("error")) {
        (Some(value), None) => Response::Ok(value),
        (None, Some(Value::String(message))) => Response::Failed(message, None),
        (None, Some(Value::Object(error))) => parse_failure(error)?,
        (None, Some(_)) => return Err("an `error` that is neither a sentence nor an object".into()),
        _ => return Err("an answer that has not one of `ok` and `error`".into()),
    };
    if parts.is_empty() { Ok(answer) } else { Err("an answer with further keys".into()) }
}

fn parse_failure(mut error: Map<String, Value>) -> Result<Response, String> {
    let mut text = |key: &str| match error.shift_remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let message = text("message").ok_or("an `error` without a `message`")?;
    Ok(Response::Failed(message, text("help")))
}

impl Response {
    /// The value or the error of the run, and whether the response was valid.
    pub(crate) fn into_result(self, script: &str) -> (Result<Value>, bool) {
        let failure = |sentence| SkillError::new(ErrorKind::Script, sentence);
        match self {
            Self::Ok(value) => (Ok(value), true),
            Self::Failed(message, help) => {
                let error = failure(format!("{script} failed: {message}"));
                let error = match help {
                    Some(help) => error.with_help(help),
                    None => error,
                };
                (Err(error), true)
            }
            Self::Invalid(what) => {
                let error = failure(format!("{script} wrote {what}"))
                    .with_help(r#"a worker answers {"id": 1, "input": ..} by one line {"id": 1, "ok": ..}, and writes nothing else to standard output"#);
                (Err(error), false)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_request_is_one_line() {
        let input = SkillInput::new(Some(json!({"a": "b\nc"})), vec!["x\n".into()]);
        let line = String::from_utf8(encode_request(7, &input)).unwrap();
        assert_eq!(line, "{\"id\":7,\"input\":{\"a\":\"b\\nc\"},\"args\":[\"x\\n\"]}\n");
        let nothing = String::from_utf8(encode_request(1, &SkillInput::default())).unwrap();
        assert_eq!(nothing, "{\"id\":1,\"input\":null,\"args\":[]}\n");
    }

    #[test]
    fn an_answer_is_that_to_the_request_or_none() {
        let said = |line: &str| decode_response(3, line.as_bytes()).into_result("x");
        assert_eq!(said(r#"{"id": 3, "ok": [1]}"#).0.unwrap(), json!([1]));
        assert_eq!(said(r#"{"id": 3, "ok": null}"#).0.unwrap(), Value::Null);
        let (failed, kept) = said(r#"{"id": 3, "error": {"message": "no", "help": "do"}}"#);
        let failed = failed.unwrap_err();
        assert_eq!((failed.message(), failed.help(), kept), ("x failed: no", Some("do"), true));
        assert!(said(r#"{"id": 3, "error": "no"}"#).1);
        for wrong in [
            "",
            "x",
            "[]",
            "{}",
            r#"{"ok": 1}"#,
            r#"{"id": 4, "ok": 1}"#,
            r#"{"id": "3", "ok": 1}"#,
            r#"{"id": 3}"#,
            r#"{"id": 3, "ok": 1, "error": "x"}"#,
            r#"{"id": 3, "ok": 1, "more": 1}"#,
            r#"{"id": 3, "error": 5}"#,
            r#"{"id": 3, "error": {}}"#,
            r#"{"id": 3, "ok": 1e999}"#,
            r#"{"id": 3, "ok": 1} {"id": 3, "ok": 1}"#,
        ] {
            let (result, kept) = said(wrong);
            assert!(result.is_err() && !kept, "{wrong}");
        }
        assert!(!decode_response(3, b"\xff").into_result("x").1);
    }
}
