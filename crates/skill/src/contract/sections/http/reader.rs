//! Reads a declared HTTP call. Nothing that a call is given can change its host, its path or its headers beyond what is written here.

use std::ops::RangeInclusive;

use super::base_url::{BaseUrl, ResolvedBaseUrl};
use super::call::{
    CallBody, CallDefinition, CallQuery, HttpCall, ItemCount, NextPage, PagePlace, Paging, ResponseFormat,
    ResultTemplate,
};
use super::references::{CONFIG, RESPONSE, SECRETS, named_value};
use crate::contract::fields;
use crate::contract::schema::Schema;
use crate::diagnostic_sink::DiagnosticSink;
use crate::lint;
use crate::yaml::{Entry, Node, Style, Value};
use metier_core::excerpt::shorten;
use metier_core::policy::{ConfigField, is_script_header};
use metier_core::suggestion::{closest, did_you_mean};
use metier_core::template::{
    PathSegment, Reference, ReferenceRoot, Template, TemplatePiece, ValueTemplate, is_name,
};

const KEYS: [&str; 16] = [
    "base_url",
    "method",
    "safe",
    "path",
    "multi_segment",
    "query",
    "deep_object",
    "headers",
    "basic",
    "body",
    "form",
    "text",
    "response",
    "expect",
    "paging",
    "result",
];
const BASIC_KEYS: [&str; 2] = ["user", "password"];
const EXPECT_KEYS: [&str; 4] = ["status", "fields", "absent", "is_true"];
const PAGING_KEYS: [&str; 8] = ["next", "first", "into", "from", "items", "item", "more", "max_items"];
const FOR_EACH_KEYS: [&str; 3] = ["for_each", "as", "value"];
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// The codes that are no failure where a call names none.
const DEFAULT_STATUSES: RangeInclusive<u16> = 200..=299;
const ALL_STATUSES: RangeInclusive<u16> = 100..=599;
/// The most characters of what is wrong that a message repeats.
const MAX_SHOWN: usize = 80;
/// How deep lists may stand in the items of others.
const MAX_FOR_EACH: usize = 4;
/// Words of references, which no item of a list can have.
const TAKEN_NAMES: [&str; 7] = ["inputs", "steps", "result", CONFIG, SECRETS, RESPONSE, Paging::ITEMS];

/// What a declared call may refer to.
#[derive(Clone, Copy)]
pub(in crate::contract) struct CallScope<'a> {
    pub(in crate::contract) base_url: Option<&'a BaseUrl>,
    pub(in crate::contract) service: Option<&'a str>,
    pub(in crate::contract) config: &'a [ConfigField],
    pub(in crate::contract) inputs: Option<&'a Schema>,
}

/// Where a reference stands: what it may name depends on it.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Address,
    Request,
    Response,
}

/// `base_url`: an address of the web without anything that a reader could take for another host or path, or one made of settings.
pub(in crate::contract) fn read_base_url(
    node: &Node,
    config: &[ConfigField],
    report: &mut DiagnosticSink<'_>,
) -> Option<BaseUrl> {
    let scope = CallScope { base_url: None, service: None, config, inputs: None };
    Reader::new(&scope, report).base_url(node)
}

