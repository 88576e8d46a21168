//! Reads the message of a client: strict JSON, repaired where only one thing can be meant. What cannot be read is refused with the id of
//! its request, wherever that can be read.

use rmcp::model::{ClientJsonRpcMessage, ErrorData};
use serde_json::{Map, Value, json};

use super::task_messages::keep_task_parts;
use metier_core::strict_json;
use metier_core::strict_json::replace_half_surrogates;

/// Requests of a batch that have an error each; a larger one has a single error.
const MAX_BATCH: usize = 100;
/// Maximum bytes of an id in a text that cannot be parsed, as it is written.
const MAX_ID: usize = 64 << 10;
/// What some programs write before a text in UTF-8.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

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
    // Only what is refused is looked through once more: its id may stand where it cannot be parsed.
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

/// Makes the message what it was meant to be. Returns whether that changes it.
fn repair(message: &mut Value) -> bool {
    let mut is_changed = remove_nulls_of_envelope(message);
    let mut replace = |value: &mut Value| is_changed |= replace_empty_list(value);
    for pointer in ["/params", "/params/_meta", "/params/arguments"] {
        message.pointer_mut(pointer).into_iter().for_each(&mut replace);
    }
    if message["method"] == "initialize"
        && let Some(params) = message.get_mut("params").and_then(Value::as_object_mut)
    {
        let repaired = with_client(params);
        is_changed |= repaired != *params;
        *params = repaired;
    }
    is_changed
}

/// Some serializers write each field of their type, so an answer has an error and a request has a result.
fn remove_nulls_of_envelope(message: &mut Value) -> bool {
    let Some(fields) = message.as_object_mut() else { return false };
    let is_null = |fields: &Map<String, Value>, name: &str| fields.get(name).is_some_and(Value::is_null);
    let method = fields.get("method").and_then(Value::as_str);
    let (is_call, is_notification) =
        (method.is_some(), method.is_some_and(|method| method.starts_with("notifications/")));
    let has_error = fields.get("error").is_some_and(|error| !error.is_null());
    let superfluous = [
        ("error", is_null(fields, "error")),
        // A result may be null, if it is one.
        ("result", is_null(fields, "result") && (is_call || has_error)),
        ("id", is_null(fields, "id") && is_notification),
        ("method", is_null(fields, "method")),
        ("params", is_null(fields, "params")),
    ];
    let names = superfluous.into_iter().filter(|(_, is_superfluous)| *is_superfluous);
    names.fold(false, |is_changed, (name, _)| fields.shift_remove(name).is_some() || is_changed)
}

/// PHP writes an empty object as `[]`.
fn replace_empty_list(value: &mut Value) -> bool {
    let is_empty = value.as_array().is_some_and(Vec::is_empty);
    if is_empty {
        *value = json!({});
    }
    is_empty
}

/// The parameters of `initialize`, with capabilities that are objects and the name and version of a client.
fn with_client(params: &Map<String, Value>) -> Map<String, Value> {
    let mut params = params.clone();
    let capabilities = params.get("capabilities").map_or_else(|| json!({}), with_objects);
    params.insert("capabilities".into(), capabilities);
    let mut client = params.get("clientInfo").and_then(Value::as_object).cloned().unwrap_or_default();
    client.retain(|_, value| !value.is_null());
    for field in ["name", "version"] {
        client.entry(field).or_insert_with(|| "".into());
    }
    params.insert("clientInfo".into(), client.into());
    params
}

/// The capabilities that are objects. What they hold stays as it is, but for `null` and `[]`.
fn with_objects(capabilities: &Value) -> Value {
    let object = |value: &Value| match value {
        Value::Object(fields) => Some(fields.clone()),
        Value::Bool(true) => Some(Map::new()),
        value => value.as_array().filter(|items| items.is_empty()).map(|_| Map::new()),
    };
    let capability = |(name, value): (&String, &Value)| {
        let mut fields = object(value)?;
        fields.retain(|_, value| {
            replace_empty_list(value);
            // Of these two each field is a capability.
            !value.is_null() && (value.is_object() || !matches!(name.as_str(), "experimental" | "extensions"))
        });
        Some((name.clone(), Value::Object(fields)))
    };
    let all = capabilities.as_object().into_iter().flatten();
    all.filter_map(capability).collect::<Map<_, _>>().into()
}

/// The id of a request as its sender wrote it: a text or a number of JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SentId(String);

/// Looks for the id in a text that begins like an object, part by part, without keeping it.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is something else that was seen")]
pub(super) struct IdFinder {
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    has_ended: bool,
    /// The name before the value that is being read.
    key: Option<String>,
    /// The text or number at the top that is being read, if it can be a name or an id.
    token: Vec<u8>,
    is_no_token: bool,
    /// Whether white space has ended the token.
    has_gap: bool,
    id: Option<SentId>,
    has_two_ids: bool,
    has_method: bool,
    has_answer: bool,
}

