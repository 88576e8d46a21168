//! Reads a declared HTTP call. Nothing that a call is given can change its host, its path or its headers beyond what is written here.

use std::ops::RangeInclusive;

use super::http_call::{CONFIG, HttpCall, RESPONSE, SECRETS, named_value, url_authority};
use crate::contract::fields;
use crate::contract::schema::Schema;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node, Style, Value};
use metier_core::excerpt::shorten;
use metier_core::policy::{ConfigField, is_script_header};
use metier_core::suggestion::{closest, did_you_mean};
use metier_core::template::{PathSegment, Reference, ReferenceRoot, Template, TemplatePiece, ValueTemplate};

const KEYS: [&str; 9] =
    ["method", "path", "multi_segment", "query", "headers", "body", "response", "expect", "result"];
const EXPECT_KEYS: [&str; 2] = ["status", "fields"];
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// The codes that are no failure where a call names none.
const DEFAULT_STATUSES: RangeInclusive<u16> = 200..=299;
const ALL_STATUSES: RangeInclusive<u16> = 100..=599;
/// The most characters of what is wrong that a message repeats.
const MAX_SHOWN: usize = 80;

/// What a declared call may refer to.
pub(super) struct CallScope<'a> {
    pub(super) base_url: Option<&'a str>,
    pub(super) service: Option<&'a str>,
    pub(super) config: &'a [ConfigField],
    pub(super) inputs: Option<&'a Schema>,
}

/// Where a reference stands: what it may name depends on it.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Request,
    Response,
}

/// `base_url`: an address of the web without anything that a reader could take for another host or path.
pub(in crate::contract) fn read_base_url(
    node: Option<&Node>,
    report: &mut DiagnosticSink<'_>,
) -> Option<String> {
    let node = node?;
    let written = fields::text(Some(node), "base_url", report)?;
    let url = written.trim_end_matches('/');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:[]".contains(c);
    let path = url
        .split_once("://")
        .zip(url_authority(url))
        .map_or("", |((_, rest), authority)| &rest[authority.len()..]);
    let is_path = path.split('/').skip(1).all(|segment| !matches!(segment, "" | "." | ".."));
    if url.chars().all(is_plain) && is_path && HttpCall::host_permission(url).is_some() {
        return Some(url.to_owned());
    }
    let message =
        format!("`{}` cannot be the base URL of calls", shorten(&written, MAX_SHOWN).escape_debug());
    report.add(&lint::TOOL_INVALID, &node.span, message).help(
        "write an address such as https://api.example.com/v1: a scheme, a host and a plain path, and nothing more",
    );
    None
}

/// A declared call; `None` where it is refused with a diagnostic.
pub(super) fn read(
    node: &Node,
    place: &str,
    scope: &CallScope<'_>,
    report: &mut DiagnosticSink<'_>,
) -> Option<HttpCall> {
    let entries = fields::entries(node, &format!("`http` of {place}"), report)?;
    fields::unknown_keys(entries, &KEYS, &format!("`http` of {place}"), report);
    let mut reader = Reader { scope, report, is_valid: true };
    let field = |key: &str| fields::find(entries, key).filter(|node| !node.is_null());
    if scope.base_url.is_none() {
        reader.refuse(node, "the skill has no `base_url` below which the call stays", "add `base_url` to it");
    }
    let method = reader.method(field("method"));
    let path = field("path").map_or_else(Vec::new, |node| reader.path(node));
    let multi_segment =
        field("multi_segment").map_or_else(Vec::new, |node| reader.multi_segment(node, &path));
    let query = reader.pairs(field("query"), "query");
    let headers = reader.headers(field("headers"));
    let body = field("body").and_then(|node| {
        if matches!(method, "GET" | "HEAD") {
            reader.refuse(
                node,
                &format!("a {method} request has no body"),
                "write another `method`, such as POST",
            );
        }
        reader.value(node, Side::Request)
    });
    let is_text = reader.is_text(field("response"));
    let (statuses, required) = reader.expect(field("expect"));
    let result = field("result").and_then(|node| reader.value(node, Side::Response));
    if !reader.is_valid {
        return None;
    }
    Some(HttpCall {
        base_url: scope.base_url?.to_owned(),
        service: scope.service.map(str::to_owned),
        method,
        path,
        multi_segment,
        query,
        headers,
        body,
        is_text,
        statuses,
        required,
        result,
        source: fields::json(node, report)?,
    })
}

