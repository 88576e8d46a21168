//! The format of requests and answers.

use serde_json::{Map, Value, json};

use metier_core::error::{ErrorContext, ErrorKind, Result, SkillError};
use metier_core::host::{HostFunction, HostMemory, functions, to_json};
use metier_core::strict_json;

/// Maximum length of an id that is a string, in bytes.
const MAX_ID_BYTES: usize = 200;

/// One call of a host function.
#[derive(Debug)]
pub(super) struct ApiRequest {
    /// A number or a string that the answer repeats; `null` if the request has none.
    pub(super) id: Value,
    pub(super) function: String,
    pub(super) args: Vec<Value>,
    /// Whether the caller stores every number as a double.
    pub(super) doubles: bool,
}

/// The last error that was sent to a connection, and the request that it answered.
pub(super) struct AnsweredError {
    pub(super) id: Value,
    pub(super) error: SkillError,
}

impl ApiRequest {
    /// Parses a line; `None` if it is an answer. The error comes with the id if it was read.
    pub(super) fn parse(line: &[u8]) -> Result<Option<Self>, (Value, SkillError)> {
        let text = std::str::from_utf8(line).map_err(|_| (Value::Null, invalid_request("is not UTF-8")))?;
        let value = strict_json::parse_repaired(text)
            .map_err(|reason| (Value::Null, invalid_request(&format!("is no JSON: {reason}"))))?;
        let Value::Object(mut parts) = value else {
            return Err((Value::Null, invalid_request("is not an object")));
        };
        if parts.contains_key("ok") || parts.contains_key("error") {
            return Ok(None);
        }
        let id = parts.shift_remove("id").unwrap_or_default();
        if !is_id(&id) {
            return Err((
                Value::Null,
                invalid_request("has an `id` that is neither a number nor a short text"),
            ));
        }
        Self::from_parts(id.clone(), parts).map(Some).map_err(|error| (id, error))
    }

    fn from_parts(id: Value, mut parts: Map<String, Value>) -> Result<Self> {
        let Some(Value::String(call)) = parts.shift_remove("call") else {
            return Err(invalid_request("has no `call`, the name of a function"));
        };
        let args = match parts.shift_remove("args") {
            None => Vec::new(),
            Some(Value::Array(args)) => args,
            Some(_) => return Err(invalid_request("has `args` that are no list")),
        };
        let doubles = match parts.shift_remove("doubles") {
            None => false,
            Some(Value::Bool(doubles)) => doubles,
            Some(_) => return Err(invalid_request("has a `doubles` that is neither true nor false")),
        };
        if !parts.is_empty() {
            return Err(invalid_request("has keys beside `id`, `call`, `args` and `doubles`"));
        }
        Ok(Self { id, function: call, args, doubles })
    }
}

fn is_id(id: &Value) -> bool {
    match id {
        Value::Null | Value::Number(_) => true,
        Value::String(text) => text.len() <= MAX_ID_BYTES,
        _ => false,
    }
}

fn invalid_request(what: &str) -> SkillError {
    SkillError::new(ErrorKind::InvalidArgument, format!("the request {what}"))
        .with_help(r#"write a line like {"id": 1, "call": "read_file", "args": ["a.txt"]}"#)
}

/// The answer to a request, with its newline; an error if the run has no memory for it.
pub(super) fn encode_answer(id: &Value, value: &Value, memory: &HostMemory) -> Result<Vec<u8>> {
    let mut held = memory.empty_reservation();
    // The value may be large, so it is not copied into another one.
    let value = to_json(value, &mut held)?;
    held.add(value.len() as u64)?;
    Ok([format!("{{\"id\":{id},\"ok\":").as_bytes(), &value, b"}\n"].concat())
}

/// The answer to a request that failed.
pub(super) fn encode_error(id: &Value, error: &SkillError) -> Vec<u8> {
    let (kind, message) = (error.kind().name(), error.message());
    let mut answer = json!({"id": id, "error": {"kind": kind, "message": message, "help": error.help()}});
    if let Some(output) = error.output() {
        answer["error"]["output"] = json!(output);
    }
    format!("{answer}\n").into_bytes()
}

/// The answer to a request that failed, with all parts of its error.
pub(super) fn encode_full_error(id: &Value, error: &SkillError) -> Vec<u8> {
    format!("{}\n", json!({"id": id, "error": error.to_full_json()})).into_bytes()
}

/// The table of host functions that clients use.
pub(super) fn function_table() -> Value {
    let row = |function: &&HostFunction| {
        let param = |param: &metier_core::host::Param| json!({"name": param.name, "required": param.required, "doc": param.doc});
        json!({
            "name": function.name,
            "aliases": function.aliases,
            "signature": function.signature(),
            "params": function.params.iter().map(param).collect::<Vec<_>>(),
            "doc": function.doc,
        })
    };
    functions().iter().map(row).collect()
}

/// Fails for an integer that a double would round.
pub(super) fn check_doubles(value: &Value, kind: ErrorKind, name: &str) -> Result<()> {
    let mut path = Vec::new();
    let Some(number) = first_inexact_integer(value, &mut path) else { return Ok(()) };
    let path: String = path.into_iter().rev().collect();
    let sentence = format!("{name}{path}: JavaScript cannot hold the integer {number} exactly");
    Err(SkillError::new(kind, sentence).with_help("pass it as a string, or keep integers within ±2^53"))
}

/// The first integer beyond ±2^53. `path` receives its path, innermost part first.
fn first_inexact_integer<'a>(value: &'a Value, path: &mut Vec<String>) -> Option<&'a Value> {
    const MAX_SAFE_INTEGER: u64 = 1 << 53;
    match value {
        Value::Number(number) => {
            let size = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            size.filter(|size| *size > MAX_SAFE_INTEGER).map(|_| value)
        }
        Value::Array(items) => items.iter().enumerate().find_map(|(position, item)| {
            let found = first_inexact_integer(item, path)?;
            path.push(format!("[{position}]"));
            Some(found)
        }),
        Value::Object(entries) => entries.iter().find_map(|(key, entry)| {
            let found = first_inexact_integer(entry, path)?;
            path.push(format!(".{key}"));
            Some(found)
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::host::{RunContext, SkillContext};

    #[test]
    fn an_answer_is_no_request_so_that_a_line_to_oneself_falls_silent() {
        let error = invalid_request("is wrong");
        let memory = SkillContext::builder("test").build().host_memory().clone();
        for answer in [encode_answer(&json!(1), &json!(1), &memory).unwrap(), encode_error(&json!(1), &error)]
        {
            assert!(ApiRequest::parse(&answer).unwrap().is_none());
        }
    }

    #[test]
    fn names_of_the_protocol_are_no_functions() {
        assert!(["input", "api", "fail"].into_iter().all(|name| metier_core::host::function(name).is_none()));
    }

    #[test]
    fn integers_beyond_a_double_are_refused_with_their_place() {
        let beyond = json!({"a": [0, {"b": -9_007_199_254_740_993_i64}], "c": u64::MAX});
        let error = check_doubles(&beyond, ErrorKind::InvalidInput, "input").unwrap_err();
        assert!(
            error.message().starts_with("input.a[1].b: JavaScript cannot hold the integer -9007"),
            "{error}"
        );
        assert!(
            check_doubles(&json!([1_i64 << 53, -(1_i64 << 53), 1e300]), ErrorKind::InvalidInput, "input")
                .is_ok()
        );
    }
}