/// The id of a request, if it can be read; `None` for an answer, and where the id is not a text or a number, or two are there.
pub(super) fn request_id(text: &[u8]) -> Option<SentId> {
    let mut finder = IdFinder::default();
    finder.read(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text));
    finder.into_id()
}

impl SentId {
    /// The id as JSON.
    pub(super) fn json(&self) -> &str {
        &self.0
    }

    /// Whether a text with half of a character is the id.
    fn has_half_character(&self) -> bool {
        replace_half_surrogates(&self.0).is_some()
    }

    /// The id of a message that is a request.
    fn of_request(message: &serde_json::Value) -> Option<Self> {
        message.get("method")?;
        Self::parse(message.get("id")?.to_string().as_bytes())
    }

    fn parse(token: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(token).ok()?;
        let is_id = match token.first()? {
            b'"' => string(text).is_some(),
            _ => serde_json::from_str::<serde_json::Number>(text).is_ok(),
        };
        is_id.then(|| Self(text.to_owned()))
    }
}

/// The content of a text of JSON.
fn string(token: &str) -> Option<String> {
    let whole = replace_half_surrogates(token);
    serde_json::from_str(whole.as_deref().unwrap_or(token)).ok()
}

impl IdFinder {
    /// Reads the next part of the text.
    pub(super) fn read(&mut self, part: &[u8]) {
        for byte in part {
            if self.has_ended {
                return;
            }
            self.read_byte(*byte);
        }
    }

    /// The id, after all of the text was read, or as much as there is of it.
    pub(super) fn into_id(self) -> Option<SentId> {
        let is_answer = self.has_answer && !self.has_method;
        self.id.filter(|_| !is_answer && !self.has_two_ids)
    }