struct Reader<'s, 'a, 'r> {
    scope: &'s CallScope<'a>,
    report: &'s mut DiagnosticSink<'r>,
    is_valid: bool,
}

impl Reader<'_, '_, '_> {
    fn refuse(&mut self, node: &Node, message: &str, help: &str) {
        self.is_valid = false;
        self.report.add(&lint::TOOL_INVALID, &node.span, message).help(help);
    }

    fn method(&mut self, node: Option<&Node>) -> &'static str {
        let Some(node) = node else { return "GET" };
        let written = fields::text(Some(node), "method", self.report).unwrap_or_default();
        let known = METHODS.iter().find(|method| method.eq_ignore_ascii_case(&written));
        if known.is_none() {
            let shown = shorten(&written, MAX_SHOWN).escape_debug().to_string();
            self.refuse(
                node,
                &format!("`{shown}` is not a method of a call"),
                &format!("write one of {}", METHODS.join(", ")),
            );
        }
        known.copied().unwrap_or("GET")
    }

    /// The segments of the path: the slashes between them are those that are written here.
    fn path(&mut self, node: &Node) -> Vec<Vec<TemplatePiece>> {
        let Some(template) = self.template(node, Side::Request) else { return Vec::new() };
        let pieces = match template {
            Template::Literal(text) => vec![TemplatePiece::Text(text)],
            Template::Reference(reference) => vec![TemplatePiece::Reference(reference)],
            Template::Pieces(pieces) => pieces,
        };
        let mut segments: Vec<Vec<TemplatePiece>> = vec![Vec::new()];
        for piece in pieces {
            match piece {
                TemplatePiece::Text(text) => {
                    for (at, part) in text.split('/').enumerate() {
                        if at > 0 {
                            segments.push(Vec::new());
                        }
                        if let Some(segment) = segments.last_mut().filter(|_| !part.is_empty()) {
                            segment.push(TemplatePiece::Text(part.to_owned()));
                        }
                    }
                }
                reference @ TemplatePiece::Reference(_) => {
                    if let Some(segment) = segments.last_mut() {
                        segment.push(reference);
                    }
                }
            }
        }
        // What stands before the first slash is nothing, or the first segment.
        if segments.first().is_some_and(Vec::is_empty) {
            segments.remove(0);
        }
        let last = segments.len().saturating_sub(1);
        let is_valid = segments.iter().enumerate().all(|(at, segment)| is_path_segment(segment, at == last));
        if !is_valid {
            let help =
                "write plain segments with single slashes between them; parameters stand under `query`";
            self.refuse(node, "`path` has a part that could be read as another path", help);
        }
        segments
    }

    fn multi_segment(&mut self, node: &Node, path: &[Vec<TemplatePiece>]) -> Vec<String> {
        let items = fields::items(node, "multi_segment", self.report).unwrap_or_default();
        let mut names = Vec::new();
        for item in items {
            let Some(name) = fields::text(Some(item), "multi_segment", self.report) else { continue };
            let is_alone = path.iter().any(|segment| match &segment[..] {
                [TemplatePiece::Reference(reference)] => input_name(reference) == Some(&name),
                _ => false,
            });
            if !is_alone {
                let shown = shorten(&name, MAX_SHOWN).escape_debug().to_string();
                let message = format!("`{shown}` is not an input that is a segment of `path` by itself");
                self.refuse(item, &message, "name an input that stands alone between two slashes");
            }
            names.push(name);
        }
        names
    }

    fn pairs(&mut self, node: Option<&Node>, what: &str) -> Vec<(String, ValueTemplate)> {
        let entries = node.and_then(|node| fields::entries(node, what, self.report)).unwrap_or_default();
        entries
            .iter()
            .filter_map(|Entry { key, node, .. }| Some((key.clone(), self.value(node, Side::Request)?)))
            .collect()
    }

    fn headers(&mut self, node: Option<&Node>) -> Vec<(String, Template)> {
        let entries = node.and_then(|node| fields::entries(node, "headers", self.report)).unwrap_or_default();
        let mut headers = Vec::new();
        for Entry { key, node, .. } in entries {
            if !is_script_header(key) {
                let shown = shorten(key, MAX_SHOWN).escape_debug().to_string();
                self.refuse(node, &format!("`{shown}` is not a header that a call may set"), "remove it");
            }
            let Some(template) = self.template(node, Side::Request) else { continue };
            let texts = match &template {
                Template::Literal(text) => vec![text.as_str()],
                Template::Reference(_) => Vec::new(),
                Template::Pieces(pieces) => pieces
                    .iter()
                    .filter_map(|piece| match piece {
                        TemplatePiece::Text(text) => Some(text.as_str()),
                        TemplatePiece::Reference(_) => None,
                    })
                    .collect(),
            };
            if texts.iter().any(|text| text.chars().any(|c| !(c.is_ascii_graphic() || c == ' '))) {
                self.refuse(node, "the value of a header is printable ASCII in one line", "write it so");
            }
            headers.push((key.clone(), template));
        }
        headers
    }

    fn is_text(&mut self, node: Option<&Node>) -> bool {
        let Some(node) = node else { return false };
        match fields::text(Some(node), "response", self.report).as_deref() {
            Some("json") => false,
            Some("text") => true,
            _ => {
                self.refuse(node, "`response` must be json or text", "write one of them");
                false
            }
        }
    }

    fn expect(&mut self, node: Option<&Node>) -> (Vec<RangeInclusive<u16>>, Vec<Reference>) {
        let entries = node.and_then(|node| fields::entries(node, "expect", self.report)).unwrap_or_default();
        fields::unknown_keys(entries, &EXPECT_KEYS, "expect", self.report);
        let items = |key: &str| fields::find(entries, key).filter(|node| !node.is_null());
        let statuses = match items("status") {
            None => vec![DEFAULT_STATUSES],
            Some(node) => self.statuses(node),
        };
        let fields_node = items("fields");
        let listed = fields_node.and_then(|node| fields::items(node, "fields", self.report));
        let mut required = Vec::new();
        for item in listed.unwrap_or_default() {
            match self.template(item, Side::Response) {
                Some(Template::Reference(reference)) if is_response(&reference) => required.push(reference),
                Some(_) => self.refuse(
                    item,
                    "one of `fields` is not part of the response",
                    "write $response.body.NAME",
                ),
                None => {}
            }
        }
        (statuses, required)
    }

    /// A list of codes and ranges, or one of them.
    fn statuses(&mut self, node: &Node) -> Vec<RangeInclusive<u16>> {
        let items = match &node.value {
            Value::List(items) => items.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut statuses = Vec::new();
        for item in items {
            match item.text().and_then(parse_status) {
                Some(range) => statuses.push(range),
                None => {
                    self.refuse(
                        item,
                        "a status is a number from 100 to 599, or a range such as 200-299",
                        "write it so",
                    );
                }
            }
        }
        if items.is_empty() {
            self.refuse(node, "`status` lists no code, so every call would fail", "name at least one");
        }
        statuses
    }

    /// A value whose texts are templates.
    fn value(&mut self, node: &Node, side: Side) -> Option<ValueTemplate> {
        Some(match &node.value {
            Value::List(items) => {
                ValueTemplate::List(items.iter().map(|item| self.value(item, side)).collect::<Option<_>>()?)
            }
            Value::Map(entries) => ValueTemplate::Object(
                entries
                    .iter()
                    .map(|Entry { key, node, .. }| Some((key.clone(), self.value(node, side)?)))
                    .collect::<Option<_>>()?,
            ),
            Value::Scalar(_) => match fields::json(node, self.report)? {
                serde_json::Value::String(_) => ValueTemplate::Text(self.template(node, side)?),
                constant => ValueTemplate::Constant(constant),
            },
        })
    }

    fn template(&mut self, node: &Node, side: Side) -> Option<Template> {
        let text = node.text().filter(|_| !node.is_null() || node.style != Style::Plain);
        let Some(text) = text else {
            self.refuse(node, "this must be a text", "write a text, with references such as $inputs.name");
            return None;
        };
        match text.parse::<Template>() {
            Ok(template) => {
                let references: Vec<Reference> = template.references().cloned().collect();
                for reference in &references {
                    self.check_reference(node, reference, side);
                }
                Some(template)
            }
            Err(error) => {
                self.refuse(node, &error.message, error.help);
                None
            }
        }
    }

    /// Refuses a reference that never has a value here.
    fn check_reference(&mut self, node: &Node, reference: &Reference, side: Side) {
        let shown = shorten(&reference.to_string(), MAX_SHOWN).escape_debug().to_string();
        let named = named_value(reference);
        match (&reference.root, named, side) {
            (ReferenceRoot::Inputs, ..) => self.check_input(node, reference, &shown),
            (_, Some((root @ (CONFIG | SECRETS), key)), Side::Request) => {
                let is_secret = root == SECRETS;
                let is_declared = |field: &ConfigField| field.key == key && field.secret == is_secret;
                let is_whole = !is_secret || reference.path.len() == 1;
                if !is_whole || !self.scope.config.iter().any(is_declared) {
                    let what = if is_secret { "secret" } else { "setting" };
                    let message = format!("{shown} is no {what} that the skill declares");
                    self.refuse(node, &message, "declare it under `config`");
                }
            }
            _ if side == Side::Response && is_response(reference) => {}
            _ => {
                let help = match side {
                    Side::Request => "write $inputs.NAME, $config.NAME or $secrets.NAME",
                    Side::Response => {
                        "write $response.body, $response.status, $response.headers or $inputs.NAME"
                    }
                };
                self.refuse(node, &format!("{shown} means nothing here"), help);
            }
        }
    }

    /// An input that the tool does not declare would never be there.
    fn check_input(&mut self, node: &Node, reference: &Reference, shown: &str) {
        let Some((schema, name)) = self.scope.inputs.zip(input_name(reference)) else { return };
        let names = schema.names();
        if names.is_empty() || names.iter().any(|known| known == name) {
            return;
        }
        let help = closest(name, names.iter().map(String::as_str))
            .map_or_else(|| "declare it under `inputs`".to_owned(), did_you_mean);
        self.refuse(node, &format!("{shown} is not an input of the tool"), &help);
    }
}

