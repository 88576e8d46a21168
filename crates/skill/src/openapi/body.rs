//! The bodies of an operation: which type of content a request has and what of it becomes an input, and what calls read of the answer.

use metier_core::excerpt::shorten;
use serde_json::{Map, Value as Json};

use super::document::{Document, fields, flag, items, text};
use super::operation::Operation;
use super::schema::SchemaReader;
use super::text::plain_text;

/// What calls send.
#[derive(Debug, PartialEq)]
pub(super) enum Body {
    /// An object of these fields, each of them an input; the names of those that must be there.
    Fields { fields: Map<String, Json>, required: Vec<String> },
    /// Another value, as one input.
    Whole(Map<String, Json>),
    /// The same as `Fields`, sent as a web form; the names of those whose objects are written with brackets.
    Form { fields: Map<String, Json>, required: Vec<String>, deep: Vec<String> },
    /// A text, as one input.
    Text(Map<String, Json>),
}

/// A body, and the type of its content if that is another than `application/json`.
pub(super) struct RequestBody {
    pub(super) body: Body,
    pub(super) content_type: Option<String>,
}

/// The type of content of a web form.
const FORM: &str = "application/x-www-form-urlencoded";
/// The type of content of a JSON value.
const JSON: &str = "application/json";
/// The most bytes of a type of content.
const MAX_TYPE: usize = 100;

/// The body of an operation, and why one that need not be there is left out. `Err` if calls cannot send one that must be.
pub(super) fn read<'d>(
    document: &'d Document,
    operation: &Operation<'d>,
    schemas: &mut SchemaReader<'d, '_>,
) -> Result<(Option<RequestBody>, Option<&'static str>), String> {
    let Some(written) = operation.get("requestBody") else { return Ok((None, None)) };
    let written = document.resolve(written).map_err(|fault| fault.reason().to_owned())?;
    let written = fields(Some(written));
    let is_required = flag(written, "required");
    let contents = fields(written.get("content"));
    let reads_only = matches!(operation.method, "GET" | "HEAD");
    let json = contents.iter().filter(|(kind, _)| is_json(kind)).min_by_key(|(kind, _)| rank(kind));
    let Some((kind, content)) = json.filter(|_| !reads_only) else {
        let is_empty = contents.values().all(|content| is_empty_object(document, content));
        let form = contents.iter().find(|(kind, _)| essence(kind).eq_ignore_ascii_case(FORM));
        if let Some((_, content)) = form.filter(|_| !reads_only && (is_required || !is_empty)) {
            return read_form(content, is_required, schemas);
        }
        if is_empty {
            return Ok((None, None));
        }
        let text = contents.iter().find(|(kind, _)| is_text(kind));
        if let Some((kind, content)) =
            text.filter(|_| !reads_only && (is_required || operation.method != "DELETE"))
        {
            return read_text(kind, content, written, schemas);
        }
        if !is_required && matches!(operation.method, "GET" | "HEAD" | "DELETE") {
            return Ok((None, Some("it can have a body that calls do not send")));
        }
        if reads_only {
            return Err("it reads and has a body".to_owned());
        }
        let kind = contents.keys().next().map(|kind| excerpt(kind)).unwrap_or_default();
        return Err(format!("its body is {kind} and not JSON"));
    };
    let schema = match content.get("schema") {
        Some(schema) => schemas.input(schema).map_err(|fault| fault.reason().to_owned())?,
        None => Some(Map::new()),
    };
    let Some(mut schema) = schema else { return Ok((None, None)) };
    let own_text = plain_text(text(written, "description").unwrap_or_default(), 200);
    if !own_text.is_empty() && !schema.contains_key("description") {
        schema.insert("description".to_owned(), own_text.into());
    }
    let content_type = (essence(kind) != JSON && !kind.contains('*')).then(|| essence(kind).to_owned());
    Ok((Some(RequestBody { body: body(schema), content_type }), None))
}

/// A body that is a text, such as YAML.
fn read_text<'d>(
    kind: &str,
    content: &'d Json,
    body: &Map<String, Json>,
    schemas: &mut SchemaReader<'d, '_>,
) -> Result<(Option<RequestBody>, Option<&'static str>), String> {
    let schema = match content.get("schema") {
        Some(schema) => schemas.input(schema).map_err(|fault| fault.reason().to_owned())?,
        None => None,
    };
    // What is written in a text may be described as an object.
    let mut schema = schema.filter(|schema| schema.get("type").is_some_and(|kind| kind == "string"));
    let schema = schema.get_or_insert_with(|| Map::from_iter([("type".to_owned(), Json::from("string"))]));
    let own_text = plain_text(text(body, "description").unwrap_or_default(), 200);
    let kind = essence(kind);
    let shown = if own_text.is_empty() { format!("The body, which is {kind}.") } else { own_text };
    schema.entry("description").or_insert_with(|| shown.into());
    let body = Body::Text(std::mem::take(schema));
    Ok((Some(RequestBody { body, content_type: Some(kind.to_owned()) }), None))
}