/// A declared call; `None` where it is refused with a diagnostic.
pub(in crate::contract) fn read(
    node: &Node,
    place: &str,
    scope: &CallScope<'_>,
    report: &mut DiagnosticSink<'_>,
) -> Option<HttpCall> {
    let entries = fields::entries(node, &format!("`http` of {place}"), report)?;
    fields::unknown_keys(entries, &KEYS, &format!("`http` of {place}"), report);
    let mut reader = Reader::new(scope, report);
    let field = |key: &str| fields::find(entries, key).filter(|node| !node.is_null());
    let base_url = match field("base_url") {
        Some(own) => reader.base_url(own),
        None => scope.base_url.cloned(),
    };
    if base_url.is_none() && field("base_url").is_none() {
        reader.refuse(
            node,
            "there is no `base_url` below which the call stays",
            "add `base_url` to the skill or to the call",
        );
    }
    let method = reader.method(field("method"));
    let is_declared_safe = fields::flag(field("safe"), "safe", reader.report).unwrap_or(false);
    if let Some(node) =
        field("safe").filter(|_| is_declared_safe && !matches!(method, "GET" | "HEAD" | "POST"))
    {
        reader.refuse(node, &format!("a {method} request is never safe"), "remove `safe`");
    }
    let path = field("path").map_or_else(Vec::new, |node| reader.path(node));
    let multi_segment =
        field("multi_segment").map_or_else(Vec::new, |node| reader.multi_segment(node, &path));
    let query = reader.query(field("query"));
    let headers = reader.headers(field("headers"));
    let basic = field("basic").and_then(|node| reader.basic(node, &headers));
    let body = reader.body(field, method);
    let deep_object =
        field("deep_object").map_or_else(Vec::new, |node| reader.deep_object(node, (&query, body.as_ref())));
    let response = reader.response_format(field("response"));
    let expect = reader.expect(field("expect"));
    let paging = field("paging").and_then(|node| reader.paging(node, (&query, body.as_ref())));
    let result = field("result").and_then(|node| reader.result(node));
    if !reader.is_valid {
        return None;
    }
    let definition = CallDefinition {
        base_url: base_url?,
        service: scope.service.map(str::to_owned),
        method,
        is_declared_safe,
        path,
        multi_segment,
        query,
        deep_object,
        headers,
        basic,
        body,
        response,
        statuses: expect.statuses,
        required: expect.required,
        absent: expect.absent,
        is_true: expect.is_true,
        paging,
        result,
    };
    Some(HttpCall::new(definition, fields::json(node, report)?))
}

/// A declared call in a definition that has no base URL for all of its tools.
pub(crate) fn read_alone(
    node: &Node,
    place: &str,
    (config, inputs): (&[ConfigField], Option<&Schema>),
    report: &mut DiagnosticSink<'_>,
) -> Option<HttpCall> {
    read(node, place, &CallScope { base_url: None, service: None, config, inputs }, report)
}

struct Reader<'s, 'a, 'r> {
    scope: &'s CallScope<'a>,
    report: &'s mut DiagnosticSink<'r>,
    is_valid: bool,
    /// The names of what is there besides the response: items of lists, and the parts of paging.
    variables: Vec<String>,
}

/// What a response must be like.
struct Expectation {
    statuses: Vec<RangeInclusive<u16>>,
    required: Vec<Reference>,
    absent: Vec<Reference>,
    is_true: Vec<Reference>,
}

impl<'s, 'a, 'r> Reader<'s, 'a, 'r> {
    fn new(scope: &'s CallScope<'a>, report: &'s mut DiagnosticSink<'r>) -> Self {
        Self { scope, report, is_valid: true, variables: Vec::new() }
    }

    fn refuse(&mut self, node: &Node, message: &str, help: &str) {
        self.is_valid = false;
        self.report.add(&lint::TOOL_INVALID, &node.span, message).help(help);
    }

