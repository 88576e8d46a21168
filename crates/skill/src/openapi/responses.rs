//! The answers of an operation: whether calls read them as JSON or as a text, and what they ask for.

use super::body::{excerpt, is_json, is_text};
use super::document::{Document, fields};
use super::operation::Operation;

/// How a call reads the answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct AnswerForm {
    pub(super) is_text: bool,
    /// The type that the call asks for, where the service has several.
    pub(super) accept: Option<String>,
}

/// The form of the answers that are no failure; `Err` if calls can read none of them.
pub(super) fn read(document: &Document, operation: &Operation<'_>) -> Result<AnswerForm, String> {
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
        let read = |responses: &Json| {
            let keys = json!({"responses": responses});
            let keys = keys.as_object().unwrap();
            super::read(&document, &Operation { method: "GET", keys: Some(keys), ..Operation::default() })
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
            assert_eq!(read(&responses), expected, "{responses}");
        }
        for (responses, words) in [
            (json!({"302": {}}), "a redirect"),
            (json!({"200": content(&["application/zip"])}), "it answers with application/zip"),
            (json!({"200": content(&["text/event-stream"])}), "it answers with text/event-stream"),
            (json!({"200": content(&["a\r\nb: c+json"])}), "it answers with a\\r\\nb: c+json"),
        ] {
            assert!(read(&responses).is_err_and(|reason| reason.contains(words)), "{responses}");
        }
    }
}