/// The fields of a form that are texts, numbers or lists of them, or written in the style deepObject; other objects in forms are written
/// in a way of each service's own.
fn read_form<'d>(
    content: &'d Json,
    is_required: bool,
    schemas: &mut SchemaReader<'d, '_>,
) -> Result<(Option<RequestBody>, Option<&'static str>), String> {
    let schema = match content.get("schema") {
        Some(schema) => schemas.input(schema).map_err(|fault| fault.reason().to_owned())?,
        None => None,
    };
    let Some(Body::Fields { fields: written, required }) = schema.map(body) else {
        let reason = "its body is a form without fields of its own".to_owned();
        return if is_required {
            Err(reason)
        } else {
            Ok((None, Some("it can have a body that calls do not send")))
        };
    };
    let encodings = fields(content.get("encoding"));
    let style = |name: &str| text(fields(encodings.get(name)), "style");
    let is_plain = |name: &str, schema: &Json| {
        let is_joined = fields(encodings.get(name)).get("explode") == Some(&Json::Bool(false));
        style(name).is_none_or(|style| style == "form") && !is_joined && is_flat(schema, true)
    };
    let is_deep = |name: &str| style(name) == Some("deepObject");
    let count = written.len();
    let deep: Vec<String> = written.keys().filter(|name| is_deep(name)).cloned().collect();
    let (fields, others): (Map<_, _>, Map<_, _>) =
        written.into_iter().partition(|(name, schema)| is_deep(name) || is_plain(name, schema));
    if let Some(name) = others.keys().find(|name| required.contains(name)) {
        return Err(format!(
            "its body is a form, and the field {} is no text, number or list of them",
            excerpt(name)
        ));
    }
    let note = (fields.len() < count).then_some("fields of its form that are objects are left out");
    Ok((Some(RequestBody { body: Body::Form { fields, required, deep }, content_type: None }), note))
}

/// Whether all values of a schema are texts, numbers, truth values or null, or also lists of these.
fn is_flat(schema: &Json, may_be_list: bool) -> bool {
    let schema = fields(Some(schema));
    let alternatives = ["anyOf", "oneOf", "allOf"].iter().flat_map(|key| items(schema.get(*key)));
    let mut alternatives = alternatives.peekable();
    if alternatives.peek().is_some() {
        return alternatives.all(|one| is_flat(one, may_be_list));
    }
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Json::String(kind)) => vec![kind],
        kinds => items(kinds).iter().filter_map(Json::as_str).collect(),
    };
    if kinds.is_empty() {
        return schema.contains_key("enum") || schema.contains_key("const");
    }
    kinds.iter().all(|kind| match *kind {
        "string" | "number" | "integer" | "boolean" | "null" => true,
        "array" => may_be_list && schema.get("items").is_some_and(|items| is_flat(items, false)),
        _ => false,
    })
}

/// An object with fields of its own as these, and everything else as one value.
fn body(mut schema: Map<String, Json>) -> Body {
    let is_object = schema
        .get("type")
        .is_some_and(|kind| kind == "object" || items(Some(kind)).iter().any(|it| it == "object"));
    let is_combined = ["anyOf", "oneOf", "allOf"].iter().any(|key| schema.contains_key(*key));
    let has_others = schema.get("additionalProperties").is_some_and(Json::is_object);
    if !is_object || is_combined || has_others {
        return Body::Whole(schema);
    }
    let required =
        items(schema.get("required")).iter().filter_map(|name| name.as_str().map(str::to_owned)).collect();
    match schema.shift_remove("properties") {
        Some(Json::Object(fields)) => Body::Fields { fields, required },
        _ => Body::Whole(schema),
    }
}

/// Whether nothing can stand in a body of that type.
fn is_empty_object(document: &Document, content: &Json) -> bool {
    let Some(schema) = content.get("schema") else { return false };
    let schema = document.resolve(schema).map_or(fields(None), |schema| fields(Some(schema)));
    let is_closed = schema.get("type").map_or(schema.contains_key("properties"), |kind| kind == "object")
        && !["allOf", "anyOf", "oneOf"].iter().any(|key| schema.contains_key(*key));
    is_closed
        && fields(schema.get("properties")).is_empty()
        && schema.get("additionalProperties").is_none_or(|others| others == &Json::from(false))
}

/// Which of several types of JSON is sent. The fields of a resource are a merge patch, and no list of changes.
fn rank(kind: &str) -> usize {
    match essence(kind) {
        JSON => 0,
        kind if kind.ends_with("merge-patch+json") => 1,
        "application/json-patch+json" => 3,
        _ => 2,
    }
}

/// A type of content without its parameters.
fn essence(kind: &str) -> &str {
    kind.split(';').next().unwrap_or_default().trim()
}

