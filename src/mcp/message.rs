//! Reads the message of a client. What cannot be read is refused with the id of its request, wherever that can be read.

use rmcp::model::{ClientJsonRpcMessage, ErrorData};
use serde_json::Value;

use super::message_repair::repair;
use super::request_id::{BYTE_ORDER_MARK, SentId, request_id};
use super::task_messages::keep_task_parts;
use metier_core::strict_json;

/// Requests of a batch that have an error each; a larger one has a single error.
const MAX_BATCH: usize = 100;

/// A message as JSON.
pub(super) struct MessageText {
    pub(super) value: Value,
    /// Whether the text says something else, so that it cannot be passed on as it is.
    pub(super) is_changed: bool,
}

/// Why a message is not handled.
#[derive(Debug)]
pub(super) struct RefusedMessage {
    error: Box<ErrorData>,
    id: Option<SentId>,
    /// The ids of the requests in a batch.
    batch: Vec<SentId>,
}

/// The JSON of a message. Numbers that would be rounded and keys that stand twice are refused, as everywhere in metier; U+FFFD stands
/// for halves of characters, which JavaScript writes where it has cut a text.
pub(super) fn read_message(bytes: &[u8]) -> Result<MessageText, RefusedMessage> {
    let refuse = |error| RefusedMessage::new(error, request_id(bytes));
    let content = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    let text = std::str::from_utf8(content)
        .map_err(|_| refuse(ErrorData::parse_error("not a message: it is not UTF-8", None)))?;
    let (mut value, is_repaired) = strict_json::parse_with_replacements(text)
        .map_err(|reason| refuse(ErrorData::parse_error(format!("not a message: {reason}"), None)))?;
    if !value.is_object() {
        let sentence = "a message is an object; there are no batches";
        let refused = refuse(ErrorData::invalid_request(sentence, None));
        let requests = value.as_array().into_iter().flatten().filter_map(SentId::of_request);
        let batch: Vec<SentId> = requests.take(MAX_BATCH + 1).collect();
        let batch = if batch.len() > MAX_BATCH { Vec::new() } else { batch };
        return Err(RefusedMessage { batch, ..refused });
    }
    // The answer to a changed id would be one to no request.
    if is_repaired && request_id(bytes).is_some_and(|id| id.has_half_character()) {
        return Err(refuse(ErrorData::invalid_request("the id has half of a character", None)));
    }
    let is_shortened = content.len() < bytes.len();
    let has_flaws = repair(&mut value);
    let is_changed = keep_task_parts(&mut value) || has_flaws || is_repaired || is_shortened;
    Ok(MessageText { value, is_changed })
}

/// The message that this JSON is, read from these bytes.
pub(super) fn typed_message(value: Value, bytes: &[u8]) -> Result<ClientJsonRpcMessage, RefusedMessage> {
    let fault = fault(&value);
    serde_json::from_value(value).map_err(|_| {
        let sentence = format!("this is not a message of JSON-RPC 2.0{fault}");
        RefusedMessage::new(ErrorData::invalid_request(sentence, None), request_id(bytes))
    })
}

/// What is wrong in a message that is none, after a colon.
fn fault(message: &Value) -> &'static str {
    let is_integer = |id: &Value| id.as_i64().is_some();
    match (message.get("jsonrpc"), message.get("id"), message.get("method")) {
        (version, ..) if version.is_none_or(|version| version != "2.0") => ": jsonrpc is not \"2.0\"",
        (_, Some(id), _) if !id.is_string() && !is_integer(id) => {
            ": the id is neither a text nor an integer of 64 bits"
        }
        (_, _, Some(method)) if !method.is_string() => ": the method is not a text",
        _ => "",
    }
}

impl RefusedMessage {
    fn new(error: ErrorData, id: Option<SentId>) -> Self {
        Self { error: Box::new(error), id, batch: Vec::new() }
    }

    /// A message of more bytes than one may have, of which at least the beginning was read.
    pub(super) fn too_large(max: usize, id: Option<SentId>) -> Self {
        let sentence = format!("a message has at most {} MiB", max >> 20);
        Self::new(ErrorData::invalid_request(sentence, None), id)
    }

