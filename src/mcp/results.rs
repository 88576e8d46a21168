//! Turns the outcome of a run into the result of a call. A result that is too large for an answer is stored for a while.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rmcp::model::{CallToolResult, ContentBlock, MetaObject, Resource};
use serde_json::{Map, Value, json};

use super::skill_content::shown_text;
use crate::engine::Outcome;
use metier_core::error::{ErrorKind, ErrorOutput, Result, SkillError};
use metier_core::excerpt::{head_and_tail, tail};
use metier_core::host::{LogLevel, LogLine, RefusedAccess, RefusedTarget, error_output};
use metier_core::unicode::{is_invisible, strip_escape_sequences};

/// Maximum bytes of text in a result. Clients replace larger results by previews of 2 KB.
pub(super) const MAX_TEXT: usize = 40_000;
/// Maximum bytes of a skill that declares larger results. Clients take no more, whatever a server says.
pub(super) const MAX_DECLARED_TEXT: usize = 500_000;
/// The most characters of why a plan started over.
const MAX_REASON: usize = 1_000;
/// Where a client finds the age of a value that an equal call made.
const CACHED_KEY: &str = "metier/cached";
/// Where a client finds in how many places the result was changed for a model.
const SANITIZED_KEY: &str = "metier/sanitized";
/// Where a client finds what the sandbox refused.
const REFUSED_KEY: &str = "metier/refused";
/// The most refused accesses that a sentence names.
const MAX_NAMED: usize = 8;
/// How long a result can be read.
const RESULT_LIFETIME: Duration = Duration::from_hours(1);
/// All results of a client together. The oldest are removed first.
const MAX_STORED_BYTES: usize = 64 << 20;
/// What the address of a result begins with.
const RESULT_SCHEME: &str = "metier://result/";

/// For whom a result is made.
pub(super) struct Audience<'a> {
    /// Bytes of text that the client takes, [`MAX_TEXT`] unless the skill declares more.
    pub(super) max_text: usize,
    /// Whether the client speaks a revision in which structured content is an object.
    pub(super) needs_objects: bool,
    pub(super) store: &'a ResultStore,
}

/// The schema of a tool's value as this client accepts it.
pub(super) fn output_schema_for(schema: &Value, needs_objects: bool) -> Map<String, Value> {
    let is_object = schema.get("type").is_some_and(|kind| kind == "object");
    match schema {
        Value::Object(schema) if is_object || !needs_objects => schema.clone(),
        schema => {
            // A reference points into its own schema, which is no longer at the top.
            let schema = if schema.to_string().contains("\"$ref\"") { json!({}) } else { schema.clone() };
            let wrapped = json!({"type": "object", "properties": {"result": schema}, "required": ["result"]});
            wrapped.as_object().cloned().unwrap_or_default()
        }
    }
}

/// The result of a run of a tool whose contract has this schema of its value. It ends with why a plan started over, if it did.
pub(super) fn call_result(
    mut outcome: Outcome,
    output_schema: Option<&Value>,
    audience: &Audience<'_>,
) -> CallToolResult {
    let started_over = outcome.started_over.take();
    let (cached, sanitized) = (outcome.cached, outcome.sanitized);
    let refused = std::mem::take(&mut outcome.refused);
    let refused_sentence =
        outcome.result.is_ok().then(|| refused_sentence(&outcome.skill, &refused)).flatten();
    let mut result = run_result(outcome, output_schema, audience);
    let facts = cached.map(|cached| (CACHED_KEY, json!(cached)));
    let facts = facts.into_iter().chain((sanitized > 0).then(|| (SANITIZED_KEY, json!(sanitized))));
    let facts = facts.chain((!refused.is_empty()).then(|| (REFUSED_KEY, json!(refused))));
    for (key, value) in facts {
        result.meta.get_or_insert_with(MetaObject::new).insert(key.to_owned(), value);
    }
    result.content.extend(started_over.map(|reason| {
        let reason = metier_core::excerpt::shorten(&shown_text(&reason), MAX_REASON);
        ContentBlock::text(format!("The plan started over, from its first step: {reason}."))
    }));
    result.content.extend(refused_sentence.map(ContentBlock::text));
    result
}