/// Whether content of that type is JSON.
pub(super) fn is_json(kind: &str) -> bool {
    let kind = essence(kind);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "!#&-^_.+/*".contains(c);
    let is_type = kind.len() <= MAX_TYPE && kind.chars().all(is_plain);
    let lower = kind.to_ascii_lowercase();
    let is_known = matches!(lower.as_str(), JSON | "text/json" | "*/*" | "application/*");
    is_type && (is_known || (lower.starts_with("application/") && lower.ends_with("+json")))
}

/// Whether content of that type is a text.
pub(super) fn is_text(kind: &str) -> bool {
    const KINDS: [&str; 6] = [
        "application/xml",
        "application/yaml",
        "application/x-yaml",
        "application/javascript",
        "application/jwt",
        "application/x-ndjson",
    ];
    let lower = essence(kind).to_ascii_lowercase();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.+/".contains(c);
    let is_known = lower.starts_with("text/") || lower.ends_with("+xml") || KINDS.contains(&lower.as_str());
    lower.len() <= MAX_TYPE && lower.chars().all(is_plain) && is_known && lower != "text/event-stream"
}

/// A type of content in a sentence.
pub(super) fn excerpt(kind: &str) -> String {
    shorten(essence(kind), 60).escape_debug().to_string()
}

/// How a call reads the answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerForm {
    pub(super) is_text: bool,
    /// The type that the call asks for, where the service has several.
    pub(super) accept: Option<String>,
}

/// The form of the answers that are no failure; `Err` if calls can read none of them.
pub(super) fn read_responses(document: &Document, operation: &Operation<'_>) -> Result<AnswerForm, String> {
    let responses = fields(operation.get("responses"));
    let is_success = |code: &str| code.starts_with('2');
    let has_success = responses.keys().any(|code| is_success(code));
    if !has_success && responses.keys().any(|code| code.starts_with('3')) {
        return Err("it answers with a redirect".to_owned());
    }
    let answers =
        responses.iter().filter(|(code, _)| is_success(code) || (!has_success && *code == "default"));
    let mut kinds: Vec<&str> = Vec::new();
    for (_, response) in answers {
        let content = document.resolve(response).ok().and_then(|response| response.get("content"));
        for kind in fields(content).keys().map(String::as_str).take(20) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
    }
    if operation.method == "HEAD" {
        return Ok(AnswerForm::default());
    }
    let Some(first) = kinds.first() else { return Ok(AnswerForm::default()) };
    let accept = |kind: &str| {
        (kinds.len() > 1 && !kind.contains('*'))
            .then(|| kind.split(';').next().unwrap_or_default().trim().to_owned())
    };
    let find = |is_read: fn(&str) -> bool| kinds.iter().find(|kind| is_read(kind));
    match (find(is_json), find(is_text)) {
        (Some(kind), _) => Ok(AnswerForm { is_text: false, accept: accept(kind) }),
        (None, Some(kind)) => Ok(AnswerForm { is_text: true, accept: accept(kind) }),
        (None, None) => Err(format!("it answers with {}, which is neither JSON nor a text", excerpt(first))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[test]
    fn an_answer_is_json_or_a_text_that_is_asked_for() {
        let document = Document::parse(br#"{"openapi": "3.0.0"}"#).unwrap();
        let read_responses = |responses: &Json| {
            let keys = json!({"responses": responses});
            let keys = keys.as_object().unwrap();
            super::read_responses(
                &document,
                &Operation { method: "GET", keys: Some(keys), ..Operation::default() },
            )
        };
        let form =
            |is_text, accept: Option<&str>| Ok(AnswerForm { is_text, accept: accept.map(str::to_owned) });
        let content = |kinds: &[&str]| json!({"content": kinds.iter().map(|kind| ((*kind).to_owned(), json!({}))).collect::<serde_json::Map<_, _>>()});
        for (responses, expected) in [
            (json!({}), form(false, None)),
            (json!({"204": {}}), form(false, None)),
            (json!({"200": content(&["application/json; charset=utf-8"])}), form(false, None)),
            (json!({"200": content(&["text/plain"])}), form(true, None)),
            (
                json!({"200": content(&["text/csv", "application/vnd.api+json"])}),
                form(false, Some("application/vnd.api+json")),
            ),
            (json!({"2XX": content(&["image/png", "text/csv"])}), form(true, Some("text/csv"))),
            (json!({"default": content(&["*/*"])}), form(false, None)),
            (
                json!({"200": content(&["application/json"]), "404": content(&["image/png"])}),
                form(false, None),
            ),
        ] {
            assert_eq!(read_responses(&responses), expected, "{responses}");
        }
        for (responses, words) in [
            (json!({"302": {}}), "a redirect"),
            (json!({"200": content(&["application/zip"])}), "it answers with application/zip"),
            (json!({"200": content(&["text/event-stream"])}), "it answers with text/event-stream"),
            (json!({"200": content(&["a\r\nb: c+json"])}), "it answers with a\\r\\nb: c+json"),
        ] {
            assert!(read_responses(&responses).is_err_and(|reason| reason.contains(words)), "{responses}");
        }
    }
}