    fn base_url(&mut self, node: &Node) -> Option<BaseUrl> {
        let written = fields::text(Some(node), "base_url", self.report)?;
        let template = self.template(node, Side::Address)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~/:[]".contains(c);
        let is_valid = match &template {
            Template::Literal(url) => {
                url.chars().all(is_plain) && ResolvedBaseUrl::parse(url.trim()).is_some()
            }
            Template::Reference(_) => true,
            Template::Pieces(pieces) => {
                pieces.iter().all(|piece| !matches!(piece, TemplatePiece::Optional(_)))
                    && template.texts().iter().all(|text| text.chars().all(is_plain))
            }
        };
        if is_valid {
            return Some(BaseUrl(match template {
                Template::Literal(url) => Template::Literal(url.trim().trim_end_matches('/').to_owned()),
                template => template,
            }));
        }
        let shown = shorten(&written, MAX_SHOWN).escape_debug().to_string();
        self.refuse(
            node,
            &format!("`{shown}` cannot be the base URL of calls"),
            "write an address such as https://api.example.com/v1, with a scheme, a host and a plain path, and nothing more; or a setting, $config.NAME",
        );
        None
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
                other => {
                    if let Some(segment) = segments.last_mut() {
                        segment.push(other);
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
            let help = "write plain segments with single slashes between them, without optional parts; parameters stand under `query`";
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

    /// The parameters by their names, or an input whose fields they are.
    fn query(&mut self, node: Option<&Node>) -> CallQuery {
        let Some(node) = node.filter(|node| matches!(node.value, Value::Scalar(_))) else {
            return CallQuery::Named(self.pairs(node, "query"));
        };
        match self.template(node, Side::Request) {
            Some(Template::Reference(reference)) if input_name(&reference).is_some() => {
                CallQuery::Object(reference)
            }
            Some(_) => {
                self.refuse(
                    node,
                    "`query` is neither a map nor an input",
                    "write NAME: VALUE for each parameter",
                );
                CallQuery::Named(Vec::new())
            }
            None => CallQuery::Named(Vec::new()),
        }
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
            let is_printable = |text: &&str| text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
            if !template.texts().iter().all(is_printable) {
                self.refuse(node, "the value of a header is printable ASCII in one line", "write it so");
            }
            headers.push((key.clone(), template));
        }
        headers
    }

    fn basic(&mut self, node: &Node, headers: &[(String, Template)]) -> Option<(Template, Template)> {
        let entries = fields::entries(node, "basic", self.report)?;
        fields::unknown_keys(entries, &BASIC_KEYS, "basic", self.report);
        if headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization")) {
            self.refuse(node, "the call has `basic` and the header `Authorization`", "keep one of them");
        }
        let mut part = |key: &str| {
            if let Some(node) = fields::find(entries, key).filter(|node| !node.is_null()) {
                return self.template(node, Side::Request);
            }
            self.refuse(node, &format!("`basic` has no `{key}`"), "write `user` and `password`");
            None
        };
        part("user").zip(part("password"))
    }

    /// What is sent: JSON under `body`, a form under `form`, or a text under `text`.
    fn body<'n>(&mut self, field: impl Fn(&str) -> Option<&'n Node>, method: &str) -> Option<CallBody> {
        let found: Vec<(&str, &Node)> =
            ["body", "form", "text"].into_iter().filter_map(|key| Some((key, field(key)?))).collect();
        let (key, node) = *found.first()?;
        if found.len() > 1 {
            self.refuse(found[1].1, "a request has one body", "keep one of `body`, `form` and `text`");
        }
        if matches!(method, "GET" | "HEAD") {
            let message = format!("a {method} request has no body");
            self.refuse(node, &message, "write another `method`, such as POST");
        }
        Some(match key {
            "body" => CallBody::Json(self.value(node, Side::Request)?),
            "form" => CallBody::Form(self.pairs(Some(node), "form")),
            _ => CallBody::Text(self.template(node, Side::Request)?),
        })
    }

    /// Names of parameters and of fields of a form.
    fn deep_object(&mut self, node: &Node, (query, body): (&CallQuery, Option<&CallBody>)) -> Vec<String> {
        let in_query = match query {
            CallQuery::Named(pairs) => pairs.as_slice(),
            CallQuery::Object(_) => &[],
        };
        let in_form = match body {
            Some(CallBody::Form(pairs)) => pairs.as_slice(),
            _ => &[],
        };
        let mut names = Vec::new();
        for item in fields::items(node, "deep_object", self.report).unwrap_or_default() {
            // Any text may be the name of a field, an empty one as well.
            let name = item.text().unwrap_or_default().to_owned();
            if !in_query.iter().chain(in_form).any(|(known, _)| *known == name) {
                let shown = shorten(&name, MAX_SHOWN).escape_debug().to_string();
                let message = format!("`{shown}` is neither a parameter of `query` nor a field of `form`");
                self.refuse(item, &message, "name one of them");
            }
            names.push(name);
        }
        names
    }

    fn response_format(&mut self, node: Option<&Node>) -> ResponseFormat {
        let Some(node) = node else { return ResponseFormat::Json };
        match fields::text(Some(node), "response", self.report).as_deref() {
            Some("json") => ResponseFormat::Json,
            Some("json_lines") => ResponseFormat::JsonLines,
            Some("text") => ResponseFormat::Text,
            _ => {
                self.refuse(node, "`response` must be json, json_lines or text", "write one of them");
                ResponseFormat::Json
            }
        }
    }

    fn expect(&mut self, node: Option<&Node>) -> Expectation {
        let entries = node.and_then(|node| fields::entries(node, "expect", self.report)).unwrap_or_default();
        fields::unknown_keys(entries, &EXPECT_KEYS, "expect", self.report);
        let items = |key: &str| fields::find(entries, key).filter(|node| !node.is_null());
        let statuses = match items("status") {
            None => vec![DEFAULT_STATUSES],
            Some(node) => self.statuses(node),
        };
        let mut parts = |key: &str| items(key).map_or_else(Vec::new, |node| self.response_parts(node, key));
        Expectation {
            statuses,
            required: parts("fields"),
            absent: parts("absent"),
            is_true: parts("is_true"),
        }
    }