/// What a run went on without, and the grants by which a person permits it; `None` if no grant is missing. The run may have answered
/// wrongly because of it.
fn refused_sentence(skill: &str, refused: &[RefusedAccess]) -> Option<String> {
    let missing = || refused.iter().filter_map(|refused| Some((refused, refused.permission.as_deref()?)));
    let named = missing().take(MAX_NAMED).map(|(refused, _)| {
        let (what, name) = match &refused.target {
            RefusedTarget::Path(path) => ("the path", path),
            RefusedTarget::Host(host) => ("the host", host),
            RefusedTarget::Variable(name) => ("the variable", name),
            RefusedTarget::Name(name) => ("the program", name),
            _ => return "something else".to_owned(),
        };
        format!("{what} {}", shown_text(name))
    });
    let named = named.collect::<Vec<_>>().join(", ");
    let mut permissions: Vec<&str> = missing().take(MAX_NAMED).map(|(_, permission)| permission).collect();
    permissions.dedup();
    let (skill, grants) = (shown_text(skill), shown_text(&permissions.join(" and ")));
    (!permissions.is_empty()).then(|| {
        format!("The sandbox refused this run {named}, so its answer may lack what it wanted there. If {skill} should have it, a person grants it {grants}")
    })
}

fn run_result(outcome: Outcome, output_schema: Option<&Value>, audience: &Audience<'_>) -> CallToolResult {
    let value = match &outcome.result {
        Ok(_) => outcome.result.unwrap_or_default(),
        Err(error) => return failed_result(&outcome, error, audience),
    };
    if output_schema.is_none()
        && let Some(content) = content_blocks(&value)
    {
        return CallToolResult::success(
            content.into_iter().map(|block| shorten_block(block, audience)).collect(),
        );
    }
    let (text, mime_type) = match &value {
        Value::String(text) => (text.clone(), "text/plain"),
        value => (value.to_string(), "application/json"),
    };
    let is_large = text.len() > audience.max_text;
    if is_large && output_schema.is_some() {
        let mut result = CallToolResult::error(shortened_text(&text, mime_type, audience));
        let sentence = format!(
            "The skill succeeded, but its structured result of {} bytes is too large for an answer.",
            text.len()
        );
        result.content.insert(0, ContentBlock::text(sentence));
        let error = SkillError::new(ErrorKind::Output, "the result is too large for an answer");
        return result.with_meta(Some(error_meta(&error, None)));
    }
    let mut result = CallToolResult::success(shortened_text(&text, mime_type, audience));
    let is_plain_text = value.is_string() && output_schema.is_none();
    if !is_large && !is_plain_text {
        // What the schema calls an object is one, for the value was validated.
        let is_object = output_schema.map_or(value.is_object(), |schema| schema["type"] == "object");
        result.structured_content =
            Some(if is_object || !audience.needs_objects { value } else { json!({"result": value}) });
    }
    result
}

/// The bytes of the texts and media of a result, without the rest of it, which is small beside them.
pub(super) fn content_size(result: &CallToolResult) -> usize {
    let size = |block: &ContentBlock| match block {
        ContentBlock::Text(text) => text.text.len(),
        ContentBlock::Image(image) => image.data.len(),
        ContentBlock::Audio(audio) => audio.data.len(),
        _ => 0,
    };
    result.content.iter().map(size).sum()
}

/// A failure before anything ran, as a model reads it: the sentence, where it happened, what helps, and the kind.
pub(super) fn error_result(error: &SkillError) -> CallToolResult {
    let (text, _) = head_and_tail(&error_text(error), MAX_TEXT);
    CallToolResult::error(vec![ContentBlock::text(text)]).with_meta(Some(error_meta(error, None)))
}

