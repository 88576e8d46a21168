//! The requests to a worker process and its responses.
//!
//! A message is a line: a header in JSON and, if it has a value, a record separator and the value in JSON. No JSON text contains
//! a record separator. The value is apart from the header so that it may nest as deeply as a value may. The machine code of a
//! compiled script follows the line.

use serde_json::{Map, Value, json};

use metier_core::error::{ErrorContext, ErrorKind, Location, SkillError, Violation};
use metier_core::executor::{RUNTIMES_WITH_WORKERS, RuntimeId, Script};
use metier_core::policy::{Limits, OutputPolicy};
use metier_core::strict_json;

/// The first argument of a worker process.
pub(super) const WORKER_ARG: &str = "__metier-worker";

const SEPARATOR: char = '\x1e';

/// What a process is to load, to run, or both.
pub(super) struct WorkerRequest {
    pub(super) id: u64,
    /// Only in the first request to a process.
    pub(super) script: Option<SentScript>,
    pub(super) run: Option<RequestedRun>,
}

/// A script that a process is to load.
pub(super) struct SentScript {
    pub(super) runtime: RuntimeId,
    /// Without its source if it is compiled.
    pub(super) script: Script,
    /// The number of bytes of machine code that follow the request.
    pub(super) machine_code_bytes: Option<usize>,
}

/// One run of the script that was loaded.
pub(super) struct RequestedRun {
    pub(super) limits: Limits,
    pub(super) input: Option<Value>,
}

/// The result of one run, or `null` for a script that was only loaded.
pub(super) type RunResult = Result<Value, SkillError>;

/// The request for a run, with its newline, and with the script for a new process.
pub(super) fn encode_run(
    id: u64,
    script: Option<(RuntimeId, &Script)>,
    limits: &Limits,
    input: Option<&Value>,
) -> Vec<u8> {
    let script = script.map(|(runtime, script)| {
        let mut header = script_header(runtime, script);
        header["source"] = hex(&script.source).into();
        header
    });
    let run = json!({
        "memory": limits.memory,
        "operations": limits.operations,
        "output": limits.output,
        "on_output": limits.on_output.name(),
    });
    encode_line(&json!({"id": id, "script": script, "run": run}), input)
}

/// The request to load a compiled script, with its newline and the machine code.
pub(super) fn encode_load(id: u64, runtime: RuntimeId, script: &Script, machine_code: &[u8]) -> Vec<u8> {
    let mut header = script_header(runtime, script);
    header["machine_code_bytes"] = machine_code.len().into();
    let mut request = encode_line(&json!({"id": id, "script": header}), None);
    request.extend_from_slice(machine_code);
    request
}

fn script_header(runtime: RuntimeId, script: &Script) -> Value {
    json!({
        "runtime": runtime.name(),
        "skill": script.skill,
        "path": script.path,
        "function": script.function,
    })
}

/// Reads the line of a request; `None` if it is invalid, which no request of the host is.
pub(super) fn decode_request(line: &[u8]) -> Option<WorkerRequest> {
    let (mut header, input) = decode_line(line).ok()?;
    let script = match header.shift_remove("script") {
        Some(Value::Object(script)) => Some(decode_script(&script)?),
        _ => None,
    };
    let run = match header.get("run") {
        Some(run) => Some(RequestedRun { limits: decode_limits(run)?, input }),
        None => None,
    };
    Some(WorkerRequest { id: header.get("id").and_then(Value::as_u64)?, script, run })
}

fn decode_script(header: &Map<String, Value>) -> Option<SentScript> {
    let text = |key: &str| Some(header.get(key)?.as_str()?.to_owned());
    let name = text("runtime")?;
    let runtime = RUNTIMES_WITH_WORKERS.into_iter().find(|id| id.name() == name)?;
    let source = text("source").map_or(Some(Vec::new()), |source| unhex(&source))?;
    let machine_code_bytes = header.get("machine_code_bytes").and_then(Value::as_u64);
    let mut script = Script::new(text("skill")?, text("path")?, source);
    script.function = text("function");
    Some(SentScript {
        runtime,
        script,
        machine_code_bytes: machine_code_bytes.map(usize::try_from).transpose().ok()?,
    })
}