    /// The answer, as JSON; to a batch a list of answers.
    pub(super) fn answer(&self) -> Vec<u8> {
        let error = serde_json::to_string(&self.error).unwrap_or_default();
        let answer = |id: Option<&SentId>| {
            let id = id.map(|id| format!("\"id\":{},", id.json())).unwrap_or_default();
            format!("{{\"jsonrpc\":\"2.0\",{id}\"error\":{error}}}")
        };
        if self.batch.is_empty() {
            return answer(self.id.as_ref()).into_bytes();
        }
        let answers: Vec<String> = self.batch.iter().map(|id| answer(Some(id))).collect();
        format!("[{}]", answers.join(",")).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The message as it is handled; or else the answer.
    fn read(bytes: &[u8]) -> Result<Value, Value> {
        let answer = |refused: RefusedMessage| serde_json::from_slice::<Value>(&refused.answer()).unwrap();
        let message = read_message(bytes).map_err(answer)?;
        typed_message(message.value.clone(), bytes).map(|_| message.value).map_err(answer)
    }

    #[test]
    fn a_batch_is_refused_with_the_id_of_each_of_its_requests() {
        let batch = br#"[{"id":40,"method":"x"},{"method":"notifications/x"},{"id":"b","method":"x"},{"id":3,"result":{}},7]"#;
        let answers = read(batch).unwrap_err();
        let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
        assert_eq!(ids, [&json!(40), &json!("b")]);
        let large = format!("[{}]", vec![r#"{"id":1,"method":"x"}"#; MAX_BATCH + 1].join(","));
        for single in [&b"[1]"[..], large.as_bytes()] {
            assert_eq!(read(single).unwrap_err()["error"]["code"], -32600);
        }
    }

    #[test]
    fn half_of_a_character_is_replaced_and_the_message_is_read() {
        for (text, argument) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":"cut \ud83d"}}"#, json!("cut \u{fffd}")),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":["\ude00","\ud83d\ude00"]}}"#,
                json!(["\u{fffd}", "😀"]),
            ),
            ("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"x\",\"params\":{\"a\":1}}", json!(1)),
        ] {
            assert_eq!(read(text.as_bytes()).unwrap()["params"]["a"], argument, "{text}");
            assert!(read_message(text.as_bytes()).unwrap().is_changed);
        }
        let plain = br#"{"jsonrpc":"2.0","id":7,"method":"x"}"#;
        assert!(!read_message(plain).unwrap().is_changed);
    }

    #[test]
    fn what_is_refused_has_the_id_of_its_request() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"x","params":{}1{}}}"#,
            "[".repeat(500),
            "]".repeat(500)
        );
        for (text, id, code) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":1,"a":2}}"#, json!(7), -32700),
            (
                r#"{"jsonrpc":"2.0","id":"x","method":"x","params":{"a":18446744073709551616}}"#,
                json!("x"),
                -32700,
            ),
            (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":1e400}}"#, json!(7), -32700),
            (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"a":NaN}}"#, json!(7), -32700),
            (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"\ud83d":1,"\ud83e":2}}"#, json!(7), -32700),
            (r#"{"jsonrpc":"2.0","id":7,"method":"x","params":"#, json!(7), -32700),
            (r#"{"jsonrpc":"2.0","id":7,"method":"x"} {}"#, json!(7), -32700),
            (&deep, json!(7), -32700),
            (r#"{"jsonrpc":"1.0","id":7,"method":"x"}"#, json!(7), -32600),
            (r#"{"id":7,"method":"x"}"#, json!(7), -32600),
            (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, json!(7), -32600),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, json!(1.5), -32600),
            (r#"{"jsonrpc":"2.0","id":18446744073709551615,"method":"x"}"#, json!(u64::MAX), -32600),
            // These have none that can be read.
            (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, Value::Null, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, Value::Null, -32700),
            (r#"{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}"#, Value::Null, -32700),
            ("[]", Value::Null, -32600),
        ] {
            let answer = read(text.as_bytes()).unwrap_err();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{text}: {answer}");
        }
    }

    #[test]
    fn an_id_with_half_of_a_character_is_answered_as_it_was_written() {
        let text = r#"{"jsonrpc":"2.0","id":"a\ud83d","method":"x"}"#;
        let answer = String::from_utf8(read_message(text.as_bytes()).err().unwrap().answer()).unwrap();
        assert!(answer.contains(r#""id":"a\ud83d","#), "{answer}");
    }
}