/// A failed run: its error, and below it what the script wrote. It has no structured content, which the schema of the tool would
/// hold for.
fn failed_result(outcome: &Outcome, error: &SkillError, audience: &Audience<'_>) -> CallToolResult {
    let own = outcome.process.as_ref().map(|process| (process, error_output(process)));
    let callee = error.output().filter(|output| own.as_ref().is_none_or(|(_, own)| own != *output));
    let ended = callee.or(own.as_ref().map(|(_, own)| own));
    let (mut text, _) = head_and_tail(&error_text(error), audience.max_text / 8);
    text.extend(ended.and_then(|ended| ended.exit_code).map(|code| format!("\nexit code: {code}")));
    text.extend(ended.and_then(|ended| ended.signal).map(|signal| format!("\nsignal: {signal}")));
    let mut links = Vec::new();
    for stream in failed_streams(outcome, callee) {
        let plain = shown_text(&strip_escape_sequences(stream.text.trim_end()));
        // What the sentence quotes is not repeated.
        if plain.trim().is_empty() || shown_text(error.message()).ends_with(&format!(": {}", plain.trim())) {
            continue;
        }
        let (shown, left_out) = (stream.cut)(&plain, audience.max_text / 8 * stream.eighths);
        text.extend([format!("\n\n{}:\n{shown}", stream.name)]);
        if left_out > 0 {
            links.extend(link_to_whole(&plain, left_out, stream.name, "text/plain", audience));
        }
    }
    let content = std::iter::once(ContentBlock::text(text)).chain(links).collect();
    CallToolResult::error(content).with_meta(Some(error_meta(error, ended)))
}

/// One of the texts that a failed run left.
struct FailedStream<'a> {
    name: &'static str,
    text: Cow<'a, str>,
    /// How much of an answer it may take.
    eighths: usize,
    cut: fn(&str, usize) -> (String, usize),
}

/// What the script wrote, then what the skill wrote that it called and that failed, and the log.
fn failed_streams<'a>(outcome: &'a Outcome, callee: Option<&'a ErrorOutput>) -> Vec<FailedStream<'a>> {
    let stdout = |name, text| FailedStream { name, text, eighths: 3, cut: head_and_tail };
    let end = |name, text, eighths| FailedStream { name, text, eighths, cut: tail };
    let own = outcome.process.iter().flat_map(|process| {
        let (out, err) = (process.stdout.as_str().into(), process.stderr.as_str().into());
        [stdout("standard output", out), end("standard error", err, 2)]
    });
    let callee = callee.into_iter().flat_map(|output| {
        let (out, err) = (output.stdout.as_str().into(), output.stderr.as_str().into());
        [
            stdout("standard output of the skill that failed", out),
            end("standard error of the skill that failed", err, 2),
        ]
    });
    let line = |line: &LogLine| match line.level {
        LogLevel::Info => line.message.clone(),
        level => format!("{}: {}", json!(level).as_str().unwrap_or_default(), line.message),
    };
    let log = outcome.log.iter().map(line).collect::<Vec<_>>().join("\n");
    own.chain(callee).chain([end("log", log.into(), 1)]).collect()
}

fn error_text(error: &SkillError) -> String {
    let mut text = shown_text(error.message());
    if let Some(place) = error.location() {
        let line = place.line.map(|line| format!(":{line}")).unwrap_or_default();
        text.extend([format!("\nat {}{line}", shown_text(&place.file))]);
    }
    let violations = error.violations().iter().map(ToString::to_string);
    for violation in violations.filter(|violation| !error.message().contains(violation)) {
        text.extend([format!("\n- {}", shown_text(&violation))]);
    }
    if let Some(help) = error.help().filter(|help| !error.message().contains(help)) {
        text.extend([format!("\nhelp: {}", shown_text(help))]);
    }
    text.extend([format!("\nkind: {}", error.kind())]);
    text
}

/// The error for programs.
fn error_meta(error: &SkillError, ended: Option<&ErrorOutput>) -> MetaObject {
    let short = |text: &str| metier_core::excerpt::shorten(&shown_text(text), 2_000);
    let mut parts = json!({
        "kind": error.kind(),
        "message": short(error.message()),
        "help": error.help().map(short),
        "location": error.location(),
    });
    if let Some(ended) = ended {
        parts["exit_code"] = json!(ended.exit_code);
        parts["signal"] = json!(ended.signal);
    }
    let mut meta = MetaObject::new();
    meta.insert("metier/error".to_owned(), parts);
    meta
}

/// The whole text, or its beginning and its end with a link to all of it.
pub(super) fn shortened_text(
    text: &str,
    mime_type: &'static str,
    audience: &Audience<'_>,
) -> Vec<ContentBlock> {
    let (shown, left_out) = head_and_tail(text, audience.max_text);
    if left_out == 0 {
        return vec![ContentBlock::text(shown)];
    }
    std::iter::once(ContentBlock::text(shown))
        .chain(link_to_whole(text, left_out, "result", mime_type, audience))
        .collect()
}

