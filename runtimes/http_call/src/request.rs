//! The request of a declared call. What an input names stays where it is written: in its segment of the path, its parameter, its header
//! or its part of the body.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use metier_core::error::{ErrorKind, Result, SkillError};
use metier_core::excerpt::shorten;
use metier_core::percent_encoding::{self, decode_lenient};
use metier_core::template::{PathSegment, Reference, ReferenceRoot, ResolveError, Resolver, TemplatePiece};
use metier_core::template::{Template, ValueTemplate};
use metier_skill::contract::{
    CallBody, CallDefinition, CallQuery, PagePlace, ResolvedBaseUrl, SECRETS, named_value,
};

/// The URL and the options of `ctx.http`.
#[derive(Debug, PartialEq)]
pub(super) struct BuiltRequest {
    pub(super) url: String,
    pub(super) options: Value,
}

/// What a request is made of besides its declaration.
#[derive(Clone, Copy)]
pub(super) struct RequestValues<'v> {
    pub(super) input: &'v Value,
    /// The settings and secrets, by the names that references have for them.
    pub(super) settings: &'v Value,
    pub(super) base: &'v ResolvedBaseUrl,
    /// The place of a page, and where it is sent.
    pub(super) page: Option<(&'v PagePlace, &'v Value)>,
}

/// The most bytes of a URL.
const MAX_URL_BYTES: usize = 16 << 10;
/// How many bytes one becomes by percent-encoding.
const MAX_ENCODED: u64 = 3;
/// The most characters of a name that an error repeats.
const MAX_SHOWN: usize = 80;

/// The request with these values, of at most so many bytes; `invalid-input` for an input that would leave its place.
pub(super) fn build_request(
    call: &CallDefinition,
    values: RequestValues<'_>,
    max_bytes: u64,
) -> Result<BuiltRequest> {
    let lookup = |reference: &Reference| values.lookup(reference);
    let mut resolver = Resolver::new(lookup, max_bytes);
    let mut url = values.base.url.clone();
    for segment in &call.path {
        url.push('/');
        push_segment(&mut url, segment, &call.multi_segment, &lookup)?;
        require_short(&url)?;
    }
    let mut separator = '?';
    if let Some(query) = &values.base.query {
        url.push('?');
        url.push_str(query);
        separator = '&';
    }
    let mut add = |name: &str, value: &Value| -> Result<()> {
        write_parameter(&call.deep_object, name, value, &mut |name, text| {
            url.push(separator);
            push_pair(&mut url, name, text);
            separator = '&';
            require_short(&url)
        })
    };
    for (name, value) in &parameters(&call.query, &mut resolver)? {
        add(name, value)?;
    }
    if let Some((PagePlace::Query(name), value)) = values.page {
        add(name, value)?;
    }
    let mut headers = Map::new();
    for (name, template) in &call.headers {
        let Some(value) = resolver.text(template).map_err(resolve_error)?.filter(|value| !value.is_null())
        else {
            continue;
        };
        headers.insert(name.clone(), header_text(name, &value)?.into());
    }
    if let Some(parts) = &call.basic {
        headers.insert("Authorization".into(), basic_authorization(parts, &mut resolver)?.into());
    }
    let mut options = json!({"method": call.method, "base_url": values.base.url});
    if let Some(body) = &call.body {
        add_body(&mut options, &mut headers, (body, &call.deep_object, max_bytes), &mut resolver)?;
    }
    if let Some((PagePlace::Body(keys), value)) = values.page {
        let place = keys.iter().try_fold(&mut options["json"], |place, key| {
            if place.is_null() {
                *place = json!({});
            }
            Some(place.as_object_mut()?.entry(key.as_str()).or_insert(Value::Null))
        });
        *place.ok_or_else(|| input_error("the body has no place for a page".into()))? = value.clone();
    }
    options["headers"] = headers.into();
    Ok(BuiltRequest { url, options })
}