    fn read_byte(&mut self, byte: u8) {
        if self.is_in_string {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => self.has_gap = !self.token.is_empty(),
            b'{' if self.depth == 0 => self.depth = 1,
            _ if self.depth == 0 => self.has_ended = true,
            b'{' | b'[' => {
                self.is_no_token = true;
                self.depth += 1;
            }
            b'}' | b']' if self.depth == 1 => {
                self.end_value();
                self.has_ended = true;
            }
            b'}' | b']' => self.depth -= 1,
            b':' if self.depth == 1 => {
                let token = std::mem::take(&mut self.token);
                self.key = std::str::from_utf8(&token).ok().and_then(string);
                (self.is_no_token, self.has_gap) = (false, false);
            }
            b',' if self.depth == 1 => self.end_value(),
            b'"' => {
                self.is_in_string = true;
                self.keep(byte);
            }
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth != 1 || self.is_no_token {
            return;
        }
        if self.token.len() == MAX_ID || self.has_gap {
            (self.token, self.is_no_token) = (Vec::new(), true);
        } else {
            self.token.push(byte);
        }
    }

    fn end_value(&mut self) {
        let token = std::mem::take(&mut self.token);
        let is_no_token = std::mem::take(&mut self.is_no_token);
        self.has_gap = false;
        match self.key.take().as_deref() {
            Some("method") => self.has_method = true,
            Some("result" | "error") => self.has_answer = true,
            Some("id") => {
                let id = SentId::parse(&token).filter(|_| !is_no_token);
                self.has_two_ids |= self.id.is_some() && self.id != id;
                self.id = self.id.take().or(id);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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

    fn repaired(mut message: Value) -> Value {
        repair(&mut message);
        message
    }

    #[test]
    fn an_empty_list_is_an_empty_object_where_the_protocol_has_objects() {
        for (params, read_as) in [
            (json!([]), json!({})),
            (json!({"name": "x", "arguments": []}), json!({"name": "x", "arguments": {}})),
            (json!({"name": "x", "arguments": {"a": []}}), json!({"name": "x", "arguments": {"a": []}})),
            (json!({"_meta": []}), json!({"_meta": {}})),
            (json!([1]), json!([1])),
        ] {
            assert_eq!(repaired(json!({"method": "x", "params": params}))["params"], read_as);
        }
    }

    #[test]
    fn what_a_client_says_about_itself_is_taken_as_far_as_it_is_known() {
        let whole = json!({"name": "a", "version": "1"});
        let read = |capabilities: Value, client: Value| {
            let params =
                json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": client});
            repaired(json!({"method": "initialize", "params": params}))["params"].clone()
        };
        for (capabilities, read_as) in [
            (json!({"roots": {"listChanged": true}}), json!({"roots": {"listChanged": true}})),
            (json!({"roots": {"listChanged": false}}), json!({"roots": {"listChanged": false}})),
            (json!({"roots": {"listChanged": null}}), json!({"roots": {}})),
            (json!(null), json!({})),
            (json!([]), json!({})),
            (
                json!({"sampling": [], "elicitation": {"form": []}}),
                json!({"sampling": {}, "elicitation": {"form": {}}}),
            ),
            (json!({"roots": true, "sampling": false, "elicitation": null}), json!({"roots": {}})),
            (
                json!({"experimental": {"x": [], "y": 7, "z": {"on": [true]}}}),
                json!({"experimental": {"x": {}, "z": {"on": [true]}}}),
            ),
        ] {
            assert_eq!(read(capabilities, whole.clone())["capabilities"], read_as);
        }
        let unnamed = json!({"name": "", "version": ""});
        for (client, read_as) in [
            (whole.clone(), whole.clone()),
            (json!(null), unnamed.clone()),
            (json!({"name": "a", "version": null}), json!({"name": "a", "version": ""})),
        ] {
            assert_eq!(read(json!({}), client)["clientInfo"], read_as);
        }
        let bare = repaired(json!({"method": "initialize", "params": {"protocolVersion": "2025-06-18"}}));
        assert_eq!(bare["params"]["clientInfo"], unnamed);
    }

    #[test]
    fn null_fields_of_a_message_are_left_out_where_they_say_nothing() {
        for (message, read_as) in [
            (
                json!({"id": 1, "method": "x", "result": null, "error": null, "params": null}),
                json!({"id": 1, "method": "x"}),
            ),
            (json!({"id": 1, "error": null, "result": {}, "method": null}), json!({"id": 1, "result": {}})),
            (json!({"id": 1, "error": {"code": 1}, "result": null}), json!({"id": 1, "error": {"code": 1}})),
            (json!({"id": 1, "result": null}), json!({"id": 1, "result": null})),
            (json!({"id": null, "method": "notifications/x"}), json!({"method": "notifications/x"})),
            (json!({"id": null, "method": "x"}), json!({"id": null, "method": "x"})),
        ] {
            assert_eq!(repaired(message), read_as);
        }
    }

    fn found(text: &str) -> Option<String> {
        request_id(text.as_bytes()).map(|id| id.json().to_owned())
    }

    #[test]
    fn the_id_is_found_wherever_it_stands_and_however_the_rest_is_broken() {
        for (text, id) in [
            (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, "7"),
            (r#"{"method":"x","params":{"id":1,"a":[{"id":2}]},"jsonrpc":"2.0","id":"last"}"#, r#""last""#),
            (r#"{ "id" : "a\"},b" , "method":"x","params":{"a":"\ud83d"}}"#, r#""a\"},b""#),
            (r#"{"id":7,"method":"x","params":{"a":NaN}}"#, "7"),
            (r#"{"id":7,"method":"x","params":"#, "7"),
            (r#"{"id":7,"method":"x","params":{"a":1,"a":2}}"#, "7"),
            (r#"{"id":18446744073709551616,"method":"x"}"#, "18446744073709551616"),
            (r#"{"id":-1.5e3,"method":"x"}"#, "-1.5e3"),
            (r#"{"\u0069d":7,"method":"x"}"#, "7"),
            (r#"{"id":"cut \ud83d","method":"x"}"#, r#""cut \ud83d""#),
            (r#"{"id":7,"id":7,"method":"x"}"#, "7"),
            (r#"{"id":7}"#, "7"),
            (r#"{"id":7,"method":"x","result":1}"#, "7"),
            ("\u{feff}{\"id\":7,\"method\":\"x\"}", "7"),
        ] {
            assert_eq!(found(text).as_deref(), Some(id), "{text}");
        }
        let deep = format!(r#"{{"params":{}{},"id":7,"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(found(&deep).as_deref(), Some("7"));
        assert_eq!(request_id(b"{\"id\":7,\"method\":\"\xff\"}").unwrap().json(), "7");
    }

    #[test]
    fn what_has_no_id_of_a_request_has_none() {
        for text in [
            "",
            "7",
            "[{\"id\":7}]",
            "GET / HTTP/1.1",
            r#"{"id":7"#,
            r#"{"id":"7"#,
            r#"{"id":null,"method":"x"}"#,
            r#"{"id":{"a":1},"method":"x"}"#,
            r#"{"id":[7],"method":"x"}"#,
            r#"{"id":true,"method":"x"}"#,
            r#"{"id":07,"method":"x"}"#,
            r#"{"id":7 8,"method":"x"}"#,
            r#"{"id":7,"id":8,"method":"x"}"#,
            r#"{"id":7,"result":{"a":1,"a":2}}"#,
            r#"{"error":{"code":1,"code":2},"id":7}"#,
            r#"{"params":{"id":7}}"#,
            r#"{"method":"x","params":"\"id\":7,"}"#,
        ] {
            assert_eq!(found(text), None, "{text}");
        }
        let long = format!(r#"{{"id":"{}","method":"x"}}"#, "x".repeat(MAX_ID));
        assert_eq!(found(&long), None);
    }

    #[test]
    fn a_text_in_parts_has_the_same_id() {
        let text = r#"{"method":"x","params":{"a":"\\\"","id":3},"id":"a\u00e9"}"#.as_bytes();
        for size in 1..text.len() {
            let mut finder = IdFinder::default();
            text.chunks(size).for_each(|part| finder.read(part));
            assert_eq!(finder.into_id().unwrap().json(), r#""a\u00e9""#);
        }
    }
}