fn decode_limits(run: &Value) -> Option<Limits> {
    let number = |key: &str| run.get(key).and_then(Value::as_u64);
    let policy: OutputPolicy = run.get("on_output")?.as_str()?.parse().ok()?;
    let mut limits = Limits::default().output(number("output")?).on_output(policy);
    limits.memory = number("memory");
    limits.operations = number("operations");
    Some(limits)
}

/// The response to a request, with its newline.
pub(super) fn encode_response(id: u64, result: &RunResult) -> Vec<u8> {
    match result {
        Ok(value) => encode_line(&json!({"id": id}), Some(value)),
        Err(error) => encode_line(&json!({"id": id, "error": error.to_full_json()}), None),
    }
}

/// Reads the response to the request with that id. The error is why it is invalid.
pub(super) fn decode_response(id: u64, line: &[u8]) -> Result<RunResult, String> {
    let (mut header, value) = decode_line(line)?;
    if header.shift_remove("id") != Some(id.into()) {
        return Err("the answer to another request".into());
    }
    let result = match (header.shift_remove("error"), value) {
        (None, Some(value)) => Ok(value),
        (Some(error), None) => Err(decode_error(error).ok_or("an error in no known form")?),
        _ => return Err("neither a value nor an error".into()),
    };
    if header.is_empty() { Ok(result) } else { Err("an answer with further keys".into()) }
}

/// Reads an error from its full JSON.
pub(super) fn decode_error(error: Value) -> Option<SkillError> {
    let Value::Object(mut parts) = error else { return None };
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        _ => None,
    };
    let number = |value: Option<&Value>| value.and_then(Value::as_u64).and_then(|n| u32::try_from(n).ok());
    let kind = ErrorKind::from_name(&text(parts.shift_remove("kind")?)?)?;
    let mut error = SkillError::new(kind, text(parts.shift_remove("message")?)?);
    if let Some(help) = parts.shift_remove("help").and_then(text) {
        error = error.with_help(help);
    }
    if let Some(Value::Object(mut place)) = parts.shift_remove("location") {
        let (line, column) = (number(place.get("line")), number(place.get("column")));
        error = error.with_location(Location::new(text(place.shift_remove("file")?)?, line, column));
    }
    if let Some(Value::Array(frames)) = parts.shift_remove("traceback") {
        error = error.with_traceback(frames.into_iter().filter_map(text).collect());
    }
    if let Some(Value::Array(found)) = parts.shift_remove("violations") {
        let violation = |found: Value| {
            let Value::Object(mut found) = found else { return None };
            let mut part = |key: &str| found.shift_remove(key).and_then(text);
            Some(Violation::new(part("path")?, part("keyword")?, part("expected")?, part("found")?))
        };
        error = error.with_violations(found.into_iter().filter_map(violation).collect());
    }
    if let Some(output) = parts.shift_remove("output").and_then(|output| serde_json::from_value(output).ok())
    {
        error = error.with_output(output);
    }
    let hint = parts.shift_remove("hint").and_then(|hint| serde_json::from_value(hint).ok());
    Some(error.with_hint(hint).with_missing_permission(parts.shift_remove("missing").and_then(text)))
}

fn encode_line(header: &Value, value: Option<&Value>) -> Vec<u8> {
    match value {
        // The value may be large, so it is not copied into another one.
        Some(value) => format!("{header}{SEPARATOR}{value}\n"),
        None => format!("{header}\n"),
    }
    .into_bytes()
}

