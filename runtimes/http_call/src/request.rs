//! The request of a declared call. What an input names stays where it is written: in its segment of the path, its parameter, its header
//! or its part of the body.

use serde_json::{Map, Value, json};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::percent_encoding::{self, decode_lenient};
use metier_core::template::{PathSegment, Reference, ReferenceRoot, ResolveError, Resolver, TemplatePiece};
use metier_skill::contract::{HttpCall, SECRETS, named_value};

/// The URL and the options of `ctx.http`.
#[derive(Debug, PartialEq)]
pub(super) struct BuiltRequest {
    pub(super) url: String,
    pub(super) options: Value,
}

/// The most bytes of a URL.
const MAX_URL_BYTES: usize = 16 << 10;

/// The request with these inputs, settings and secrets, of at most so many bytes; `invalid-input` for an input that would leave its place.
pub(super) fn build_request(
    call: &HttpCall,
    (input, values): (&Value, &Value),
    max_bytes: u64,
) -> Result<BuiltRequest> {
    let lookup = |reference: &Reference| lookup(reference, input, values);
    let mut resolver = Resolver::new(lookup, max_bytes);
    let mut url = call.base_url.clone();
    for segment in &call.path {
        url.push('/');
        push_segment(&mut url, segment, &call.multi_segment, &lookup)?;
        require_short(&url)?;
    }
    let mut separator = '?';
    for (name, template) in &call.query {
        let value = resolver.value(template).map_err(resolve_error)?.unwrap_or_default();
        let values = match value {
            Value::Array(items) => items,
            value => vec![value],
        };
        for value in values.iter().filter(|value| !value.is_null()) {
            let text = scalar_text(value).ok_or_else(|| {
                input_error(format!("the parameter {name} must be a text, a number or a list of them"))
            })?;
            url.push(separator);
            encode(&mut url, name);
            url.push('=');
            encode(&mut url, &text);
            separator = '&';
            require_short(&url)?;
        }
    }
    let mut headers = Map::new();
    for (name, template) in &call.headers {
        let Some(value) = resolver.text(template).map_err(resolve_error)?.filter(|value| !value.is_null())
        else {
            continue;
        };
        let text = scalar_text(&value).filter(|text| is_header_value(text));
        // A value may be a secret, so no error repeats it.
        let text = text
            .ok_or_else(|| input_error(format!("the header {name} must be printable ASCII in one line")))?;
        headers.insert(name.clone(), text.into());
    }
    let mut options = json!({"method": call.method, "headers": headers, "base_url": call.base_url});
    if let Some(template) = &call.body {
        options["json"] = resolver.value(template).map_err(resolve_error)?.unwrap_or_default();
        if options["json"].is_null() {
            return Err(input_error("the body of the request has no value".into()));
        }
    }
    Ok(BuiltRequest { url, options })
}

/// What a reference names.
fn lookup<'v>(reference: &Reference, input: &'v Value, values: &'v Value) -> Option<&'v Value> {
    match (&reference.root, named_value(reference)) {
        (ReferenceRoot::Inputs, _) => reference.resolve_in(input),
        (_, Some((root, _))) => reference.resolve_in(values.get(root)?),
        _ => None,
    }
}

/// Adds a segment of the path, or several where the input may have them.
fn push_segment<'v>(
    url: &mut String,
    segment: &[TemplatePiece],
    multi_segment: &[String],
    lookup: &impl Fn(&Reference) -> Option<&'v Value>,
) -> Result<()> {
    if let [TemplatePiece::Reference(reference)] = segment
        && let (ReferenceRoot::Inputs, Some(PathSegment::Field(name))) =
            (&reference.root, reference.path.first())
        && multi_segment.contains(name)
    {
        let text = path_text(reference, lookup)?;
        for (at, part) in text.split('/').enumerate() {
            if at > 0 {
                url.push('/');
            }
            require_segment(reference, part)?;
            encode(url, part);
            require_short(url)?;
        }
        return Ok(());
    }
    let mut whole = String::new();
    for piece in segment {
        match piece {
            TemplatePiece::Text(text) => {
                url.push_str(text);
                whole.push_str(text);
            }
            TemplatePiece::Reference(reference) => {
                let text = path_text(reference, lookup)?;
                require_segment(reference, &text)?;
                encode(url, &text);
                whole.push_str(&text);
            }
        }
    }
    // Parts that are harmless by themselves may be a step up, or a slash, together.
    if segment.len() > 1 && !is_segment(&whole) {
        return Err(input_error("what the inputs make together is not one segment of the path".into()));
    }
    Ok(())
}

fn path_text<'v>(reference: &Reference, lookup: &impl Fn(&Reference) -> Option<&'v Value>) -> Result<String> {
    lookup(reference).and_then(scalar_text).ok_or_else(|| {
        input_error(format!("{reference} is a part of the path, so it must be given, as a text or a number"))
    })
}

/// Refuses a text that could leave its segment: one that is empty or a step up, or has a slash, also once or twice encoded.
fn require_segment(reference: &Reference, text: &str) -> Result<()> {
    if is_segment(text) {
        return Ok(());
    }
    let sentence = format!("{reference} must be one segment of a path");
    let error = if named_value(reference).is_some_and(|(root, _)| root == SECRETS) {
        SkillError::new(ErrorKind::Unavailable, sentence)
    } else {
        input_error(sentence)
    };
    Err(error.with_help("give a text without slashes, which is not empty, `.` or `..`"))
}

/// Whether a text stays in its segment of a path, also if a server decodes it twice.
fn is_segment(text: &str) -> bool {
    let is_plain = |text: &str| {
        !text.is_empty()
            && !matches!(text, "." | "..")
            && !text.contains(|c: char| matches!(c, '/' | '\\') || c.is_control())
    };
    let (once, is_encoded) = decoded(text);
    let twice = decoded(&once).0;
    is_plain(text) && (!is_encoded || is_plain(&once) && is_plain(&twice))
}

/// The text with what is percent-encoded in it decoded, and whether anything was.
fn decoded(text: &str) -> (String, bool) {
    let bytes = decode_lenient(text.as_bytes());
    let is_encoded = bytes.len() < text.len();
    (String::from_utf8_lossy(&bytes).into_owned(), is_encoded)
}

/// A text, a number or a truth value as it stands in a URL or a header.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Adds a text, with everything but unreserved characters percent-encoded (RFC 3986, 2.3).
fn encode(url: &mut String, text: &str) {
    url.push_str(&percent_encoding::encode(text.as_bytes(), "-._~"));
}

fn is_header_value(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_graphic() || c == ' ')
}

fn require_short(url: &str) -> Result<()> {
    if url.len() <= MAX_URL_BYTES {
        return Ok(());
    }
    Err(input_error(format!("the URL of the request would have more than {MAX_URL_BYTES} bytes")))
}

fn resolve_error(error: ResolveError) -> SkillError {
    match error {
        ResolveError::Missing(reference) => input_error(format!("there is no {reference}")),
        ResolveError::TooLarge => {
            SkillError::new(ErrorKind::Output, "the request is larger than the output limit")
                .with_help("send less")
        }
    }
}

fn input_error(sentence: String) -> SkillError {
    SkillError::new(ErrorKind::InvalidInput, sentence)
}