impl<'v> RequestValues<'v> {
    /// What a reference names.
    fn lookup(&self, reference: &Reference) -> Option<&'v Value> {
        match (&reference.root, named_value(reference)) {
            (ReferenceRoot::Inputs, _) => reference.resolve_in(self.input),
            (_, Some((root, _))) => reference.resolve_in(self.settings.get(root)?),
            _ => None,
        }
    }
}

/// The parameters with their values, without those that have none.
fn parameters<'c, 'v, L: Fn(&Reference) -> Option<&'v Value>>(
    query: &'c CallQuery,
    resolver: &mut Resolver<'v, L>,
) -> Result<Vec<(Cow<'c, str>, Value)>> {
    let pairs = match query {
        CallQuery::Named(pairs) => pairs,
        CallQuery::Object(reference) => {
            let template = Template::Reference(reference.clone());
            return match resolver.text(&template).map_err(resolve_error)? {
                None | Some(Value::Null) => Ok(Vec::new()),
                Some(Value::Object(entries)) => {
                    Ok(entries.into_iter().map(|(name, value)| (Cow::Owned(name), value)).collect())
                }
                Some(_) => Err(input_error(format!("{reference} must be an object of parameters"))),
            };
        }
    };
    let mut found = Vec::new();
    for (name, template) in pairs {
        if let Some(value) = resolver.value(template).map_err(resolve_error)? {
            found.push((Cow::Borrowed(name.as_str()), value));
        }
    }
    Ok(found)
}

/// Passes the names and texts of a parameter on: of a list one for each item, of null none, and of an object in `deep_object` one for each
/// value in it.
fn write_parameter(
    deep_object: &[String],
    name: &str,
    value: &Value,
    write: &mut impl FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    if deep_object.iter().any(|deep| deep == name) {
        return write_deep_object(&mut name.to_owned(), value, 0, write);
    }
    let values = match value {
        Value::Array(items) => items.as_slice(),
        value => std::slice::from_ref(value),
    };
    for value in values.iter().filter(|value| !value.is_null()) {
        let text = scalar_text(value).ok_or_else(|| {
            input_error(format!("the parameter {name} must be a text, a number or a list of them"))
        })?;
        write(name, &text)?;
    }
    Ok(())
}

/// How deep objects and lists may lie in a parameter.
const MAX_DEPTH: usize = 32;

/// Writes `a[b]=1` for objects, `a[]=1` for lists of texts and numbers, and `a[0][b]=1` for lists of objects, as PHP, Rails and Stripe read
/// them. What the input names stays between its brackets.
fn write_deep_object(
    name: &mut String,
    value: &Value,
    depth: usize,
    write: &mut impl FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(input_error(format!("a parameter has values more than {MAX_DEPTH} deep")));
    }
    if let Some(text) = scalar_text(value) {
        return write(name, &text);
    }
    let length = name.len();
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key.is_empty() || key.contains(|c: char| matches!(c, '[' | ']') || c.is_control()) {
                    let shown = shorten(key, MAX_SHOWN).escape_debug().to_string();
                    return Err(input_error(format!("the name `{shown}` cannot stand between brackets")));
                }
                name.extend(["[", key.as_str(), "]"]);
                write_deep_object(name, value, depth + 1, write)?;
                name.truncate(length);
            }
        }
        Value::Array(items) => {
            let is_flat = items.iter().all(|item| !item.is_object() && !item.is_array());
            for (at, item) in items.iter().enumerate() {
                let place = if is_flat { "[]".to_owned() } else { format!("[{at}]") };
                name.push_str(&place);
                write_deep_object(name, item, depth + 1, write)?;
                name.truncate(length);
            }
        }
        _ => {}
    }
    Ok(())
}

/// Adds `name=text`.
fn push_pair(written: &mut String, name: &str, text: &str) {
    encode(written, name);
    written.push('=');
    encode(written, text);
}