/// Stores a text that was cut, and says where it is; nothing if it is too large to be stored.
fn link_to_whole(
    text: &str,
    left_out: usize,
    name: &str,
    mime_type: &'static str,
    audience: &Audience<'_>,
) -> Vec<ContentBlock> {
    let Some(uri) = audience.store.add(text, mime_type) else { return Vec::new() };
    let of = if name == "result" { String::new() } else { format!(" of {name}") };
    let about = format!(
        "{left_out} of {} bytes{of} are left out. read_result returns the rest: uri {uri}",
        text.len()
    );
    let link = Resource::new(uri, format!("the whole {name}"))
        .with_description(format!("The whole {name}, for an hour"))
        .with_mime_type(mime_type)
        .with_size(text.len() as u64);
    vec![ContentBlock::text(about), ContentBlock::resource_link(link)]
}

fn shorten_block(block: ContentBlock, audience: &Audience<'_>) -> ContentBlock {
    match &block {
        ContentBlock::Text(text) if text.text.len() > audience.max_text => {
            let (mut shown, left_out) = head_and_tail(&text.text, audience.max_text);
            if let Some(uri) = audience.store.add(&text.text, "text/plain") {
                shown.extend([format!("\n\n[read_result returns the {left_out} bytes: uri {uri}]")]);
            }
            ContentBlock::text(shown)
        }
        _ => block,
    }
}

/// The blocks of a value `{"content": [..]}` in the form of the protocol: texts, images, sounds, resources and links.
///
/// Every other value is not a list of blocks but a value. Addresses lead to the web or to a skill, so that no script can have a client
/// open a file, or pass its own text off as one.
fn content_blocks(value: &Value) -> Option<Vec<ContentBlock>> {
    let object = value.as_object().filter(|object| object.len() == 1)?;
    let blocks = object.get("content")?.as_array().filter(|blocks| !blocks.is_empty())?;
    let block = |value: &Value| {
        let is_media = |start: &str| {
            value["mimeType"].as_str().is_some_and(|kind| kind.starts_with(start))
                && is_base64(&value["data"])
        };
        let is_safe = match value["type"].as_str()? {
            "text" | "resource_link" => true,
            "image" => is_media("image/"),
            "audio" => is_media("audio/"),
            "resource" => value["resource"].get("blob").is_none_or(is_base64),
            _ => false,
        };
        let fields = value.as_object().filter(|_| is_safe)?;
        fields.iter().all(|(name, value)| is_safe_field(name, value)).then_some(())?;
        serde_json::from_value(value.clone()).ok()
    };
    blocks.iter().map(block).collect()
}

/// Whether a key among metadata is metier's own, or one of the protocol and its extensions: facts about an error, a file or a task.
fn is_reserved(key: &str) -> bool {
    let Some((prefix, _)) = key.split_once('/') else { return false };
    let owner = prefix.split('.').nth(1).unwrap_or(prefix).to_ascii_lowercase();
    ["metier", "mcp", "modelcontextprotocol"].contains(&owner.as_str())
}

/// Whether a client can do nothing with a field of a block but show it, at any depth.
fn is_safe_field(name: &str, value: &Value) -> bool {
    match value {
        Value::Object(fields) if name == "_meta" && fields.keys().any(|key| is_reserved(key)) => false,
        Value::Object(fields) => fields.iter().all(|(name, value)| is_safe_field(name, value)),
        Value::Array(items) => items.iter().all(|item| is_safe_field(name, item)),
        // What is shown as the content itself.
        Value::String(_) if ["text", "data", "blob"].contains(&name) => true,
        Value::String(uri) if name == "src" && uri.starts_with("data:image/") => is_uri(uri),
        Value::String(uri) if ["uri", "src", "url", "href"].contains(&name) => is_safe_link(uri),
        Value::String(text) => text.chars().all(|c| {
            let is_line_end = c == '\n' && name == "description";
            is_line_end || !(c.is_control() || is_invisible(c))
        }),
        _ => true,
    }
}

pub(super) fn is_base64(value: &Value) -> bool {
    value.as_str().is_some_and(|text| {
        let digits = text.trim_end_matches('=');
        text.len().is_multiple_of(4)
            && text.len() - digits.len() <= 2
            && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/".contains(&byte))
    })
}

fn is_safe_link(uri: &str) -> bool {
    ["https://", "http://", "skill://"].iter().any(|scheme| uri.starts_with(scheme)) && is_uri(uri)
}