fn decode_line(line: &[u8]) -> Result<(Map<String, Value>, Option<Value>), String> {
    let text = std::str::from_utf8(line).map_err(|_| "a line that is not UTF-8")?;
    let (header, value) = match text.trim_end_matches('\n').split_once(SEPARATOR) {
        Some((header, value)) => (header, Some(value)),
        None => (text, None),
    };
    let read = |text| strict_json::parse(text).map_err(|reason| format!("a line that is no JSON: {reason}"));
    let Value::Object(header) = read(header)? else { return Err("JSON that is not an object".into()) };
    Ok((header, value.map(read).transpose()?))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let half = |digit: u8| char::from(digit).to_digit(16).and_then(|half| u8::try_from(half).ok());
    text.as_bytes().chunks(2).map(|pair| Some(half(pair[0])? << 4 | half(*pair.get(1)?)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::error::{ErrorOutput, Hint};

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let mut script = Script::new("s", "scripts/main.lua", *b"\x00\n\xff\x1e");
        script.function = Some("f".into());
        let (limits, input) =
            (Limits::default().memory(7).operations(9), json!({"a": "\u{1e}\n", "b": [null]}));
        let text = encode_run(3, Some((RuntimeId::LUA, &script)), &limits, Some(&input));
        assert_eq!(text.iter().position(|byte| *byte == b'\n'), Some(text.len() - 1));
        let request = decode_request(&text).unwrap();
        let (sent, run) = (request.script.unwrap(), request.run.unwrap());
        assert_eq!((request.id, sent.runtime, run.input), (3, RuntimeId::LUA, Some(input)));
        assert_eq!(
            (&sent.script.source, sent.script.function.as_deref(), sent.machine_code_bytes),
            (&script.source, Some("f"), None)
        );
        assert_eq!((run.limits.memory, run.limits.operations), (Some(7), Some(9)));
        assert!(decode_request(&encode_run(4, None, &limits, None)).unwrap().run.unwrap().input.is_none());
        let code = b"\n\x1e\0";
        let message = encode_load(5, RuntimeId::WASM, &script, code);
        let line = message.strip_suffix(code).unwrap();
        assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
        let request = decode_request(line).unwrap();
        let sent = request.script.unwrap();
        assert_eq!((sent.runtime, sent.machine_code_bytes), (RuntimeId::WASM, Some(3)));
        assert!(sent.script.source.is_empty() && request.run.is_none());
    }

    #[test]
    fn an_answer_is_that_to_the_request_or_none() {
        let deep = (0..127).fold(json!(1), |value, _| json!([value]));
        for value in [json!(null), json!([]), json!({}), json!(u64::MAX), json!(-0.0), deep] {
            let line = encode_response(3, &Ok(value.clone()));
            assert_eq!(decode_response(3, &line).unwrap().unwrap(), value);
        }
        let violation = Violation::new("/a", "type", "x", "y");
        let mut output = ErrorOutput::default();
        (output.exit_code, output.stdout, output.stderr) = (Some(1), "a".into(), "b".into());
        let error = SkillError::new(ErrorKind::Denied, "no")
            .with_help("do")
            .with_location(Location::new("f", Some(2), None))
            .with_traceback(vec!["a".into()])
            .with_violations(vec![violation])
            .with_hint(Hint::Grant("write:a".into()))
            .with_output(output)
            .with_missing_permission(Some("write:a".into()));
        let read = decode_response(3, &encode_response(3, &Err(error.clone()))).unwrap().unwrap_err();
        assert_eq!(read.hint(), error.hint());
        assert_eq!(json!(read), json!(error));
        for wrong in [
            "",
            "x",
            "[]",
            "{\"id\":3}",
            "{\"id\":4}\u{1e}1",
            "{\"id\":3}\u{1e}1e999",
            "{\"id\":3}\u{1e}1 2",
            "{\"id\":3}\u{1e}{\"a\":1,\"a\":2}",
            "{\"id\":3,\"more\":1}\u{1e}1",
            "{\"id\":3,\"error\":{\"kind\":\"script\",\"message\":\"x\"}}\u{1e}1",
            "{\"id\":3,\"error\":{\"kind\":\"other\",\"message\":\"x\"}}",
            "{\"id\":3,\"error\":\"x\"}",
        ] {
            assert!(decode_response(3, wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