    /// A list of references to the response.
    fn response_parts(&mut self, node: &Node, key: &str) -> Vec<Reference> {
        let items = fields::items(node, key, self.report).unwrap_or_default();
        items.iter().filter_map(|item| self.response_part(item, key)).collect()
    }

    fn response_part(&mut self, node: &Node, key: &str) -> Option<Reference> {
        match self.template(node, Side::Response)? {
            Template::Reference(reference) if is_response(&reference) => Some(reference),
            _ => {
                let message = format!("`{key}` names what is not part of the response");
                self.refuse(node, &message, "write $response.body.NAME");
                None
            }
        }
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

    fn paging(&mut self, node: &Node, (query, body): (&CallQuery, Option<&CallBody>)) -> Option<Paging> {
        let entries = fields::entries(node, "paging", self.report)?;
        fields::unknown_keys(entries, &PAGING_KEYS, "paging", self.report);
        let field = |key: &str| fields::find(entries, key).filter(|node| !node.is_null());
        let mut needed = |key: &str, help: &str| {
            let found = field(key);
            if found.is_none() {
                self.refuse(node, &format!("`paging` has no `{key}`"), help);
            }
            found
        };
        let next = needed(
            "next",
            "write `link`, `number`, or where the response has a cursor: $response.body.NAME",
        )?;
        let into = needed("into", "write where it is sent: query.NAME or body.NAME")?;
        let into = self.page_place(into, query, body)?;
        let next = match next.text().map(str::trim) {
            Some("link") if matches!(into, PagePlace::Query(_)) => NextPage::Link,
            Some("link") => {
                self.refuse(next, "`link` names a parameter", "write `into: query.NAME`");
                return None;
            }
            Some("number") => NextPage::Number(self.number(field("first"), "first", 0..=1, 1)),
            _ => NextPage::Cursor(self.response_part(next, "next")?),
        };
        let items = match field("items") {
            Some(items) => self.response_part(items, "items")?,
            None => Reference {
                root: ReferenceRoot::Variable(RESPONSE.into()),
                path: vec![PathSegment::Field("body".into())],
            },
        };
        let from = match field("from") {
            Some(node) => Some(self.input(node, "from")?),
            None => None,
        };
        let more = match field("more") {
            Some(node) => Some(self.response_part(node, "more")?),
            None => None,
        };
        let max_items = match field("max_items") {
            Some(node) if node.text().is_some_and(|text| text.trim().starts_with('$')) => {
                ItemCount::Input(self.input(node, "max_items")?)
            }
            node => {
                let range = 1..=Paging::MAX_ITEMS;
                ItemCount::Fixed(self.number(node, "max_items", range, Paging::DEFAULT_ITEMS))
            }
        };
        let item = match field("item") {
            Some(node) => Some(self.with_variable(Paging::ITEM, |reader| reader.result(node))?),
            None => None,
        };
        self.variables.extend([Paging::ITEMS, Paging::NEXT].map(str::to_owned));
        Some(Paging { next, into, from, items, item, more, max_items })
    }

    /// Where the place of a page is sent: a parameter that the call does not set by itself, or a field of its body.
    fn page_place(&mut self, node: &Node, query: &CallQuery, body: Option<&CallBody>) -> Option<PagePlace> {
        let text = fields::text(Some(node), "into", self.report)?;
        let mut parts = text.split('.').map(str::to_owned);
        let (root, keys) = (parts.next(), parts.collect::<Vec<_>>());
        let is_named = !keys.is_empty() && keys.iter().all(|key| !key.is_empty());
        match (root.as_deref(), query, body) {
            (Some("query"), CallQuery::Named(pairs), _) if is_named => {
                let name = keys.join(".");
                if pairs.iter().any(|(known, _)| *known == name) {
                    self.refuse(node, &format!("`query` sets {name} too"), "remove it there");
                    return None;
                }
                Some(PagePlace::Query(name))
            }
            (Some("body"), _, Some(CallBody::Json(ValueTemplate::Object(_)))) if is_named => {
                Some(PagePlace::Body(keys))
            }
            _ => {
                let help =
                    "write query.NAME for a parameter, or body.NAME for a field of a `body` that is a map";
                self.refuse(
                    node,
                    "`into` does not say where in the request the place of a page is sent",
                    help,
                );
                None
            }
        }
    }

    /// A whole number in this range.
    fn number(&mut self, node: Option<&Node>, what: &str, range: RangeInclusive<u64>, default: u64) -> u64 {
        let Some(node) = node else { return default };
        let number = node.text().and_then(|text| text.trim().parse().ok()).filter(|it| range.contains(it));
        number.unwrap_or_else(|| {
            let message = format!("`{what}` must be a number from {} to {}", range.start(), range.end());
            self.refuse(node, &message, "write one");
            default
        })
    }

    /// A reference to an input.
    fn input(&mut self, node: &Node, what: &str) -> Option<Reference> {
        match self.template(node, Side::Request)? {
            Template::Reference(reference) if input_name(&reference).is_some() => Some(reference),
            _ => {
                self.refuse(node, &format!("`{what}` must be an input"), "write $inputs.NAME");
                None
            }
        }
    }

    /// What the value of the call is made of.
    fn result(&mut self, node: &Node) -> Option<ResultTemplate> {
        Some(match &node.value {
            Value::List(items) => {
                ResultTemplate::List(items.iter().map(|item| self.result(item)).collect::<Option<_>>()?)
            }
            Value::Map(entries) if fields::find(entries, "for_each").is_some() => {
                self.for_each(node, entries)?
            }
            Value::Map(entries) => ResultTemplate::Object(
                entries
                    .iter()
                    .map(|Entry { key, node, .. }| Some((key.clone(), self.result(node)?)))
                    .collect::<Option<_>>()?,
            ),
            Value::Scalar(_) => ResultTemplate::Value(self.value(node, Side::Response)?),
        })
    }

    fn for_each(&mut self, node: &Node, entries: &[Entry]) -> Option<ResultTemplate> {
        fields::unknown_keys(entries, &FOR_EACH_KEYS, "a list with `for_each`", self.report);
        let items = fields::find(entries, "for_each")?;
        let Template::Reference(items) = self.template(items, Side::Response)? else {
            self.refuse(items, "`for_each` does not name a list", "write $response.body.NAME");
            return None;
        };
        let named = fields::find(entries, "as");
        let name = match named {
            Some(node) => fields::text(Some(node), "as", self.report)?,
            None => Paging::ITEM.to_owned(),
        };
        if !is_name(&name) || TAKEN_NAMES.contains(&name.as_str()) || name.starts_with("step_") {
            self.refuse(
                named.unwrap_or(node),
                "an item cannot have this name",
                "write a word such as `item`",
            );
            return None;
        }
        let Some(value) = fields::find(entries, "value") else {
            self.refuse(node, "a list with `for_each` has no `value`", "write what is made of each item");
            return None;
        };
        if self.variables.len() > MAX_FOR_EACH + 2 {
            let message = format!("`for_each` stands more than {MAX_FOR_EACH} deep");
            self.refuse(node, &message, "take less of the response");
            return None;
        }
        let value = Box::new(self.with_variable(&name, |reader| reader.result(value))?);
        Some(ResultTemplate::ForEach { items, name, value })
    }

    fn with_variable<T>(&mut self, name: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        self.variables.push(name.to_owned());
        let found = read(self);
        self.variables.pop();
        found
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
            (ReferenceRoot::Inputs, _, Side::Request | Side::Response) => {
                self.check_input(node, reference, &shown);
            }
            (_, Some((root @ (CONFIG | SECRETS), key)), Side::Request | Side::Address) => {
                let is_secret = root == SECRETS;
                let is_declared = |field: &ConfigField| field.key == key && field.secret == is_secret;
                let is_whole = !is_secret || reference.path.len() == 1;
                if !is_whole || !self.scope.config.iter().any(is_declared) {
                    let what = if is_secret { "secret" } else { "setting" };
                    let message = format!("{shown} is no {what} that the skill declares");
                    self.refuse(node, &message, "declare it under `config`");
                }
            }
            (ReferenceRoot::Variable(name), ..)
                if side == Side::Response && self.variables.contains(name) => {}
            _ if side == Side::Response && is_response(reference) => {}
            _ => {
                let help = match side {
                    Side::Address => "write $config.NAME or $secrets.NAME",
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
        TemplatePiece::Optional(_) => false,
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