/// Whether all characters of an address are those that one may have (RFC 3986): none that hides where it leads.
fn is_uri(uri: &str) -> bool {
    uri.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte))
}

/// The results of one client. Its links are no use to another one, which has a store of its own.
#[derive(Default)]
pub(super) struct ResultStore(Mutex<VecDeque<StoredResult>>);

struct StoredResult {
    id: String,
    text: Arc<str>,
    mime_type: &'static str,
    expires_at: Instant,
}

impl ResultStore {
    /// Stores a text, and returns its address; `None` if it is larger than all results may be together, or if the system has no
    /// random numbers for its address.
    pub(super) fn add(&self, text: &str, mime_type: &'static str) -> Option<String> {
        self.add_until(text, mime_type, Instant::now() + RESULT_LIFETIME)
    }

    fn add_until(&self, text: &str, mime_type: &'static str, expires_at: Instant) -> Option<String> {
        if text.len() > MAX_STORED_BYTES {
            return None;
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).ok()?;
        let id = format!("{:032x}", u128::from_be_bytes(random));
        let mut results = self.lock();
        let mut size: usize = results.iter().map(|result| result.text.len()).sum();
        while size + text.len() > MAX_STORED_BYTES {
            size -= results.pop_front().map_or(size, |oldest| oldest.text.len());
        }
        results.push_back(StoredResult { id: id.clone(), text: text.into(), mime_type, expires_at });
        Some(format!("{RESULT_SCHEME}{id}"))
    }

    /// Whether it is the address of a result.
    pub(super) fn is_address(uri: &str) -> bool {
        uri.starts_with(RESULT_SCHEME)
    }