/// A value may be a secret, so no error repeats it.
fn header_text(name: &str, value: &Value) -> Result<String> {
    let text = scalar_text(value).filter(|text| is_header_value(text));
    text.ok_or_else(|| input_error(format!("the header {name} must be printable ASCII in one line")))
}

/// `Basic` with user name and password (RFC 7617, 2).
fn basic_authorization<'v, L: Fn(&Reference) -> Option<&'v Value>>(
    (user, password): &(Template, Template),
    resolver: &mut Resolver<'v, L>,
) -> Result<String> {
    let mut part = |template: &Template| {
        let value = resolver.text(template).map_err(resolve_error)?;
        let text = value.as_ref().and_then(scalar_text).filter(|text| !text.chars().any(char::is_control));
        text.ok_or_else(|| input_error("`basic` needs a user name and a password, each in one line".into()))
    };
    let (user, password) = (part(user)?, part(password)?);
    if user.contains(':') {
        return Err(input_error("the user name of `basic` has a colon, which would end it".into()));
    }
    Ok(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

fn add_body<'v, L: Fn(&Reference) -> Option<&'v Value>>(
    options: &mut Value,
    headers: &mut Map<String, Value>,
    (body, deep_object, max_bytes): (&CallBody, &[String], u64),
    resolver: &mut Resolver<'v, L>,
) -> Result<()> {
    let content_type = match body {
        CallBody::Json(template) => {
            options["json"] = resolver.value(template).map_err(resolve_error)?.unwrap_or_default();
            if options["json"].is_null() {
                return Err(input_error("the body of the request has no value".into()));
            }
            return Ok(());
        }
        CallBody::Form(pairs) => {
            options["body"] = form(pairs, (deep_object, max_bytes), resolver)?.into();
            "application/x-www-form-urlencoded"
        }
        CallBody::Text(template) => {
            let value = resolver.text(template).map_err(resolve_error)?;
            let text = value.as_ref().and_then(scalar_text);
            options["body"] =
                text.ok_or_else(|| input_error("the body of the request has no text".into()))?.into();
            "text/plain; charset=utf-8"
        }
    };
    if !headers.keys().any(|name| name.eq_ignore_ascii_case("content-type")) {
        headers.insert("Content-Type".into(), content_type.into());
    }
    Ok(())
}

/// Fields as a web form sends them.
fn form<'v, L: Fn(&Reference) -> Option<&'v Value>>(
    pairs: &[(String, ValueTemplate)],
    (deep_object, max_bytes): (&[String], u64),
    resolver: &mut Resolver<'v, L>,
) -> Result<String> {
    let mut form = String::new();
    for (name, template) in pairs {
        let value = resolver.value(template).map_err(resolve_error)?.unwrap_or_default();
        // The names of deep values are written again for each of them, so the form is measured, and not only its values.
        write_parameter(deep_object, name, &value, &mut |name, text| {
            if !form.is_empty() {
                form.push('&');
            }
            push_pair(&mut form, name, text);
            if form.len() as u64 > max_bytes.saturating_mul(MAX_ENCODED) { Err(too_large()) } else { Ok(()) }
        })?;
    }
    Ok(form)
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
            TemplatePiece::Optional(_) => {
                return Err(input_error("a path has no optional parts".into()));
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
        ResolveError::Missing(reference) => match named_value(&reference) {
            Some((root, name)) => {
                let what = if root == SECRETS { "secret" } else { "setting" };
                SkillError::new(ErrorKind::Unavailable, format!("the {what} {name} is not set"))
                    .with_help(format!("set the {what} {name}"))
            }
            None => input_error(format!("there is no {reference}")),
        },
        ResolveError::TooLarge => too_large(),
    }
}

fn too_large() -> SkillError {
    SkillError::new(ErrorKind::Output, "the request is larger than the output limit").with_help("send less")
}

fn input_error(sentence: String) -> SkillError {
    SkillError::new(ErrorKind::InvalidInput, sentence)
}