/// The input that is first in a reference's path.
fn input_name(reference: &Reference) -> Option<&str> {
    match (&reference.root, reference.path.first()) {
        (ReferenceRoot::Inputs, Some(PathSegment::Field(name))) => Some(name),
        _ => None,
    }
}

/// Whether it names a part of the response: its status, its headers or its body.
fn is_response(reference: &Reference) -> bool {
    matches!(named_value(reference), Some((RESPONSE, "status" | "headers" | "body")))
}

/// Whether written text is one segment of a path and nothing else. The last one may be empty: a slash at the end.
fn is_path_segment(segment: &[TemplatePiece], is_last: bool) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(c);
    let is_written = |piece: &TemplatePiece| match piece {
        TemplatePiece::Text(text) => text.chars().all(is_plain),
        TemplatePiece::Reference(_) => true,
    };
    let is_dots = matches!(segment, [TemplatePiece::Text(text)] if matches!(text.as_str(), "." | ".."));
    (is_last || !segment.is_empty()) && !is_dots && segment.iter().all(is_written)
}

fn parse_status(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let code = |text: &str| text.trim().parse::<u16>().ok().filter(|code| ALL_STATUSES.contains(code));
    let (first, last) = (code(first)?, code(last)?);
    (first <= last).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbers_and_ranges_of_them() {
        for (text, range) in [("200", 200..=200), ("200-299", 200..=299), ("200 - 204", 200..=204)] {
            assert_eq!(parse_status(text), Some(range), "{text}");
        }
        for text in ["", "2xx", "99", "600", "299-200", "200-", "-1", "200-299-300", "20000000000"] {
            assert_eq!(parse_status(text), None, "{text}");
        }
    }
}