    /// The text and its type.
    pub(super) fn read(&self, uri: &str) -> Result<(Arc<str>, &'static str)> {
        let id = uri.strip_prefix(RESULT_SCHEME).unwrap_or_default();
        let results = self.lock();
        let found = results.iter().find(|result| result.id == id);
        found.map(|result| (result.text.clone(), result.mime_type)).ok_or_else(|| {
            SkillError::new(ErrorKind::InvalidArgument, "there is no result at this address")
                .with_help("a result can be read for an hour, and only by the client that received its link; call the tool again")
        })
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<StoredResult>> {
        let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        results.retain(|result| result.expires_at > now);
        results
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metier_core::error::Location;
    use metier_core::host::ProcessReport;

    #[allow(clippy::needless_pass_by_value, reason = "what `json!` makes is passed as it is")]
    fn result(value: Value, schema: Option<Value>, needs_objects: bool) -> Value {
        let store = ResultStore::default();
        let mut outcome = Outcome::failed("x", SkillError::new(ErrorKind::Script, "replaced"));
        outcome.result = Ok(value);
        let result = call_result(
            outcome,
            schema.as_ref(),
            &Audience { max_text: MAX_TEXT, needs_objects, store: &store },
        );
        serde_json::to_value(result).unwrap()
    }

    #[test]
    fn values_are_structured_and_texts_are_not() {
        assert_eq!(result(json!({"a": 1}), None, true)["structuredContent"], json!({"a": 1}));
        assert_eq!(result(json!([1]), None, true)["structuredContent"], json!({"result": [1]}));
        assert_eq!(result(json!([1]), None, false)["structuredContent"], json!([1]));
        let text = result(json!("hello"), None, true);
        assert_eq!((&text["content"][0]["text"], text.get("structuredContent")), (&json!("hello"), None));
        assert_eq!(
            result(json!("a"), Some(json!({"type": "string"})), true)["structuredContent"],
            json!({"result": "a"})
        );
        assert_eq!(
            result(json!("a"), Some(json!({"type": "string"})), false)["structuredContent"],
            json!("a")
        );
    }

    #[test]
    fn a_large_text_has_its_ends_and_a_link() {
        let text = format!("begin{}ünd", "é".repeat(MAX_TEXT));
        let large = result(json!(text), None, true);
        let shown = large["content"][0]["text"].as_str().unwrap();
        assert!(shown.starts_with("begin") && shown.ends_with("ünd") && shown.len() < MAX_TEXT + 200);
        assert_eq!(large["content"][2]["size"], text.len());
        assert_eq!(large["isError"], false);
        let structured = result(json!({"text": text}), Some(json!({"type": "object"})), true);
        assert_eq!((&structured["isError"], structured.get("structuredContent")), (&json!(true), None));
        assert!(structured["content"][3]["uri"].as_str().unwrap().starts_with("metier://result/"));
    }

    #[test]
    fn scripts_return_images_and_links_that_lead_to_no_file() {
        let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
        assert_eq!(result(json!({"content": [image]}), None, true)["content"][0], image);
        let link = |uri: &str| json!({"content": [{"type": "resource_link", "uri": uri, "name": "n"}]});
        assert_eq!(result(link("https://example.com/"), None, true)["content"][0]["type"], "resource_link");
        let file = "file:///etc/passwd";
        let with = |mut block: Value, name: &str, value: Value| {
            block["content"][0][name] = value;
            block
        };
        let web = || link("https://example.com/");
        let resource = |fields: Value| json!({"content": [{"type": "resource", "resource": fields}]});
        for value in [
            with(
                web(),
                "icons",
                json!([{"src": "https://example.com/i.png"}, {"src": "data:image/png;base64,AAAA"}]),
            ),
            with(web(), "description", json!("two\nlines")),
            resource(json!({"uri": "https://example.com/", "text": "\u{1b}[31m any"})),
            resource(json!({"uri": "skill://x/y", "blob": "AAA=", "mimeType": "image/png"})),
        ] {
            let shown = result(value.clone(), None, true);
            assert_eq!(shown["content"][0]["type"], value["content"][0]["type"], "{shown}");
            assert_eq!(shown.get("structuredContent"), None, "{shown}");
        }
        for value in [
            link(file),
            link("https://\u{202e}e.com"),
            link("https://e.com\r\nX: y"),
            link("https://e.com/ x"),
            link("https://e\u{430}.com/"),
            link("javascript://x"),
            with(web(), "icons", json!([{"src": file}])),
            with(web(), "icons", json!([{"src": "data:text/html,x"}])),
            with(web(), "icons", json!([{"src": "https://e.com/\u{200b}"}])),
            with(web(), "name", json!("n\u{202e}")),
            with(web(), "title", json!("n\u{1b}[31m")),
            with(web(), "title", json!("a\nb")),
            with(web(), "description", json!("a\rb")),
            with(web(), "mimeType", json!("a\u{7f}")),
            with(web(), "_meta", json!({"io.modelcontextprotocol.skills/digest": "x"})),
            with(web(), "_meta", json!({"metier/other": "x"})),
            with(web(), "_meta", json!({"io.modelcontextprotocol/related-task": {"taskId": "x"}})),
            with(web(), "_meta", json!({"dev.mcp/x": 1})),
            with(web(), "_meta", json!({"x": {"uri": file}})),
            resource(json!({"uri": file, "text": "fake"})),
            resource(json!({"uri": file, "blob": "AAAA", "mimeType": "text/html"})),
            resource(json!({"uri": "https://e.com\r\nX: y", "text": "a"})),
            resource(json!({"uri": "https://e.com", "blob": "no base64!"})),
            resource(
                json!({"uri": "https://e.com", "text": "a", "_meta": {"io.modelcontextprotocol.skills/digest": "x"}}),
            ),
            json!({"content": [{"type": "image", "data": "AAAA", "mimeType": "text/html"}]}),
            json!({"content": [{"type": "image", "data": "not base64!!", "mimeType": "image/png"}]}),
            json!({"content": [{"type": "audio", "data": "AAAAA", "mimeType": "audio/wav"}]}),
            json!({"content": [{"type": "text", "text": "a", "_meta": {"metier/error": {"kind": "x"}}}]}),
            json!({"content": [{"type": "tool_use", "id": "1", "name": "x", "input": {}}]}),
            json!({"content": [{"type": "tool_result", "toolUseId": "1", "content": [{"type": "resource_link", "uri": file, "name": "n"}]}]}),
            json!({"content": []}),
            json!({"content": [{"type": "odd"}]}),
            json!({"content": [{"type": "text", "text": "a"}], "more": 1}),
        ] {
            assert_eq!(result(value.clone(), None, true)["structuredContent"], value);
        }
    }

    #[test]
    fn an_error_has_its_sentence_its_help_and_its_kind() {
        let error = SkillError::new(ErrorKind::Denied, "not permitted\u{202e}").with_help("grant write:out");
        let result = serde_json::to_value(error_result(&error)).unwrap();
        assert_eq!(result["isError"], true);
        assert_eq!(
            result["content"][0]["text"],
            "not permitted\\u{202e}\nhelp: grant write:out\nkind: denied"
        );
        assert_eq!(result["_meta"]["metier/error"]["kind"], "denied");
    }

    fn failed(error: SkillError, stdout: &str, stderr: &str) -> Value {
        let mut outcome = Outcome::failed("x", error);
        let mut process = ProcessReport::default();
        process.exit_code = Some(1);
        stdout.clone_into(&mut process.stdout);
        stderr.clone_into(&mut process.stderr);
        outcome.process = Some(process);
        let audience = Audience { max_text: MAX_TEXT, needs_objects: true, store: &ResultStore::default() };
        let schema = json!({"type": "object", "required": ["a"]});
        serde_json::to_value(call_result(outcome, Some(&schema), &audience)).unwrap()
    }

    #[test]
    fn a_failed_run_has_what_it_wrote_and_no_structured_content() {
        let error = || {
            let error = SkillError::new(ErrorKind::Script, "main.py exited with code 1: boom");
            error.with_location(Location::new("main.py", Some(3), None))
        };
        let result =
            failed(error(), "a.md:1 x\n\u{1b}[31mb.md:2 y\u{1b}[0m\u{202e}\n", "warning: old\nboom\n");
        assert_eq!(
            result["content"][0]["text"],
            "main.py exited with code 1: boom\nat main.py:3\nkind: script\nexit code: 1\n\nstandard output:\na.md:1 x\nb.md:2 y\\u{202e}\n\n\
             standard error:\nwarning: old\nboom"
        );
        assert_eq!((&result["isError"], result.get("structuredContent")), (&json!(true), None));
        let meta = &result["_meta"]["metier/error"];
        assert_eq!((&meta["exit_code"], &meta["location"]["line"]), (&json!(1), &json!(3)));
        let single = failed(error(), "", "boom\n");
        assert!(!single["content"][0]["text"].as_str().unwrap().contains("standard error"), "{single}");
    }

    #[test]
    fn large_streams_of_a_failed_run_are_cut_with_links() {
        let lines: Vec<String> = (0..20_000).map(|line| format!("line {line}\n")).collect();
        let lines = lines.concat();
        let result = failed(SkillError::new(ErrorKind::Script, "failed"), &lines, &lines);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.len() < MAX_TEXT && text.contains("standard output:\nline 0\n"), "{}", text.len());
        assert_eq!(text.matches("line 19999").count(), 2);
        assert_eq!(text.matches("line 1\n").count(), 1, "of standard error only the end is shown");
        let kinds: Vec<&Value> =
            result["content"].as_array().unwrap().iter().map(|block| &block["type"]).collect();
        assert_eq!(kinds, ["text", "text", "resource_link", "text", "resource_link"]);
        assert_eq!(result["content"][2]["size"], lines.len() - 1);
    }

    #[test]
    fn a_result_is_read_by_its_address_and_by_no_other() {
        let (store, other) = (ResultStore::default(), ResultStore::default());
        let address = store.add("whole", "text/plain").unwrap();
        assert_eq!(&*store.read(&address).unwrap().0, "whole");
        assert!(other.read(&address).is_err(), "of another client");
        assert!(store.read(RESULT_SCHEME).is_err() && store.read(&format!("{address}0")).is_err());
        assert_ne!(store.add("whole", "text/plain"), Some(address));
    }

    #[test]
    fn a_result_ends_after_its_time() {
        let store = ResultStore::default();
        let address = store.add_until("whole", "text/plain", Instant::now()).unwrap();
        assert!(store.read(&address).is_err());
        assert!(store.lock().is_empty());
    }

    #[test]
    fn the_oldest_make_space_and_nothing_grows_beyond_the_bound() {
        let store = ResultStore::default();
        let text = "x".repeat(MAX_STORED_BYTES / 2);
        let addresses: Vec<String> = (0..3).map(|_| store.add(&text, "text/plain").unwrap()).collect();
        assert!(store.read(&addresses[0]).is_err());
        assert!(store.read(&addresses[1]).is_ok() && store.read(&addresses[2]).is_ok());
        assert_eq!(store.add(&"x".repeat(MAX_STORED_BYTES + 1), "text/plain"), None);
    }
}
